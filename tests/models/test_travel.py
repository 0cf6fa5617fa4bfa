"""Models and explainers reach a fresh interpreter as recipes, and give the same bits there."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from flax import linen, nnx
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import xaijax as xj

pytest.importorskip("cloudpickle", reason="closures travel by cloudpickle: xaijax[scale]")

RNG = np.random.default_rng(0)
F = 4
X = RNG.integers(0, 3, (6, F)).astype(np.float32)
B = RNG.integers(0, 3, (5, F)).astype(np.float32)
Y = (X.sum(axis=1) > F).astype(int)
FRAME = pd.DataFrame({"a": ["x", "y", "z", "x", "y", "z"], "b": np.arange(6.0)})
W = RNG.normal(size=(F,)).astype(np.float32)
FEW = ("params", "host", "nnx")

# Run in the fresh interpreter: opens what was sent, asks again, prints what is not the same.
PROGRAM = """
import pickle, sys
sent = pickle.load(open(sys.argv[1], "rb"))
from test_travel_asked import asked
print(sorted(n for n, (explainer, X, values) in sent.items() if asked(explainer, X) != values))
"""
ASKED = """
import xaijax as xj
def asked(explainer, X):
    if isinstance(explainer, xj.AEC):
        if not hasattr(explainer, "effects_"):
            explainer.fit(X, X.sum(axis=1) > 4)
        return explainer.effects_.tobytes(), list(explainer.ranking_)
    if isinstance(explainer, xj.AnchorExplainer):
        return explainer.explain(X, beam_size=1, max_size=1).to_dataframe().to_json()
    found = explainer.explain(X) if isinstance(explainer, xj.QII) else explainer(X)
    return found.values.tobytes(), found.base_values.tobytes(), found.feature_names
"""


class Net(linen.Module):
    @linen.compact
    def __call__(self, x, train=False):
        x = linen.Dropout(0.5, deterministic=not train)(linen.relu(linen.Dense(3)(x)))
        return linen.Dense(1)(x)


def bank() -> nnx.Module:
    layers = nnx.Sequential(nnx.Linear(F, 3, rngs=nnx.Rngs(0)), nnx.relu, nnx.Dropout(0.5))
    return nnx.Sequential(layers, nnx.Linear(3, 1, rngs=nnx.Rngs(1)))


def closure() -> xj.Model:
    weights = jnp.asarray(W)
    return xj.as_model(lambda z: jnp.tanh(z @ weights) * z[:, 0])


def doubled() -> xj.Model:
    model = xj.as_model(lambda params, z: jnp.tanh(z @ params), W)
    return model.replace(params=2 * W, nonfinite="propagate")


def forest() -> xj.Model:
    fitted = RandomForestClassifier(3, max_depth=2, random_state=0).fit(X, Y)
    return xj.as_model(fitted, backend="host", classes=iter((0, 1)))


def drawn() -> xj.Explainer:
    how = {"estimator": "permutation", "budget": 6, "seed": 3}
    return xj.Explainer(closure(), B, link=lambda v: 2 * v, **how)


# Every way in which a model comes, functions as closures and lambdas.
MODELS = {
    "closure": closure,
    "params": doubled,
    "host": lambda: xj.as_model(lambda z: z[:, 0] * z[:, 1], backend="host", max_rows=100),
    "linen": lambda: xj.as_model(Net(), Net().init(jax.random.key(0), X)),
    "nnx": lambda: xj.as_model(bank()),
    "equinox": lambda: xj.as_model(eqx.nn.MLP(F, "scalar", 3, 1, key=jax.random.key(0))),
    "translated": lambda: xj.as_model(
        LogisticRegression().fit(X, Y), output=1, feature_names=iter("abcd")
    ),
    "estimator": forest,
}
# And every explainer.
EXPLAINERS = {
    **{name: lambda make=make: xj.Explainer(make(), B) for name, make in MODELS.items()},
    "sampled": drawn,
    "baseline": lambda: xj.Explainer(closure(), xj.Baseline("median", B), devices=jax.devices()),
    "own": lambda: xj.Explainer(closure(), xj.Baseline(lambda rows: rows * 0.5)),
    "size": lambda: xj.Explainer(closure(), B, index=xj.SizeLimited(1)),
    "frame": lambda: xj.Explainer(
        xj.as_model(make_pipeline(OrdinalEncoder(), LogisticRegression()).fit(FRAME, Y)), FRAME
    ),
    "federated": lambda: xj.FederatedExplainer(closure(), B, {"bank": [1, 2]}),
    "qii": lambda: xj.QII(forest(), X, pool=B, quantity="individual"),
    "anchors": lambda: xj.AnchorExplainer(xj.as_model(lambda z: z[:, 0] > 1, output="label"), X),
    "aec": lambda: xj.AEC(solver="newton"),
}


@pytest.mark.slow
@pytest.mark.small_path  # as in the new process
@pytest.mark.parametrize("names", [FEW, pytest.param(tuple(EXPLAINERS), marks=pytest.mark.slow)])
def test_the_same_bits_in_a_fresh_interpreter_before_and_after_use(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "test_travel_asked.py").write_text(ASKED)
    asked = {}
    exec(ASKED, asked)
    sent = {}
    for name in names:
        explainer, rows = EXPLAINERS[name](), FRAME if name == "frame" else X
        before = pickle.dumps(explainer)  # pickle alone, whatever is in it
        values = asked["asked"](explainer, rows)
        after = pickle.dumps(explainer)
        sent[f"{name} before"] = before, rows, values
        sent[f"{name} after"] = after, rows, values
    opened = {n: (Opens(one), rows, values) for n, (one, rows, values) in sent.items()}
    (tmp_path / "sent").write_bytes(pickle.dumps(opened))
    paths = [str(tmp_path), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "sent")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


class Opens:
    """Bytes of a pickle that are opened with the rest."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent

    def __reduce__(self):
        return pickle.loads, (self.sent,)


