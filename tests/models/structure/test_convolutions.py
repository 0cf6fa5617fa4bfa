"""A first convolution that is found in a trace, against loops in float64."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from often import some_slow

import xaijax as xj

SIDE, IN, OUT = 6, 2, 3
SHAPE = (SIDE, SIDE, IN)
KERNEL = np.random.default_rng(0).normal(size=(3, 3, IN, OUT)).astype(np.float32) / 3
PATCHES = np.repeat((np.arange(SIDE)[:, None] // 3 * 2 + np.arange(SIDE) // 3)[..., None], IN, 2)
# Sums of 18 products, slopes of 1, means over 4 x 4 and more places of outputs of a size of 3.
CLOSE = {"rtol": 0, "atol": 4 * (18 + 40) * 2**-24 * 3}


def convolved(X: np.ndarray, kernel: np.ndarray, stride: int, dilated: int, pad: int) -> np.ndarray:
    """The definition, place by place: [R, h, w, OUT]."""
    X = np.pad(np.asarray(X, np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    reach = dilated * (len(kernel) - 1)
    places = range(0, X.shape[1] - reach, stride)
    out = np.zeros((len(X), len(places), len(places), kernel.shape[3]))
    for (a, i), (b, j) in itertools.product(enumerate(places), enumerate(places)):
        for di, dj in itertools.product(range(len(kernel)), repeat=2):
            out[:, a, b] += X[:, i + dilated * di, j + dilated * dj] @ kernel[di, dj]
    return out


def network(stride: int = 1, dilated: int = 1, pad: int = 0) -> Any:
    def f(X: Any) -> Any:
        hidden = jax.lax.conv_general_dilated(
            X,
            KERNEL,
            (stride, stride),
            ((pad, pad), (pad, pad)),
            rhs_dilation=(dilated, dilated),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
        return jnp.tanh(hidden + 0.2).mean(axis=(1, 2))

    return f


def host(stride: int = 1, dilated: int = 1, pad: int = 0) -> Any:
    def f(X: np.ndarray) -> np.ndarray:
        X = np.asarray(X, np.float64).reshape(-1, *SHAPE)
        hidden = convolved(X, KERNEL.astype(float), stride, dilated, pad)
        return np.tanh(hidden + np.float32(0.2)).mean(axis=(1, 2))

    return f


def images(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, *SHAPE)).astype(np.float32)


def explained(f: Any, X: Any, background: Any, structure: Any = None, **options: Any) -> Any:
    model = xj.as_model(f, structure=structure)
    return xj.Explainer(model, background, **{"players": PATCHES} | options)(X)


@pytest.mark.slow
@pytest.mark.parametrize(("stride", "dilated", "pad"), [(1, 1, 0), (2, 1, 1), (1, 2, 2), (3, 1, 0)])
def test_a_first_convolution_is_found(stride: int, dilated: int, pad: int) -> None:
    X, background = images(1, 3), images(2, 5)
    got = explained(network(stride, dilated, pad), X, background)
    assert got.stats["structure"] == "first convolution"
    flat = PATCHES.ravel()
    groups = [list(np.flatnonzero(flat == p)) for p in range(4)]
    weight, own = oracles.shapley_weight(4), host(stride, dilated, pad)
    few = X.reshape(3, -1), background.reshape(5, -1)
    wanted, base, _ = oracles.explain(own, *few, weight, groups)
    np.testing.assert_allclose(got.values, wanted, **CLOSE)
    np.testing.assert_allclose(got.base_values, base, **CLOSE)


def scaled(X: Any) -> Any:
    return network()((X - 0.5) / 2.0)


def squared(X: Any) -> Any:
    """A nonlinearity of each pixel, before: columns made of one column each."""
    return network()(X**2)


def channels_first(X: Any) -> Any:
    kernel = KERNEL.transpose(3, 2, 0, 1)
    hidden = jax.lax.conv_general_dilated(X.transpose(0, 3, 1, 2), kernel, (1, 1), "SAME")
    return jnp.tanh(hidden).mean(axis=(2, 3))


def grouped(X: Any) -> Any:
    hidden = jax.lax.conv_general_dilated(
        X,
        KERNEL[:, :, :1, :2],
        (1, 1),
        "SAME",
        feature_group_count=2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    return jnp.tanh(hidden).mean(axis=(1, 2))


def transposed(X: Any) -> Any:
    hidden = jax.lax.conv_transpose(X, KERNEL, (2, 2), "SAME")
    return jnp.tanh(hidden).mean(axis=(1, 2))


def sentence(X: Any) -> Any:
    """Words that are looked up, then a convolution along them."""
    words = jnp.asarray(KERNEL.reshape(-1, 6))[(X.reshape(len(X), -1)[:, :12] > 0) * 1]
    hidden = jax.lax.conv_general_dilated(
        words, KERNEL.reshape(3, 6, 3), (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )
    return jnp.tanh(hidden).max(axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "f",
    some_slow([scaled, squared, channels_first, grouped, transposed, sentence], 6),
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("options", [{}, {"estimator": "kernel", "budget": 12}], ids=["exact", "k"])
def test_networks_have_the_values_of_whole_rows(f: Any, options: dict[str, Any]) -> None:
    X, background = images(1, 3), images(2, 5)
    got, wanted = (explained(f, X, background, s, **options) for s in (None, "plain"))
    assert (got.stats["structure"], wanted.stats["structure"]) == ("first convolution", None)
    np.testing.assert_allclose(got.values, wanted.values, **CLOSE)


def normalised(X: Any) -> Any:
    return network()(X - X.mean(axis=(1, 2), keepdims=True))


def skipped(X: Any) -> Any:
    return network()(X) + X[:, 0, 0, :1]


def of_products(X: Any) -> Any:
    return network()(X * X[:, ::-1])


def of_each_other(X: Any) -> Any:
    """Rows are convolved with a kernel that the row gives."""

    def one(x: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        kernel = x[:3, :3, :, None]
        return jax.lax.conv_general_dilated(
            x[None], kernel, (1, 1), "VALID", dimension_numbers=numbers
        )

    return jax.vmap(lambda x: one(x).sum())(X)


def wide(X: Any) -> Any:
    """So wide that rows of its layer would be the largest thing in the memory."""
    kernel = jnp.ones((3, 3, IN, 1024)) * KERNEL[:, :, :, :1]
    hidden = jax.lax.conv_general_dilated(
        X, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return jnp.tanh(hidden).mean(axis=(1, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    "f", [normalised, skipped, of_products, of_each_other, wide], ids=lambda f: f.__name__
)
def test_others_answer_themselves(f: Any) -> None:
    got = explained(f, images(1, 2), images(2, 3))
    assert got.stats["structure"] is None


@pytest.mark.slow
def test_bits_do_not_depend_on_the_other_images() -> None:
    X, background = images(1, 37), images(2, 5)
    for options in ({}, {"estimator": "kernel", "budget": 12}):
        explainer = xj.Explainer(xj.as_model(network()), background, players=PATCHES, **options)
        whole, alone = explainer(X), explainer(X[30:31])
        assert alone.values.tobytes() == whole.values[30:31].tobytes()


WORDS = np.random.default_rng(4).normal(size=(50, 40)).astype(np.float32) / 8
LENGTH = 24  # 24 words of 40 numbers: more than a matrix is made for


def tokens(seed: int, n: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 50, (n, LENGTH)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("curved", [False, True], ids=["affine", "curved"])
def test_words_are_added_up(curved: bool) -> None:
    def f(X: Any) -> Any:
        hidden = jnp.asarray(WORDS)[X.astype(int)].sum(axis=1)
        return (jnp.tanh(hidden) if curved else hidden) @ WORDS[:2].T

    def own(X: np.ndarray) -> np.ndarray:
        hidden = WORDS.astype(float)[np.asarray(X).astype(int)].sum(axis=1)
        return (np.tanh(hidden) if curved else hidden) @ WORDS[:2].T.astype(float)

    X, background, players = tokens(1, 4), tokens(2, 6), np.arange(LENGTH) // 6
    got = xj.Explainer(xj.as_model(f), background, players=players)(X)
    assert got.stats["structure"] == ("first layer" if curved else "additive")
    groups = [list(np.flatnonzero(players == p)) for p in range(4)]
    wanted, base, _ = oracles.explain(own, X, background, oracles.shapley_weight(4), groups)
    # Sums of 24 numbers of a size of an eighth, then of 40 products.
    close = {"rtol": 0, "atol": 4 * (LENGTH + 40) * 2**-24 * 2}
    np.testing.assert_allclose(got.values, wanted, **close)
    np.testing.assert_allclose(got.base_values, base, **close)
    listed = [
        xj.Explainer(xj.as_model(f, structure=s), background, estimator="kernel", budget=60)(X)
        for s in (None, "plain")
    ]
    assert listed[0].stats["structure"] == "first layer"
    np.testing.assert_allclose(listed[0].values, listed[1].values, rtol=0, atol=4 * close["atol"])
