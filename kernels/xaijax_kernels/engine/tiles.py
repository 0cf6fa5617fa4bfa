"""Tiles: the rows of one model call on the device, and the loop that feeds them to the model.

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

from xaijax_kernels.engine.hybrids import (
    hybrid_rows,
    hybrids_by_subset,
    of_players,
    slot_players,
)
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
MOST_TURNS = "at_most_{}_turns"  # names a loop whose trip count is an argument


def widest_layer(jaxpr: Any, rows: int, apart: Container[str] = ()) -> int:
    """Numbers per row in the widest intermediate of a model traced with `rows` rows; the rows are
    its last input.

    apart: names of jitted functions that process their rows in their own blocks.

    Intermediates of parameters alone (masked or rounded weights) do not count, because their size
    does not depend on the number of rows.
    """
    constants = (*jaxpr.invars[:-1], *jaxpr.constvars)
    sizes = frozenset(size for leaf in constants for size in getattr(leaf.aval, "shape", ()))
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
    """Widths of intermediates that depend on rows; those that cannot be followed count as well."""

    rows: int
    apart: Container[str]
    sizes: frozenset[int]  # of the axes of parameters

    def of(self, jaxpr: Any, of_rows: list[bool]) -> tuple[int, list[bool]]:
        """(the largest width in a trace, which of its outputs depend on rows); of_rows: which
        inputs do.
        """
        held = dict(zip(jaxpr.invars, of_rows, strict=True))
        every = bool(jaxpr.effects)  # writes to a reference are not followed

        def read(atom: Any) -> bool:
            return not isinstance(atom, Literal) and held.get(atom, False)

        widest = 1
        for equation in jaxpr.eqns:
            inside, depends = self._inside(equation, [read(atom) for atom in equation.invars])
            widest = max(widest, inside)
            for variable, dependent in zip(equation.outvars, depends, strict=True):
                held[variable] = every or dependent or self._takes_rows(equation, variable)
                if held[variable]:
                    widest = max(widest, _size(variable) // self.rows)
        return widest, [read(atom) for atom in jaxpr.outvars]

    def _takes_rows(self, equation: Any, variable: Any) -> bool:
        """Whether the step's output may have one entry per row without depending on the rows'
        values: zeros for each row, weights repeated for each row.
        """
        if equation.primitive.name in PRODUCTS:
            return False
        shape = getattr(variable.aval, "shape", ())
        long = (n == self.rows or (n % self.rows == 0 and n not in self.sizes) for n in shape)
        return any(long) and _size(variable) > sum(map(_size, equation.invars))

    def _inside(self, equation: Any, depends_in: list[bool]) -> tuple[int, list[bool]]:
        """(the largest width in the traces inside a step, which of its outputs depend on rows)."""
        name, options = equation.primitive.name, equation.params
        depends = [any(depends_in)] * len(equation.outvars)
        if options.get("name") in self.apart:
            return 1, depends
        if name == "scan":
            inner = _inner(options["jaxpr"])
            carried = _same_shapes(equation.outvars, inner.outvars)
            first = _same_shapes(equation.invars, inner.invars) - carried
            return self._turns(inner, depends_in, slice(first, first + carried))
        if name == "while":
            return self._while(options, depends_in)
        if name == "cond":
            branches = [_inner(branch) for branch in options["branches"]]
            each = (self.of(branch, depends_in[1:]) for branch in branches)
            widths, outputs = zip(*each, strict=True)
            marks = [depends_in[0] or any(of) for of in zip(*outputs, strict=True)]
            return max(widths), marks
        inner = _inner(options.get(_SAME_INPUTS.get(name, "")))
        if hasattr(inner, "eqns") and len(inner.invars) == len(depends_in):
            return self.of(inner, depends_in)
        traces = [trace for trace in map(_inner, options.values()) if hasattr(trace, "eqns")]
        widths = [self.of(trace, [any(depends_in)] * len(trace.invars))[0] for trace in traces]
        return max(widths, default=1), depends

    def _while(self, options: Any, depends_in: list[bool]) -> tuple[int, list[bool]]:
        first, second = options["cond_nconsts"], options["body_nconsts"]
        body, condition = _inner(options["body_jaxpr"]), _inner(options["cond_jaxpr"])
        inputs = depends_in[first:]
        widest, carried = self._turns(body, inputs, slice(second, None))
        tested, (varies,) = self.of(condition, depends_in[:first] + carried)
        if varies:  # the trip count depends on rows
            inputs = inputs[:second] + [True] * len(carried)
            widest, carried = self.of(body, inputs)[0], inputs[second:]
            tested, _ = self.of(condition, depends_in[:first] + carried)
        return max(widest, tested), carried

    def _turns(self, body: Any, depends_in: list[bool], carry: slice) -> tuple[int, list[bool]]:
        """`of` for a loop's body: a carried value depends on rows if it does in any iteration."""
        depends_in = list(depends_in)
        while True:
            widest, results = self.of(body, depends_in)
            before = depends_in[carry]
            after = [begin or end for begin, end in zip(before, results, strict=False)]
            if after == before:
                return widest, after + results[len(after) :]
            depends_in[carry] = after


