"""Corners of a layer of one unit before a logistic function, against the definition in float64.

Letters: S slots of 2^s corners, F columns.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from xaijax_kernels.structures.averaged import MeansShape, mean_tables
from xaijax_kernels.structures.dense import Dense
from xaijax_kernels.structures.logistic import in_exponentials, largest_sum, logistic

pytestmark = pytest.mark.usefixtures("strict_numerics")
S, ROWS = 4, 8
EPS = 2.0**-24

HEADS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "chances": lambda u: jax.nn.sigmoid(u[:, 0] * 2 - 1)[:, None],
    "its scores": lambda u: jax.nn.sigmoid(3 - u.ravel() / 2)[:, None],
    "two classes": lambda u: (lambda p: jnp.concatenate([1 - p, p], axis=1))(jax.nn.sigmoid(-u)),
    "one of two": lambda u: (lambda p: jnp.stack([1 - p, p], axis=1))(jax.nn.sigmoid(u))[:, 1],
}
OTHERS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "none": lambda u: jnp.tanh(u),
    "of a square": lambda u: jax.nn.sigmoid(u**2),
    "and the sum itself": lambda u: jax.nn.sigmoid(u) + u,
    "times the sum": lambda u: jax.nn.sigmoid(u) * u,
    "two of them": lambda u: jax.nn.sigmoid(u) * jax.nn.sigmoid(2 * u),
    "of several for each row": lambda u: jax.nn.sigmoid(u * jnp.arange(3.0)),
    "of the size": lambda u: jax.nn.sigmoid(abs(u)),
    "of a rounded sum": lambda u: jax.nn.sigmoid(u.astype(jnp.bfloat16)).astype(jnp.float32),
    "of its inverse": lambda u: jax.nn.sigmoid(1 / u),
    "the logit": lambda u: (lambda p: jnp.log(p / (1 - p)))(jax.nn.sigmoid(u)),
    "a sign by a division": lambda u: (lambda d: d / (abs(d) + 1e-30))(jax.nn.sigmoid(u) - 0.5),
    "one over a chance": lambda u: 1 / (jax.nn.sigmoid(u) + 1),
    "a root": lambda u: jnp.sqrt(abs(jax.nn.sigmoid(u) - 0.5)),
    "a chance that is cut": lambda u: jnp.clip(8 * jax.nn.sigmoid(u) - 4, 0, 1),
    "a product of two": lambda u: (lambda p: p * (1 - p))(jax.nn.sigmoid(u)),
    "which then steps": lambda u: (jax.nn.sigmoid(u) >= 0.5).astype(jnp.float32),
    "which is then rounded": lambda u: jnp.round(jax.nn.sigmoid(u)),
    "of which the sign is taken": lambda u: jnp.sign(jax.nn.sigmoid(u) - 0.5),
    "that is not answered": lambda u: (jax.nn.sigmoid(u), u * 2)[1],
    "which is then looked up": lambda u: jnp.where(u > 0, jax.nn.sigmoid(u), 0.0),
}


def in_float64(head: str, u: np.ndarray) -> np.ndarray:
    """The answers [R, A] of the definition."""

    def p(z: np.ndarray) -> np.ndarray:
        return 1 / (1 + np.exp(-z))

    with np.errstate(over="ignore"):
        return {
            "chances": lambda: p(2 * u - 1),
            "its scores": lambda: p(3 - u / 2),
            "two classes": lambda: np.concatenate([1 - p(-u), p(-u)], axis=1),
            "one of two": lambda: p(u),
        }[head]()


def slots(F: int, scale: float = 1.0) -> tuple[Dense, np.ndarray, np.ndarray, np.ndarray]:
    """(layer, x, donors, kept): all columns but the last are players; that is always x's."""
    rng = np.random.default_rng(F)
    weights = rng.normal(size=(F, 1)) * scale
    x, donors = rng.normal(size=(2, S, F))
    kept = np.broadcast_to(np.eye(F, dtype=bool), (S, F, F))
    layer = Dense(jnp.asarray(weights, jnp.float32), jnp.full(1, 0.25, jnp.float32))
    return layer, np.float32(x), np.float32(donors), kept


