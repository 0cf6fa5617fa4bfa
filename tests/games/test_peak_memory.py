"""The memory of a process stays within twice what its plan says: measured in a child process."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

import pytest

# Beside what is planned: the programs of a run, and what the allocator keeps of buffers that are
# free again. The start of JAX and of its compiler (60 MB) is subtracted: BEFORE runs both.
BESIDE = 10_000_000

BEFORE = """
    import numpy as np
    import jax.numpy as jnp
    import xaijax as xj

    def status(name):
        with open("/proc/self/status") as lines:
            own = [line.split()[1] for line in lines if line.startswith(name + ":")]
        return int(own[0]) * 1024

    rng = np.random.default_rng(0)
    plain = xj.as_model(lambda Z: np.asarray(Z)[:, 0] * 1.0, backend="host")
    network = xj.as_model(lambda Z: jnp.tanh(Z @ jnp.ones((3, 2))).sum(axis=1))
    for model in (plain, network):
        xj.Explainer(model, np.zeros((2, 3)))(np.ones((2, 3)))
"""
AFTER = """
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    explainer = make()
    run(explainer)
    peak = status("VmHWM") - before
    plan = explainer.plan(X)
    assert plan.memory == sum(plan.shares.values())
    print(plan.memory, peak)
"""
CASES = {
    "a forest beside 100,000 rows": """
        from sklearn.ensemble import RandomForestClassifier

        rows = rng.normal(size=(100_000, 10)).astype(np.float32)
        fitted = RandomForestClassifier(20, max_depth=4, random_state=0)
        fitted.fit(rows[:500], rows[:500, 0] * rows[:500, 1] > 0)
        X = rows[:2]
        xj.Explainer(fitted, rows[:100])(X)
        make = lambda: xj.Explainer(fitted, rows)
        run = lambda explainer: explainer.plan(X)
    """,
    "a deep forest's values against 100,000 rows": """
        from sklearn.ensemble import RandomForestClassifier

        rows = rng.normal(size=(100_000, 10)).astype(np.float32)
        fitted = RandomForestClassifier(5, random_state=0)
        fitted.fit(rows[:2_000], rows[:2_000, 0] * rows[:2_000, 1] > 0)
        X = rows[:2]
        xj.Explainer(fitted, rows[:100])(X)
        make = lambda: xj.Explainer(fitted, rows)
        run = lambda explainer: explainer(X)
    """,
    "2,000 outputs of a host model": """
        W = rng.normal(size=(10, 2_000))
        X = rng.normal(size=(10, 10)).astype(np.float32)
        model = xj.as_model(lambda Z: np.asarray(Z) @ W, backend="host")
        make = lambda: xj.Explainer(model, X, max_memory=50_000_000)
        run = lambda explainer: explainer(X)
    """,
    "a plan for many wide rows": """
        W = rng.normal(size=(2_000, 8)).astype(np.float32)
        X = rng.normal(size=(3_000, 2_000)).astype(np.float32)
        model = xj.as_model(lambda Z: jnp.tanh(Z @ W).sum(axis=1))
        make = lambda: xj.Explainer(model, X[:100], budget=4_100)
        run = lambda explainer: explainer.plan(X)
    """,
    "1,000 columns of a host model": """
        W = rng.normal(size=1_000)
        X = rng.normal(size=(30, 1_000)).astype(np.float32)
        model = xj.as_model(lambda Z: np.tanh(np.asarray(Z) @ W), backend="host")
        make = lambda: xj.Explainer(model, X[:20], max_memory=300_000_000)
        run = lambda explainer: explainer(X[:2])
    """,
    "a table of Anchors": """
        rows = rng.normal(size=(20_000, 20)).astype(np.float32)
        model = xj.as_model(lambda Z: jnp.where(Z[:, 0] * Z[:, 1] > 0, 1, 0), output="label")
        X = rows[:4]
        few = {"max_memory": 100_000_000}
        xj.AnchorExplainer(model, rows[:300], **few).explain(X)
        make = lambda: xj.AnchorExplainer(model, rows, **few)
        run = lambda explainer: explainer.explain(X)
    """,
}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("case", CASES)
def test_a_run_stays_within_twice_its_plan(case: str) -> None:
    source = "".join(map(dedent, (BEFORE, CASES[case], AFTER)))
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    planned, peak = map(int, done.stdout.split())
    assert peak <= 2 * planned + BESIDE, f"{peak:,} bytes, {planned:,} planned"
    assert planned <= 2 * peak + BESIDE or case == "a plan for many wide rows"  # of its run
