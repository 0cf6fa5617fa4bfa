"""Every layer has all members of `Layer`, of the shapes and the meaning that it promises.

Letters: as in `xaijax_kernels.structures.base`.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import partial
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow
from structured_kernels import (
    LAYER,
    STRUCTURES,
    H,
    K,
    L,
    P,
    boxes,
    dense_layer,
    f32,
    i32,
    recurrence,
)

from xaijax.players.index import shapley_weights
from xaijax_kernels import sizes, structures
from xaijax_kernels.engine.tiles import TileShape, run_tiles
from xaijax_kernels.structures import factors, sums
from xaijax_kernels.structures import named as product
from xaijax_kernels.structures.base import (
    VECTORS,
    Affine,
    Columnwise,
    Layer,
    WeightedDonors,
    largest,
)
from xaijax_kernels.structures.sums import Dense

S, BITS, R = 4, 3, 6
DEFAULT = {"dense", "scans", "by_columns", "level", "columns", "of_columns", "closed_form"}
DEFAULT |= {"compares", "forest", "whole"}
DEFAULT |= {"prepares", "prepared", "prepared_subsets"}  # of sums of products alone
DEFAULT |= {"lists", "at_sets"}  # of trees
MEMBERS = {name for name in vars(Layer) if not name.startswith("_")}
# A hundred roundings of float32, of sums of at most 2 P terms of a size of about one.
CLOSE = {"rtol": 0, "atol": 1e-5}


def squares(of: Any) -> Any:
    """A layer of two columns made of each but the first, which none is made of, and of a one."""

    def made(params: Any, rows: jax.Array) -> jax.Array:
        del params
        return jnp.concatenate([jnp.ones((len(rows), 1)), rows[:, 1:], rows[:, 1:] ** 2], axis=1)

    own = tuple(range(1, P))
    return lambda params: Columnwise(of(params), params, made, (-1, *own, *own))


C = 2 * P - 1
CASES: dict[str, tuple[Any, Any]] = {of.__name__: (of, params) for of, _, params, _ in STRUCTURES}
CASES |= {
    "squares, dense_layer": (squares(dense_layer), (f32(C, H), f32(H))),
    "squares, boxes": (squares(boxes), (f32(L, C), f32(L, C), f32(L, K), f32(K))),
    "recurrence": (recurrence, LAYER),
}


def layer(name: str) -> Layer:
    of, shapes = CASES[name]
    rng = np.random.default_rng(0)
    params = [jnp.asarray(rng.normal(size=one.shape) / 2, jnp.float32) for one in shapes]
    if name.endswith("gaussians"):
        params[1] = jnp.abs(params[1])
    if name.endswith("boxes"):  # some hold most rows
        params[0] = -jnp.abs(params[0])
        params[1] = params[0] + 1.5
    return of(params)


def rows(seed: int, n: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).random((n, P)), jnp.float32)


def missing(one: type) -> set[str]:
    """Members without a default that a layer does not have itself."""
    return {name for name in MEMBERS - DEFAULT if getattr(one, name) is getattr(Layer, name)}


def leaves(one: type) -> set[type]:
    """The classes below it that have none below them."""
    below = one.__subclasses__()
    return {leaf for each in below for leaf in leaves(each)} if below else {one}


def whole(known: Layer, X: jax.Array, other: jax.Array, kept: jax.Array) -> np.ndarray:
    """The layer [R, H] of hybrids of rows [R, F], by their parts."""
    own = known.of_columns(kept)
    parts = known.part(known.columns(X), own), known.part(known.columns(other), ~own)
    return np.asarray(jax.vmap(lambda a, b: known.joined(a[None], b[None])[0, 0])(*parts))


def test_no_layer_is_left_out() -> None:
    for module in pkgutil.iter_modules(structures.__path__):
        importlib.import_module(f"{structures.__name__}.{module.name}")
    own = {one for one in leaves(Layer) if one.__module__.startswith("xaijax_kernels.")}
    assert own == {type(layer(name)) for name in CASES}


def test_every_member_says_what_it_is() -> None:
    assert MEMBERS > DEFAULT
    assert all(inspect.getdoc(getattr(Layer, name)) for name in MEMBERS)


def test_a_member_that_is_missing_is_found() -> None:
    class Lacking(Layer):
        def work(self) -> float:
            return 0.0

    assert "joined" in missing(Lacking) and "work" not in missing(Lacking)


@pytest.mark.parametrize("name", some_slow(CASES, 3))
def test_sizes(name: str) -> None:
    known = jax.eval_shape(partial(layer, name))  # as the engine asks for them: arrays are shapes
    assert not missing(type(known))
    assert isinstance(known.name, str) and known.name
    assert known.work() >= 0  # walked trees save nothing
    assert list(known.slot_bits) == sorted(set(known.slot_bits))
    for platform in ("cpu", "gpu", "tpu"):
        assert known.block(1 << 12, platform) in {1 << bits for bits in range(13)}
    assert known.parts == known.width or not known.adds
    assert not known.scans or known.dense is not None
    if known.dense is not None:
        weights, bias = known.dense
        width = (known.width,)
        assert (weights.shape[1:], bias.shape, known.adds) == (width, width, True)


@pytest.mark.parametrize("name", some_slow(CASES, 3))
def test_parts(name: str) -> None:
    known, X, other = layer(name), rows(1, R), rows(2, R)
    columns = known.columns(X)
    everything = jnp.ones(columns.shape, bool)
    some = known.of_columns(jnp.asarray(np.random.default_rng(3).random((R, P)) < 0.5))
    assert some.shape == columns.shape and columns.shape[0] == R
    assert known.of_columns(np.arange(P)).shape == columns.shape[1:]
    one, rest, nothing = (
        known.part(columns, some),
        known.part(columns, ~some),
        known.nothing(R, X.dtype),
    )
    assert {a.shape for a in (one, rest, nothing)} == {(R, known.parts)}
    np.testing.assert_array_equal(known.part(columns, ~everything), nothing)
    np.testing.assert_array_equal(known.both(one, nothing), one)
    both = known.both(one, rest)
    np.testing.assert_allclose(both, known.part(columns, everything), **CLOSE)
    joined = known.joined(one, known.part(known.columns(other), ~some)[:2])
    assert joined.shape == (R, 2, known.width)
    if known.adds:
        np.testing.assert_array_equal(both, one + rest)
    if known.dense is not None:
        weights, bias = known.dense
        found = known.joined(both, nothing[:1])[:, 0]
        np.testing.assert_allclose(found, columns @ weights + bias, **CLOSE)
    assert largest(known, X).shape == (R,)


@pytest.mark.parametrize("name", ["gaussians", "boxes", "squares, boxes"])
def test_parts_in_blocks_of_rows_are_those_of_each_row(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more numbers than a core's cache holds. A part has one factor a column and no sum whose
    order could change: equal bits.
    """
    known, X = layer(name), rows(1, 3 * product.FEW_ROWS)
    own = known.of_columns(jnp.asarray(np.random.default_rng(3).random(X.shape) < 0.5))
    columns = known.columns(X)
    whole_part = known.part(columns, own)
    monkeypatch.setattr(product, "NUMBERS_OF_PARTS", known.parts)
    np.testing.assert_array_equal(known.part(columns, own), whole_part)
    jaxpr = jax.make_jaxpr(known.part)(columns, own)
    assert [one.params["length"] for one in jaxpr.eqns if one.primitive.name == "scan"] == [3]