def corners(
    layer: Dense, head: Callable, x: np.ndarray, donors: np.ndarray, kept: np.ndarray
) -> np.ndarray:
    """By the kernel, with exponentials of tables where the head allows it; [S 2^s, A]."""
    quick = in_exponentials(layer, head, len(x) << (kept.shape[1] - 1), jnp.float32)
    return np.asarray(jax.jit(lambda *a: layer.corners(quick or head, *a))(x, donors, kept))


def sums_in_float64(layer: Dense, x: np.ndarray, donors: np.ndarray) -> np.ndarray:
    """The layer at all corners of all slots, [S 2^s, 1], and the sizes of its terms."""
    weights, F = np.asarray(layer.dense[0], np.float64)[:, 0], x.shape[1]
    own = (np.arange(2 ** (F - 1))[:, None] >> np.arange(F)) & 1 == 1
    own[:, -1] = True
    rows = np.where(own, x[:, None].astype(np.float64), donors[:, None])  # [S, 2^s, F]
    return (rows @ weights + 0.25).reshape(-1, 1), (abs(rows) @ abs(weights) + 0.25).reshape(-1, 1)


@pytest.mark.parametrize("F", [2, 7, 16])  # 16: more corners than a block holds
@pytest.mark.parametrize("head", HEADS)
def test_corners_are_those_of_the_definition(head: str, F: int) -> None:
    layer, x, donors, kept = slots(F)
    assert logistic(HEADS[head], ROWS, jnp.float32) is not None
    found = corners(layer, HEADS[head], x, donors, kept)
    u, size = sums_in_float64(layer, x, donors)
    wanted = in_float64(head, u)
    # The sum is off by one rounding a term at the size of the terms, twice that where the head
    # doubles it; the chance by a quarter of it, and by some units of its exponentials.
    off = (2 * F * size + 16) * EPS
    assert (abs(found - wanted) <= off).all()


@pytest.mark.parametrize("head", HEADS)
def test_it_is_the_head_that_it_was_made_of(head: str) -> None:
    hidden = jnp.linspace(-3, 3, ROWS)[:, None]
    found = logistic(HEADS[head], ROWS, jnp.float32)
    np.testing.assert_allclose(found(hidden), HEADS[head](hidden), rtol=8 * EPS, atol=64 * EPS)


@pytest.mark.parametrize("head", OTHERS)
def test_another_head_is_not_taken_for_one(head: str) -> None:
    assert logistic(OTHERS[head], ROWS, jnp.float32) is None


@pytest.mark.parametrize("head", OTHERS)
def test_another_head_answers_as_it_did(head: str) -> None:
    layer, x, donors, kept = slots(5)
    found = corners(layer, OTHERS[head], x, donors, kept)
    u = sums_in_float64(layer, x, donors)[0]
    with jax.numpy_dtype_promotion("standard"):
        wanted = np.asarray(OTHERS[head](jnp.asarray(u, jnp.float32)))
    # The coarsest rounds to bfloat16; another function is off by a tenth in most corners.
    np.testing.assert_allclose(found, wanted, rtol=2.0**-7, atol=1e-4)


def table(
    layer: Dense, x: np.ndarray, donors: np.ndarray, head: Callable[[jax.Array], jax.Array]
) -> np.ndarray:
    """Means over donors [S, F] of the answers to all corners of x [F], as the engine takes them."""
    F = len(x)
    shape = MeansShape(F, len(donors), 1, 1, "float32")
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("tiles",))
    weights = np.full((1, 1, len(donors)), 1 / len(donors), np.float32)
    work = np.array([[0, 0, 1]], np.int32)

    def run(params, *given):
        return mean_tables(
            lambda own: own, lambda own, u: head(u), None, jnp.isfinite, shape, mesh, params, *given
        )

    given = layer, x[None], donors[None, None], weights, None, np.ones(1, np.int32), work
    high, low, ends, bad = (np.asarray(one, np.float64) for one in jax.jit(run)(*given))
    assert bad[0] == 0
    return (high + low)[0, :, 0] + ends[0, 0, 0]


