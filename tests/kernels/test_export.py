"""Every device kernel lowers for TPU, CUDA and CPU, without float64 and without calling back.

Lowered, not run: no TPU is needed. With 64-bit JAX on, too, since without it nothing could be
float64 and the check would be empty.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow
from repository import library_modules
from structured_kernels import f32, i32, structured_kernels, u32
from tiled_kernels import (
    BITS,
    SLOT_COLUMNS,
    SPACES,
    B,
    K,
    N,
    P,
    R,
    S,
    network,
    pool_and_subjects,
    tiled,
)

from xaijax.players.index import shapley_weights
from xaijax_kernels.collinearity.newton import fit_sums, logistic_sums, replicate_sums
from xaijax_kernels.engine.hybrids import (
    hybrid_rows,
    hybrids_by_subset,
    kept_players,
    listed_masks,
    of_columns,
    ranks,
    subset_masks,
)
from xaijax_kernels.engine.listed import group_means, list_means
from xaijax_kernels.engine.seeds import runs_of_tile, slots_of
from xaijax_kernels.engine.tables import put
from xaijax_kernels.engine.tiles import LEAST_COLUMNS, one_output
from xaijax_kernels.games.differentiable import exact, over_orders, with_smaller_tangents
from xaijax_kernels.games.semivalues import semivalue
from xaijax_kernels.gradients.front import back, front
from xaijax_kernels.rules.perturbed_rows import (
    PerturbationSpace,
    filled,
    mixed,
    pack_bits,
    perturbed,
    place_of,
)
from xaijax_kernels.structures.products import slopes

pytestmark = pytest.mark.usefixtures("strict_numerics")

PLATFORMS = ("tpu", "cuda", "cpu")
DEVICES = 4

# Where a program is split over devices: marks for the partitioner, no calls to the host.
PARTITIONING = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"}


def whole() -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """The kernels that run on one device."""

    def rows(x: Any, donors: Any, players: Any, slots: Any) -> Any:
        return hybrid_rows(x, donors, players, P, BITS, slots)

    def one_each(x: Any, donors: Any, slots: Any) -> Any:
        return hybrid_rows(x, donors, None, P, BITS, slots)

    Q = 48
    bools_of_players = jax.ShapeDtypeStruct((S, P), bool)
    masks = u32(Q, 1)

    def listed(x: Any, donors: Any, slots: Any, masks: Any, kind: str) -> Any:
        return hybrid_rows(x, donors, None, P, BITS, slots, masks, kind)

    for kind in ("list", "mixed"):
        arguments = (f32(N, P), f32(B, P), i32(S, SLOT_COLUMNS), masks)
        yield "hybrid_rows", partial(listed, kind=kind), arguments
        yield "kept_players", partial(kept_players, P, BITS, kind=kind), arguments[2:]
    yield "subset_masks", partial(subset_masks, P, BITS), (i32(S, SLOT_COLUMNS),)
    yield "listed_masks", partial(listed_masks, P, BITS), (i32(S, SLOT_COLUMNS), masks)
    tile = i32(runs_of_tile(P, BITS) + 1, 4)
    make = partial(slots_of, slots=S, slot_bits=BITS)
    yield "slots_of", make, (tile, i32(2 * S, SLOT_COLUMNS))
    yield "of_columns", of_columns, (bools_of_players, i32(2 * P))
    yield "group_means", partial(group_means, slot=16), (f32(8 * R, K), f32(B))
    bools = (jax.ShapeDtypeStruct((N, B), bool), jax.ShapeDtypeStruct((Q, P), bool))
    places = (i32(N, B), bools[0], i32(N, B, P), bools[1], f32(B))
    yield "list_means", list_means, (f32(8 * R, K), *places)
    yield "hybrid_rows", rows, (f32(N, P), f32(B, P), i32(P), i32(S, SLOT_COLUMNS))
    yield "hybrid_rows", one_each, (u32(N, P), u32(B, P), i32(S, SLOT_COLUMNS))
    by_subset = partial(hybrids_by_subset, P=P, slot_bits=BITS)
    of_players = (f32(N, P), f32(B, P), i32(P))

    def subsets(x: Any, donors: Any, players: Any, slots: Any) -> Any:
        return by_subset(x, donors, players, slots=slots)

    yield "hybrids_by_subset", subsets, (*of_players, i32(S, SLOT_COLUMNS))
    yield "ranks", partial(ranks, P=P), (u32(S, 1),)
    wide = (f32(P, 8), f32(8), f32(8, LEAST_COLUMNS))
    trace = jax.make_jaxpr(network)(wide, f32(R, P))
    yield "one_output", partial(one_output, trace), (wide, f32(R, P), i32(R))
    yield "front", partial(front, trace), (wide, f32(2 * R + 1, P))
    hidden = (f32(R, 8),)  # what follows the bias is no front
    yield "back", partial(back, trace), (wide, hidden)
    yield "put", put, (f32(8 * R, K), f32(4, R, K), i32(4), i32())
    named = PerturbationSpace(P, "own", listed=True, named=True)
    arguments = (*pool_and_subjects(), i32(S, 4 + P + 3))
    yield "perturbed", partial(perturbed, named, draws=3, known_trip_counts=True), arguments
    for space in SPACES:
        draw = partial(perturbed, space, draws=3, known_trip_counts=True)
        yield "perturbed", draw, (*pool_and_subjects(), i32(S, 4 + P))
    yield "mixed", mixed, (u32(S, 3),)
    yield "place_of", place_of, (u32(S, 3), i32(S, 1))
    yield "filled", partial(filled, count=R), (f32(S, 3, P, 1),)
    yield "pack_bits", pack_bits, (jax.ShapeDtypeStruct((S, 100), bool),)
    rows, each = f32(2 * R), f32(P)
    yield "fit_sums", fit_sums, (f32(2), rows, f32(), f32(), rows, rows)
    fits = (f32(P, 2), f32(P, 2 * R), each, each)
    yield "logistic_sums", logistic_sums, (*fits, rows, rows)
    yield "logistic_sums", logistic_sums, (*fits, f32(P, 2 * R), f32(P, 2 * R))
    replicates = (f32(N, P, 2), *fits[1:], f32(N, 2 * R), f32(N, 2 * R))
    yield "replicate_sums", replicate_sums, replicates
    yield "semivalue", partial(semivalue, p=shapley_weights(P)), (f32(N, 1 << P, K),)
    groups = (f32(2, N, P), f32(3, B, P), f32(3, B))
    terms = f32(2, R, P), f32(P), i32(P)
    points = (i32(N), f32(N, 4), f32(N, 4), f32(3, B, P), f32(3, B), *terms)
    yield "slopes", partial(slopes, P=P, known=True), (f32(N, P), i32(), *points)
    yield "exact", partial(exact, jnp.tanh, p=shapley_weights(P)), groups
    yield "over_orders", partial(over_orders, jnp.tanh), (*groups, i32(2, P))
    steps = with_smaller_tangents(jnp.tanh, lambda rows: jnp.tanh(rows))
    yield "with_smaller_tangents", jax.grad(lambda rows: steps(rows).sum()), (f32(R, P),)


def kernels(
    devices: int, mesh: Any = None
) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """All kernels that run on this number of devices; mesh: theirs, None: of no target."""
    yield from tiled(devices, mesh)
    if devices == 1:
        yield from whole()
        yield from structured_kernels()


CASES = [
    pytest.param(function, arguments, id=f"{name}, {devices} device{'s' * (devices > 1)}")
    for devices in (1, DEVICES)
    for name, function, arguments in kernels(devices)
]
# These take arrays of JAX, but only hand them over: nothing of theirs is compiled.
HOST_SIDE = {"run_on_host"}
ONLY_CPU = "chances"  # an accelerator takes each sub-coalition's exponentials
# These are parts of kernels that are listed.
INSIDE = {"any_bad", "chances_of", "compensated", "folded", "neumaier", "placed", "room_of"}
INSIDE |= {"tile_by_tile"}


def lowered(function: Callable[..., Any], *arguments: Any) -> str:
    """The program for all platforms as text."""
    exported = jax.export.export(jax.jit(function), platforms=PLATFORMS)(*arguments)
    assert exported.platforms == PLATFORMS
    return exported.mlir_module()


def complaints(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """What keeps the function from an accelerator; empty: nothing."""
    text = lowered(function, *arguments)
    found = ["float64"] if re.search(r"[<x]f64>", text) else []
    calls = set(re.findall(r"custom_call\W+(\w*)", text)) - PARTITIONING
    return found + [f"custom call {name}" for name in sorted(calls)]


@pytest.mark.parametrize("x64", [False, True], ids=["32 bit", "64 bit on"])
@pytest.mark.parametrize(("function", "arguments"), some_slow(CASES, 5))
def test_lowers_for_every_platform(
    function: Callable[..., Any], arguments: tuple[Any, ...], x64: bool
) -> None:
    with jax.enable_x64(x64):
        assert not complaints(function, *arguments)


@pytest.mark.compilers
@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "number", "name"),
    [
        pytest.param(target, number, name, id=f"{target}, {number}, {name}")
        for target, devices in (("v5e:1x1", 1), ("v5e:2x2", DEVICES), ("h200", 1))
        for number, (name, *_) in enumerate(kernels(devices))
        if name != ONLY_CPU
    ],
)
def test_compiles_for_an_accelerator(
    target: str, number: int, name: str, compilers: Callable[[str], Any]
) -> None:
    made = compilers(target).export(number)
    assert made.program == name and made.figures["kernels"] > 0
    assert not made.figures["float64"] and not made.figures["host"]
    assert made.figures["collectives"] == 0


@pytest.mark.slow
def test_split_kernels_are_split() -> None:
    for _, function, arguments in tiled(DEVICES):
        text = lowered(function, *arguments)
        assert "manual_computation" in text or "SPMDFullToShardShape" in text


def test_every_kernel_of_jax_arrays_is_listed() -> None:
    listed = {case.id.partition(",")[0] for case in CASES if case.id}
    missing = set()
    for name in library_modules():
        if not name.startswith("xaijax_kernels."):
            continue
        module = importlib.import_module(name)
        for key, function in inspect.getmembers(module, inspect.isfunction):
            takes_arrays = "jax.Array" in str(inspect.signature(function))
            if function.__module__ == name and key[0] != "_" and takes_arrays:
                missing |= {key} - listed - HOST_SIDE - INSIDE
    assert not missing, f"give {sorted(missing)} a case in `whole` or `tiled` of this file"


def test_a_planted_callback_is_found() -> None:
    def called_back(rows: jax.Array) -> jax.Array:
        return jax.pure_callback(np.tanh, rows, rows)

    try:
        found = complaints(called_back, f32(R, P))
    except NotImplementedError as error:  # jax may refuse to lower a callback at all
        found = [str(error)]
    assert found and "callback" in found[0]


def test_a_planted_float64_is_found() -> None:
    def widened(rows: jax.Array) -> jax.Array:
        return jnp.sum(rows, dtype=jnp.float64).astype(jnp.float32)

    with jax.enable_x64(True):
        assert complaints(widened, f32(R, P)) == ["float64"]


def test_a_planted_library_call_is_found() -> None:
    assert complaints(jnp.linalg.eigh, f32(P, P))
