"""The agreement quotient and the row stream, against loops."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import Mesh

from xaijax_kernels.engine import lattice, tables
from xaijax_kernels.engine.hybrids import ABSENT, hybrid_rows, hybrids_by_subset, ranks
from xaijax_kernels.engine.tiles import TileShape, run_tiles, weights_of, widest_layer
from xaijax_kernels.sizes import TILES_PER_DISPATCH, rows_of_wide, tile_rows, tiles_of_dispatch


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    k=st.lists(st.integers(0, 6), min_size=1, max_size=30),
    slot_bits=st.integers(0, 3),
    each=st.sampled_from([16, 64, 128, 1024]),
)
def test_the_stream_holds_every_subset_of_every_pair_once(k, slot_bits, each):
    P = 7
    M = len(k)
    differs = np.zeros((M, P), bool)
    rng = np.random.default_rng(sum(k))
    for m, size in enumerate(k):
        differs[m, rng.permutation(P)[:size]] = True
    pairs = lattice.pack(np.arange(M), np.arange(M) + 100, differs, slot_bits)
    assert pairs.distinct_rows == sum(2**size for size in k)
    assert (pairs.start[:-1] % (1 << np.maximum(pairs.k, slot_bits)) == 0).all()
    assert (pairs.start_as_given[pairs.order] == pairs.start[:-1]).all()
    seen: dict[int, list[int]] = {m: [] for m in range(M)}
    for piece in pairs.dispatches(each):
        assert len(piece.slots) << slot_bits == piece.rows <= each
        for first, m, donor, *words in piece.slots.tolist():
            assert donor == m + 100
            seen[m] += range(first, first + (1 << slot_bits))
            bits = sum(1 << int(p) for p in np.flatnonzero(differs[m]))
            assert words == [bits]
        covered = [
            (k_, lo, hi)
            for k_, lo, hi in lattice.runs_of_equal_k(
                pairs, piece.first_row, piece.first_row + piece.rows
            )
        ]
        assert all((pairs.k[lo:hi] == k_).all() for k_, lo, hi in covered)
        assert sum(hi - lo for _, lo, hi in covered) == len(set(piece.slots[:, 1].tolist()))
    for m, size in enumerate(k):
        assert sorted(seen[m]) == list(range(1 << max(size, slot_bits)))


@pytest.mark.slow
@pytest.mark.parametrize("P", [5, 40])
def test_hybrid_rows_keep_what_the_subset_says(P):
    """Subset c of a pair keeps the j-th differing player where bit j of c is set."""
    rng = np.random.default_rng(P)
    x, donors = rng.normal(size=(3, P)), rng.normal(size=(2, P))
    differs = np.zeros((2, P), bool)
    differs[0, [0, 2, P - 1]] = True
    differs[1, [1, P - 2]] = True
    for m, (n, b) in enumerate([(2, 1), (0, 0)]):
        x[n, ~differs[m]] = donors[b, ~differs[m]]
    words = lattice.player_words(differs)
    slots = np.column_stack(
        [np.int32([[0, 2, 1], [4, 2, 1], [0, 0, 0]]), words[[0, 0, 1]].view(np.int32)]
    )
    got = np.asarray(hybrid_rows(jnp.float32(x), jnp.float32(donors), None, P, 2, slots)).reshape(
        3, 4, P
    )
    x, donors = np.float32(x), np.float32(donors)
    for slot, (n, b, first, members) in enumerate(
        [(2, 1, 0, [0, 2, P - 1]), (2, 1, 4, [0, 2, P - 1]), (0, 0, 0, [1, P - 2])]
    ):
        for r in range(4):
            row = donors[b].copy()
            for j, player in enumerate(members):
                if (first + r) >> j & 1:
                    row[player] = x[n, player]
            np.testing.assert_array_equal(got[slot, r], row)


@pytest.mark.slow
@pytest.mark.parametrize("players", [None, [1, 1, -1, 0, -2]])
def test_a_tpu_has_the_same_rows_and_answers(players):
    """Those of all slots for one sub-coalition after the other; columns of one player each, or of
    some players, always kept and never. Scores that look at f(x) see that of their own instance.
    """
    rng, P, F, S = np.random.default_rng(0), 5 if players is None else 2, 5, 6
    x, donors = (rng.normal(size=(n, F)).astype(np.float32) for n in (3, 4))
    words = lattice.player_words(rng.random((S, P)) < 0.7)
    at = rng.integers(0, 2, S) * 4, rng.integers(0, 3, S), rng.integers(0, 4, S)
    slots = np.column_stack([*at, words.view(np.int32)]).astype(np.int32)
    players = None if players is None else jnp.asarray(players)
    given = x, donors, players, P, 2, jnp.asarray(slots)
    rows = np.asarray(hybrid_rows(*given)).reshape(S, 4, F)
    by_subset = np.asarray(hybrids_by_subset(*given)).reshape(4, S, F)
    np.testing.assert_array_equal(by_subset.swapaxes(0, 1), rows)
    own = rng.normal(size=(3, 1)).astype(np.float32)
    found = []
    for platform in ("cpu", "tpu"):
        mesh = SimpleNamespace(size=1, devices=np.array([SimpleNamespace(platform=platform)]))
        run = partial(
            run_tiles,
            lambda params, rows: rows @ params,
            TileShape((F,), P, 2, S, 1, "float32"),
            mesh,
            score=lambda out, mine: out * mine,
        )
        params, count = np.arange(1, F + 1, dtype=np.float32)[:, None], np.ones(1, np.int32)
        found.append(jax.jit(run)(params, *given[:3], count, slots[None], reference=own))
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6, atol=1e-6)
    assert not found[1][1].any()


@pytest.mark.slow
def test_ranks_on_the_device_are_the_hosts():
    differs = np.random.default_rng(0).random((9, 40)) < 0.4
    on_device = np.asarray(ranks(jnp.asarray(lattice.player_words(differs)), 40))
    np.testing.assert_array_equal(on_device, tables.host_ranks(differs))
    assert (on_device[~differs] == ABSENT).all()


@pytest.mark.parametrize("equal", [False, True])
@pytest.mark.parametrize("together", [1, tables._TOGETHER])
@pytest.mark.parametrize("P", [1, 2, 5, 6])
def test_tables_are_made_of_the_subsets(P, together, equal, monkeypatch):
    """Donors with the same players that differ, and others, in one table, or one after another."""
    monkeypatch.setattr(tables, "_TOGETHER", together)
    rng = np.random.default_rng(1)
    N, B = 3, 9
    differs = rng.random((N, B, P)) < 0.5
    rank = tables.host_ranks(differs)
    sizes = 1 << differs.sum(axis=2)
    start = np.cumsum(sizes.reshape(-1)).reshape(N, B) - sizes
    values = rng.normal(size=(int(sizes.sum()), 2))
    weights = np.full(B, 0.7) if equal else rng.random(B)
    expected = np.zeros((N, 1 << P, 2))
    for n in range(N):
        for S in range(1 << P):
            for b in range(B):
                subset = sum(
                    1 << int(rank[n, b, p]) for p in range(P) if S >> p & 1 and differs[n, b, p]
                )
                expected[n, S] += weights[b] * values[start[n, b] + subset]
    # Sums of nine products below 4 in float64.
    found = tables.tables_of_pairs(values, start, differs, weights)
    np.testing.assert_allclose(found, expected, rtol=0, atol=9 * 9 * 4 * 2.0**-52)
    alone = tables.tables_of_pairs(values, start[1:2], differs[1:2], weights)
    np.testing.assert_array_equal(alone[0], found[1])


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu", "rocm"])
def test_tile_is_a_power_of_two_within_bounds(platform):
    for width in (1, 12, 64, 784, 10**6):
        rows = tile_rows(width, 4, platform)
        assert rows & (rows - 1) == 0 and 256 <= rows <= 1 << 17
        assert rows == tile_rows(width, 4, platform)
    assert tile_rows(64, 4, "cpu") == 16384


@pytest.mark.parametrize("operations", [0.0, 1.0, 1e4, 1e7, 1e12])
@pytest.mark.parametrize("width", [1, 64, 4096])
def test_a_turn_of_a_gpu_is_a_turns_worth_of_operations(operations, width):
    for platform in ("cpu", "tpu"):
        rows = tile_rows(width, 4, platform, operations)
        assert rows == tile_rows(width, 4, platform)
        tiles = tiles_of_dispatch(rows, operations, platform)
        # A CPU's dispatch ends soon, as Ctrl-C waits for it.
        short = platform == "cpu" and 32 * rows * operations > 4e10
        assert tiles == TILES_PER_DISPATCH or short
        assert not short or tiles == 1 or tiles * rows * operations <= 4e10
    rows = tile_rows(width, 4, "gpu", operations)
    least, most = tile_rows(width, 4, "gpu"), 1 << 19
    assert rows & (rows - 1) == 0 and least <= rows <= most
    if operations:
        # Enough of them, unless no tile has; and no more rows than it takes.
        assert rows * operations >= 4e9 or rows == most
        assert rows == least or rows / 2 * operations < 4e9
    tiles = tiles_of_dispatch(rows, operations, "gpu")
    assert 1 <= tiles <= TILES_PER_DISPATCH
    # All turns of a dispatch are made: those of a costly model are few, and hide the start still.
    if operations:
        assert tiles == TILES_PER_DISPATCH or tiles * rows * operations >= TILES_PER_DISPATCH * 2e9
        assert tiles == 1 or (tiles - 1) * rows * operations < TILES_PER_DISPATCH * 2e9


@pytest.mark.parametrize(
    "rows, width, weights, platform, expected",
    [
        (256, 2_048, 0, "cpu", 256),  # 2^19 numbers
        (256, 2_049, 0, "cpu", 128),
        (256, 8_192, 5_000, "cpu", 64),
        (256, 10**6, 0, "cpu", 32),
        (256, 8_192, 1 << 20, "cpu", 256),  # the weights are as many as half of the numbers
        (256, 8_192, 1 << 18, "cpu", 64),
        (512, 8_192, 0, "cpu", 512),  # not by this: it was chosen
        (256, 8_192, 5_000, "gpu", 256),
    ],
)
def test_tiles_of_wide_rows(rows, width, weights, platform, expected):
    assert rows_of_wide(rows, width, weights, 4, platform) == expected
    assert rows_of_wide(rows, width // 2, weights // 2, 8, platform) in (expected, 2 * expected)


def test_weights_are_those_of_parameters_and_constants():
    table = jnp.ones((7, 3))

    def model(params, x):
        return jax.jit(lambda y: y @ params["w"])(x) @ table

    rows = jax.ShapeDtypeStruct((32, 5), jnp.float32)
    params = {"w": jnp.ones((5, 7)), "not read": jnp.ones(2)}
    assert weights_of(jax.make_jaxpr(model)(params, rows).jaxpr) in (
        37,
        58,
    )  # constants are inlined


def test_widest_layer_sees_into_inner_functions():
    def model(x):
        return jax.jit(lambda y: jnp.tile(y, (1, 50)).sum(axis=1))(x)

    jaxpr = jax.make_jaxpr(model)(jnp.zeros((32, 4))).jaxpr
    assert widest_layer(jaxpr, 32) == 200


H = 256
SQUARE = jax.ShapeDtypeStruct((H, H), jnp.float32)
MASK = np.tri(H, dtype=np.float32)


@jax.custom_jvp
def _halved(w):
    return jnp.abs(w) / 2


_halved.defjvp(lambda given, slopes: (_halved(*given), slopes[0] / 2))

# Weights made of the parameters, each in another kind of step.
OF_WEIGHTS = {
    "as they are": lambda w, x: w,
    "masked": lambda w, x: w * MASK,
    "made mask": lambda w, x: jnp.tril(w),
    "rounded": lambda w, x: jax.lax.reduce_precision(w, exponent_bits=8, mantissa_bits=7),
    "jitted": lambda w, x: jax.jit(lambda v, y: (v * 2, y + 1))(w, x)[0],
    "scan": lambda w, x: jax.lax.scan(lambda c, m: (c * m, x[:, 0]), w, jnp.ones(3))[0],
    "while": lambda w, x: jax.lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 2, s[2] + x), (0, w, 0 * x)
    )[1],
    "cond": lambda w, x: jax.lax.cond(w[0, 0] > 0, lambda v, y: v, lambda v, y: -v, w, x),
    "custom_jvp": lambda w, x: _halved(w),
    "checkpoint": lambda w, x: jax.checkpoint(lambda v, y: v * 2)(w, x),
}


def _width(model, *params, columns=H):
    rows = jax.ShapeDtypeStruct((32, columns), jnp.float32)
    return widest_layer(jax.make_jaxpr(model)(*params, rows).jaxpr, 32)


@pytest.mark.parametrize("kind", OF_WEIGHTS)
def test_what_is_made_of_parameters_has_no_width(kind):
    """The broken version: H H numbers for 32 rows counted as a width of H H / 32."""
    assert _width(lambda w, x: x @ OF_WEIGHTS[kind](w, x), SQUARE) == H


# Numbers of rows, which are H H / 32 = 2,048 wide and stay so.
OF_ROWS = {
    "zeros": lambda w, x: x + jnp.zeros((len(x), 8 * H)).sum(axis=1, keepdims=True),
    "repeated": lambda w, x: jnp.broadcast_to(w[:8], (len(x), 8, H)).sum(axis=1) + x,
    "flat": lambda w, x: jnp.ones((len(x) * 3 * 8, H)).reshape(len(x), -1)[:, :H] * x,
    "carried": lambda w, x: jax.lax.fori_loop(
        0, 3, lambda i, c: (c[0] * c[1].sum(), x[:, 0]), (w, w[:32, 0])
    )[0],
    "turns": lambda w, x: jax.lax.while_loop(
        lambda s: s[0] < x[0, 0], lambda s: (s[0] + 1, s[1] * 2), (0.0, w)
    )[1],
    "branches": lambda w, x: jax.lax.cond(x[0, 0] > 0, lambda v: v, lambda v: -v, w),
    "in a branch": lambda w, x: jax.lax.cond(
        x[0, 0] > 0, lambda v: v, lambda v: jnp.tile(v, (1, 8))[:, :H], x
    ),
    "condition": lambda w, x: jax.lax.while_loop(
        lambda s: jnp.tile(s, (1, 8)).sum() < 0, lambda s: s + 1, x
    ),
}


@pytest.mark.parametrize("kind", OF_ROWS)
def test_what_may_grow_with_rows_has_its_width(kind):
    assert _width(OF_ROWS[kind], SQUARE) == (3 if kind == "flat" else 1) * 8 * H


def test_run_tiles_stops_after_the_tiles_it_is_told(monkeypatch):
    """Tiles past the count stay zero: no model time is spent on them."""

    shape = TileShape((2,), 2, 2, 4, 1, "float32")
    mesh = Mesh(np.array(jax.devices()[:1]), ("tiles",))
    slots = np.broadcast_to(np.int32([0, 0, 0, 3]), (3, 4, 4))
    values, bad = run_tiles(
        lambda params, rows: rows.sum(axis=1, keepdims=True) + params,
        shape,
        mesh,
        jnp.float32(1.0),
        jnp.ones((1, 2)),
        jnp.zeros((1, 2)),
        None,
        np.int32([2]),
        slots,
    )
    assert values.shape == (3, 16, 1)
    np.testing.assert_array_equal(np.asarray(values)[:2, :4, 0], [[1, 2, 2, 3]] * 2)
    assert (np.asarray(values)[2] == 0).all() and (np.asarray(bad) == 0).all()
