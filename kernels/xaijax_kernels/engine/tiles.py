"""Tiles: what one model call on the device takes, and the loop that feeds them to the model.

Letters: T tiles in a dispatch, R rows in a tile, S slots in a tile, K outputs, F columns, P
players, H units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal, jaxpr_as_fun
from jax.sharding import AbstractMesh, AxisType, Mesh, use_abstract_mesh
from jax.sharding import PartitionSpec as Spec

from xaijax_kernels.engine.hybrids import hybrid_rows, hybrids_by_subset, slot_players
from xaijax_kernels.engine.reduce import any_bad
from xaijax_kernels.engine.seeds import slots_of
from xaijax_kernels.engine.steps import (
    CALLS,
    ELEMENTWISE,
    PRODUCTS,
    Number,
    Step,
    bound,
    opened,
    operations_of,
)
from xaijax_kernels.sizes import LANES, counted

_NOWHERE = AbstractMesh((), ())
MOST_TURNS = "at_most_{}_turns"  # names a loop whose number of turns is an argument


def widest_layer(jaxpr: Any, rows: int, apart: Container[str] = ()) -> int:
    """Numbers per row in the widest intermediate of a model traced with `rows` rows, which are its
    last input.

    apart: names of jitted functions that go through their rows in blocks of their own.

    What is made of parameters alone (weights that are masked or rounded) has no width: there is one
    of it, whatever the number of rows.
    """
    own = (*jaxpr.invars[:-1], *jaxpr.constvars)
    sizes = frozenset(size for one in own for size in getattr(one.aval, "shape", ()))
    of_rows = [place == len(jaxpr.invars) - 1 for place in range(len(jaxpr.invars))]
    return _Widths(rows, apart, sizes).of(jaxpr, of_rows)[0]


# The parameter that holds the trace of a step with the same inputs and outputs.
_SAME_INPUTS = CALLS | {
    "core_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
}


@dataclass(frozen=True)
class _Widths:
    """Widths of what depends on rows; what is not followed counts as if it did."""

    rows: int
    apart: Container[str]
    sizes: frozenset[int]  # of the axes of parameters

    def of(self, jaxpr: Any, of_rows: list[bool]) -> tuple[int, list[bool]]:
        """(the widest number of a trace, which of its outputs depend on rows); of_rows: which
        inputs do.
        """
        held = dict(zip(jaxpr.invars, of_rows, strict=True))
        every = bool(jaxpr.effects)  # what is written to a reference is not followed

        def read(atom: Any) -> bool:
            return not isinstance(atom, Literal) and held.get(atom, False)

        widest = 1
        for equation in jaxpr.eqns:
            inside, depends = self._inside(equation, [read(atom) for atom in equation.invars])
            widest = max(widest, inside)
            for variable, mark in zip(equation.outvars, depends, strict=True):
                held[variable] = every or mark or self._takes_rows(equation, variable)
                if held[variable]:
                    widest = max(widest, _size(variable) // self.rows)
        return widest, [read(atom) for atom in jaxpr.outvars]

    def _takes_rows(self, equation: Any, variable: Any) -> bool:
        """Whether the step may have made something as long as the rows, of none of their numbers:
        zeros for each row, weights repeated for each row.
        """
        if equation.primitive.name in PRODUCTS:
            return False
        shape = getattr(variable.aval, "shape", ())
        long = (n == self.rows or (n % self.rows == 0 and n not in self.sizes) for n in shape)
        return any(long) and _size(variable) > sum(map(_size, equation.invars))

    def _inside(self, equation: Any, given: list[bool]) -> tuple[int, list[bool]]:
        """(the widest number in the traces of a step, which of its outputs depend on rows)."""
        name, options = equation.primitive.name, equation.params
        depends = [any(given)] * len(equation.outvars)
        if options.get("name") in self.apart:
            return 1, depends
        if name == "scan":
            inner = _inner(options["jaxpr"])
            carried = _same_shapes(equation.outvars, inner.outvars)
            first = _same_shapes(equation.invars, inner.invars) - carried
            return self._turns(inner, given, slice(first, first + carried))
        if name == "while":
            return self._while(options, given)
        if name == "cond":
            branches = [_inner(branch) for branch in options["branches"]]
            ends = [self.of(one, given[1:])[1] for one in branches]
            return 1, [given[0] or any(marks) for marks in zip(*ends, strict=True)]
        inner = _inner(options.get(_SAME_INPUTS.get(name, "")))
        if hasattr(inner, "eqns") and len(inner.invars) == len(given):
            return self.of(inner, given)
        traces = [one for one in map(_inner, options.values()) if hasattr(one, "eqns")]
        found = [self.of(one, [any(given)] * len(one.invars))[0] for one in traces]
        return max(found, default=1), depends

    def _while(self, options: Any, given: list[bool]) -> tuple[int, list[bool]]:
        first, second = options["cond_nconsts"], options["body_nconsts"]
        body, condition = _inner(options["body_jaxpr"]), _inner(options["cond_jaxpr"])
        own = given[first:]
        widest, carried = self._turns(body, own, slice(second, None))
        tested, (ends,) = self.of(condition, given[:first] + carried)
        if ends:  # the number of turns depends on rows
            own = own[:second] + [True] * len(carried)
            widest, carried = self.of(body, own)[0], own[second:]
            tested, _ = self.of(condition, given[:first] + carried)
        return max(widest, tested), carried

    def _turns(self, body: Any, given: list[bool], carry: slice) -> tuple[int, list[bool]]:
        """The same as `of` for a loop's body: what it carries depends on rows if it does in some
        turn.
        """
        given = list(given)
        while True:
            widest, ends = self.of(body, given)
            before = given[carry]
            after = [one or end for one, end in zip(before, ends, strict=False)]
            if after == before:
                return widest, after + ends[len(after) :]
            given[carry] = after


def _inner(trace: Any) -> Any:
    """A trace without the constants that it is closed over."""
    return getattr(trace, "jaxpr", trace)


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _same_shapes(outside: Any, inside: Any) -> int:
    """How many of a loop's numbers it does not take apart: its constants and what it carries,
    whose names in a scan differ between versions of JAX."""
    return sum(a.aval.shape == b.aval.shape for a, b in zip(outside, inside, strict=True))


def multiplications(jaxpr: Any, rows: int) -> float:
    """Multiplications per row in the products and convolutions of a model traced with `rows` rows.

    A loop's body counts once: what is left out only makes a first layer's share of the model look
    larger than it is.
    """
    total = 0.0
    for equation in jaxpr.eqns:
        if equation.primitive.name in PRODUCTS:  # a multiplication and an addition each
            total += operations_of(equation) / 2 / rows
        for value in equation.params.values():
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                total += multiplications(inner, rows)
    return total


def weights_of(jaxpr: Any) -> int:
    """Numbers of a model's parameters and constants, by its trace (params, rows) -> answers."""
    own = (*jaxpr.invars[:-1], *jaxpr.constvars)
    return sum(math.prod(getattr(one.aval, "shape", ())) for one in own)