def by_place(function: Any) -> Any:
    """The function as a compiled loop may round it: the end behind whole vectors in another way."""

    def of(numbers: jax.Array) -> jax.Array:
        flat = function(numbers).ravel()
        whole = flat.size // VECTORS * VECTORS
        return jnp.where(jnp.arange(flat.size) < whole, flat, flat + 1).reshape(numbers.shape)

    return of


@pytest.mark.parametrize("count", [2, 3, 16, 17, 47])
@pytest.mark.parametrize("length", [R, 7, VECTORS])
def test_a_function_of_numbers_rounds_none_by_its_place(
    length: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of blocks whose length is no multiple of a vector, on a processor that rounds their ends."""
    rng = np.random.default_rng(0)
    X = jnp.asarray(rng.random((48, length)), jnp.float32)
    dense = dense_layer((jnp.ones((length, H)), jnp.zeros(H)))
    log = by_place(jnp.log1p)
    layer = Columnwise(dense, (), lambda _, rows: log(rows), tuple(range(length)))
    np.testing.assert_array_equal(layer.columns(X[:count]), layer.columns(X)[:count])
    monkeypatch.setattr(jnp, "exp", by_place(jnp.exp))
    unit = factors.Gaussians(jnp.zeros((length, 1)), jnp.ones(())).unit
    np.testing.assert_array_equal(unit(X[:count]), unit(X)[:count])
    np.testing.assert_array_equal(unit(X[count]), unit(X)[count])


@pytest.mark.parametrize("count", [1, 2, sums.TOGETHER, sums.TOGETHER + 1])
def test_few_choices_are_added_one_after_another(count: int) -> None:
    """In float32, each after those before it: by one step or two, the same bits."""
    rng = np.random.default_rng(0)
    start = rng.normal(size=(S, 1, H)).astype(np.float32)
    choices = rng.normal(size=(S, count, 2, H)).astype(np.float32)
    wanted = np.repeat(start, 1 << count, axis=1)
    for i in range(count):
        wanted += choices[:, i, (np.arange(1 << count) >> i) & 1]
    got = jax.jit(sums.sums_of_choices)(start, choices)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("name", some_slow(CASES, 3))
def test_subsets(name: str, platform: str) -> None:
    known, x, donors = layer(name), rows(1, S), rows(2, S)
    order = np.stack([np.random.default_rng(n).permutation(P) for n in range(S)])
    kept = np.zeros((S, BITS + 1, P), bool)
    for n in range(S):
        kept[n, np.arange(BITS), order[n, :BITS]] = True
        kept[n, BITS, order[n, BITS]] = True  # by all sub-coalitions of the slot
    asked = []

    def head(hidden: jax.Array) -> jax.Array:
        asked.append(hidden.shape)
        return jnp.sin(hidden)

    got = known.subsets(head, x, donors, jnp.asarray(kept), platform)
    bits = (np.arange(1 << BITS)[:, None] >> np.arange(BITS)) & 1
    masks = (np.einsum("ct,stf->scf", bits, kept[:, :BITS]) > 0) | kept[:, BITS:]
    pairs = [jnp.repeat(a, 1 << BITS, axis=0) for a in (x, donors)]
    wanted = np.sin(whole(known, *pairs, jnp.asarray(masks.reshape(-1, P))))
    np.testing.assert_allclose(got, wanted, **CLOSE)
    assert set(asked) == {(known.block(S << BITS, platform, BITS), known.width)}


def test_the_block_of_the_head_is_that_of_the_platform() -> None:
    rows = {width: sizes.head_rows(width, "cpu") for width in (1, 64, 100, 1 << 15)}
    assert rows == {1: 16384, 64: 256, 100: 128, 1 << 15: 1}  # half of a core's fast memory
    assert [sizes.head_rows(64, one) for one in ("gpu", "tpu", "rocm")] == [98304] * 3


@pytest.mark.parametrize(
    ("rows", "most", "bits", "expected"),
    [
        (1 << 18, 98304, 6, 1 << 16),  # full slots, in blocks of equal size
        (100 << 12, 98304, 12, 20 << 12),
        (101 << 12, 98304, 12, 1 << 12),  # a prime number of slots
        (3 << 18, 98304, 18, 1 << 16),  # parts of a slot
        (96, 98304, 4, 96),
    ],
)
def test_blocks_are_equal_and_cut_no_slot(rows: int, most: int, bits: int, expected: int) -> None:
    assert sizes.blocks_of(rows, most, bits) == expected


def test_a_prime_number_of_donors_costs_what_the_number_before_does() -> None:
    """The broken version took a divisor: 1 of 101 pairs a turn."""
    terms, players = 2_000, 12
    together = [sizes.pairs_together(terms, players, "gpu", pairs) for pairs in (100, 101, 103)]
    turns = [-(-pairs // each) for pairs, each in zip((100, 101, 103), together, strict=True)]
    assert max(turns) - min(turns) <= 1 and min(together) > 10
    assert [sizes.pairs_together(terms, players, "cpu", pairs) for pairs in (100, 101)] == [2, 1]
    assert [sizes.trees_together(1 << 20, trees) for trees in (96, 97)] == [16, 14]


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
@pytest.mark.parametrize(
    ("bits", "slots", "block"),
    [(0, 4, 2), (1, 8, 16), (3, 8, 16), (6, 8, 128), (7, 4, 256), (9, 6, 1536), (9, 6, 128)],
)
def test_tables_of_a_gpu_and_a_tpu(bits: int, slots: int, block: int, platform: str) -> None:
    """Blocks of all slots, of some, and of parts of one; columns of several players, kept by all
    sub-coalitions of a slot, and by none.
    """
    rng, F = np.random.default_rng(bits), 12
    W, b = rng.normal(size=(F, H)).astype(np.float32), rng.normal(size=H).astype(np.float32)
    x, donors = (rng.normal(size=(slots, F)).astype(np.float32) for _ in range(2))
    kept = np.zeros((slots, bits + 1, F), bool)
    for own in kept:  # the bits' columns, then some of a bit again, always kept, or never
        column = rng.permutation(F)
        own[np.arange(bits), column[:bits]] = True
        bit = rng.integers(-1, bits + 1, F - bits)
        own[bit[bit >= 0], column[bits:][bit >= 0]] = True
    asked = set()

    def head(hidden: jax.Array) -> jax.Array:
        asked.add(hidden.shape)
        return jnp.sin(hidden)

    rows_of = jnp.asarray(x), jnp.asarray(donors), jnp.asarray(kept)
    layer = Dense(jnp.asarray(W), jnp.asarray(b))
    found = layer._at_once(block, head, *rows_of, platform)
    subset = (np.arange(1 << bits)[:, None] >> np.arange(bits)) & 1
    masks = np.einsum("ct,stf->scf", subset, kept[:, :bits]) + kept[:, bits:] > 0
    hybrids = np.where(masks, x[:, None], donors[:, None]).reshape(-1, F).astype(float)
    np.testing.assert_allclose(found, np.sin(hybrids @ W + b), rtol=0, atol=4e-6)
    assert asked == {(block, H)}


@pytest.mark.slow
@pytest.mark.parametrize(("platform", "turns"), [("cpu", 16), ("cuda", 1), ("tpu", 1)])
def test_a_gpu_and_a_tpu_take_a_tile_at_once(platform: str, turns: int) -> None:
    width, slots = 64, 64  # of 2^6 sub-coalitions: 4,096 rows
    known = Dense(jnp.ones((P, width)), jnp.zeros(width))

    def subsets(*given: Any) -> Any:
        return known.subsets(jnp.sin, *given, "gpu" if platform == "cuda" else platform)

    given = f32(slots, P), f32(slots, P), jax.ShapeDtypeStruct((slots, 7, P), bool)
    traced = jax.jit(subsets).trace(*given)
    loops = [one.params["length"] for one in traced.jaxpr.eqns if one.primitive.name == "scan"]
    assert loops == ([turns] if turns > 1 else [])
    text = traced.lower(lowering_platforms=(platform,)).as_text()
    assert text.count("stablehlo.while") == len(loops)
    kept = np.random.default_rng(0).random((slots, 7, P)) < 0.2
    kept &= np.cumsum(kept, axis=1) == 1  # each column is kept by one bit at most
    numbers = rows(1, slots), rows(2, slots), jnp.asarray(kept)
    # Sums of the same P terms in the same order: only a fused sine may round otherwise.
    wanted = known.subsets(jnp.sin, *numbers, "cpu")
    np.testing.assert_allclose(jax.jit(subsets)(*numbers), wanted, rtol=0, atol=2e-6)


def test_a_program_asks_for_the_platform_of_its_mesh() -> None:
    width, slots = 64, 64
    shape = TileShape((P,), P, 6, slots, 1, "float32")
    asked = []

    def head(params: Any, hidden: jax.Array) -> jax.Array:
        asked.append(len(hidden))
        return hidden[:, :1]

    for platform in ("cpu", "gpu", "tpu"):
        devices = np.array([SimpleNamespace(platform=platform)])
        mesh: Any = SimpleNamespace(size=1, devices=devices)  # of one device no more is read
        run = partial(run_tiles, head, shape, mesh, structure=lambda params: Dense(*params))
        asked.clear()
        params = f32(P, width), f32(width)
        jax.eval_shape(run, params, f32(3, P), f32(5, P), None, i32(1), i32(2, slots, 4))
        assert set(asked) == {256 if platform == "cpu" else 4096}


@pytest.mark.parametrize(
    ("platform", "leaves"), [("cpu", L), ("cpu", 2), ("cpu", 1), ("gpu", L), ("tpu", L)]
)
@pytest.mark.parametrize("name", some_slow(CASES, 3))
def test_subsets_of_what_is_prepared(
    name: str, platform: str, leaves: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On an accelerator pairs are taken three at a time; the last turn is filled up."""
    if not layer(name).prepares(platform):
        assert name in ("walked", "recurrence") or (platform == "cpu" and layer(name).adds)
        return
    monkeypatch.setattr(sizes, "LEAVES", leaves)  # taken together: several turns of a loop
    if platform != "cpu":
        assert S % 3
        monkeypatch.setattr(product, "pairs_together", lambda *_: 3)
    known, x, donors = layer(name), rows(1, 1), rows(2, S)
    player = np.asarray([0, 1, 2, 1, 0])  # three players of five columns
    own = known.of_columns(jnp.asarray(player == np.arange(3)[:, None]))
    of_x, of_donors = (
        known.prepared(known.columns(one), own, one is x, platform) for one in (x, donors)
    )
    got = known.prepared_subsets(jnp.sin, 3, of_x[0], of_donors, platform)
    masks = ((np.arange(8)[:, None] >> np.arange(3)) & 1)[:, player] > 0
    pairs = jnp.repeat(x, S << 3, axis=0), jnp.repeat(donors, 1 << 3, axis=0)
    wanted = np.sin(whole(known, *pairs, jnp.asarray(np.tile(masks, (S, 1)))))
    np.testing.assert_allclose(got, wanted, **CLOSE)


@pytest.mark.parametrize("platform", ["cpu", "gpu", "tpu"])
@pytest.mark.parametrize("name", some_slow(CASES, 3))
def test_listed_sets_of_what_is_prepared(
    name: str, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three players of five columns, past 32 players without columns: bits of a second word."""
    known, x, donors = layer(name), rows(1, 1), rows(2, S)
    if not known.lists:
        return
    assert name.endswith("boxes")
    monkeypatch.setattr(sizes, "LEAVES", 2)  # several turns of a loop
    player = 32 + np.asarray([0, 1, 2, 1, 0])
    own = known.of_columns(jnp.asarray(player == np.arange(35)[:, None]))
    of_x, of_donors = (
        known.prepared(known.columns(one), own, one is x, platform) for one in (x, donors)
    )
    assert of_donors.shape == (S, 2, known.parts) and of_donors.dtype == jnp.uint32
    sets = np.stack([np.full(8, 5), np.arange(8)], axis=1).astype(np.uint32)
    got = known.at_sets(of_x[0], of_donors, jnp.asarray(sets), platform)
    masks = ((np.arange(8)[:, None] >> np.arange(3)) & 1)[:, player - 32] > 0
    pairs = jnp.repeat(x, S << 3, axis=0), jnp.repeat(donors, 1 << 3, axis=0)
    wanted = whole(known, *pairs, jnp.asarray(np.tile(masks, (S, 1))))
    np.testing.assert_allclose(got.reshape(S << 3, -1), wanted, **CLOSE)


class Shapley:
    """The weights of Shapley's values."""

    order = 1

    def __call__(self, k: int) -> list[np.ndarray]:
        return [shapley_weights(k)] if k else []


@pytest.mark.parametrize("name", some_slow(CASES, 3))
def test_a_closed_form_adds_up(name: str) -> None:
    known, X, donors = layer(name), rows(1, R), rows(2, S)
    weights = np.arange(1.0, S + 1) / np.arange(1.0, S + 1).sum()
    players = known.of_columns(np.arange(P))
    head: Affine = (np.random.default_rng(4).normal(size=(known.width, K)), np.ones(K))
    background = WeightedDonors(np.asarray(known.columns(donors)), weights, players, P, Shapley())
    form = known.closed_form(background, head)
    without = ("gaussians", "cubes", "boxes", "squares, boxes", "recurrence")
    assert (form is None) == (name in without)
    if form is None:
        return
    assert form.name in ("additive", "trees")
    values, found = form.of(np.asarray(known.columns(X)))
    A, c = form.head
    assert values.shape == (R, P, len(A)) and found.shape == (R, len(A))
    assert form.of_donors.shape == (S, len(A))
    everything = jnp.ones(X.shape, bool)
    answers = whole(known, X, X, everything) @ head[0] + head[1]
    np.testing.assert_allclose(found @ A + c, answers, **CLOSE)
    change = answers - weights @ (form.of_donors @ A + c)
    np.testing.assert_allclose(values.sum(axis=1) @ A, change, **CLOSE)