def _inner(trace: Any) -> Any:
    """The jaxpr of a closed trace, without its constants."""
    return getattr(trace, "jaxpr", trace)


def _size(variable: Any) -> int:
    return math.prod(getattr(variable.aval, "shape", ()))


def _same_shapes(outside: Any, inside: Any) -> int:
    """How many inputs of a loop are not split: its constants and carried values. Their names in a
    scan differ between versions of JAX."""
    return sum(a.aval.shape == b.aval.shape for a, b in zip(outside, inside, strict=True))


def multiplications(jaxpr: Any, rows: int) -> float:
    """Multiplications per row in the products and convolutions of a model traced with `rows` rows.

    A loop's body counts once. The missing iterations only make a first layer's share of the model
    look larger than it is.
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
    """How many numbers a model's parameters and constants hold, by its trace (params, rows) ->
    outputs."""
    constants = (*jaxpr.invars[:-1], *jaxpr.constvars)
    return sum(math.prod(getattr(leaf.aval, "shape", ())) for leaf in constants)


@dataclass(frozen=True)
class TileShape:
    """The static facts of a tile; hashable, so that it can be a key."""

    instance_shape: tuple[int, ...]  # shape of one row for the model
    P: int
    slot_bits: int
    slots: int  # S
    outputs: int  # K
    dtype: str  # dtype of the outputs

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
    slots: jax.Array,  # int32 [T, S, 3 + ceil(P / 32)]; with `pairs`, runs for `slots_of`
    masks: jax.Array | None = None,  # uint32 [Q, ceil(P / 32)], coalitions that slots may name
    reference: jax.Array | None = None,  # [N, A], the model's answers to the instances themselves
    pairs: jax.Array | None = None,  # int32 [C, 3 + ceil(P / 32)], a table as in `seeds.slots_of`
    kind: str = "subsets",  # what the slots hold, see hybrids.kept_players
    score: Callable[[jax.Array, Any], jax.Array] | None = None,
    valid: Callable[[jax.Array], jax.Array] = jnp.isfinite,
    structure: Callable[[Any], Any] | None = None,
    chosen: bool = False,
) -> tuple[jax.Array, jax.Array]:
    """Evaluates the model on every tile; values [T, R, K], and whether a tile has a bad one, int32
    [T].

    apply(params, rows [R, *instance_shape]) -> [R, A]; score(answers [R, A], reference [R, A] or
    None) -> [R, K], None: the answers themselves; valid(values [R, K]) -> bool, which of them are
    valid. structure(params): the layer that evaluates the sub-coalitions of slots without their
    rows, see `structures`; apply then is its head, [R, H] -> [R, A]. chosen: apply(params, rows,
    reference [R, A]) -> [R, K] computes the scores itself.

    The tiles are split over the devices of `mesh`; each device stops after its own number of tiles.
    The remaining tiles are not read.
    """

    platform = platform_of(mesh)
    few_columns = platform == "tpu" and x.shape[1] < LANES and shape.slot_bits > 0
    by_subset = structure is None and few_columns and kind == "subsets"
    subsets = 1 << shape.slot_bits

    def on_one_device(params, x, donors, players, masks, reference, pairs, tiles, slots):
        known = None if structure is None else structure(params)

        def tile(t):
            chunk = jax.lax.dynamic_index_in_dim(slots, t, keepdims=False)
            if pairs is not None:
                chunk = slots_of(chunk, pairs, shape.slots, shape.slot_bits)
            instance = chunk[:, 1]
            instance = jnp.tile(instance, subsets) if by_subset else instance.repeat(subsets)
            mine = None if reference is None else reference[instance]
            if known is None:
                args = x, donors, players, shape.P, shape.slot_bits, chunk
                rows = hybrids_by_subset(*args) if by_subset else hybrid_rows(*args, masks, kind)
                beside = (mine,) if chosen else ()
                out = apply(params, rows.reshape(shape.rows, *shape.instance_shape), *beside)
            else:
                by_bit = slot_players(shape.P, shape.slot_bits, chunk)
                by_bit = by_bit if players is None else of_players(by_bit, players)
                head = partial(apply, params)
                own_rows = x[chunk[:, 1]], donors[chunk[:, 2]]
                out = known.subsets(head, *own_rows, by_bit, platform)
            if score is not None:
                out = score(out, mine)
            lost = any_bad(valid(out))
            if by_subset:
                out = out.reshape(subsets, shape.slots, -1).swapaxes(0, 1)
            return out.astype(shape.dtype).reshape(shape.rows, -1), lost

        T = slots.shape[0]
        values = room_of((T, shape.rows, shape.outputs), shape.dtype, platform)
        room = (values, jnp.zeros((T,), jnp.int32))
        values, bad = tile_by_tile(tile, room, tiles[0], counted_on(mesh))
        return values, bad

    on_one_device = over_tiles(on_one_device, mesh, (False,) * 7 + (True,) * 2)
    return on_one_device(params, x, donors, players, masks, reference, pairs, tiles, slots)


def without_places(arrays: Any) -> Any:
    """Shapes and dtypes of a pytree of arrays, without the devices that hold them.

    The type of a placed array names its mesh. Only explicit axes are kept, because a model may read
    them.
    """
    return jax.tree.map(_bare, arrays)


def traced(function: Callable[..., Any], *arguments: Any, mesh: Mesh | None = None) -> Any:
    """The closed jaxpr of function(*given), which fits every mesh.

    A jitted step such as `jax.nn.relu` that is traced with placed arrays, or inside a loop over
    tiles, fits their mesh only. JAX makes derivative rules when they are first used and keeps them
    with the trace, so a trace that is differentiated over tiles fits only their `mesh`.
    """
    bare = without_places(arguments)
    if any(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(bare)):  # explicit axes
        return jax.make_jaxpr(function)(*bare)
    inside = _NOWHERE
    if mesh is not None and mesh.size > 1:  # in the way that `over_tiles` runs it
        names = dict.fromkeys(mesh.axis_names, AxisType.Manual)
        inside = mesh.abstract_mesh.update_axis_types(names)
    with use_abstract_mesh(inside):
        return jax.make_jaxpr(function)(*bare)


def _bare(leaf: Any) -> Any:
    aval = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else jax.typeof(leaf)
    mesh = getattr(aval.sharding, "mesh", _NOWHERE)
    if AxisType.Explicit in mesh.axis_types:
        return leaf
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


class Traced:
    """A model, or its head, traced once for rows of one shape; programs do not trace it again."""

    def __init__(
        self,
        apply: Callable[[Any, jax.Array], jax.Array],
        params: Any,
        rows: jax.ShapeDtypeStruct,
        look: Callable[[Any, int], None] | None = None,
        mesh: Mesh | None = None,
    ) -> None:
        """look(trace, R): inspects the trace before it is used. mesh: the mesh of derivatives, see
        `traced`.
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
        """Returns each row's output whose number is in `column` [R, 1]; [R, 1]."""
        return one_output(self.closed, params, rows, column[:, 0].astype(jnp.int32))