@dataclass(frozen=True)
class TileShape:
    """The static facts of a tile; hashable, so that it can be a key."""

    instance_shape: tuple[int, ...]  # of one row as the model sees it
    P: int
    slot_bits: int
    slots: int  # S
    outputs: int  # K
    dtype: str  # of the answers

    @property
    def rows(self) -> int:
        """R."""
        return self.slots << self.slot_bits


def run_tiles(
    apply: Callable[..., jax.Array],
    shape: TileShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [N, F]
    donors: jax.Array,  # [B, F]
    players: jax.Array | None,  # int32 [F]
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    slots: jax.Array,  # int32 [T, S, 3 + ceil(P / 32)]; with `pairs` what `slots_of` makes them of
    masks: jax.Array | None = None,  # uint32 [Q, ceil(P / 32)], coalitions that slots may name
    own: jax.Array | None = None,  # [N, A], the model's answers to the instances themselves
    pairs: jax.Array | None = None,  # int32 [C, 3 + ceil(P / 32)], a table as in `seeds.slots_of`
    kind: str = "subsets",  # what the slots are, see hybrids.kept_players
    score: Callable[[jax.Array, Any], jax.Array] | None = None,
    kept: Callable[[jax.Array], jax.Array] = jnp.isfinite,
    structure: Callable[[Any], Any] | None = None,
    chosen: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Evaluates the model on every tile; values [T, R, K], and whether a tile has a bad one, int32
    [T].

    apply(params, rows [R, *instance_shape]) -> [R, A]; score(answers [R, A], own [R, A] or None)
    -> [R, K], None: the answers themselves; kept(values [R, K]) -> bool, which of them are not
    bad. structure(params): what gives the sub-coalitions of slots without their rows, see
    `structures`; apply then is its head, [R, H] -> [R, A]. chosen: apply(params, rows, own [R, A])
    -> [R, K] looks at what the score would.

    The tiles are split over the devices of `mesh`; each device stops after its own number of
    tiles. What the others hold is not read.
    """

    platform = platform_of(mesh)
    few_columns = platform == "tpu" and x.shape[1] < LANES and shape.slot_bits > 0
    by_subset = structure is None and few_columns and kind == "subsets"
    subsets = 1 << shape.slot_bits

    def on_one_device(params, x, donors, players, masks, own, pairs, tiles, slots):
        known = None if structure is None else structure(params)

        def tile(t):
            one = jax.lax.dynamic_index_in_dim(slots, t, keepdims=False)
            if pairs is not None:
                one = slots_of(one, pairs, shape.slots, shape.slot_bits)
            instance = one[:, 1]
            instance = jnp.tile(instance, subsets) if by_subset else instance.repeat(subsets)
            mine = None if own is None else own[instance]
            if known is None:
                given = x, donors, players, shape.P, shape.slot_bits, one
                rows = hybrids_by_subset(*given) if by_subset else hybrid_rows(*given, masks, kind)
                beside = (mine,) if chosen else ()
                out = apply(params, rows.reshape(shape.rows, *shape.instance_shape), *beside)
            else:
                by_bit = slot_players(shape.P, shape.slot_bits, one)
                by_bit = by_bit if players is None else by_bit[:, :, players]
                head = partial(apply, params)
                own_rows = x[one[:, 1]], donors[one[:, 2]]
                out = known.subsets(head, *own_rows, by_bit, platform)
            if score is not None:
                out = score(out, mine)
            lost = any_bad(kept(out))
            if by_subset:
                out = out.reshape(subsets, shape.slots, -1).swapaxes(0, 1)
            return out.astype(shape.dtype).reshape(shape.rows, -1), lost

        T = slots.shape[0]
        values = room_of((T, shape.rows, shape.outputs), shape.dtype, platform)
        room = (values, jnp.zeros((T,), jnp.int32))
        values, bad = tile_by_tile(tile, room, tiles[0], counted_on(mesh))
        return values, bad

    on_one_device = over_tiles(on_one_device, mesh, (False,) * 7 + (True,) * 2)
    return on_one_device(params, x, donors, players, masks, own, pairs, tiles, slots)


def without_places(given: Any) -> Any:
    """Shapes and dtypes of a pytree of arrays, without the devices that hold them.

    The type of a placed array names its mesh. Only axes that are explicit are kept, since a model
    may read them.
    """
    return jax.tree.map(_bare, given)


def traced(function: Callable[..., Any], *given: Any, mesh: Mesh | None = None) -> Any:
    """The closed jaxpr of function(*given), which fits every mesh.

    A jitted step (`jax.nn.relu` is one) that is traced with placed arrays, or inside a loop over
    tiles, fits no other mesh than theirs. JAX makes the rules of derivatives when they are first
    taken, and keeps them with the trace: one whose derivatives are taken over tiles fits only their
    `mesh`.
    """
    bare = without_places(given)
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(bare)):  # explicit axes
        return jax.make_jaxpr(function)(*bare)
    inside = _NOWHERE
    if mesh is not None and mesh.size > 1:  # as `over_tiles` runs it
        names = dict.fromkeys(mesh.axis_names, AxisType.Manual)
        inside = mesh.abstract_mesh.update_axis_types(names)
    with use_abstract_mesh(inside):
        return jax.make_jaxpr(function)(*bare)


def _bare(leaf: Any) -> Any:
    own = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
    mesh = getattr(own.sharding, "mesh", _NOWHERE)
    if AxisType.Explicit in mesh.axis_types:
        return leaf
    return jax.ShapeDtypeStruct(own.shape, own.dtype, weak_type=own.weak_type)


class Traced:
    """A model, or its head, traced for rows of one shape: here, and in no program again."""

    def __init__(
        self,
        apply: Callable[[Any, jax.Array], jax.Array],
        params: Any,
        rows: jax.ShapeDtypeStruct,
        look: Callable[[Any, int], None] | None = None,
        mesh: Mesh | None = None,
    ) -> None:
        """look(trace, R): sees the trace before it is used. mesh: over which derivatives are taken,
        see `traced`.
        """
        self.closed = traced(apply, params, rows, mesh=mesh)
        if look is not None:
            look(self.closed, len(rows))
        self._flat = jaxpr_as_fun(self.closed)

    def __call__(self, params: Any, rows: jax.Array) -> jax.Array:
        """The model's answers [R, A]."""
        out = self._flat(*jax.tree.leaves((params, rows)))[0]
        return out[:, None] if out.ndim == 1 else out

    def one_output(self, params: Any, rows: jax.Array, column: jax.Array) -> jax.Array:
        """The one of A outputs whose number is in `column` [R, 1], for each row; [R, 1]."""
        return one_output(self.closed, params, rows, column[:, 0].astype(jnp.int32))


def in_blocks(apply: Callable[[Any, jax.Array], jax.Array], size: int) -> Callable[..., jax.Array]:
    """`apply`, one block of `size` rows after another; for R rows, a multiple of that."""

    def whole(params: Any, rows: jax.Array) -> jax.Array:
        parts = rows.reshape(-1, size, *rows.shape[1:])
        out = jax.lax.map(lambda part: apply(params, part), parts)
        return out.reshape(len(rows), *out.shape[2:])

    return whole


def over_tiles(
    function: Callable[..., Any], mesh: Mesh, split: tuple[bool, ...]
) -> Callable[..., Any]:
    """`function` on each device's own tiles; split[i] says whether argument i has the tile axis.

    Without this, XLA would gather all tiles on every device to run a loop over a split axis.
    """
    if mesh.size == 1:
        return function
    specs = tuple(Spec("tiles") if s else Spec() for s in split)
    return jax.shard_map(
        function, mesh=mesh, in_specs=specs, out_specs=Spec("tiles"), check_vma=False
    )


# A network ends in a product of rows [R, H] and a matrix [H, K], and in steps that treat each
# column by itself. One column of a row then takes one column of the matrix: H multiplications, not
# H K. What needs all columns (a softmax) is made of all of them, and the one is taken after it.
#
# Two passes over the trace. The first goes backward from the answers, and marks which numbers are
# needed whole and for which one column is enough. The second goes forward and makes these.

LEAST_COLUMNS = 64  # below, the product of all columns is as fast as taking one of them


@dataclass
class Needed:
    """The numbers that are needed whole, and those that are needed for one column."""

    whole: set[Number] = field(default_factory=set)
    one: dict[Number, int] = field(default_factory=dict)  # the axis of its columns, 0 or 1

    def add(self, number: Number, axis: int) -> None:
        """One column of the number, along this axis."""
        if self.one.setdefault(number, axis) != axis:
            self.whole.add(number)


def one_output(trace: Any, params: Any, rows: jax.Array, column: jax.Array) -> jax.Array:
    """The answers in `column` [R] to rows [R, ...]; [R, 1].

    trace: closed, that of the model (params, rows) -> [R, K].
    """
    given = [Number(jnp.shape(x), jnp.result_type(x), x) for x in jax.tree.leaves((params, rows))]
    steps: list[Step] = []
    (answers,) = opened(trace.jaxpr, trace.consts, given, steps)
    needed = Needed(one={answers: 1})
    taken = list(_taken(steps, needed))
    for step, one in reversed(taken):
        if one:
            step.outputs[0].one = _one(step, needed.one[step.outputs[0]], column)
            continue
        found = bound(step.equation, [number.whole for number in step.inputs])
        for number, value in zip(step.outputs, found, strict=True):
            number.whole = value
    return _column(answers, needed.one[answers], column)


def _taken(steps: list[Step], needed: Needed) -> Iterator[tuple[Step, bool]]:
    """(step, whether one column of it is enough) of those that are taken, the last first."""
    for step in reversed(steps):
        whole = any(number in needed.whole for number in step.outputs) or step.equation.effects
        if not whole and step.outputs[:1] and step.outputs[0] in needed.one:
            inputs = _inputs_of_one(step, needed.one[step.outputs[0]])
            if inputs is not None:
                for number, axis in inputs:
                    if axis is None:
                        needed.whole.add(number)
                    else:
                        needed.add(number, axis)
                yield step, True
                continue
        if whole or any(number in needed.one for number in step.outputs):
            needed.whole.update(step.outputs)
            needed.whole.update(step.inputs)
            yield step, False


def _inputs_of_one(step: Step, axis: int) -> list[tuple[Number, int | None]] | None:
    """What one column of the step's output is made of: (number, axis of its columns, or None if
    it is needed whole); None: all columns are needed.
    """
    name, options, (out, *more) = step.equation.primitive.name, step.equation.params, step.outputs
    if more or len(out.shape) != 2:
        return None
    if name in ELEMENTWISE:
        return [(x, axis if x.shape == out.shape else None) for x in step.inputs]
    if name == "transpose":
        return [(step.inputs[0], 1 - axis)]
    if name == "broadcast_in_dim":
        return [(x, None) for x in step.inputs] if len(step.inputs[0].shape) < 2 else None
    if name == "dot_general":
        contracted, batch = options["dimension_numbers"]
        plain = batch == ((), ()) and all(len(places) == 1 for places in contracted)
        worth = plain and out.shape[axis] >= LEAST_COLUMNS
        return [(x, None) for x in step.inputs] if worth else None
    return None


def _one(step: Step, axis: int, column: jax.Array) -> Any:
    """One column of the step's output, [R, 1]."""
    equation, inputs = step.equation, step.inputs
    name, options, out = equation.primitive.name, equation.params, step.outputs[0]
    if name in ELEMENTWISE:
        return bound(equation, [_column(x, axis, column) for x in inputs])[0]
    if name == "transpose":
        return _column(inputs[0], 1 - axis, column)
    R = len(column)
    if name == "broadcast_in_dim":
        (x,), places = inputs, options["broadcast_dimensions"]
        own = places == (axis,) and x.shape[0] == out.shape[axis]
        numbers = jnp.take(x.whole, column, mode="clip") if own else jnp.ravel(x.whole)
        return jnp.broadcast_to(numbers[:, None], (R, 1))
    # The first operand makes the output's first axis, the second its second.
    matrix, rows = inputs[axis].whole, inputs[1 - axis].whole
    contracted = options["dimension_numbers"][0]
    along, across = contracted[axis][0], contracted[1 - axis][0]
    columns = jnp.take(jnp.moveaxis(matrix, along, 1), column, axis=0, mode="clip")  # [R, H]
    narrow = jnp.issubdtype(out.dtype, jnp.floating) and out.dtype.itemsize < 4
    kind = jnp.float32 if narrow else out.dtype  # narrow terms are added up in float32
    terms = jnp.moveaxis(rows, across, 1).astype(kind) * columns.astype(kind)
    return terms.sum(axis=1, keepdims=True).astype(out.dtype)


def _column(number: Number, axis: int, column: jax.Array) -> Any:
    """One column of a number [R, K], [1, K], [R, 1] or of a single one; axis: along which its
    columns are.
    """
    if number.one is not None:
        return number.one
    if not number.shape:
        return number.whole
    whole = number.whole if axis == 1 else number.whole.T
    if number.shape[axis] == 1:
        return whole
    if number.shape[1 - axis] == 1:
        return jnp.take(whole[0], column, mode="clip")[:, None]
    return jnp.take_along_axis(whole, column[:, None], axis=1, mode="clip")


# A dispatch has tiles for T turns and may be asked for fewer. On a CPU the loop stops there, and
# what fills the tiles up costs nothing. On CUDA and ROCm XLA copies the condition of a loop whose
# count it does not know to the host in every turn, and the device waits: there the loop makes all
# T turns, and what a turn beyond the last finds is left out.
#
# The numbers are the same in both: a turn sees only its own tile.


def counted_on(mesh: Mesh | AbstractMesh) -> bool:
    """The same for the devices of a mesh; of a mesh of no devices in particular: yes, since a known
    count runs well on every platform.
    """
    return counted(platform_of(mesh))


def platform_of(mesh: Mesh | AbstractMesh) -> str:
    """The platform of a mesh's devices; "gpu" if it has no devices in particular."""
    return "gpu" if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0].platform


