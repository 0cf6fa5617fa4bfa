"""The kernels that know something of the model, with shapes to lower them for (`test_export`).

Letters: R rows, S slots of 2^BITS sub-coalitions, N instances, B donors, P players, K outputs, L
terms, M nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.engine.hybrids import of_players, slot_players
from xaijax_kernels.engine.reduce import compensated_at_once
from xaijax_kernels.neighbours import nearest
from xaijax_kernels.sizes import DONORS_OF_CROSSING as DONORS
from xaijax_kernels.sizes import INSTANCES_OF_CROSSING as INSTANCES
from xaijax_kernels.sizes import WHOLE_ROWS
from xaijax_kernels.structures.averaged import MeansShape, chances_of, mean_tables, prepared_rows
from xaijax_kernels.structures.base import Columnwise, largest, whole_vectors
from xaijax_kernels.structures.crossed import (
    crossed_means,
    kept_part,
    value_table,
    whole_answers,
)
from xaijax_kernels.structures.drawn import drawn_scores
from xaijax_kernels.structures.factors import Boxes, Gaussians, sums_at_subsets
from xaijax_kernels.structures.first_layer import ScanShape, prefixes_of
from xaijax_kernels.structures.forests import Walked
from xaijax_kernels.structures.listed_means import ListShape, listed_means, player_parts
from xaijax_kernels.structures.named import Product, in_blocks, xaijax_gaussian_sums
from xaijax_kernels.structures.nodes import Nodes
from xaijax_kernels.structures.prefixes import Prefixes, Segment
from xaijax_kernels.structures.products import slopes
from xaijax_kernels.structures.summed import Summed
from xaijax_kernels.structures.sums import Dense, sums_of_choices

Case = tuple[str, Callable[..., Any], tuple[Any, ...]]

N, B, P, K, S, BITS = 3, 4, 5, 2, 16, 4
R, ROWS = S << BITS, 2 * INSTANCES
L, H, PLACES = 7, 8, 20  # terms of a sum, units of a layer, values of all players


def f32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def u32(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.uint32)


def bools(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, bool)


def dense_layer(params: Any) -> Dense:
    return Dense(*params[:2])


def after_layer(params: Any, hidden: jax.Array) -> jax.Array:
    return jnp.tanh(hidden) @ params[2]


def of_two_classes(params: Any, x: jax.Array, donors: jax.Array, *rest: Any) -> Any:
    """The mean over donors of a softmax, by tables of exponentials."""
    head = partial(two_chances, params)
    chances = chances_of(dense_layer(params), head, R, jnp.float32, jnp.eye(P, dtype=bool))
    assert chances is not None
    return chances.means(chances.terms(x)[0], chances.terms(donors), *rest)


def cubes(params: Any) -> Summed:
    """A layer that is declared: sums of cubes, and of what no column gives."""

    def whole(params: Any, rows: jax.Array) -> jax.Array:
        return (rows**3 + 0.5) @ params[0] + params[1][None]

    zero = whole(params, jnp.zeros((1, P), "float32"))[0]
    return Summed(params, zero, whole, float(P * H), "split", linear=False)


def logarithms(params: Any) -> Columnwise:
    return Columnwise(dense_layer(params), params, lambda p, rows: jnp.log1p(rows), tuple(range(P)))


def gaussians(params: Any) -> Product:
    centres, gamma, coefficients, intercept = params
    return Product(Gaussians(centres, gamma), coefficients, intercept)


def boxes(params: Any) -> Product:
    low, high, coefficients, intercept = params
    return Product(Boxes(low, high), coefficients, intercept)


TREE = (1, 3, 5, 3, 4, 5, 6)  # left children of a tree of two levels
M = 2 * len(TREE)


def walked(params: Any) -> Walked:
    """Two trees, the second one with a category."""
    threshold, value = params
    left = np.array([*TREE, *(len(TREE) + np.array(TREE))], np.int32)
    leaf = left == np.arange(M)
    nodes = Nodes(
        left,
        np.where(leaf, 0, np.arange(M) % P).astype(np.int32),
        jnp.where(leaf, threshold.dtype.type(np.inf), threshold),
        jnp.where(leaf[:, None], value, 0),
        np.array([0, len(TREE)], np.int32),
        np.zeros((2, P), bool),
        np.arange(M) % 2 == 0,
        np.where(np.arange(M) == len(TREE), 0, -1).astype(np.int32),
        np.array([[True, False, True]]),
    )
    return Walked(jax.tree.map(jnp.asarray, nodes))


def two_chances(params: Any, hidden: jax.Array) -> jax.Array:
    """A head whose means over donors are made of tables of exponentials, where no GPU is."""
    del params
    return jax.nn.softmax(hidden)


def after_walk(params: Any, sums: jax.Array) -> jax.Array:
    del params
    return jnp.tanh(sums)


def after_sums(params: Any, sums: jax.Array) -> jax.Array:
    del params
    return jnp.tanh(sums)


class Recurrence:
    """A recurrence along the columns of a row; see `Fold`."""

    def start(self, params: Any, rows: jax.Array) -> jax.Array:
        return jnp.zeros((len(rows), H), rows.dtype)

    def part(self, rows: jax.Array, segment: Segment) -> jax.Array:
        return rows[:, segment.first : segment.last]

    def step(self, params: Any, state: jax.Array, part: jax.Array) -> jax.Array:
        return jnp.tanh(state * params[1] + part @ params[0][: part.shape[1]])

    def read(self, params: Any, state: jax.Array, rows: jax.Array) -> jax.Array:
        return state @ params[2]


def recurrence(params: Any, last: bool = False, drops: bool = False) -> Prefixes:
    segments = tuple(Segment(p, p + 1) for p in range(P))
    return Prefixes(params, FOLD, segments, K, P, last, drops)


FOLD = Recurrence()
LAYER = (f32(P, H), f32(H), f32(H, K))
SUMS = (f32(L, K), f32(K))
# Made of params, what follows, the params, numbers of a part.
STRUCTURES = (
    (dense_layer, after_layer, LAYER, H),
    (logarithms, after_layer, LAYER, H),
    (cubes, after_layer, LAYER, H),
    (gaussians, after_sums, (f32(L, P), f32(), *SUMS), L),
    (boxes, after_sums, (f32(L, P), f32(L, P), *SUMS), L),
    (walked, after_walk, (f32(M), f32(M, K)), P),
)
CLASSES = (f32(P, K), f32(K))


def averaging(mesh: Any, split: Callable[[Any], Any], T: int) -> Iterator[Case]:
    """The mean over donors, split over the devices of a mesh as the loops over tiles are."""
    shape = MeansShape(P, 1 << 3, 2, K, "float32")
    donors = (f32(3, 2, shape.donors, P), f32(3, 2, shape.donors), i32(P))
    for of, head, params, _ in (*STRUCTURES, (dense_layer, two_chances, CLASSES, K)):
        run = partial(mean_tables, of, head, None, jnp.isfinite, shape, mesh)
        work = (split(i32(mesh.size)), split(i32(T, 2)))
        yield "mean_tables", run, (params, f32(N, P), *donors, *work)
        if head is after_sums:
            ready_of = partial(prepared_rows, of, P, False, "gpu")
            held = jax.eval_shape(ready_of, params, f32(48, P), i32(P))
            ready = jax.ShapeDtypeStruct((3, 2, shape.donors, *held.shape[1:]), held.dtype)
            of_ready = replace(shape, prepared=True)
            run = partial(mean_tables, of, head, None, jnp.isfinite, of_ready, mesh)
            yield "mean_tables", run, (params, f32(N, P), ready, *donors[1:], *work)


def listing(mesh: Any, split: Callable[[Any], Any], T: int) -> Iterator[Case]:
    """The mean over donors of listed coalitions, split in the same way."""
    shape = ListShape(P, 4, 2, 3, 2, K, "float32")
    donors = (f32(3, shape.donors, P), f32(3, shape.donors), i32(P), u32(48, 1))
    for more in ({}, {"together": 8, "blocks": 1, "instances": 4, "of_call": 2}):
        of_bits = replace(shape, prepared=True, **more)
        params = (f32(L, P), f32(L, P), *SUMS)
        run = partial(listed_means, boxes, after_sums, None, jnp.isfinite, of_bits, mesh)
        work, bits = (split(i32(mesh.size)), split(i32(T, 4))), u32(3, shape.donors, 1, L)
        yield "listed_means", run, (params, u32(N, 1, L), bits, donors[1], None, donors[3], *work)
    for of, head, params, _ in STRUCTURES[:3]:
        run = partial(listed_means, of, head, None, jnp.isfinite, shape, mesh)
        work = (split(i32(mesh.size)), split(i32(T, 4)))
        yield "listed_means", run, (params, f32(N, P), *donors, *work)
        at_once = replace(shape, together=8, blocks=1, instances=4, of_call=2, made=8)
        run = partial(listed_means, of, head, None, jnp.isfinite, at_once, mesh)
        yield "listed_means", run, (params, f32(N, P), *donors, *work)
        shape_of_parts = replace(shape, by_player=True)
        run = partial(listed_means, of, head, None, jnp.isfinite, shape_of_parts, mesh)
        tables = f32(3, shape.donors, P, H), f32(3, shape.donors), None, u32(48, 1)
        yield "listed_means", run, (params, f32(N, P, H), *tables, *work)


def structured_kernels() -> Iterator[Case]:
    yield "of_players", of_players, (bools(S, BITS + 1, P), i32(L))
    for kind in ({}, {"last": True, "drops": True}):

        def of_prefixes(params: Any, *args: Any, kind: dict[str, bool] = kind) -> Any:
            return recurrence(params, **kind).subsets(jnp.sin, *args, "gpu")

        yield "subsets", of_prefixes, (LAYER, f32(S, P), f32(S, P), bools(S, BITS + 1, P))
    yield "slot_players", partial(slot_players, P, BITS), (i32(S, 3 + 1),)
    yield "whole_vectors", partial(whole_vectors, axis=-1), (f32(R, L),)
    yield "sums_of_choices", sums_of_choices, (f32(S, 1, H), f32(S, BITS, 2, H))
    layer, inputs = (f32(P, H), f32(H)), (f32(S, P), f32(S, P), bools(S, BITS + 1, P))
    for platform in ("cpu", "gpu", "tpu"):

        def subsets(arrays: Any, *args: Any, platform: str = platform) -> Any:
            return Dense(*arrays).subsets(jnp.sin, *args, platform)

        yield "subsets of sums", subsets, (layer, *inputs)
    at_once = partial(compensated_at_once, axis=1)
    yield "compensated_at_once", lambda terms, bad: at_once(terms, largest=bad), (f32(R, L, K),) * 2
    yield "compensated_at_once", lambda a, b: compensated_at_once(a, 0, b, b), (f32(R, L, K),) * 2
    for by in ("sums", "products"):
        walks = ScanShape(L, 1, 1, L, K, "float32", by)
        yield "prefixes_of", partial(prefixes_of, shape=walks), (f32(L, R, K),)
    yield "in_blocks", partial(in_blocks, jnp.sin, terms=P), (f32(3 * R, P),)
    yield "gaussian_sums", xaijax_gaussian_sums, (f32(R, P), f32(L, P), f32(), *SUMS)
    rows, blocks = (i32(2), f32(2, 3), f32(2, 3)), (f32(B, S, P), f32(B, S), f32(2, L, P))
    of_products = f32(2, P), i32(), *rows, *blocks, f32(P), i32(P)
    yield "products", partial(slopes, P=P, known=True), of_products
    for power in (2.0, 1.0, 3.0, float("inf")):
        near = partial(nearest, k=5, power=power)
        yield "nearest", near, (f32(2000, P), f32(R, P))
    yield "chances", of_two_classes, (CLASSES, f32(1, P), f32(B, P), f32(B), i32())
    yield "sums_at_subsets", sums_at_subsets, (f32(L, K), f32(L), f32(P, L), f32(P, L))
    for structure in STRUCTURES:
        yield from of_structure(*structure)


def of_structure(of: Any, head: Any, params: Any, width: int) -> Iterator[Case]:
    def score(answers: jax.Array, base: jax.Array) -> jax.Array:
        return answers - base

    def subsets(params: Any, *args: Any) -> Any:
        return of(params).subsets(partial(head, params), *args, "cpu")

    def made(function: Any) -> Any:
        return lambda params, *args: function(of(params), *args)

    yield "subsets", subsets, (params, f32(S, P), f32(S, P), bools(S, BITS + 1, P))
    if of is logarithms:  # what a model's trace shows is always of columns
        yield "largest", made(largest), (params, f32(R, P))
        table_of = (params, f32(WHOLE_ROWS, P), bools(WHOLE_ROWS, P))
        yield "value_table", partial(value_table, of), table_of
    if head is after_layer:
        yield "player_parts", partial(player_parts, of, P), (params, f32(N, P), i32(P))
    table, rows = f32(PLACES, width), i32(ROWS, P)
    yield "kept_part", made(kept_part), (params, table, rows, bools(P))
    yield "whole_answers", partial(whole_answers, of, head), (params, table, rows)
    blocks = (i32(3), bools(3), i32(3, DONORS, P), f32(3, DONORS))
    means = partial(crossed_means, of, head, head, score, jnp.isfinite, K)
    yield "crossed_means", means, (params, table, rows, bools(P, P), *blocks)
    if head is after_sums:
        ready = partial(prepared_rows, of, P, False, "cpu")
        yield "prepared_rows", ready, (params, f32(N, P), i32(P))
    if head is after_layer:
        draws = (f32(N, P, H), f32(B, P, H), *[i32(2, R)] * 3)
        run = partial(drawn_scores, of, head, head, score, jnp.isfinite)
        for lists in (1, 2 * R):
            yield "drawn_scores", run, (params, *draws, bools(lists, 4, P))
