"""Marks, programs and other processes follow the platform of devices=, which need not be the one
that JAX prefers.
"""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.core.pickling import made_of
from xaijax.games.rules import pulls
from xaijax.models.queries.findings import facts_of
from xaijax.sweeps import task
from xaijax.sweeps.question import question_of

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)


def prefers(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: platform)


def model() -> Any:
    return xj.as_model(lambda Z: jnp.tanh(Z).sum(axis=1))


def test_a_fingerprint_names_the_devices_of_the_explainer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken version named JAX's default backend."""
    explainer = xj.Explainer(model(), X, devices=jax.devices("cpu")[:1])
    prefers("gpu", monkeypatch)
    found = explainer(X[:1], progress=False)
    assert " cpu float32 " in found.stats["model_fingerprint"]


def test_a_ledger_names_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    one = model()
    here, there = (one.identity((3,), np.dtype(np.float32), kind) for kind in ("cpu", "gpu"))
    assert here != there
    prefers("gpu", monkeypatch)
    assert one.identity((3,), np.dtype(np.float32), "cpu") == here


def test_a_question_of_a_sweep_names_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    explainer = xj.Explainer(model(), X, devices=jax.devices("cpu")[:1])
    prefers("gpu", monkeypatch)
    question = question_of(explainer, {}, {}, X[:2])
    assert question["model"]["platform"] == "cpu"


def test_a_probe_is_remembered_for_the_device_that_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`jax.default_device` decides where arrays of no device go."""
    one = model()
    usual = facts_of(one)
    prefers("gpu", monkeypatch)
    assert facts_of(one) != usual
    with jax.default_device(jax.devices("cpu")[0]):
        assert facts_of(one) == usual


def test_parts_of_a_sweep_name_the_devices_that_made_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken version named JAX's default backend, and the devices that it has."""
    opened = task.OpenedTask(xj.Explainer(model(), X, devices=jax.devices("cpu")[:1]), {})
    usual = task.ran_on(opened)
    prefers("gpu", monkeypatch)
    assert task.ran_on(opened) == usual
    assert usual.endswith("cpu: cpu")


def test_another_process_takes_devices_of_the_same_platform(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken version sent their number, and took devices of the other platform there."""
    explainer = xj.Explainer(model(), X, devices=jax.devices("cpu")[:1])
    prefers("gpu", monkeypatch)
    sent = pickle.dumps(explainer)
    local = jax.local_devices()
    there = {None: [object()], "cpu": local}
    monkeypatch.setattr(jax, "local_devices", lambda backend=None: there[backend])
    assert made_of(pickle.loads(sent))["devices"] == local[:1]


@pytest.mark.slow
def test_draws_of_rules_are_made_on_the_devices_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken version asked how JAX's default backend takes loops, and drew there."""
    asked: list[str] = []

    def counted(platform: str) -> bool:
        asked.append(platform)
        return False

    monkeypatch.setattr(pulls, "counted", counted)
    host = xj.as_model(lambda rows: np.asarray(rows)[:, 0], threshold=0.5, backend="host")
    data = np.random.default_rng(1).normal(size=(60, 3)).astype(np.float32)
    explainer = xj.AnchorExplainer(host, data, devices=jax.devices("cpu")[:1], seed=0)
    prefers("gpu", monkeypatch)
    found = explainer.explain(X[:1], search="kl-lucb")
    assert set(asked) == {"cpu"}
    assert found[0].precision > 0.9
