"""Means of logistic functions of a sum at all sub-coalitions, against the definition in float64.

Letters: B donors, F columns, each a player's, H units, C = 2^F sub-coalitions.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow

from xaijax_kernels.structures.averaged import (
    TOGETHER,
    MeansShape,
    chances_of,
    logistic,
    mean_tables,
)
from xaijax_kernels.structures.sums import Dense

pytestmark = pytest.mark.usefixtures("strict_numerics")
B, ROWS = 5, 8
EPS = 2.0**-24

HEADS: dict[str, Callable[[jax.Array], jax.Array]] = {
    "chances": lambda u: jax.nn.sigmoid(u[:, 0] * 2 - 1)[:, None],
    "its scores": lambda u: jax.nn.sigmoid(3 - u.ravel() / 2)[:, None],
    "two classes": lambda u: (lambda p: jnp.concatenate([1 - p, p], axis=1))(jax.nn.sigmoid(-u)),
    "one of two": lambda u: (lambda p: jnp.stack([1 - p, p], axis=1))(jax.nn.sigmoid(u))[:, 1],
}
SOFTMAXES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "softmax of two": jax.nn.softmax,
    "its second": lambda u: jax.nn.softmax(u * 2 - 1, axis=-1)[:, 1:],
    "written out": lambda u: (lambda e: e / e.sum(axis=1, keepdims=True))(
        jnp.exp(u - u.max(axis=1, keepdims=True))
    ),
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


OTHER_SOFTMAXES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "of each column": lambda u: jax.nn.softmax(u, axis=0),
    "its logarithm": jax.nn.log_softmax,
    "its square": lambda u: jax.nn.softmax(u) ** 2,
    "of a function": lambda u: jax.nn.softmax(jnp.tanh(u)),
    "and its own parts": lambda u: (lambda e: e / e.sum(axis=1, keepdims=True) + e)(
        jnp.exp(u - u.max(axis=1, keepdims=True))
    ),
    "of two exponentials": lambda u: (
        jnp.exp(u - u.max(axis=1, keepdims=True))
        / jnp.exp(2 * u - 2 * u.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    ),
    "less its smallest": lambda u: (lambda e: e / e.sum(axis=1, keepdims=True))(
        jnp.exp(u - u.min(axis=1, keepdims=True))
    ),
    "two chances": jax.nn.sigmoid,
    "the chance of a difference, and a unit": lambda u: jax.nn.softmax(u) + u,
}


def p(z: np.ndarray) -> np.ndarray:
    """The logistic function in float64."""
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-z))


def in_float64(head: str, u: np.ndarray) -> np.ndarray:
    """The answers [.., A] of the definition to hidden numbers [.., H]."""
    d = u[..., -1:] - u[..., :1]
    made = {
        "chances": lambda: p(2 * u - 1),
        "its scores": lambda: p(3 - u / 2),
        "two classes": lambda: np.concatenate([1 - p(-u), p(-u)], axis=-1),
        "one of two": lambda: p(u),
        "softmax of two": lambda: np.concatenate([1 - p(d), p(d)], axis=-1),
        "its second": lambda: p(2 * d),
        "written out": lambda: np.concatenate([p(-d), 1 - p(-d)], axis=-1),
    }
    return made[head]()


def problem(F: int, H: int, n: int = B) -> tuple[Dense, np.ndarray, np.ndarray]:
    """(layer, x [F], donors [n, F])."""
    rng = np.random.default_rng(F)
    layer = Dense(
        jnp.asarray(rng.normal(size=(F, H)), jnp.float32),
        jnp.asarray(rng.normal(size=H), jnp.float32),
    )
    return layer, np.float32(rng.normal(size=F)), np.float32(rng.normal(size=(n, F)))


def hidden_in_float64(
    layer: Dense, x: np.ndarray, donors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The layer of all hybrids [C, B, H], and the sizes of its terms added up."""
    assert layer.dense is not None
    weights, bias = (np.asarray(one, np.float64) for one in layer.dense)
    own = (np.arange(2 ** len(x))[:, None] >> np.arange(len(x))) & 1 == 1
    rows = np.where(own[:, None], x.astype(np.float64), donors.astype(np.float64))
    return rows @ weights + bias, abs(rows) @ abs(weights) + abs(bias)


