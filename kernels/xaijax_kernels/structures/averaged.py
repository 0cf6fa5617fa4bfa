"""v(S) of all coalitions of an instance by its model's structure, averaged over donors on the
device.

If nearly every donor differs from x in every player, hardly two hybrids are equal, and each donor
takes the same 2^P coalitions. The mean over donors is taken while the outputs are in a core's fast
memory: one table is returned per instance instead of one per pair.

**Means of a logistic head** need no exponential per coalition:

    1 / (1 + exp(-(a + c))) = exp(a) / (exp(a) + exp(-c)).

A coalition's sum is a, from one half of the players, plus c, from the other half. The exponentials
therefore form two half tables, and for each donor a coalition costs an addition and a division.
Each exponential has an error of a few units in the last place, and so has the probability. This
form is not used if the terms could leave the range of the exponential (`LogisticSums.reach`).

The outputs are affine in the probability, and so are their means: one table of probabilities serves
all outputs.

Letters: N instances, F columns, P players, S donors of a block, D blocks of a segment, B donors, K
scores, T tiles: an instance and a segment of donors; R rows, C = 2^P sub-coalitions; m and n
entries of the half tables, m n = C, H units, A answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xaijax_kernels.engine.reduce import any_bad, compensated_at_once, neumaier
from xaijax_kernels.engine.steps import Number, Step, bound, opened
from xaijax_kernels.engine.tiles import (
    counted_on,
    folded,
    over_tiles,
    platform_of,
    room_of,
    tile_by_tile,
)
from xaijax_kernels.sizes import TILES_OF_MEANS
from xaijax_kernels.structures.base import Head, Layer
from xaijax_kernels.structures.sums import sums_of_choices


@dataclass(frozen=True)
class MeansShape:
    """The static facts of a tile; hashable, so that it can be a key."""

    P: int
    donors: int  # S
    blocks: int  # D
    outputs: int  # K
    dtype: str
    prepared: bool = False  # whether donors are given as each player's contribution

    @property
    def rows(self) -> int:
        """Hybrids of a block."""
        return self.donors << self.P

    @cached_property
    def subsets(self) -> int:
        """2^P."""
        return 1 << self.P


def prepared_rows(
    structure: Callable[[Any], Layer],
    P: int,
    kept: bool,
    platform: str,
    params: Any,
    rows: jax.Array,  # [R, F]
    players: jax.Array | None,  # int32 [F]; None: player j is column j
) -> jax.Array:
    """Each player's contribution to the layer for each row, in the form that `Layer.prepared`
    gives; [R, ..]. kept: rows are instances; otherwise donors.
    """
    known = structure(params)
    members = jnp.eye(P, dtype=bool)
    members = members if players is None else members[:, players]
    return known.prepared(known.columns(rows), known.of_columns(members), kept, platform)


def mean_tables(
    structure: Callable[[Any], Layer],
    head: Callable[[Any, jax.Array], jax.Array],
    score: Callable[[jax.Array, Any], jax.Array] | None,
    kept_scores: Callable[[jax.Array], jax.Array],
    shape: MeansShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [N, F]
    donors: jax.Array,  # [segments, D, S, F], or [segments, D, S, ..] of `prepared_rows`
    weights: jax.Array,  # [segments, D, S], 0 for what fills up
    players: jax.Array | None,  # int32 [F]
    tiles: jax.Array,  # int32 [devices], tiles to run on each device
    work: jax.Array,  # int32 [T, 3]: instance, segment, blocks of it that are used; T on a device
    # that is no CPU is at most TILES_OF_MEANS
) -> tuple[jax.Array, ...]:
    """Weighted sums, over a segment of donors, of the scores of all sub-coalitions minus a score c.

    Returns the sums [T, 2^P, K] and their rounding errors; c, the score of f(x), the largest and
    the smallest score, each [T, K]; and whether a score is invalid, int32 [T]. Bit i of a
    sub-coalition keeps player i. head(params, hidden [R, H]) -> [.., A], R = `block(S 2^P,
    platform, P)` on a CPU, and elsewhere that of all D S donors; score(answers, None) -> [.., K].
    """
    C, K, S = shape.subsets, shape.outputs, shape.donors * shape.blocks
    known_trip_counts, platform = counted_on(mesh), platform_of(mesh)

    def on_one_device(params, x, donors, weights, players, tiles, work):
        known = structure(params)
        each = jnp.eye(shape.P + 1, shape.P, dtype=bool)  # no player is kept by all sub-coalitions
        each = each if players is None else each[:, players]
        of_model = partial(head, params)

        def scores(hidden):
            return scores_of(of_model(hidden))

        def scores_of(answers):
            return answers if score is None else score(answers, None)

        # Only a CPU has to save exponentials; CUDA would ask the host which branch a tile takes.
        rows = known.block(shape.rows, platform, shape.P)
        parts = known, scores, rows, x.dtype, each[: shape.P]
        chances = chances_of(*parts) if platform == "cpu" and not known_trip_counts else None

        def tile(entry):
            if chances is None:
                return by_answers(entry)
            a = chances.terms(x[entry[0]][None])[0]
            b = chances.terms(donors[entry[1]].reshape(-1, x.shape[1]))
            used_donors = entry[2] * shape.donors
            by_chances = partial(chances.means, a, b, weights[entry[1]].ravel(), used_donors)
            return jax.lax.cond(chances.reach(a, b), by_chances, lambda: by_answers(entry))

        made = partial(prepared_rows, structure, shape.P, True, platform, params, players=players)

        def subsets_of(row, S):
            """Donors [S, ..] -> outputs [S 2^P, A] for all sub-coalitions of a row [F], or of a
            prepared row.
            """
            if shape.prepared:
                return lambda b: known.prepared_subsets(of_model, shape.P, row, b, platform)
            instance = jnp.broadcast_to(row, (S, x.shape[1]))
            mask = jnp.broadcast_to(each, (S, *each.shape))
            return lambda b: known.subsets(of_model, instance, b, mask, platform)

        def at_once(entry, row):
            """Evaluates all donors of the segment, in a few large operations."""
            b = donors[entry[1]].reshape(S, *donors.shape[3:])
            used_blocks = jnp.arange(shape.blocks, dtype=jnp.int32)
            w = jnp.where(used_blocks[:, None] < entry[2], weights[entry[1]], 0)
            out = scores_of(subsets_of(row, S)(b)).astype(shape.dtype).reshape(S, C, K)
            c = out[0, 0]
            terms = w.reshape(S, 1, 1) * (out - c)
            high, low, top, bottom = compensated_at_once(terms, 0, out, out)
            return high, low, jnp.stack([c, out[0, -1], top.max(axis=0), bottom.min(axis=0)])

        def by_answers(entry):
            row = x[entry[0]]
            subsets = subsets_of(made(row[None])[0] if shape.prepared else row, shape.donors)

            def block(d, carry):
                c, high, low, top, bottom, full = carry
                b, w = (whole[entry[1], d] for whole in (donors, weights))
                out = scores_of(subsets(b))
                out = out.astype(shape.dtype).reshape(shape.donors, C, K)
                c = jnp.where(d == 0, out[0, 0], c)
                full = jnp.where(d == 0, out[0, -1], full)
                # Minus c: terms are then as large as the changes, not as the level.
                part = jnp.einsum("s,sck->ck", w, out - c, precision=jax.lax.Precision.HIGHEST)
                high, low = neumaier(high, low, part)
                top = jnp.maximum(top, out.max(axis=0))
                bottom = jnp.minimum(bottom, out.min(axis=0))
                return c, high, low, top, bottom, full

            zero, far = jnp.zeros((C, K), shape.dtype), jnp.full((C, K), jnp.inf, shape.dtype)
            start = (zero[0], zero, zero, -far, far, zero[0])
            c, high, low, top, bottom, full = folded(
                block, start, entry[2], shape.blocks, known_trip_counts
            )
            return high, low, jnp.stack([c, full, top.max(axis=0), bottom.min(axis=0)])

        def checked(high, low, extremes):
            # Scores between two valid ones are valid; a NaN shows in the sums.
            good = kept_scores(extremes[2:]).all() & jnp.isfinite(high)
            return high, low, extremes, any_bad(good)

        T = work.shape[0]
        sums = room_of((T, C, K), shape.dtype, platform)
        extremes = jnp.zeros((T, 4, K), shape.dtype)

        # Small products are computed for all tiles at once, before the loop. Their rows are padded
        # to a fixed number, because T depends on the run and the rounding of a product may depend
        # on its rows. The compiler would split the product of a single tile again.
        rows = None
        if platform != "cpu":
            rows = x[jnp.pad(work[:, 0], (0, TILES_OF_MEANS - T))]
            rows = jax.lax.optimization_barrier(made(rows)) if shape.prepared else rows

        def of_turn(t):
            entry = jax.lax.dynamic_index_in_dim(work, t, keepdims=False)
            return checked(*(tile(entry) if rows is None else at_once(entry, rows[t])))

        room = (sums, sums, extremes, jnp.zeros((T,), jnp.int32))
        return tile_by_tile(of_turn, room, tiles[0], known_trip_counts)

    split = over_tiles(on_one_device, mesh, (False,) * 5 + (True,) * 2)
    return split(params, x, donors, weights, players, tiles, work)


TOGETHER = 16  # donors whose probabilities are summed before the sum is compensated


@dataclass(frozen=True)
class LogisticSums:
    """Sums of a layer whose head applies the logistic function, term by term."""

    known: Layer
    head: Logistic
    each: jax.Array  # bool [P, F], the columns of each player

    def terms(self, rows: jax.Array) -> jax.Array:
        """The term of each player of rows [R, F]; [R, P]."""
        columns, members = self.known.columns(rows), self.known.of_columns(self.each)
        many = jnp.repeat(columns, len(members), axis=0), jnp.tile(members, (len(rows), 1))
        return self.head.sums(self.known.part(*many)).reshape(len(rows), len(members))

    @property
    def start(self) -> jax.Array:
        """The sum without any term; []."""
        nothing = self.known.nothing(1, self.head.slope.dtype)
        return self.head.sums(self.known.joined(nothing, nothing)[0, 0]) + self.head.start

    def reach(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """Whether exponentials of all sums of terms, x's [P] or a donor's [B, P], and the sums of
        these exponentials stay within range; bool []. NaN terms may escape the maximum, but show in
        the sums and therefore in the outputs.
        """
        size = jnp.maximum(abs(x), abs(donors).max(axis=0)).sum() + abs(self.start)
        return size < math.log(float(jnp.finfo(size.dtype).max)) - 4

    def means(
        self,
        x: jax.Array,  # [P], of `terms`
        donors: jax.Array,  # [B, P]
        weights: jax.Array,  # [B]
        used_donors: jax.Array,  # int32 [], how many of the donors, at least one
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Weighted sums of the scores of all sub-coalitions minus one score, and their rounding
        errors, both [C, K]; then that score, f(x)'s, the largest and the smallest, [4, K].
        """
        filled = -len(donors) % TOGETHER
        donors = jnp.pad(donors, ((0, filled), (0, 0)), mode="edge")
        weights = jnp.pad(weights, (0, filled))
        half, start = len(x) // 2, jnp.full((len(donors), 1, 1), self.start)
        either = jnp.stack([donors, jnp.broadcast_to(x, donors.shape)], axis=2)[..., None]
        a = sums_of_choices(start, either[:, :half])[..., 0]  # [B, n]
        c = sums_of_choices(jnp.zeros_like(start), either[:, half:])[..., 0]  # [B, m]
        # Unrolled. In one loop with the sums an exponential takes 7 ns, alone 2 ns; the compiler
        # would also recompute them for each sub-coalition.
        a, c = jax.lax.optimization_barrier((a, c))
        grown, shrunk = jax.lax.optimization_barrier((jnp.exp(a), jnp.exp(-c)))
        # Sums with no player kept, all kept, and those kept that raise or lower a donor's sum the
        # most.
        most, least = jnp.maximum(donors, x).sum(axis=1), jnp.minimum(donors, x).sum(axis=1)
        sums = jnp.stack([donors[0].sum(), x.sum(), most.max(), least.min()]) + self.start
        nothing = jax.nn.sigmoid(sums[0])

        def chunk(turn: jax.Array, carry: Any) -> Any:
            def of(table: jax.Array) -> jax.Array:
                return jax.lax.dynamic_slice_in_dim(table, turn * TOGETHER, TOGETHER)

            up, down, w = of(grown), of(shrunk), of(weights)
            part = jnp.zeros_like(carry[0])
            for b in range(TOGETHER):  # unrolled: one pass, in registers
                chance = up[b] / (up[b] + down[b][:, None])
                part += w[b] * (chance - nothing)  # as large as the changes, not as the level
            return neumaier(carry[0], carry[1], part)

        zero = jnp.zeros((c.shape[1], a.shape[1]), x.dtype)
        trip_count = (used_donors + TOGETHER - 1) // TOGETHER
        high, low = folded(chunk, (zero, zero), trip_count, len(donors) // TOGETHER, known=False)
        out = self.head.answers(jax.nn.sigmoid(sums))
        # The gain may have any sign.
        out = jnp.stack([out[0], out[1], out[2:].max(axis=0), out[2:].min(axis=0)])
        gain = self.head.gain
        return high.reshape(-1, 1) * gain, low.reshape(-1, 1) * gain, out


def chances_of(
    known: Layer, head: Head, rows: int, dtype: Any, each: jax.Array
) -> LogisticSums | None:
    """The `LogisticSums` of a layer and its head; None if they are not a sum and a logistic
    function. rows: number of rows in one call of the head. each: bool [P, F], the columns of each
    player.
    """
    logistic_head = logistic(head, (rows, known.width), dtype) if known.adds else None
    return None if logistic_head is None else LogisticSums(known, logistic_head, each)


# A softmax of two numbers is the logistic function of their difference, and one minus that.
# Letters: R rows, H units, A outputs.

MOVES = frozenset("reshape squeeze broadcast_in_dim copy".split())
SUMS = frozenset("add add_any sub".split())
# Steps that only move numbers. Indices are constants, or results of steps outside this list.
LATER = MOVES | frozenset("concatenate dynamic_slice gather rev slice stack transpose".split())


@dataclass(frozen=True)
class Logistic:
    """head(hidden [R, H]) = offset + gain times the logistic function of hidden slope + start."""

    slope: jax.Array  # [H]
    start: jax.Array  # []
    offset: jax.Array  # [A]
    gain: jax.Array  # [A]

    def sums(self, parts: jax.Array) -> jax.Array:
        """Terms of the logistic function's argument, from parts [.., H] of the layer; [..]."""
        return (parts * self.slope).sum(axis=-1)

    def answers(self, chances: jax.Array) -> jax.Array:
        """The outputs [R, A] of rows with these probabilities [R]."""
        return self.offset + chances[:, None] * self.gain


def logistic(head: Head, shape: tuple[int, int], dtype: Any) -> Logistic | None:
    """The head, for hidden numbers of this shape [R, H], as a `Logistic`; None if it is another
    function.

    A row's output depends on that row alone, as the probe has checked.
    """
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        return None
    trace = jax.make_jaxpr(head)(jax.ShapeDtypeStruct(shape, dtype))
    hidden, steps, rows = Number(shape, jnp.dtype(dtype)), [], shape[0]
    outputs = opened(trace.jaxpr, trace.consts, [hidden], steps)
    steps = _softmax_as_one(steps, rows)
    divided = _divided(steps, hidden)
    if divided is None or len(outputs) != 1:
        return None
    free, before, (middle,), after = divided
    made = {number for step in (middle, *after) for number in step.outputs}
    if outputs[0] not in made:  # the output is not the probability
        return None

    two = middle.equation is None

    def rest(chances: jax.Array) -> jax.Array:
        both = jnp.stack([1 - chances, chances], axis=1) if two else chances
        known = {middle.outputs[0]: both.reshape(middle.outputs[0].shape)}
        return _run([*free, *after], known, outputs[0]).reshape(rows, -1)[0]

    def argument(numbers: jax.Array) -> jax.Array:
        value = _run([*free, *before], {hidden: numbers}, middle.inputs[0])
        return value[0, 1] - value[0, 0] if two else value.ravel()[0]

    # By derivatives: a difference of two outputs would lose digits to cancellation.
    start, slope = jax.value_and_grad(argument)(jnp.zeros(shape, dtype))
    zero = jnp.zeros((rows,), dtype)
    return Logistic(slope[0], start, *jax.jvp(rest, (zero,), (jnp.ones_like(zero),)))


Divided = tuple[list[Step], list[Step], list[Step], list[Step]]


def _divided(steps: list[Step], hidden: Number) -> Divided | None:
    """(steps that do not read the hidden numbers, steps before the logistic function, itself, steps
    after it); None: another head.
    """
    parts: Divided = ([], [], [], [])
    stage = {hidden: 1}  # the steps that compute each number
    for step in steps:
        stages = {stage.get(number, 0) for number in step.inputs}
        two = step.equation is None
        if {1, 3} <= stages or not (two or not step.equation.effects):
            return None
        current = max(stages, default=0)
        if current == 1:
            if math.prod(step.outputs[0].shape) != math.prod(hidden.shape):
                return None
            if two or (step.equation.primitive.name == "logistic" and hidden.shape[1] == 1):
                if parts[2]:
                    return None
                current = 2
            elif not _affine(step, stage, 1, MOVES):
                return None
        elif current > 1 and not _affine(step, stage, 3, LATER):
            # A sum of 0 is a probability of exactly one half, which the exponentials may miss by
            # the last bit. A later step that thresholds, rounds or divides could turn that bit into
            # a different output.
            return None
        parts[current].append(step)
        stage.update(dict.fromkeys(step.outputs, 3 if current == 2 else current))
    return parts if parts[2] else None


def _softmax_as_one(steps: list[Step], rows: int) -> list[Step]:
    """The steps, with those of a softmax [rows, 2] merged into one step without an equation."""
    maker = {number: step for step in steps for number in step.outputs}

    def made(number: Number, name: str, path: list[Step]) -> Number | None:
        """The input of the step `name` that computes a number, through moves; these steps go into
        own."""
        while (step := maker.get(number)) is not None:
            path.append(step)
            if step.equation.primitive.name == name:
                return step.inputs[0] if step.equation.params.get("axes", (1,)) == (1,) else None
            at = 1 if step.equation.primitive.name == "max" else 0  # a maximum with -inf, and moves
            if at and (step.inputs[0].whole is None or step.inputs[0].whole != -jnp.inf):
                return None
            if not at and step.equation.primitive.name not in {*MOVES, "stop_gradient"}:
                return None
            number = step.inputs[at]
        return None

    def parts_of(last: Step) -> tuple[Number, list[Step]] | None:
        """(inputs, all steps) of the softmax that ends with this step."""
        path = [last]
        if last.equation.primitive.name != "div" or last.outputs[0].shape != (rows, 2):
            return None
        less = made(last.inputs[0], "exp", path)
        if less is None or made(last.inputs[1], "reduce_sum", path) is not last.inputs[0]:
            return None
        numbers = made(less, "sub", path)
        if numbers is None or path[-1].outputs[0] is not less:
            return None
        largest = made(path[-1].inputs[1], "reduce_max", path)
        return (numbers, path) if largest is numbers and numbers.shape == (rows, 2) else None

    for last in steps:
        if parts := parts_of(last):
            numbers, of_softmax = parts
            inner = {number for step in of_softmax if step is not last for number in step.outputs}
            rest = [step for step in steps if step not in of_softmax]
            if not any(inner & set(step.inputs) for step in rest):
                merged = Step(None, [numbers], last.outputs)
                steps = [merged if step is last else step for step in steps]
                return [step for step in steps if step is merged or step not in of_softmax]
    return steps


def _affine(step: Step, stage: dict[Number, int], of: int, moves: frozenset[str]) -> bool:
    """Whether a step is affine in the inputs that belong to the stage `of`."""
    name = step.equation.primitive.name
    hit = [stage.get(number, 0) == of for number in step.inputs]
    same = all(
        number.dtype == step.outputs[0].dtype
        for number, reads in zip(step.inputs, hit, strict=True)
        if reads or name not in moves  # indices are integers
    )
    if len(step.outputs) != 1 or not same:
        return False
    if name in moves:
        return all(hit) if name in ("concatenate", "stack") else hit[0] and not any(hit[1:])
    if name in SUMS:
        return True
    if name == "neg" or (name == "reduce_sum" and of > 1):
        return True
    if name == "mul" or (name == "dot_general" and of > 1):
        return sum(hit) == 1
    return name == "div" and not hit[1]


def _run(steps: list[Step], known: dict[Number, Any], wanted: Number) -> Any:
    """Evaluates the steps, and returns the value of `wanted`."""

    def read(number: Number) -> Any:
        return known[number] if number in known else number.whole

    for step in steps:
        outputs = bound(step.equation, [read(number) for number in step.inputs])
        known.update(zip(step.outputs, outputs, strict=True))
    return read(wanted)
