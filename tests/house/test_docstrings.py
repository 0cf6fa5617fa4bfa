"""Public docstrings: one style, an example that runs, and every key of a result explained."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest
from often import some_slow
from repository import ROOT

import xaijax as xj

PLACES = {
    "xj": xj,
    "xj.federated": xj.federated,
    "xj.privacy": xj.privacy,
    "xj.plots": xj.plots,
    "xj.datasets": xj.datasets,
}
HEADINGS = ("Args", "Attributes", "Returns", "Raises", "Example", "References")
FOREIGN = re.compile(
    r"^ *(Arguments|Parameters|Examples?:: |Yields|Notes|See Also)\b.*$", re.MULTILINE
)


def public(place: Any) -> Iterator[tuple[str, Any]]:
    """(name, object) of the classes and functions of xaijax that a module names."""
    for name in dir(place):
        one = getattr(place, name)
        ours = getattr(one, "__module__", "").split(".")[0] == "xaijax"
        error = inspect.isclass(one) and issubclass(one, Exception | Warning)
        if ours and not error and not name.startswith("_") and callable(one):
            yield name, one


NAMED = {f"{place}.{name}": one for place in PLACES for name, one in public(PLACES[place])}
METHODS = {
    f"{name}.{key}": member
    for name, one in NAMED.items()
    if inspect.isclass(one)
    for key, member in inspect.getmembers(one, inspect.isroutine)
    if (not key.startswith("_") or key == "__call__") and "xaijax" in str(member.__module__)
}


def headings(text: str) -> list[str]:
    """The headings of a docstring, in order."""
    return re.findall(rf"^({'|'.join(HEADINGS)}):$", text, re.MULTILINE)


def test_the_public_names_are_found():
    assert {"xj.Explainer", "xj.as_model", "xj.federated.Guest", "xj.plots.bar"} <= set(NAMED)
    assert len(NAMED) > 60 and "xj.Explainer.__call__" in METHODS


@pytest.mark.parametrize("name", [*NAMED, *METHODS])
def test_the_headings_are_those_of_the_house(name):
    text = inspect.getdoc({**NAMED, **METHODS}[name]) or ""
    found = headings(text)
    assert found == sorted(set(found), key=HEADINGS.index), f"{name}: {found}"
    assert not FOREIGN.search(text), f"{name}: {FOREIGN.search(text)}"


@pytest.mark.parametrize("name", some_slow(NAMED, 5))
def test_each_argument_is_explained(name):
    """By its name, in the class's or function's own text."""
    one = NAMED[name]
    text = inspect.getdoc(one) or ""
    if inspect.isclass(one) and "__init__" not in vars(one):
        return
    for argument in inspect.signature(one).parameters:
        assert re.search(rf"\b{argument}\b", text), f"{name}: {argument} is not explained"


@pytest.mark.parametrize("name", some_slow(NAMED, 5))
def test_the_example_runs(name, tmp_path, monkeypatch, settings_kept):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    text = inspect.getdoc(NAMED[name]) or ""
    assert "Example" in headings(text), f"{name} has no example"
    example = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    assert example.examples, f"{name}: nothing runs in its example"
    told: list[str] = []
    runner = doctest.DocTestRunner(
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS, verbose=False
    )
    runner.run(example, out=told.append)
    assert not runner.failures, "".join(told)


def test_the_limits_are_written_once():
    explainer = inspect.getdoc(xj.Explainer)
    assert explainer is not None and "{memory}" not in explainer
    for name in ("batch_size", "max_memory", "devices", "tile"):
        assert re.search(rf"^ +{name}: ", explainer, re.MULTILINE)


ROWS = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [1.0, 1.0, 0.0], [0.0, 0.0, 3.0]])
RUNS = {
    "exact": lambda model: xj.Explainer(model, ROWS)(ROWS),
    "sampled": lambda model: xj.Explainer(model, ROWS, estimator="permutation", budget=4)(ROWS),
    "tolerance": lambda model: xj.Explainer(
        model, ROWS, estimator="kernel", budget=6, tolerance=9.0, weights=[1, 2, 3, 4]
    )(ROWS),
    "amortized": lambda model: xj.AmortizedExplainer(xj.Explainer(model, ROWS), (4,)).fit(
        np.resize(ROWS, (40, 3)), judge=9, steps=2
    )(ROWS),
    "federated": lambda model: xj.FederatedExplainer(model, ROWS, {"guest": [0]})(ROWS),
    "wls": lambda model: xj.FederatedExplainer(
        model, ROWS, {"guest": [0]}, reference="median", estimator="wls"
    )(ROWS),
    "QII": lambda model: xj.QII(model, ROWS, outcome="score", quantity="rate").explain(),
    "QII, drawn": lambda model: xj.QII(
        model, ROWS, outcome="score", quantity="individual", samples=9, scheme="fixed-pool"
    ).explain(ROWS),
    "QII, stopped": lambda model: xj.QII(
        model, ROWS, outcome="score", quantity="individual", samples=99, stop="bernstein"
    ).explain(ROWS),
    "Deegan-Packel": lambda model: xj.QII(
        model, ROWS, outcome="score", quantity="group", members=[True, True, False, False]
    ).explain(index="deegan-packel", threshold=0.1),
    "gradients": lambda model: xj.GradientExplainer(model, ROWS)(ROWS),
    "gradients, drawn": lambda model: xj.GradientExplainer(model, ROWS, samples=4)(ROWS),
    "AEC": lambda model: xj.AEC().fit(ROWS[:, :2], [0, 1, 1, 0]).explanation_,
}


@pytest.mark.filterwarnings("ignore::xaijax.XaiWarning")
@pytest.mark.parametrize("run", some_slow(RUNS, 4))
def test_every_key_of_a_result_is_explained(run):
    page = (ROOT / "docs" / "results.md").read_text("utf-8")
    explanation = RUNS[run](xj.as_model(lambda X: X.sum(axis=1) / 9))
    if isinstance(explanation, tuple):
        explanation = explanation[0]
    for key in (*explanation.stats, *explanation.provenance):
        assert f"`{key}`" in page, f"docs/results.md does not explain {key!r}"
