"""The kernels that loop over tiles, and what they take, for tests that look at their programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding, PartitionSpec
from structured_kernels import after_layer, averaging, dense_layer, f32, i32, listing, u32

from xaijax_kernels.engine.reduce import reduce_pairs, reduce_pieces
from xaijax_kernels.engine.seeds import runs_of_tile
from xaijax_kernels.engine.tiles import TileShape, Traced, over_tiles, run_tiles
from xaijax_kernels.gradients.lines import LineShape, line_values
from xaijax_kernels.rules.perturbed_rows import (
    PerturbationSpace,
    Pool,
    PullShape,
    Subjects,
    run_pulls,
)
from xaijax_kernels.structures.first_layer import ScanShape, scan_tiles

# N instances, B donors, P players, K outputs, S slots of 2^BITS rows in a tile of R rows.
N, B, P, K, S, BITS = 3, 4, 5, 2, 16, 4
R = S << BITS


def network(params: Any, rows: jax.Array) -> jax.Array:
    first, bias, second = params
    return jnp.tanh(rows @ first + bias[None]) @ second


NETWORK = (f32(P, 8), f32(8), f32(8, K))

SLOT_COLUMNS = 3 + 1


def tiled(
    devices: int, mesh: Any = None
) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """The kernels that loop over tiles, split over this number of devices; mesh: theirs."""
    if mesh is None and devices == 1:
        mesh = Mesh(np.array(jax.devices()[:1]), ("tiles",))
    elif mesh is None:  # of no devices in particular: none has to be there
        mesh = AbstractMesh((devices,), ("tiles",), axis_types=(AxisType.Auto,))
    T = 2 * devices

    def split(shape: Any) -> Any:
        return jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct(
                leaf.shape, leaf.dtype, sharding=NamedSharding(mesh, PartitionSpec("tiles"))
            ),
            shape,
        )

    values = split(f32(T, R, K))
    slots = split(i32(T, S, SLOT_COLUMNS))
    shape = TileShape((P,), P, BITS, S, K, "float32")
    yield (
        "run_tiles",
        partial(run_tiles, network, shape, mesh),
        (NETWORK, f32(N, P), f32(B, P), i32(P), split(i32(devices)), slots),
    )
    once = Traced(network, NETWORK, f32(R, P))
    yield (
        "run_tiles",
        partial(run_tiles, once, shape, mesh, kind="mixed"),
        (NETWORK, f32(N, P), f32(B, P), i32(P), split(i32(devices)), slots, u32(48, 1)),
    )
    lone = TileShape((P,), P, BITS, S, 1, "float32")
    yield (
        "run_tiles",
        partial(run_tiles, once.one_output, lone, mesh, chosen=True),
        (NETWORK, f32(N, P), f32(B, P), i32(P), split(i32(devices)), slots, None, f32(N, 1)),
    )
    tiles = split(i32(T, runs_of_tile(P, BITS) + 1, 4))
    yield (
        "run_tiles",
        partial(run_tiles, network, shape, mesh),
        (
            *(NETWORK, f32(N, P), f32(B, P), i32(P), split(i32(devices)), tiles),
            *(None, None, i32(T * S, SLOT_COLUMNS)),
        ),
    )
    yield from pulls(mesh, split, T)
    yield from lines(mesh, split, T)
    yield from averaging(mesh, split, T)
    yield from listing(mesh, split, T)
    scan = ScanShape(P, 2, 3, 4, K, "float32")
    fixed = (NETWORK, f32(N, P), f32(2, 3, P), f32(2, 3), i32(4, P), split(i32(devices)))
    yield (
        "scan_tiles",
        partial(scan_tiles, dense_layer, after_layer, scan, mesh),
        (*fixed, split(i32(T, 4))),
    )
    for by in ("sums", "products"):
        walks = ScanShape(P, 2, 3, P, K, "float32", by)
        run = partial(scan_tiles, dense_layer, after_layer, walks, mesh)
        yield "scan_tiles", run, (*fixed, split(i32(T, 5)))
    pairs = over_tiles(partial(reduce_pairs, group=2), mesh, (True, False, False, False))
    yield "reduce_pairs", pairs, (values, f32(8, 1 << BITS, BITS + 3), i32(), i32())
    pieces = over_tiles(reduce_pieces, mesh, (True, False, True))
    low = R.bit_length() - 1
    yield "reduce_pieces", pieces, (values, f32(3, R, low + 2), split(i32(T)))


D, V = 6, 3  # listed draws, bins
SPACES = (
    PerturbationSpace(P, "own", listed=True),
    PerturbationSpace(P, "bin", stays=True, weighted=True),
    PerturbationSpace(P, "bin", takes=1 << 31, listed=True),
    PerturbationSpace(P, "own", masks=True, listed=True),
    PerturbationSpace(P, "donor", listed=True),
)


def pool_and_subjects() -> tuple[Pool, Subjects]:
    """The arrays of a perturbation space."""
    bins = i32(P, V), i32(P, V)
    pool = Pool(f32(B, P, 1), i32(D), i32(B, P), i32(P, B), *bins, f32(P + 1, B), i32(P + 1, B))
    return pool, Subjects(f32(N, P, 1), i32(N, P), i32(N, P), f32(N, K))


def lines(
    mesh: Any, split: Callable[[Any], Any], T: int
) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Gradients along lines: by quadrature, drawn, of one output each, from a donor of each."""
    n, D, places = 3, 4, 5

    def codes(params: Any, rows: jax.Array) -> jax.Array:
        return rows

    def joined(params: Any, rows: jax.Array) -> jax.Array:
        return rows @ params[0] + params[1][None]

    def after(params: Any, hidden: jax.Array) -> jax.Array:
        return jnp.tanh(hidden) @ params[2]

    shape = LineShape(n, D, places, P, K, (P,))
    whole = (codes, network, shape), (None, None, f32(2, D, P))
    groups = LineShape(n, D, places, 2, K, (P,), pairs=True)
    drawn = (codes, network, groups), (i32(P), None, f32(2, D, P))
    pulled = LineShape(n, 1, places, P, K, (P,), pulls=True, own=True, chosen=True)
    behind = (joined, after, pulled), (split(i32(T, n, P)), split(i32(T, n)), split(f32(T, n, P)))
    for (lift, head, shape_of_lines), (owner, column, donors) in (whole, drawn, behind):
        run = partial(line_values, lift, head, shape_of_lines, mesh)
        at = (f32(2, shape_of_lines.donors, places),) * 2
        counts = split(i32(mesh.size)), i32()
        arguments = NETWORK, split(f32(T, n, P)), donors, *at, owner, column, *counts
        yield "line_values", run, arguments


def pulls(
    mesh: Any, split: Callable[[Any], Any], T: int
) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """The loop of Anchors; 100 draws of a pull leave rows of a tile over."""

    def agrees(out: jax.Array, labels: jax.Array) -> jax.Array:
        return (out[:, :1] == labels[:, :1]).astype(out.dtype)

    shape = PullShape((P,), R, 100)
    for space in SPACES[:2]:
        run = partial(run_pulls, network, agrees, space, shape, mesh)
        arguments = (*pool_and_subjects(), split(i32(mesh.size)))
        yield "run_pulls", run, (NETWORK, *arguments, split(i32(T, shape.pulls, 4 + P)))