def table(
    layer: Dense,
    x: np.ndarray,
    donors: np.ndarray,
    head: Callable[[jax.Array], jax.Array],
    players: np.ndarray | None = None,
) -> np.ndarray:
    """Means over donors of the answers to all sub-coalitions of x, as the engine takes them; [C,
    K].
    """
    P = len(x) if players is None else int(players.max()) + 1
    K = jax.eval_shape(head, jax.ShapeDtypeStruct((1, layer.width), jnp.float32)).shape[1]
    n = len(donors)
    filled = (1 << (n - 1).bit_length()) - n  # a block has a power of two of them
    donors = np.pad(donors, ((0, filled), (0, 0)), mode="edge")
    shape = MeansShape(P, len(donors), 1, K, "float32")
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("tiles",))
    weights = np.pad(np.full(n, 1 / n, np.float32), (0, filled))[None, None]
    work = np.array([[0, 0, 1]], np.int32)

    def run(params, *given):
        return mean_tables(
            lambda own: own, lambda own, u: head(u), None, jnp.isfinite, shape, mesh, params, *given
        )

    given = layer, x[None], donors[None, None], weights, players, np.ones(1, np.int32), work
    high, low, ends, bad = (np.asarray(one, np.float64) for one in jax.jit(run)(*given))
    assert bad[0] == 0
    found = (high + low)[0] + ends[0, 0]
    near = ends[0, 1], ends[0, 3] - 1e-5, ends[0, 2] + 1e-5  # f(x) for one; bounds of all
    np.testing.assert_allclose(found[-1], near[0], rtol=0, atol=1e-4)
    assert ((found >= near[1]) & (found <= near[2])).all()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("F", [3, 12])
@pytest.mark.parametrize("head", some_slow([*HEADS, *SOFTMAXES], 4))
def test_means_are_those_of_the_definition(head: str, F: int) -> None:
    own, H = (HEADS | SOFTMAXES)[head], 1 if head in HEADS else 2
    layer, x, donors = problem(F, H)
    assert chances_of(layer, own, ROWS, jnp.float32, jnp.eye(F, dtype=bool)) is not None
    u, size = hidden_in_float64(layer, x, donors)
    # A sum is off by one rounding a term at the size of the terms, twice that where the head
    # doubles it; the chance by a quarter of it, and by some units of its exponentials.
    off = (2 * F * size.sum(axis=-1) + 16).max() * EPS
    wanted = in_float64(head, u).mean(axis=1)
    np.testing.assert_allclose(table(layer, x, donors, own), wanted, rtol=0, atol=off)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, TOGETHER - 1, TOGETHER, 2 * TOGETHER + 1])
def test_each_donor_counts_once(n: int) -> None:
    layer, x, donors = problem(4, 1, n)
    wanted = p(hidden_in_float64(layer, x, donors)[0]).mean(axis=1)
    found = table(layer, x, donors, jax.nn.sigmoid)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=256 * EPS)


@pytest.mark.slow
def test_a_tile_counts_the_blocks_that_it_asks_of_its_own_segment() -> None:
    """Each of two segments has three blocks of 32 donors; tiles ask one, two or all three."""
    P, D, S = 4, 3, 32
    layer, _, donors = problem(P, 1, 2 * D * S)
    x = np.float32(np.random.default_rng(1).normal(size=(2, P)))
    weights = np.random.default_rng(2).uniform(0.5, 1, (2, D, S)).astype(np.float32)
    work = np.array([[0, 0, 2], [1, 0, 3], [0, 1, 1], [1, 1, 2]], np.int32)
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:1]), ("tiles",))

    def run(params, *given):
        return mean_tables(
            lambda own: own,
            lambda own, u: jax.nn.sigmoid(u),
            None,
            jnp.isfinite,
            MeansShape(P, S, D, 1, "float32"),
            mesh,
            params,
            *given,
        )

    blocks = donors.reshape(2, D, S, P)
    given = layer, x, blocks, weights, None, np.full(1, len(work), np.int32), work
    high, low, ends, bad = (np.asarray(one, np.float64) for one in jax.jit(run)(*given))
    assert not bad.any()
    for tile, (n, segment, asked) in enumerate(work):
        own = weights[segment, :asked].ravel().astype(np.float64)
        chances = p(hidden_in_float64(layer, x[n], blocks[segment, :asked].reshape(-1, P))[0])
        found = (high + low)[tile] + ends[tile, 0] * own.sum()
        # 96 donors, each off by 256 units at most, as above.
        np.testing.assert_allclose(found, own @ chances, rtol=0, atol=256 * EPS * own.sum())


@pytest.mark.slow
def test_players_of_several_columns() -> None:
    layer, x, donors = problem(5, 1)
    players = np.array([1, 0, 1, 2, 0], np.int32)
    own = ((np.arange(8)[:, None] >> players) & 1 == 1).reshape(8, 5)
    places = (own << np.arange(5)).sum(axis=1)  # the sub-coalition of columns that keeps the same
    wanted = p(hidden_in_float64(layer, x, donors)[0]).mean(axis=1)[places]
    found = table(layer, x, donors, jax.nn.sigmoid, players)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=256 * EPS)


