"""Names of shap, captum and alibi end in an AttributeError that says what is meant here."""

from __future__ import annotations

import copy
import pickle
import re

import example_explanation
import numpy as np
import pytest

import xaijax as xj
from xaijax.core import public

TOP_NAMES = {
    "TreeExplainer": "xaijax.Explainer(",
    "KernelExplainer": "estimator='kernel'",
    "LinearExplainer": "xaijax.Explainer(",
    "DeepExplainer": "xaijax.GradientExplainer(",
    "PermutationExplainer": "estimator='permutation'",
    "KernelShap": "estimator='kernel'",
    "IntegratedGradients": "xaijax.GradientExplainer(",
    "FeatureAblation": "xaijax.QII(",
    "AnchorTabular": "xaijax.AnchorExplainer(",
    "summary_plot": "xaijax.plots.beeswarm",
    "waterfall_plot": "xaijax.plots.waterfall",
    "force_plot": "xaijax.plots.force",
    "maskers": "background=",
    "LRP": "nothing like it",
}


@pytest.mark.parametrize(("name", "own"), TOP_NAMES.items())
def test_names_of_other_libraries_are_answered_with_ours(name, own):
    with pytest.raises(AttributeError, match=re.escape(name)) as error:
        getattr(xj, name)
    assert own in str(error.value)
    assert not hasattr(xj, name) and name not in dir(xj)


@pytest.mark.parametrize(
    ("name", "own"),
    [("text", "tokens"), ("summary", "beeswarm"), ("violin", "beeswarm"), ("bar_plot", "bar")],
)
def test_pictures_of_other_libraries_are_answered_with_ours(name, own):
    with pytest.raises(AttributeError, match=rf"{name}'. Say xaijax.plots.{own}"):
        getattr(xj.plots, name)
    assert not hasattr(xj.plots, name) and name not in dir(xj.plots)


def test_all_that_the_messages_name_is_there():
    texts = [*public._TOP.values(), *public._OF_EXPLAINERS.values()]
    texts += public._OF_RESULTS.values()
    for name in re.findall(r"xaijax\.(\w+)", " ".join(texts)):
        assert hasattr(xj, name), name
    for name in filter(None, public._PICTURES.values()):
        assert name in xj.plots.__all__, name
    assert not set(public._TOP) & set(dir(xj))
    assert not set(public._PICTURES) & set(xj.plots.__all__)
    fields = set(xj.Explanation.__dataclass_fields__) | set(dir(xj.Explanation))
    own = [said for said in public._OF_RESULTS.values() if said.startswith(".")]
    assert own and {re.split(r"\W", said[1:])[0] for said in own} <= fields


def test_attributes_of_other_libraries_are_answered_with_ours():
    explainer = xj.Explainer(xj.as_model(lambda z: z[:, 0]), np.zeros((1, 2)))
    qii = xj.QII(xj.as_model(lambda z: z[:, 0] > 0, output="label"), np.eye(2))
    for one, name, own in (
        (explainer, "shap_values", "explainer(X).values"),
        (explainer, "expected_value", "base_values"),
        (explainer, "attribute", "explainer(X)"),
        (qii, "shap_values", "explainer(X).values"),
        (example_explanation.make(), "shap_values", ".values"),
        (example_explanation.make(), "expected_value", ".base_values"),
    ):
        with pytest.raises(AttributeError, match=name) as error:
            getattr(one, name)
        assert own in str(error.value)
        assert not hasattr(one, name) and name not in dir(one)


def test_other_missing_attributes_are_as_python_says_them():
    explanation = example_explanation.make()
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'$"):
        explanation.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="module 'xaijax' has no attribute 'nonsense'$"):
        xj.nonsense  # noqa: B018
    with pytest.raises(AttributeError, match="module 'xaijax.plots' has no attribute 'nonsense'$"):
        xj.plots.nonsense  # noqa: B018

    class Own(xj.Explanation):
        @property
        def broken(self):
            return self.nowhere

        @property
        def shap_values(self):
            return "its own"

    own = Own(values=np.zeros((1, 2)), base_values=np.zeros(1))
    with pytest.raises(AttributeError, match="'nowhere'"):
        own.broken  # noqa: B018
    assert own.shap_values == "its own"


def test_copies_and_pickles_are_as_before():
    explanation = example_explanation.make()
    for same in (copy.copy(explanation), copy.deepcopy(explanation),
                 pickle.loads(pickle.dumps(explanation))):  # fmt: skip
        np.testing.assert_array_equal(same.values, explanation.values)
    explainer = xj.Explainer(xj.as_model(np.sum, backend="host"), np.zeros((1, 2)), seed=3)
    assert copy.copy(explainer).seed == pickle.loads(pickle.dumps(explainer)).seed == 3
    bare = object.__new__(xj.Explainer)  # as pickle makes it: nothing is set yet
    assert not hasattr(bare, "model") and not hasattr(bare, "__setstate__")
