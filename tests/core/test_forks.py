"""A process that forks after JAX was used would wait for ever in the child: refused at once."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest
from repository import CASES

import xaijax as xj
from xaijax.core import process

ROWS = np.ones((3, 2), np.float32)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@functools.cache
def said():
    """What each child said, by the name of its question."""
    script = CASES / "forks.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=True
    )
    return dict(line.split(" | ", 1) for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    [
        "host",
        "traced",
        "federated",
        "new",
        "QII",
        "Anchors",
        "predict",
        "as_jax",
        "AEC",
        "shapley_values",
        "gradients",
    ],
)
def test_row_68_a_fork_after_use_is_refused(what):
    assert said()[what].startswith("ForkedProcessError: this process"), said()[what]
    assert "spawn" in said()[what]


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["before", "predict before", "predict on the host", "results", "parent"]
)
def test_what_needs_no_jax_of_the_parent_goes_on(what):
    assert said()[what] == "answered"


@pytest.mark.parametrize(
    "ask",
    [
        lambda: xj.shapley_values(lambda rows: rows.sum(axis=1), ROWS, ROWS),
        lambda: xj.as_model(lambda rows: rows.sum(axis=1)).predict(ROWS),
        lambda: xj.as_model(lambda rows: rows.sum(axis=1)).probe(ROWS),
        lambda: xj.Explainer(xj.as_model(lambda rows: rows.sum(axis=1)), ROWS)(ROWS),
    ],
    ids=["shapley_values", "predict", "probe", "Explainer"],
)
def test_row_68_a_forked_child_is_refused_at_once(ask, monkeypatch):
    monkeypatch.setattr(process, "_forked", True)
    with pytest.raises(xj.ForkedProcessError, match="spawn"):
        ask()


@pytest.mark.parametrize("kind", ["gradients", "amortized"])
def test_row_68_an_explainer_made_before_the_fork_is_refused(kind, monkeypatch):
    model = xj.as_model(lambda rows: rows.sum(axis=1))
    made = (
        xj.GradientExplainer(model, ROWS)
        if kind == "gradients"
        else xj.AmortizedExplainer(xj.Explainer(model, ROWS)).fit
    )
    monkeypatch.setattr(process, "_forked", True)
    with pytest.raises(xj.ForkedProcessError, match="spawn"):
        made(ROWS)