def tile_by_tile(
    tile: Callable[[jax.Array], tuple[jax.Array, ...]],
    room: tuple[jax.Array, ...],  # [T, ...], as it is past the last turn
    turns: jax.Array,  # int32 [], at most T
    known: bool,
) -> tuple[jax.Array, ...]:
    """What tile(t) finds, t from 0 to turns - 1, each at place t of its room.

    known: all T turns are made, see `counted`.
    """

    def turn(t: jax.Array, kept: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        found = tile(t)
        if known:
            found = tuple(jnp.where(t < turns, own, jnp.zeros_like(own)) for own in found)
        return tuple(placed(whole, own, t) for whole, own in zip(kept, found, strict=True))

    return _loop(turn, room, turns, len(room[0]), known)


def room_of(dims: tuple[int, ...], dtype: Any, platform: str) -> jax.Array:
    """Room for what tiles give. On a TPU it is not cleared, which takes a tenth of a plain run."""
    return jax.lax.empty(dims, dtype) if platform == "tpu" else jnp.zeros(dims, dtype)


def placed(whole: jax.Array, own: jax.Array, t: jax.Array) -> jax.Array:
    """`whole` [T, ...] with `own` at place t. A scatter, which may have t outside, would take four
    kernels more.
    """
    return jax.lax.dynamic_update_index_in_dim(whole, own, t, 0)


def folded(
    add: Callable[[jax.Array, Any], Any],
    start: Any,
    turns: jax.Array,  # int32 [], at most `most`
    most: int,
    known: bool,
) -> Any:
    """add(t, ..) of `start` and t from 0 to turns - 1, one after another; known: as above."""

    def turn(t: jax.Array, kept: Any) -> Any:
        new = add(t, kept)
        if not known:
            return new
        return jax.tree.map(lambda after, before: jnp.where(t < turns, after, before), new, kept)

    return _loop(turn, start, turns, most, known)


def _loop(
    turn: Callable[[jax.Array, Any], Any], start: Any, turns: jax.Array, most: int, known: bool
) -> Any:
    """`turn` for `turns` turns; known: for the most that there can be."""
    if known:
        each = jnp.arange(most, dtype=jnp.int32)
        return jax.lax.scan(lambda kept, t: (turn(t, kept), None), start, each)[0]

    def body(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        return carry[0] + 1, turn(*carry)

    first = (jnp.int32(0), start)
    with jax.named_scope(MOST_TURNS.format(most)):  # for readers of the compiled program
        return jax.lax.while_loop(lambda carry: carry[0] < turns, body, first)[1]
