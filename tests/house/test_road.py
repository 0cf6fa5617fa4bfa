"""How many files one call passes, and how often they hand over to each other.

A hand-over is a call from a function of one file of the library into a function of another. The
limits are in `size.toml` and may only fall, or say what for in a line of [[longer]]. The counts do
not depend on the clock: "first" is the first call of an explainer, once its modules are loaded,
"warm" the second with the same shapes. All calls run in one process, `hello` first, so the others
find what it has made. `small`, `host` and `estimator` are small questions, which compile no program
of the engine; the others are pinned to tiles.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from repository import ROOT

# Run in a process of its own, since what earlier tests left in the library's caches changes a road.
PROGRAM = """
import json, sys, warnings
import jax.numpy as jnp
import numpy as np
from sklearn.ensemble import RandomForestClassifier
import xaijax as xj
import xaijax_kernels
from pathlib import Path

warnings.simplefilter("ignore")
ROOTS = tuple(str(Path(m.__file__).parent) for m in (xj, xaijax_kernels))
rng = np.random.default_rng(0)
X, B, rows = (rng.normal(size=(n, 6)).astype(np.float32) for n in (5, 8, 64))
wide, wide_B = (rng.normal(size=(n, 30)).astype(np.float32) for n in (5, 4))

def params(width):
    return {"a": rng.normal(size=(width, 16)).astype(np.float32), "b": np.ones(16, np.float32)}

def f(p, rows):
    return jnp.tanh(rows @ p["a"]) @ p["b"]

narrow, wider = params(6), params(30)
forest = RandomForestClassifier(10, max_depth=3, random_state=0).fit(B, B[:, 0] > 0)

def asking(explainer, X):
    return lambda: explainer(X, progress=False)

def mlp():
    return asking(xj.Explainer(xj.as_model(f, narrow), B, path="tiled"), X)

def hello():
    return lambda: xj.Explainer(xj.as_model(f, narrow), B, path="tiled")(X, progress=False)

def small():
    return asking(xj.Explainer(xj.as_model(f, narrow), B), X)

def permutation():
    model = xj.as_model(f, wider)
    given = {"estimator": "permutation", "budget": 128, "path": "tiled"}
    return asking(xj.Explainer(model, wide_B, **given), wide)

def kernel():
    model = xj.as_model(f, wider)
    given = {"estimator": "kernel", "budget": 256, "path": "tiled"}
    return asking(xj.Explainer(model, wide_B, **given), wide)

def trees():
    return asking(xj.Explainer(xj.as_model(forest, output=True, backend="jax"), B), X)

def estimator():
    return asking(xj.Explainer(xj.as_model(forest, output=True), B), X)

def host():
    model = xj.as_model(lambda rows: np.asarray(rows).prod(axis=1), backend="host")
    return asking(xj.Explainer(model, B), X)

def qii():
    question = xj.QII(xj.as_model(f, narrow, threshold=0.0), B, path="tiled")
    return lambda: question.explain(X)

def anchors():
    model = xj.as_model(f, narrow, threshold=0.0)
    explainer = xj.AnchorExplainer(model, rows, path="tiled")
    return lambda: explainer.explain(X)

def road(call):
    files, handed = set(), 0
    def hook(frame, event, _):
        nonlocal handed
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(ROOTS):
            files.add(name)
            back = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
            handed += back.startswith(ROOTS) and back != name
    sys.setprofile(hook)
    try:
        call()
    finally:
        sys.setprofile(None)
    return {"files": len(files), "hand_overs": handed}

xj.Explainer, xj.as_model, xj.AnchorExplainer, xj.QII  # loaded here: an import is no part of a call
found = {}
for prepare in [globals()[name] for name in sys.argv[1:]]:
    call = prepare()
    for when in ("first", "warm"):
        found[f"{prepare.__name__}_{when}"] = road(call)
print(json.dumps(found))
"""


CALLS = (
    "hello",
    "mlp",
    "kernel",
    "permutation",
    "trees",
    "estimator",
    "host",
    "qii",
    "anchors",
    "small",
)


def measured(calls: tuple[str, ...] = CALLS) -> dict[str, dict[str, int]]:
    """{call: {"files", "hand_overs"}} of these calls, which run in one process in this order."""
    path = repr([str(ROOT), str(ROOT / "kernels")])
    program = f"import sys; sys.path[:0] = {path}\n" + PROGRAM
    command = [sys.executable, "-c", program, *calls]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def roads() -> dict[str, dict[str, int]]:
    """As `measured` has them."""
    return measured()


LEDGER = tomllib.loads(Path(__file__).with_name("size.toml").read_text("utf-8"))
LIMITS = LEDGER.get("road", {})
for grant in LEDGER.get("longer", ()):
    assert grant["what_for"].strip(), "a line of [[longer]] says what for"
    for what in ("files", "hand_overs"):
        LIMITS[grant["call"]][what] += grant.get(what, 0)


@pytest.mark.skipif(
    sys.version_info < (3, 12), reason="a comprehension is a frame of its own before Python 3.12"
)
@pytest.mark.parametrize("call", LIMITS)
def test_the_road_of_a_call_does_not_grow(call: str, roads: dict[str, dict[str, int]]) -> None:
    longer = {k: f"{n} > {LIMITS[call][k]}" for k, n in roads[call].items() if n > LIMITS[call][k]}
    assert not longer, f"{call}: {longer}. Which file hands on only?"


def test_every_call_has_a_limit(roads: dict[str, dict[str, int]]) -> None:
    assert roads.keys() == LIMITS.keys()
