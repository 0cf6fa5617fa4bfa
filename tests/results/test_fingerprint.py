"""`Fingerprint`: known before anything is explained, kept by results, and what tells two apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xaijax as xj

RNG = np.random.default_rng(5)
ROWS, X = RNG.normal(size=(4, 3)).astype(np.float32), RNG.normal(size=(5, 3)).astype(np.float32)
WEIGHTS = np.arange(1.0, 7.0, dtype=np.float32).reshape(3, 2)


def two_outputs(params: Any, rows: Any) -> Any:
    """A layer whose two outputs depend on every column."""
    return (rows @ params) ** 2


def one_output(rows: Any) -> Any:
    """Interactions of all three columns."""
    return rows[:, 0] * rows[:, 1] * rows[:, 2]


def model(factor: float = 1.0) -> Any:
    """Returns a model of two outputs."""
    return xj.as_model(two_outputs, factor * WEIGHTS)


def explainers() -> dict[str, Any]:
    """Returns explainers, and the options of a call of each, by name."""
    one = xj.as_model(one_output)
    each = xj.Baseline(lambda row: row * 0)
    return {
        "explainer": (xj.Explainer(one, ROWS), {}),
        "outputs": (xj.Explainer(model(), ROWS), {}),
        "predicted": (xj.Explainer(model(), ROWS), {"outputs": "predicted"}),
        "link": (xj.Explainer(one, ROWS, link=np.tanh, players=[[0, 1], [2]]), {}),
        "baseline": (xj.Explainer(one, each), {}),
        "gradients": (xj.GradientExplainer(model(), ROWS), {}),
        "drawn": (xj.GradientExplainer(model(), ROWS, samples=20), {"outputs": "predicted"}),
    }


@pytest.mark.parametrize("name", explainers())
def test_a_run_records_what_was_foretold(name: str) -> None:
    explainer, options = explainers()[name]
    foretold = explainer.fingerprint(X, **options)
    found = explainer(X, **options)
    assert found.fingerprint.why_not(foretold) == []
    assert found[1:3].fingerprint == foretold


DEEGAN = {"index": "deegan-packel", "absolute": True, "threshold": 0.1}


@pytest.mark.parametrize("options", [{}, DEEGAN])
@pytest.mark.parametrize("difference", ["subtract", "l1"])
def test_qii_records_what_was_foretold(options: dict[str, Any], difference: str) -> None:
    scores = xj.as_model(lambda rows: (rows[:, 0] * rows[:, 1] > 0) * 1.0)
    qii = xj.QII(scores, ROWS, outcome="score", quantity="individual", difference=difference)
    assert qii.fingerprint(X, **options).why_not(qii.explain(X, **options).fingerprint) == []
    assert qii.fingerprint(X) != qii.fingerprint(X, index="banzhaf")


def test_nothing_is_explained_for_it() -> None:
    calls: list[int] = []

    def counted(rows: Any) -> Any:
        calls.append(len(rows))
        return rows[:, 0] * rows[:, 1]

    explainer = xj.Explainer(xj.as_model(counted, backend="host"), ROWS)
    explainer.fingerprint(X)
    assert sum(calls) <= 64  # the probe


def test_a_file_keeps_it(tmp_path: Any) -> None:
    explainer = xj.Explainer(model(), ROWS)
    explainer(X).save(tmp_path / "kept.npz")
    assert xj.load(tmp_path / "kept.npz").fingerprint == explainer.fingerprint()


CHANGED = {
    "rows": xj.Explainer(model(), ROWS + 1),
    "weights": xj.Explainer(model(), ROWS, weights=[1, 2, 3, 4]),
    "model": xj.Explainer(model(2.0), ROWS),
    "kind": xj.Explainer(model(), ROWS, index="banzhaf"),
    "link": xj.Explainer(model(), ROWS, link=np.tanh),
    "feature_names": xj.Explainer(model(), ROWS, players=[[0, 1], [2]]),
}


@pytest.mark.parametrize("field", CHANGED)
def test_the_field_that_differs_is_named(field: str) -> None:
    found = xj.Explainer(model(), ROWS)(X).fingerprint
    other = CHANGED[field].fingerprint()
    assert field in found.why_not(other)
    assert found != other
    assert other.why_not(found) == sorted(found.why_not(other), key=other.why_not(found).index)
    with pytest.raises(xj.InputError, match="explanation 1"):
        xj.merge([xj.Explainer(model(), ROWS)(X), CHANGED[field](X)])


def test_what_one_does_not_know_is_not_compared() -> None:
    found = xj.Explainer(model(), ROWS).fingerprint()
    assert xj.Fingerprint(found.question) == found
    assert xj.Fingerprint(found.question, model=("jax 0.0 tpu: 0",)) == found  # other versions
    assert xj.Fingerprint(found.question, model=("scikit-learn 1: 0",)).why_not(found) == ["model"]
    assert found != "a text"
    with pytest.raises(xj.InputTypeError, match="not a Fingerprint"):
        found.why_not("a text")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unhashable"):
        hash(found)