def in_blocks(apply: Callable[[Any, jax.Array], jax.Array], size: int) -> Callable[..., jax.Array]:
    """Applies `apply` to one block of `size` rows after another; R is a multiple of `size`."""

    def whole(params: Any, rows: jax.Array) -> jax.Array:
        parts = rows.reshape(-1, size, *rows.shape[1:])
        out = jax.lax.map(lambda part: apply(params, part), parts)
        return out.reshape(len(rows), *out.shape[2:])

    return whole


def over_tiles(
    function: Callable[..., Any], mesh: Mesh, split: tuple[bool, ...]
) -> Callable[..., Any]:
    """`function` on each device's own tiles; split[i] says whether argument i has the tile axis.

    Otherwise XLA gathers all tiles on every device to run a loop over a split axis.
    """
    if mesh.size == 1:
        return function
    specs = tuple(Spec("tiles") if s else Spec() for s in split)
    return jax.shard_map(
        function, mesh=mesh, in_specs=specs, out_specs=Spec("tiles"), check_vma=False
    )


# A network ends in a product of rows [R, H] and a matrix [H, K], and in elementwise steps. One
# output column of a row then needs one column of the matrix: H multiplications, not H K. A step
# that needs all columns (a softmax) is computed in full, and the column is taken from its result.
#
# Two passes over the trace. The first goes backward from the outputs and marks which intermediates
# are needed in full and for which one column is enough. The second goes forward and computes them.

