"""The progress bar ends exactly at its total, the model rows asked for."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from progress_bar import Bar

import xaijax as xj
from xaijax.methods.anchors import search as anchors
from xaijax.methods.explainer import explainer


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_the_bar_ends_at_the_model_rows(monkeypatch, backend, link):
    rng = np.random.default_rng(0)
    background = rng.integers(0, 2, (20, 8)).astype(np.float32)
    X = rng.integers(0, 2, (30, 8)).astype(np.float32)
    bar = Bar()

    def drawn(progress, rows):
        bar.total = rows
        return bar

    monkeypatch.setattr(explainer, "progress_bar", drawn)
    known = {"structure": "plain"} if backend == "jax" else {}  # a sum is not asked at all
    model = xj.as_model(lambda rows: 0.1 + 0.1 * rows.sum(axis=1), backend=backend, **known)
    explanation = xj.Explainer(model, background, link=link)(X, progress=True)
    # Precondition: on a device pairs that differ in few players are padded, so rows run and rows
    # asked differ. A host model is asked for no padding.
    assert (explanation.stats["padded_rows"] > 0) == (backend == "jax")
    assert bar.n == bar.total == explanation.stats["model_rows"]


STRUCTURED = {
    "additive": lambda rows: rows.sum(axis=1),
    "first layer": lambda rows: jnp.tanh(rows @ jnp.ones((5, 3))).sum(axis=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("structure", list(STRUCTURED))
def test_the_bar_ends_at_the_rows_that_a_structure_answers(monkeypatch, structure, continuous):
    """In closed form, by tables averaged over donors (continuous columns), and by pairs."""
    rng = np.random.default_rng(0)
    X, background = (
        (rng.normal(size=(n, 5)) if continuous else rng.integers(0, 3, (n, 5))).astype(np.float32)
        for n in (30, 16)
    )
    bar = Bar()

    def drawn(progress, rows):
        bar.total = rows
        return bar

    monkeypatch.setattr(explainer, "progress_bar", drawn)
    got = xj.Explainer(xj.as_model(STRUCTURED[structure]), background)(X, progress=True)
    assert got.stats["structure"] == structure
    assert bar.n == bar.total == got.stats["model_rows"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"search": "kl-lucb"}, {"confirm": 0.5}, {"beam_size": None}, {"beam_size": 2}]
)
def test_the_bar_of_anchors_ends_at_the_instances(monkeypatch, options):
    data = np.random.default_rng(0).integers(0, 3, (30, 4)).astype(np.float32)
    bar = Bar()

    def drawn(progress, total, counted):
        assert progress is True and counted == "instances"
        bar.total = total
        return bar

    monkeypatch.setattr(anchors, "progress_bar", drawn)
    model = xj.as_model(lambda rows: (rows[:, 0] * rows[:, 1] > 1) * 1, output="label")
    search = xj.AnchorExplainer(model, data, categories=[0, 1, 2, 3], perturbation="row")
    search.explain(data, progress=True, **options)
    assert bar.n == bar.total == 30


def test_progress_is_none_true_or_false():
    data = np.zeros((4, 2), np.float32)
    model = xj.as_model(lambda rows: rows[:, 0], output="label")
    with pytest.raises(xj.InputTypeError, match="progress must be None, True or False, got 'yes'"):
        xj.AnchorExplainer(model, data).explain(data, progress="yes")