def test_a_recipe_holds_the_rows_as_they_were() -> None:
    rows = B.copy()
    explainer = xj.Explainer(xj.as_model(lambda z: z[:, 0] * z[:, 1]), rows)
    rows[:] = 7.0
    again = pickle.loads(pickle.dumps(explainer))
    np.testing.assert_array_equal(again(X).values, explainer(X).values)


def test_a_module_travels_as_it_was_read() -> None:
    module = nnx.Linear(F, 1, rngs=nnx.Rngs(0))
    model = xj.as_model(module)
    module.kernel[...] = jnp.zeros((F, 1))
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert np.abs(again.predict(X)).max() > 0


def test_what_cannot_travel_is_named() -> None:
    lock = threading.Lock()

    def locked(z):
        with lock:
            return z[:, 0]

    model = xj.as_model(locked, backend="host")
    for sent in (model, xj.Explainer(model, B)):
        with pytest.raises(xj.InputTypeError, match=r"f= of as_model cannot be sent.*lock"):
            pickle.dumps(sent)
    easy = xj.as_model(lambda z: z[:, 0])
    bad = xj.Explainer(easy, B, link=lambda v: v if lock else v)
    with pytest.raises(xj.InputTypeError, match=r"link= of Explainer cannot be sent"):
        pickle.dumps(bad)
    with pytest.raises(xj.InputTypeError, match="copy that the engine made"):
        pickle.dumps(easy.decided()[0])

    class Own(xj.Explainer):
        """A subclass."""

    with pytest.raises(xj.InputTypeError, match="Own cannot be pickled"):
        pickle.dumps(Own(easy, B))


def test_a_changed_estimator_does_not_travel() -> None:
    estimator = LogisticRegression().fit(X, Y)
    model = xj.as_model(estimator)
    model.predict(X)
    estimator.coef_ = estimator.coef_ * 2
    with pytest.raises(xj.InputError, match="has changed since"):
        pickle.dumps(model)


def test_without_cloudpickle_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(xj.InputTypeError, match=r"f= of as_model.*xaijax\[scale\]"):
        pickle.dumps(xj.as_model(lambda z: z[:, 0]))
    pickle.dumps(xj.Explainer(xj.as_model(np.sum, backend="host"), B))  # all of it is importable


def test_no_compiled_program_goes_along() -> None:
    explainer = xj.Explainer(xj.as_model(lambda z: z[:, 0] * z[:, 1]), B)
    before = len(pickle.dumps(explainer))
    explainer(X)
    assert len(pickle.dumps(explainer)) == before


def test_a_fitted_aec_travels() -> None:
    aec = xj.AEC(bootstrap=3)
    fresh = pickle.loads(pickle.dumps(aec)).fit(X, Y)
    again = pickle.loads(pickle.dumps(aec.fit(X, Y)))
    np.testing.assert_array_equal(again.effects_, fresh.effects_)
    np.testing.assert_array_equal(again.explanation_.values, aec.explanation_.values)