LEAST_COLUMNS = 64  # below, the product of all columns is as fast as taking one of them


@dataclass
class Needed:
    """The intermediates that are needed in full, and those needed for one column."""

    whole: set[Number] = field(default_factory=set)
    one: dict[Number, int] = field(default_factory=dict)  # the axis of its columns, 0 or 1

    def add(self, number: Number, axis: int) -> None:
        """Marks that one column along this axis is needed."""
        if self.one.setdefault(number, axis) != axis:
            self.whole.add(number)


def one_output(trace: Any, params: Any, rows: jax.Array, column: jax.Array) -> jax.Array:
    """The answers in `column` [R] to rows [R, ...]; [R, 1].

    trace: closed, that of the model (params, rows) -> [R, K].
    """
    args = [Number(jnp.shape(x), jnp.result_type(x), x) for x in jax.tree.leaves((params, rows))]
    steps: list[Step] = []
    (answers,) = opened(trace.jaxpr, trace.consts, args, steps)
    needed = Needed(one={answers: 1})
    taken = list(_taken(steps, needed))
    for step, single in reversed(taken):
        if single:
            step.outputs[0].one = _one(step, needed.one[step.outputs[0]], column)
            continue
        outputs = bound(step.equation, [number.whole for number in step.inputs])
        for number, value in zip(step.outputs, outputs, strict=True):
            number.whole = value
    return _column(answers, needed.one[answers], column)


def _taken(steps: list[Step], needed: Needed) -> Iterator[tuple[Step, bool]]:
    """(step, whether one column of it is enough) of the steps that are needed, the last first."""
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
    """The inputs that one column of the step's output depends on: (intermediate, axis of its
    columns, or None if it is needed in full). None: all columns are needed.
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
        same_axis = places == (axis,) and x.shape[0] == out.shape[axis]
        numbers = jnp.take(x.whole, column, mode="clip") if same_axis else jnp.ravel(x.whole)
        return jnp.broadcast_to(numbers[:, None], (R, 1))
    # The output's first axis is that of the first operand, its second axis that of the second.
    matrix, rows = inputs[axis].whole, inputs[1 - axis].whole
    contracted = options["dimension_numbers"][0]
    along, across = contracted[axis][0], contracted[1 - axis][0]
    columns = jnp.take(jnp.moveaxis(matrix, along, 1), column, axis=0, mode="clip")  # [R, H]
    narrow = jnp.issubdtype(out.dtype, jnp.floating) and out.dtype.itemsize < 4
    kind = jnp.float32 if narrow else out.dtype  # narrow terms are added up in float32
    terms = jnp.moveaxis(rows, across, 1).astype(kind) * columns.astype(kind)
    return terms.sum(axis=1, keepdims=True).astype(out.dtype)


def _column(number: Number, axis: int, column: jax.Array) -> Any:
    """One column of an array [R, K], [1, K] or [R, 1], or of a scalar; axis: along which its
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