def mean_in_float64(layer: Dense, x: np.ndarray, donors: np.ndarray) -> np.ndarray:
    """The definition of `table` for a plain logistic function; [2^F]."""
    F, weights = len(x), np.asarray(layer.dense[0], np.float64)[:, 0]
    own = (np.arange(2**F)[:, None] >> np.arange(F)) & 1 == 1
    rows = np.where(own[:, None], x.astype(np.float64), donors.astype(np.float64))
    with np.errstate(over="ignore"):
        return (1 / (1 + np.exp(-(rows @ weights + 0.25)))).mean(axis=1)


def far_apart(scale: float) -> tuple[Dense, np.ndarray, np.ndarray]:
    """Terms of one sign in the low bits, of the other in the high ones: sums of both are small."""
    layer = Dense(jnp.ones((6, 1), jnp.float32), jnp.full(1, 0.25, jnp.float32))
    x = np.where(np.arange(6) < 3, scale, -scale).astype(np.float32)
    return layer, x, np.random.default_rng(0).normal(size=(S, 6)).astype(np.float32)


@pytest.mark.parametrize("scale", [1.0, 20.0, 30.0, 200.0, 1e6])
def test_sums_beyond_the_exponentials_range_are_right(scale: float) -> None:
    layer, x, donors = far_apart(scale)
    found = table(layer, x, donors, jax.nn.sigmoid)
    # A chance is off by a quarter of its sum, which is off by a rounding a term.
    off = (6 * 6 * scale / 4 + 32) * EPS
    np.testing.assert_allclose(found, mean_in_float64(layer, x, donors), rtol=0, atol=off)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_beyond_the_range(value: float) -> None:
    layer, x, donors = far_apart(1.0)
    quick = in_exponentials(layer, jax.nn.sigmoid, S << 6, jnp.float32)
    each = jnp.eye(7, 6, dtype=bool)
    assert quick is not None
    assert quick.reaches(largest_sum(layer, x, donors[None], each))
    for spoilt, own in ((x, 2), (donors, (1, 3))):
        beyond = spoilt.copy()
        beyond[own] = value
        given = (beyond, donors) if spoilt is x else (x, beyond)
        size = largest_sum(layer, given[0], given[1][None], each)
        assert not quick.reaches(size)


def test_the_largest_sum_is_no_smaller_than_any_sum() -> None:
    layer, x, donors, _ = slots(6)
    each = jnp.concatenate([jnp.eye(6, dtype=bool)[:5], jnp.zeros((1, 6), bool)])
    # Column 5 is no player's and only the donor's; the bound may count x's number all the same.
    bound = float(largest_sum(layer, x[0], donors[None], each))
    weights = np.asarray(layer.dense[0], np.float64)[:, 0]
    either = np.maximum(abs(x[0] * weights), abs(donors * weights).max(axis=0))
    np.testing.assert_allclose(bound, either.sum() + 0.25, rtol=8 * EPS)


def test_no_corner_has_an_exponential_of_its_own() -> None:
    """Else nothing is gained: exponentials are of tables."""
    layer, x, donors, kept = slots(13)
    quick = in_exponentials(layer, HEADS["chances"], S << 12, jnp.float32)
    jaxpr = jax.make_jaxpr(lambda *a: layer.corners(quick, *a))(x, donors, kept)
    sizes = [size for name, size in _steps(jaxpr.jaxpr) if name in ("logistic", "exp")]
    assert sizes and max(sizes) < S << 8


def _steps(jaxpr):
    """(name, size) of all steps."""
    for step in jaxpr.eqns:
        yield step.primitive.name, max(v.aval.size for v in step.outvars)
        for value in step.params.values():
            for one in value if isinstance(value, tuple) else (value,):
                if hasattr(one, "jaxpr"):
                    yield from _steps(one.jaxpr)
