"""One small trained network per library, and every public method on it."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import oracles
import pytest

import xaijax as xj

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")

F, H, K = 4, 8, 3
RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, F))
Y = (X[:, 0] > 0).astype(int) + (X[:, 0] * X[:, 1] > 0)  # 0, 1 or 2
FEW, BACKGROUND = X[:6], X[100:110]
KEY = jax.random.key(0)


def linen() -> xj.Model:
    nn = pytest.importorskip("flax.linen")
    module = nn.Sequential([nn.Dense(H), nn.tanh, nn.Dense(K), nn.softmax])
    return xj.as_model(module, module.init(KEY, jnp.zeros((1, F))))


def nnx() -> xj.Model:
    nnx = pytest.importorskip("flax.nnx")
    rngs = nnx.Rngs(0)
    layers = [nnx.Linear(F, H, rngs=rngs), nnx.tanh, nnx.Linear(H, K, rngs=rngs), nnx.softmax]
    return xj.as_model(nnx.Sequential(*layers))


def haiku() -> xj.Model:
    hk = pytest.importorskip("haiku")
    made = hk.transform(lambda x: jax.nn.softmax(hk.Linear(K)(jnp.tanh(hk.Linear(H)(x)))))
    return xj.as_model(made, made.init(KEY, jnp.zeros((1, F))))


def equinox() -> xj.Model:
    eqx = pytest.importorskip("equinox")
    first, second = jax.random.split(KEY)
    layers = [eqx.nn.Linear(F, H, key=first), eqx.nn.Lambda(jnp.tanh)]
    layers += [eqx.nn.Linear(H, K, key=second), eqx.nn.Lambda(jax.nn.softmax)]
    return xj.as_model(eqx.nn.Sequential(layers))


def keras() -> xj.Model:
    os.environ.setdefault("KERAS_BACKEND", "jax")  # read once, when it is imported
    keras = pytest.importorskip("keras")
    dense = keras.layers.Dense
    return xj.as_model(keras.Sequential([keras.Input((F,)), dense(H, "tanh"), dense(K, "softmax")]))


def plain(params: Any, rows: Any) -> Any:
    hidden = jnp.tanh(rows @ params["first"] + params["bias"])
    return jax.nn.softmax(hidden @ params["last"])


@functools.cache
def numbers() -> dict[str, np.ndarray]:
    """Trained ones of `plain`, for libraries that JAX does not train."""
    shapes = {"first": (F, H), "bias": (H,), "last": (H, K)}
    keys = jax.random.split(KEY, 3)
    start = {n: jax.random.normal(k, s) / 2 for k, (n, s) in zip(keys, shapes.items(), strict=True)}
    return jax.tree.map(np.asarray, trained(xj.as_model(plain, start)).params)


def torch() -> xj.Model:
    torch = pytest.importorskip("torch")
    own = {name: torch.tensor(value) for name, value in numbers().items()}
    first, last = torch.nn.Linear(F, H), torch.nn.Linear(H, K, bias=False)
    first.load_state_dict({"weight": own["first"].T, "bias": own["bias"]})
    last.load_state_dict({"weight": own["last"].T})
    return xj.as_model(torch.nn.Sequential(first, torch.nn.Tanh(), last, torch.nn.Softmax(1)))


def onnx() -> xj.Model:
    pytest.importorskip("onnxruntime", reason="needs the extra [onnx]")
    onnx = pytest.importorskip("onnx")
    make, kind = onnx.helper, onnx.TensorProto
    nodes = [
        make.make_node("MatMul", ["rows", "first"], ["a"]),
        make.make_node("Add", ["a", "bias"], ["b"]),
        make.make_node("Tanh", ["b"], ["c"]),
        make.make_node("MatMul", ["c", "last"], ["d"]),
        make.make_node("Softmax", ["d"], ["chances"], axis=1),
    ]
    ends = [
        make.make_tensor_value_info(n, kind.FLOAT, ["n", w])
        for n, w in [("rows", F), ("chances", K)]
    ]
    held = [onnx.numpy_helper.from_array(value, name) for name, value in numbers().items()]
    graph = make.make_graph(nodes, "network", ends[:1], ends[1:], held)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        opset = [make.make_opsetid("", 17)]
        onnx.save(make.make_model(graph, opset_imports=opset, ir_version=8), path)
        return xj.as_model(path)  # the file is read once


NETWORKS = [linen, nnx, haiku, equinox, keras, torch, onnx]


def trained(model: xj.Model) -> xj.Model:
    """By forty steps of Adam on the numbers among its params."""
    leaves, tree = jax.tree.flatten(model.params)
    moved = [place for place, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    apply: Callable[..., Any] = model.apply
    rows, wanted = jnp.asarray(X, jnp.float32), jnp.asarray(Y)

    def filled(numbers: list[Any]) -> Any:
        own = dict(zip(moved, numbers, strict=True))
        return tree.unflatten([own.get(place, leaf) for place, leaf in enumerate(leaves)])

    def loss(numbers: list[Any]) -> Any:
        chances = apply(filled(numbers), rows)
        return -jnp.log(jnp.take_along_axis(chances, wanted[:, None], axis=1)).mean()

    adam = optax.adam(0.1)

    def step(carry: Any, _: None) -> Any:
        numbers, state = carry
        change, state = adam.update(jax.grad(loss)(numbers), state)
        return (optax.apply_updates(numbers, change), state), None

    numbers = [jnp.asarray(leaves[place]) for place in moved]
    run = jax.jit(lambda carry: jax.lax.scan(step, carry, length=40)[0])
    numbers, _ = run((numbers, adam.init(numbers)))
    return model.replace(params=filled(numbers))


@pytest.fixture(scope="module", params=NETWORKS, ids=lambda make: make.__name__)
def network(request: Any) -> xj.Model:
    model = request.param()
    model = trained(model) if model.backend == "jax" else model
    assert (model.predict(X).argmax(1) == Y).mean() > 0.8  # it has learned the rule
    return model


@pytest.mark.slow
def test_values_are_those_of_the_definition(network, tmp_path):
    explanation = xj.Explainer(network, BACKGROUND)(FEW)
    weight = oracles.shapley_weight(F)
    expected = oracles.explain(network.predict, FEW, BACKGROUND, weight)[0]
    # Sums of 2^4 x 10 chances below 1, each some roundings of 2^-24 from the one asked alone.
    np.testing.assert_allclose(explanation.values, expected, rtol=0, atol=2.0**-18)
    explanation.save(tmp_path / "saved.npz")
    assert np.array_equal(xj.load(tmp_path / "saved.npz").values, explanation.values)
    predicted = xj.Explainer(network, BACKGROUND)(FEW, outputs="predicted")
    best = network.predict(FEW).argmax(1)
    own = explanation.values[np.arange(len(FEW)), :, best]
    np.testing.assert_allclose(predicted.values, own, rtol=0, atol=2.0**-18)


@pytest.mark.slow
def test_other_methods_and_pictures(network):
    explanation = xj.Explainer(network, BACKGROUND)(FEW)
    matplotlib.use("Agg")
    first = explanation[:, :, 0]
    for draw, given in ((xj.plots.beeswarm, first), (xj.plots.bar, first)):
        draw(given)
    xj.plots.waterfall(first[0])
    pytest.importorskip("shap", reason="needs the extra [dev]")
    assert np.array_equal(explanation.to_shap().values, explanation.values)
    influence = xj.QII(network, X[:40], quantity="individual", positive=0).explain(FEW)
    assert influence.values.shape == (len(FEW), F) and np.isfinite(influence.values).all()
    rules = xj.AnchorExplainer(network, X).explain(FEW, threshold=0.8)
    assert [rule.prediction for rule in rules] == network.labels(FEW).tolist()
    shares = xj.FederatedExplainer(network, BACKGROUND, guests={"lab": [2, 3]})(FEW)
    united = {"x0": [0], "x1": [1], "lab": [2, 3]}
    median = xj.Baseline("median", BACKGROUND)
    same = xj.Explainer(network, median, players=united)(FEW)
    # The same 2^3 hybrids of each instance, by two ways of asking.
    np.testing.assert_allclose(shares.values, same.values, rtol=0, atol=2.0**-18)