# A dispatch has room for T tiles and may hold fewer. On a CPU the loop stops after the last one, so
# the padding costs nothing. On CUDA and ROCm, XLA copies the condition of a loop of unknown trip
# count to the host in every iteration, and the device waits. There the loop makes all T iterations,
# and results of padding are discarded.
#
# The results are the same in both cases, because an iteration sees only its own tile.


def counted_on(mesh: Mesh | AbstractMesh) -> bool:
    """`counted` for the devices of a mesh. True if the mesh names no devices, because a known trip
    count runs well on every platform.
    """
    return counted(platform_of(mesh))


def platform_of(mesh: Mesh | AbstractMesh) -> str:
    """The platform of a mesh's devices; "gpu" if the mesh names no devices."""
    return "gpu" if isinstance(mesh, AbstractMesh) else mesh.devices.flat[0].platform


def tile_by_tile(
    tile: Callable[[jax.Array], tuple[jax.Array, ...]],
    room: tuple[jax.Array, ...],  # [T, ...], the initial contents
    trips: jax.Array,  # int32 [], at most T
    known: bool,
) -> tuple[jax.Array, ...]:
    """The results of tile(t) for t = 0..trips - 1, each at position t of `room`.

    known: all T iterations are made, see `counted`.
    """

    def turn(t: jax.Array, carry: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
        results = tile(t)
        if known:
            results = tuple(jnp.where(t < trips, out, jnp.zeros_like(out)) for out in results)
        return tuple(placed(whole, out, t) for whole, out in zip(carry, results, strict=True))

    return _loop(turn, room, trips, len(room[0]), known)


def room_of(dims: tuple[int, ...], dtype: Any, platform: str) -> jax.Array:
    """A buffer for the results of tiles. On a TPU it is not cleared: that would take a tenth of a
    plain run."""
    return jax.lax.empty(dims, dtype) if platform == "tpu" else jnp.zeros(dims, dtype)


def placed(whole: jax.Array, item: jax.Array, t: jax.Array) -> jax.Array:
    """`whole` [T, ...] with `own` at position t. A scatter, which allows t out of range, would take
    four more kernels.
    """
    return jax.lax.dynamic_update_index_in_dim(whole, item, t, 0)


def folded(
    add: Callable[[jax.Array, Any], Any],
    start: Any,
    trips: jax.Array,  # int32 [], at most `most`
    most: int,
    known: bool,
) -> Any:
    """Folds `add` over t = 0..trips - 1, beginning with `start`; known: see `tile_by_tile`."""

    def turn(t: jax.Array, carry: Any) -> Any:
        new = add(t, carry)
        if not known:
            return new
        return jax.tree.map(lambda after, before: jnp.where(t < trips, after, before), new, carry)

    return _loop(turn, start, trips, most, known)


def _loop(
    turn: Callable[[jax.Array, Any], Any], start: Any, trips: jax.Array, most: int, known: bool
) -> Any:
    """Runs `turn` `trips` times; known: always the maximum number of times."""
    if known:
        each = jnp.arange(most, dtype=jnp.int32)
        return jax.lax.scan(lambda carry, t: (turn(t, carry), None), start, each)[0]

    def body(carry: tuple[jax.Array, Any]) -> tuple[jax.Array, Any]:
        return carry[0] + 1, turn(*carry)

    first = (jnp.int32(0), start)
    with jax.named_scope(MOST_TURNS.format(most)):  # for those who read the compiled program
        return jax.lax.while_loop(lambda carry: carry[0] < trips, body, first)[1]
