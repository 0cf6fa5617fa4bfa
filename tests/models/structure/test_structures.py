"""What is known of a model beyond its answers: the same values, asked for less."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import often
import oracles
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import xaijax as xj
from xaijax_kernels.structures.base import Layer, Structure
from xaijax_kernels.structures.factors import Boxes, Gaussians
from xaijax_kernels.structures.named import Product, xaijax_gaussian_sums
from xaijax_kernels.structures.sums import Dense

# A sum of n float32 terms is off by at most n 2^-24 of their absolute sum (Higham 2002, 4.2), and
# so is a product of n factors near one; the factor 4 is for the two roundings of each term itself
# and of the oracle's input.
EPS = 4 * 2.0**-24


def slots(
    rng: np.random.Generator, S: int, s: int, F: int, P: int, large: float = 1.0
) -> tuple[np.ndarray, ...]:
    """(x, donors, kept, hybrids [S 2^s, F]): slots of which bit t of a corner keeps a player.

    large: what stands in the first column of the donors.
    """
    x, donors = (rng.normal(size=(S, F)).astype(np.float32) for _ in range(2))
    donors[:, 0] *= large
    player = np.concatenate([np.arange(P), rng.integers(0, P, F - P)])
    kept = np.zeros((S, s + 1, F), bool)
    for i in range(S):
        order = rng.permutation(P)
        for t in range(s):
            kept[i, t] = player == order[t]
        kept[i, s] = np.isin(player, order[s:][rng.random(P - s) < 0.5])
    hybrids = []
    for i in range(S):
        for corner in range(1 << s):
            mask = kept[i, s].copy()
            for t in range(s):
                if corner >> t & 1:
                    mask |= kept[i, t]
            hybrids.append(np.where(mask, x[i], donors[i]))
    return x, donors, kept, np.array(hybrids)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 2, 8, 64]),
    st.integers(0, 6),
    st.integers(0, 4),
    st.integers(0, 5),
    st.integers(1, 70),
)
def test_a_dense_layer_at_corners(
    seed: int, S: int, s: int, more_players: int, more_columns: int, H: int
) -> None:
    rng = np.random.default_rng(seed)
    P = max(1, s + more_players)
    F = P + more_columns
    x, donors, kept, rows = slots(rng, S, s, F, P, large=1e8)
    weights, bias = (rng.normal(size=d).astype(np.float32) for d in ((F, H), H))
    layer = Dense(jnp.asarray(weights), jnp.asarray(bias))
    asked = []

    def head(hidden: Any) -> Any:
        asked.append(hidden.shape)
        return hidden

    got = np.asarray(layer.subsets(head, *(jnp.asarray(a) for a in (x, donors, kept)), "cpu"))
    wanted = rows.astype(float) @ weights.astype(float) + bias
    # Of the corner's own terms alone: a donor's 1e8 must not be seen where x's value is kept.
    size = np.abs(rows).astype(float) @ np.abs(weights) + np.abs(bias)
    assert (np.abs(got - wanted) <= EPS * (F + s + 2) * size).all()
    assert set(asked) == {(layer.block(S << s, "cpu"), H)}


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(
    st.integers(0, 10**6),
    st.sampled_from([1, 4, 16]),
    st.integers(0, 6),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(1, 40),
    st.integers(1, 3),
    st.booleans(),
)
def test_a_sum_of_products_at_corners(
    seed: int, S: int, s: int, more_players: int, more_columns: int, L: int, A: int, boxes: bool
) -> None:
    rng = np.random.default_rng(seed)
    P = max(1, s + more_players)
    F = P + more_columns
    x, donors, kept, rows = slots(rng, S, s, F, P)
    coefficients, intercept = (rng.normal(size=d).astype(np.float32) for d in ((L, A), A))
    if boxes:
        low = np.where(rng.random((L, F)) < 0.5, -np.inf, rng.normal(size=(L, F)) - 1)
        high = np.where(rng.random((L, F)) < 0.5, np.inf, low + 2)
        low, high = low.astype(np.float32), high.astype(np.float32)
        factors: Any = Boxes(jnp.asarray(low), jnp.asarray(high))
        inside = ((rows[:, None] > low) & (rows[:, None] <= high)).all(axis=2)
        terms = inside.astype(float)
    else:
        centres, gamma = rng.normal(size=(L, F)).astype(np.float32), np.float32(1 / F)
        factors = Gaussians(jnp.asarray(centres), jnp.asarray(gamma))
        gaps = np.square(rows[:, None].astype(float) - centres).sum(axis=2)
        terms = np.exp(-float(gamma) * gaps)
    product = Product(factors, jnp.asarray(coefficients), jnp.asarray(intercept))
    arrays = [jnp.asarray(a) for a in (x, donors, kept)]
    got = np.asarray(product.subsets(lambda sums: sums, *arrays, "cpu"))
    wanted = terms @ coefficients.astype(float) + intercept
    size = np.abs(coefficients).sum(axis=0).max() + np.abs(intercept).max()
    # Exponents are at most about 40 here, and rounding one by e moves its factor by as much.
    np.testing.assert_allclose(got, wanted, rtol=0, atol=EPS * (40 * F + L + s) * size)
    whole = jnp.asarray(rows)
    part = product.part(whole, jnp.ones(whole.shape, bool))
    direct = np.asarray(product.joined(part, product.nothing(1, part.dtype)))[:, 0]
    np.testing.assert_allclose(direct, wanted, rtol=0, atol=EPS * (40 * F + L + s) * size)


W = np.random.default_rng(3).normal(size=(5, 4)).astype(np.float32)
V = np.random.default_rng(4).normal(size=(4, 2)).astype(np.float32)
LAYERED: dict[str, Any] = {
    "logistic": lambda X: jax.nn.sigmoid(X @ W[:, 0]),
    "softmax": lambda X: jax.nn.softmax(X @ W),
    "network": lambda X: jax.nn.relu(X @ W + 0.1) @ V,
    "jitted": jax.jit(lambda X: jax.nn.gelu(jnp.dot(X, W)) @ V[:, 0]),
    "standardised": lambda X: jnp.tanh(((X - 0.3) / jnp.arange(1.0, 6.0)) @ W) @ V,
    "turned": lambda X: jnp.tanh((1.0 - X) @ W) @ V,
    "einsum": lambda X: jnp.einsum("rf,hf->rh", X, W.T),
    "flattened": lambda X: jax.nn.relu(X.reshape(len(X), -1) @ W) @ V,
    "squared": lambda X: (X**2) @ W[:, 0],
    "cleaned": lambda X: jnp.nan_to_num(X) @ W,
    "turned round": lambda X: (1.0 / (X + 9)) @ W,
    "encoded": lambda X: jnp.concatenate([X[:, :2], jax.nn.one_hot((X[:, 2] > 0) * 1, 2)], 1) @ V,
    "looked up": lambda X: (
        jnp.concatenate([jnp.asarray(V)[(X[:, 1] > 0) * 1], X[:, 3:]], 1) @ W[:4]
    ),
    "a network each": lambda X: jnp.tanh(jnp.tanh(X[:, :, None] @ W[:1]).max(axis=2) @ W),
    "no product": lambda X: jnp.sin(X).sum(axis=1),
}
AFFINE = {"einsum", "squared", "cleaned", "turned round", "encoded", "looked up", "no product"}
LAYERED |= {f"tanh of {name}": lambda X, f=LAYERED[name]: jnp.tanh(f(X)) for name in AFFINE}
OTHERS: dict[str, Any] = {
    "skip": lambda X: jax.nn.relu(X @ W).sum(axis=1) + X[:, 0],
    "two layers": lambda X: X @ W[:, 0] + jnp.sin(X @ W[:, 1]),
    "untouched": lambda X: X,
    "normalised": lambda X: (X - X.mean(axis=1, keepdims=True)) @ W,
    "of neighbours": lambda X: (X[:, 1:] * X[:, :-1]) @ V[:4, 0],
    "running": lambda X: jnp.cumsum(X, axis=1) @ W,
    "sorted": lambda X: jnp.sort(X, axis=1) @ W,
    "by place": lambda X: (X + jnp.arange(len(X))[:, None] * 0) @ W,
    "of a pair": lambda X: (X[:, None] @ W + X[:, :1, None])[:, 0].prod(axis=1),
    "a place that the row says": jax.vmap(
        lambda x: jnp.tanh(jax.lax.dynamic_slice(x, ((x[0] > 0).astype(int),), (3,)) @ W[:3]) @ V
    ),
    "a sum from such a place": jax.vmap(
        lambda x: jax.lax.dynamic_slice(x, ((x[0] > 0).astype(int),), (3,)).sum()
    ),
    "half precision": lambda X: (X.astype(jnp.bfloat16) @ W.astype(jnp.bfloat16)).astype(float),
}


def data(seed: int, N: int, F: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, F)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("index", ["shapley", xj.SizeLimited(1)])
@pytest.mark.parametrize("name", often.some_slow(sorted(LAYERED), 5))
def test_a_first_layer_is_found(name: str, index: Any) -> None:
    f, X, background = LAYERED[name], data(1, 6), data(2, 7)
    got = xj.Explainer(xj.as_model(f), background, index=index)(X)
    assert got.stats["structure"] == ("additive" if name in AFFINE else "first layer")

    def rows(Z: np.ndarray) -> np.ndarray:
        out = np.asarray(f(jnp.asarray(Z, jnp.float32)), np.float64)
        return out.reshape(len(Z), -1)

    shapley = index == "shapley"
    weight = oracles.shapley_weight(5) if shapley else oracles.size_limited_weight(5, 1)
    wanted = oracles.explain(rows, X, background, weight)[0]
    # Answers of a size of ten at most, in float32, through slopes of about one.
    np.testing.assert_allclose(got.values, wanted.reshape(got.values.shape), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", often.some_slow(sorted(OTHERS), 4))
def test_other_models_answer_themselves(name: str) -> None:
    f = OTHERS[name]
    got = xj.Explainer(xj.as_model(f), data(2, 7))(data(1, 3))
    assert got.stats["structure"] is None


DECLARED = xj.FirstLayer(lambda: (W, np.zeros(4, np.float32)), lambda hidden: jnp.tanh(hidden) @ V)
SUMS = tuple(map(jnp.asarray, (W.T, np.float32(0.1), V[:, :1], np.zeros(1, np.float32))))
STRUCTURES: dict[str, tuple[Any, int]] = {
    "found": (xj.as_model(LAYERED["network"]), 2),
    "affine": (xj.as_model(LAYERED["squared"]), 1),
    "named": (xj.as_model(lambda params, X: xaijax_gaussian_sums(X, *params), params=SUMS), 1),
    "declared": (xj.as_model(lambda X: jnp.tanh(X @ W) @ V, structure=DECLARED), 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_has_the_members_of_the_contract(name: str) -> None:
    """What a layer has is looked at in `tests/kernels/test_structure_contract.py`."""
    (model, K), X = STRUCTURES[name], data(1, 32)
    structure: Structure | None = model.probe(X).compare()[0]
    assert structure is not None and structure in {structure}
    params = model.params
    known = jax.eval_shape(structure.of, params)
    assert Layer in type(known).__mro__
    assert known.name == ("sum of products" if name == "named" else "first layer")
    hidden = jax.ShapeDtypeStruct((32, known.width), "float32")
    assert jax.eval_shape(structure.head, params, hidden).shape in ((32, K), (32,))
    form = structure.affine(params)
    assert (form is not None) == (name in ("affine", "named"))
    if form is not None:
        assert (form[0].shape, form[1].shape) == ((known.width, K), (K,))


ACTIVATIONS: dict[str, tuple[Any, Any]] = {
    "relu": (jax.nn.relu, lambda z: np.maximum(z, 0)),
    "tanh": (jnp.tanh, np.tanh),
    "softplus": (jax.nn.softplus, lambda z: np.logaddexp(z, 0)),
    "swish": (jax.nn.swish, lambda z: z / (1 + np.exp(-z))),
    "step": (lambda z: (z > 0) * 1.0, None),  # its own oracle: a rounding turns it
}


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@example(0, [1, 6, 15], 4, "relu", False, False)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(1, 20), min_size=0, max_size=4),
    st.integers(1, 4),
    st.sampled_from(sorted(ACTIVATIONS)),
    st.booleans(),
    st.booleans(),
)
def test_networks_of_all_shapes(
    seed: int, hidden: list[int], K: int, activation: str, classes: bool, scaled: bool
) -> None:
    """Layers, activations, outputs and soft shares of classes, by structure, whole and defined."""
    rng, P = np.random.default_rng(seed), 5
    widths = [P, *hidden, K]
    layers = [
        (
            rng.normal(size=d).astype(np.float32) / np.sqrt(d[0], dtype=np.float32),
            rng.normal(size=d[1:]),
        )
        for d in itertools.pairwise(widths)
    ]
    jax_step, np_step = ACTIVATIONS[activation]

    def network(Z: Any, xp: Any, step: Any) -> Any:
        Z = (Z - 0.25) / 2 if scaled else Z
        for i, (W, b) in enumerate(layers):
            Z = Z @ xp.asarray(W, Z.dtype) + xp.asarray(b, Z.dtype)
            Z = step(Z) if i < len(layers) - 1 else Z
        if not classes:
            return Z
        Z = xp.exp(Z - Z.max(axis=1, keepdims=True))
        return Z / Z.sum(axis=1, keepdims=True)

    def f(Z: Any) -> Any:
        return network(Z, jnp, jax_step)

    X, background = data(seed + 1, 3), data(seed + 2, 4)
    got = xj.Explainer(xj.as_model(f), background)(X)
    if not hidden and not classes:
        expected: tuple[str | None, ...] = ("additive",)
    else:  # a layer of less than a 32nd of all products is not worth its programs
        products = [a * b for a, b in itertools.pairwise(widths)]
        expected = ("first layer",) if 16 * products[0] >= sum(products) else ("first layer", None)
    assert got.stats["structure"] in expected
    whole = xj.Explainer(xj.as_model(f, structure="plain"), background)(X)
    # Some ten sums of at most 20 float32 terms of size two, each through slopes of about one.
    size = 200 * 2.0**-24 * max(1.0, float(np.abs(whole.values).max()))
    if np_step is None:  # a score within rounding of a step may turn
        assert (np.abs(got.values - whole.values) > size).mean() < 0.05
        return
    np.testing.assert_allclose(got.values, whole.values, rtol=0, atol=size)
    wanted = oracles.explain(
        lambda Z: network(np.asarray(Z, float), np, np_step),
        X,
        background,
        oracles.shapley_weight(P),
    )[0]
    np.testing.assert_allclose(got.values, wanted.reshape(got.values.shape), rtol=0, atol=size)