@pytest.mark.slow
def test_what_answers_have_in_common_rounds_nothing_off() -> None:
    layer, x, donors = problem(6, 1)
    found = table(layer, x, donors, lambda u: 1000 + 0.01 * jax.nn.sigmoid(u))
    wanted = 0.01 * p(hidden_in_float64(layer, x, donors)[0]).mean(axis=1)
    # By differences of answers near 1000 the changes would be off by 1000 EPS = 6e-5.
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], rtol=0, atol=256 * 0.01 * EPS)


@pytest.mark.parametrize("head", HEADS)
def test_it_is_the_head_that_it_was_made_of(head: str) -> None:
    hidden = jnp.linspace(-3, 3, ROWS)[:, None]
    found = logistic(HEADS[head], (ROWS, 1), jnp.float32)
    answers = found.answers(jax.nn.sigmoid(found.sums(hidden) + found.start))
    np.testing.assert_allclose(answers, HEADS[head](hidden), rtol=8 * EPS, atol=64 * EPS)


@pytest.mark.parametrize("head", OTHERS)
def test_another_head_is_not_taken_for_one(head: str) -> None:
    assert logistic(OTHERS[head], (ROWS, 1), jnp.float32) is None


@pytest.mark.parametrize("head", OTHER_SOFTMAXES)
def test_another_head_is_not_taken_for_a_softmax(head: str) -> None:
    assert logistic(OTHER_SOFTMAXES[head], (ROWS, 2), jnp.float32) is None


def test_three_classes_are_not_two() -> None:
    assert logistic(jax.nn.softmax, (ROWS, 3), jnp.float32) is None


def far_apart(scale: float) -> tuple[Dense, np.ndarray, np.ndarray]:
    """Terms of one sign in the low bits, of the other in the high ones: sums of both are small."""
    layer = Dense(jnp.ones((6, 1), jnp.float32), jnp.full(1, 0.25, jnp.float32))
    x = np.where(np.arange(6) < 3, scale, -scale).astype(np.float32)
    return layer, x, np.random.default_rng(0).normal(size=(B, 6)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 20.0, 30.0, 200.0, 1e6])
def test_sums_beyond_the_exponentials_range_are_right(scale: float) -> None:
    layer, x, donors = far_apart(scale)
    found = table(layer, x, donors, jax.nn.sigmoid)
    # A chance is off by a quarter of its sum, which is off by a rounding a term.
    off = (6 * 6 * scale / 4 + 32) * EPS
    wanted = p(hidden_in_float64(layer, x, donors)[0]).mean(axis=1)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=off)


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_beyond_the_range(value: float) -> None:
    layer, x, donors = far_apart(1.0)
    chances = chances_of(layer, jax.nn.sigmoid, ROWS, jnp.float32, jnp.eye(6, dtype=bool))
    assert chances is not None

    def reach(x: np.ndarray, donors: np.ndarray) -> bool:
        return bool(chances.reach(chances.terms(x[None])[0], chances.terms(donors)))

    assert reach(x, donors)
    for spoilt, own in ((x, 2), (donors, (1, 3))):
        beyond = spoilt.copy()
        beyond[own] = value
        assert not reach(*((beyond, donors) if spoilt is x else (x, beyond)))


@pytest.mark.slow
def test_the_range_is_that_of_the_terms_and_not_of_their_sum() -> None:
    layer, x, donors = far_apart(20.0)  # 120 in all, of which float32 has no exponential
    chances = chances_of(layer, jax.nn.sigmoid, ROWS, jnp.float32, jnp.eye(6, dtype=bool))
    assert chances is not None and abs(float(x.sum())) == 0
    assert not chances.reach(chances.terms(x[None])[0], chances.terms(donors))


def test_no_subset_has_an_exponential_of_its_own() -> None:
    """Else nothing is gained: exponentials are of tables."""
    layer, x, donors = problem(12, 1)
    chances = chances_of(layer, HEADS["chances"], ROWS, jnp.float32, jnp.eye(12, dtype=bool))
    assert chances is not None

    def means(x: jax.Array, donors: jax.Array) -> jax.Array:
        given = chances.terms(x[None])[0], chances.terms(donors), jnp.ones(B)
        return chances.means(*given, jnp.int32(B))[0]

    sizes = [
        size
        for name, size in _steps(jax.make_jaxpr(means)(x, donors).jaxpr)
        if name in ("logistic", "exp")
    ]
    assert sizes and max(sizes) <= TOGETHER << 6


def _steps(jaxpr):
    """(name, size) of all steps."""
    for step in jaxpr.eqns:
        yield step.primitive.name, max(v.aval.size for v in step.outvars)
        for value in step.params.values():
            for one in value if isinstance(value, tuple) else (value,):
                if hasattr(one, "jaxpr"):
                    yield from _steps(one.jaxpr)
