"""v(S) of all coalitions of an instance by its model's structure, donors averaged on the way.

If every donor differs from x in every player, no two hybrids are the same, and the same 2^P
coalitions are asked for each donor. Their mean over donors is taken while the answers are in a
core's fast memory: one table goes back for each instance, in place of one for each pair.

**Mean answers of a logistic head** need no exponential of each coalition:

    1 / (1 + exp(-(a + c))) = exp(a) / (exp(a) + exp(-c)).

The sum of a coalition is a of some players and c of the others. The exponentials therefore belong
to two half tables, and for each donor a coalition costs an addition and a division. Each
exponential is off by some units in the last place, and so is the chance, as by the sum's own
rounding. This way is not taken if the terms could leave the range of the exponential
(`LogisticSums.reach`).

The answers are affine in the chance, and so is their mean: one table of chances serves all outputs.

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
    prepared: bool = False  # whether donors are given as what each player contributes

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
    """What each player of each row contributes, as the layer's sub-coalitions take it; [R, ..].
    kept: of instances; of donors otherwise.
    """
    known = structure(params)
    own = jnp.eye(P, dtype=bool)
    own = own if players is None else own[:, players]
    return known.prepared(known.columns(rows), known.of_columns(own), kept, platform)


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
    work: jax.Array,  # int32 [T, 3]: instance, segment, blocks of it that are asked; T on a device
    # that is no CPU is at most TILES_OF_MEANS
) -> tuple[jax.Array, ...]:
    """Weighted sums over a segment of donors of the scores of all sub-coalitions, minus one score
    c.

    Returns the sums [T, 2^P, K] and what rounding took from them; c, the score of f(x), the largest
    and the smallest score, each [T, K]; and whether one is bad, int32 [T]. Bit i of a sub-coalition
    keeps player i. head(params, hidden [R, H]) -> [.., A], R = `block(S 2^P, platform, P)`
    on a CPU, and elsewhere that of all D S donors; score(answers, None) -> [.., K].
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

        # Only a CPU has to save exponentials; CUDA would ask the host which way a tile takes.
        rows = known.block(shape.rows, platform, shape.P)
        given = known, scores, rows, x.dtype, each[: shape.P]
        chances = chances_of(*given) if platform == "cpu" and not known_trip_counts else None

        def tile(one):
            if chances is None:
                return by_answers(one)
            a = chances.terms(x[one[0]][None])[0]
            b = chances.terms(donors[one[1]].reshape(-1, x.shape[1]))
            asked = one[2] * shape.donors
            by_chances = partial(chances.means, a, b, weights[one[1]].ravel(), asked)
            return jax.lax.cond(chances.reach(a, b), by_chances, lambda: by_answers(one))

        made = partial(prepared_rows, structure, shape.P, True, platform, params, players=players)

        def subsets_of(row, S):
            """Donors [S, ..] -> answers [S 2^P, A] to all sub-coalitions of a row [F], or of what
            was made of it.
            """
            if shape.prepared:
                return lambda b: known.prepared_subsets(of_model, shape.P, row, b, platform)
            own = jnp.broadcast_to(row, (S, x.shape[1]))
            kept = jnp.broadcast_to(each, (S, *each.shape))
            return lambda b: known.subsets(of_model, own, b, kept, platform)

        def at_once(one, row):
            """All donors of the segment, as many as a few large operations take."""
            b = donors[one[1]].reshape(S, *donors.shape[3:])
            asked = jnp.arange(shape.blocks, dtype=jnp.int32)
            w = jnp.where(asked[:, None] < one[2], weights[one[1]], 0)
            out = scores_of(subsets_of(row, S)(b)).astype(shape.dtype).reshape(S, C, K)
            c = out[0, 0]
            terms = w.reshape(S, 1, 1) * (out - c)
            high, low, top, bottom = compensated_at_once(terms, 0, out, out)
            return high, low, jnp.stack([c, out[0, -1], top.max(axis=0), bottom.min(axis=0)])

        def by_answers(one):
            row = x[one[0]]
            subsets = subsets_of(made(row[None])[0] if shape.prepared else row, shape.donors)

            def block(d, carry):
                c, high, low, top, bottom, full = carry
                b, w = (whole[one[1], d] for whole in (donors, weights))
                out = scores_of(subsets(b))
                out = out.astype(shape.dtype).reshape(shape.donors, C, K)
                c = jnp.where(d == 0, out[0, 0], c)
                full = jnp.where(d == 0, out[0, -1], full)
                # Less c: what is summed is as large as the changes, not as the level.
                part = jnp.einsum("s,sck->ck", w, out - c, precision=jax.lax.Precision.HIGHEST)
                high, low = neumaier(high, low, part)
                top = jnp.maximum(top, out.max(axis=0))
                bottom = jnp.minimum(bottom, out.min(axis=0))
                return c, high, low, top, bottom, full

            zero, far = jnp.zeros((C, K), shape.dtype), jnp.full((C, K), jnp.inf, shape.dtype)
            start = (zero[0], zero, zero, -far, far, zero[0])
            c, high, low, top, bottom, full = folded(
                block, start, one[2], shape.blocks, known_trip_counts
            )
            return high, low, jnp.stack([c, full, top.max(axis=0), bottom.min(axis=0)])

        def checked(high, low, ends):
            # Scores between two that are kept are kept; one that is no number is in the sums.
            good = kept_scores(ends[2:]).all() & jnp.isfinite(high)
            return high, low, ends, any_bad(good)

        T = work.shape[0]
        sums = room_of((T, C, K), shape.dtype, platform)
        ends = jnp.zeros((T, 4, K), shape.dtype)

        # Small products are made of all tiles together, before the loop. Their rows are filled up
        # to a fixed number: T follows the question, and a product's bits may follow its rows. The
        # compiler would cut the product of a single tile again.
        rows = None
        if platform != "cpu":
            rows = x[jnp.pad(work[:, 0], (0, TILES_OF_MEANS - T))]
            rows = jax.lax.optimization_barrier(made(rows)) if shape.prepared else rows

        def of_turn(t):
            one = jax.lax.dynamic_index_in_dim(work, t, keepdims=False)
            return checked(*(tile(one) if rows is None else at_once(one, rows[t])))

        room = (sums, sums, ends, jnp.zeros((T,), jnp.int32))
        return tile_by_tile(of_turn, room, tiles[0], known_trip_counts)

    split = over_tiles(on_one_device, mesh, (False,) * 5 + (True,) * 2)
    return split(params, x, donors, weights, players, tiles, work)


TOGETHER = 16  # donors whose chances are added up before what rounding takes is carried along


@dataclass(frozen=True)
class LogisticSums:
    """The sums of a layer that a head takes the logistic function of, by their terms."""

    known: Layer
    head: Logistic
    each: jax.Array  # bool [P, F], the columns of each player

    def terms(self, rows: jax.Array) -> jax.Array:
        """What each player of rows [R, F] adds; [R, P]."""
        columns, own = self.known.columns(rows), self.known.of_columns(self.each)
        many = jnp.repeat(columns, len(own), axis=0), jnp.tile(own, (len(rows), 1))
        return self.head.sums(self.known.part(*many)).reshape(len(rows), len(own))

    @property
    def start(self) -> jax.Array:
        """The sum without any term; []."""
        nothing = self.known.nothing(1, self.head.slope.dtype)
        return self.head.sums(self.known.joined(nothing, nothing)[0, 0]) + self.head.start

    def reach(self, x: jax.Array, donors: jax.Array) -> jax.Array:
        """Whether exponentials of any sum of terms, x's [P] or a donor's [B, P], and their own
        sums keep all their digits; bool []. What a maximum loses, a term that is no number, is in
        the sums themselves, and so in the answers.
        """
        size = jnp.maximum(abs(x), abs(donors).max(axis=0)).sum() + abs(self.start)
        return size < math.log(float(jnp.finfo(size.dtype).max)) - 4

    def means(
        self,
        x: jax.Array,  # [P], of `terms`
        donors: jax.Array,  # [B, P]
        weights: jax.Array,  # [B]
        asked: jax.Array,  # int32 [], how many of the donors, at least one
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Weighted sums of the scores of all sub-coalitions, minus one of them, what rounding took
        from them, both [C, K]; and that score, f(x)'s, the largest and the smallest, [4, K].
        """
        filled = -len(donors) % TOGETHER
        donors = jnp.pad(donors, ((0, filled), (0, 0)), mode="edge")
        weights = jnp.pad(weights, (0, filled))
        half, start = len(x) // 2, jnp.full((len(donors), 1, 1), self.start)
        either = jnp.stack([donors, jnp.broadcast_to(x, donors.shape)], axis=2)[..., None]
        a = sums_of_choices(start, either[:, :half])[..., 0]  # [B, n]
        c = sums_of_choices(jnp.zeros_like(start), either[:, half:])[..., 0]  # [B, m]
        # Written out. With the sums in one loop an exponential takes 7 ns, alone 2; the compiler
        # would also make them again for each sub-coalition.
        a, c = jax.lax.optimization_barrier((a, c))
        grown, shrunk = jax.lax.optimization_barrier((jnp.exp(a), jnp.exp(-c)))
        # The sums of no player, of all, and of those that add most or least to the sum of a donor.
        most, least = jnp.maximum(donors, x).sum(axis=1), jnp.minimum(donors, x).sum(axis=1)
        sums = jnp.stack([donors[0].sum(), x.sum(), most.max(), least.min()]) + self.start
        nothing = jax.nn.sigmoid(sums[0])

        def some(turn: jax.Array, kept: Any) -> Any:
            def of(table: jax.Array) -> jax.Array:
                return jax.lax.dynamic_slice_in_dim(table, turn * TOGETHER, TOGETHER)

            up, down, w = of(grown), of(shrunk), of(weights)
            part = jnp.zeros_like(kept[0])
            for b in range(TOGETHER):  # written out: one pass over what stays in registers
                chance = up[b] / (up[b] + down[b][:, None])
                part += w[b] * (chance - nothing)  # as large as the changes, not as the level
            return neumaier(kept[0], kept[1], part)

        zero = jnp.zeros((c.shape[1], a.shape[1]), x.dtype)
        turns = (asked + TOGETHER - 1) // TOGETHER
        high, low = folded(some, (zero, zero), turns, len(donors) // TOGETHER, known=False)
        ends = self.head.answers(jax.nn.sigmoid(sums))
        # The gain may be of any sign.
        ends = jnp.stack([ends[0], ends[1], ends[2:].max(axis=0), ends[2:].min(axis=0)])
        gain = self.head.gain
        return high.reshape(-1, 1) * gain, low.reshape(-1, 1) * gain, ends


def chances_of(
    known: Layer, head: Head, rows: int, dtype: Any, each: jax.Array
) -> LogisticSums | None:
    """The `LogisticSums` of a layer and the head that follows it; None if they are not a sum and a
    logistic function. rows: number of rows that the head takes at a time. each: bool [P, F], the
    columns of each player.
    """
    found = logistic(head, (rows, known.width), dtype) if known.adds else None
    return None if found is None else LogisticSums(known, found, each)


# A softmax of two numbers is the logistic function of their difference, and one less that.
# `chances.py` takes the mean of such answers over donors. Letters: R rows, H units, A answers.

MOVES = frozenset("reshape squeeze broadcast_in_dim copy".split())
SUMS = frozenset("add add_any sub".split())
# What else only moves numbers; a place is a constant, or comes of a step that is none of these.
LATER = MOVES | frozenset("concatenate dynamic_slice gather rev slice stack transpose".split())


@dataclass(frozen=True)
class Logistic:
    """head(hidden [R, H]) = offset + gain times the logistic function of hidden slope + start."""

    slope: jax.Array  # [H]
    start: jax.Array  # []
    offset: jax.Array  # [A]
    gain: jax.Array  # [A]

    def sums(self, parts: jax.Array) -> jax.Array:
        """What parts [.., H] of the layer add to the argument of the logistic function; [..]."""
        return (parts * self.slope).sum(axis=-1)

    def answers(self, chances: jax.Array) -> jax.Array:
        """The answers [R, A] to rows of such chances [R]."""
        return self.offset + chances[:, None] * self.gain


def logistic(head: Head, shape: tuple[int, int], dtype: Any) -> Logistic | None:
    """What the head is of hidden numbers of such a shape [R, H]; None: it is something else.

    A row's answer is taken to depend on that row alone, as the probe made sure.
    """
    if jnp.dtype(dtype) not in (jnp.float32, jnp.float64):
        return None
    trace = jax.make_jaxpr(head)(jax.ShapeDtypeStruct(shape, dtype))
    hidden, steps, rows = Number(shape, jnp.dtype(dtype)), [], shape[0]
    outputs = opened(trace.jaxpr, trace.consts, [hidden], steps)
    steps = _softmax_as_one(steps, rows)
    found = _divided(steps, hidden)
    if found is None or len(outputs) != 1:
        return None
    free, before, (middle,), after = found
    made = {number for step in (middle, *after) for number in step.outputs}
    if outputs[0] not in made:  # the chance is not what is answered
        return None

    two = middle.equation is None

    def rest(chances: jax.Array) -> jax.Array:
        both = jnp.stack([1 - chances, chances], axis=1) if two else chances
        known = {middle.outputs[0]: both.reshape(middle.outputs[0].shape)}
        return _run([*free, *after], known, outputs[0]).reshape(rows, -1)[0]

    def argument(numbers: jax.Array) -> jax.Array:
        own = _run([*free, *before], {hidden: numbers}, middle.inputs[0])
        return own[0, 1] - own[0, 0] if two else own.ravel()[0]

    # By derivatives: a difference of two answers would round off what they have in common.
    start, slope = jax.value_and_grad(argument)(jnp.zeros(shape, dtype))
    zero = jnp.zeros((rows,), dtype)
    return Logistic(slope[0], start, *jax.jvp(rest, (zero,), (jnp.ones_like(zero),)))


Divided = tuple[list[Step], list[Step], list[Step], list[Step]]


def _divided(steps: list[Step], hidden: Number) -> Divided | None:
    """The steps that do not read the hidden numbers, those before the logistic function, itself,
    and those after; None: another head.
    """
    parts: Divided = ([], [], [], [])
    stage = {hidden: 1}  # of a number: what it is made by
    for step in steps:
        stages = {stage.get(number, 0) for number in step.inputs}
        two = step.equation is None
        if {1, 3} <= stages or not (two or not step.equation.effects):
            return None
        own = max(stages, default=0)
        if own == 1:
            if math.prod(step.outputs[0].shape) != math.prod(hidden.shape):
                return None
            if two or (step.equation.primitive.name == "logistic" and hidden.shape[1] == 1):
                if parts[2]:
                    return None
                own = 2
            elif not _affine(step, stage, 1, MOVES):
                return None
        elif own > 1 and not _affine(step, stage, 3, LATER):
            # A sum of 0 is a chance of exactly one half, which the exponentials may miss by a last
            # bit: what steps, rounds or divides by a chance could make a whole answer of that.
            return None
        parts[own].append(step)
        stage.update(dict.fromkeys(step.outputs, 3 if own == 2 else own))
    return parts if parts[2] else None


def _softmax_as_one(steps: list[Step], rows: int) -> list[Step]:
    """The steps, those of a softmax [rows, 2] as one step without an equation."""
    maker = {number: step for step in steps for number in step.outputs}

    def made(number: Number, name: str, own: list[Step]) -> Number | None:
        """What the step `name` reads by which a number is made, and moved; these go into own."""
        while (step := maker.get(number)) is not None:
            own.append(step)
            if step.equation.primitive.name == name:
                return step.inputs[0] if step.equation.params.get("axes", (1,)) == (1,) else None
            at = 1 if step.equation.primitive.name == "max" else 0  # of -inf, and what is moved
            if at and (step.inputs[0].whole is None or step.inputs[0].whole != -jnp.inf):
                return None
            if not at and step.equation.primitive.name not in {*MOVES, "stop_gradient"}:
                return None
            number = step.inputs[at]
        return None

    def parts_of(last: Step) -> tuple[Number, list[Step]] | None:
        """(the numbers, all steps) of the softmax that ends with this step."""
        own = [last]
        if last.equation.primitive.name != "div" or last.outputs[0].shape != (rows, 2):
            return None
        less = made(last.inputs[0], "exp", own)
        if less is None or made(last.inputs[1], "reduce_sum", own) is not last.inputs[0]:
            return None
        numbers = made(less, "sub", own)
        if numbers is None or own[-1].outputs[0] is not less:
            return None
        largest = made(own[-1].inputs[1], "reduce_max", own)
        return (numbers, own) if largest is numbers and numbers.shape == (rows, 2) else None

    for last in steps:
        if found := parts_of(last):
            numbers, own = found
            inner = {number for step in own if step is not last for number in step.outputs}
            rest = [step for step in steps if step not in own]
            if not any(inner & set(step.inputs) for step in rest):
                one = Step(None, [numbers], last.outputs)
                steps = [one if step is last else step for step in steps]
                return [step for step in steps if step is one or step not in own]
    return steps


def _affine(step: Step, stage: dict[Number, int], of: int, moves: frozenset[str]) -> bool:
    """Whether a step is affine in the numbers of the stage `of` that it reads."""
    name = step.equation.primitive.name
    own = [stage.get(number, 0) == of for number in step.inputs]
    same = all(
        number.dtype == step.outputs[0].dtype
        for number, reads in zip(step.inputs, own, strict=True)
        if reads or name not in moves  # places are whole numbers
    )
    if len(step.outputs) != 1 or not same:
        return False
    if name in moves:
        return all(own) if name in ("concatenate", "stack") else own[0] and not any(own[1:])
    if name in SUMS:
        return True
    if name == "neg" or (name == "reduce_sum" and of > 1):
        return True
    if name == "mul" or (name == "dot_general" and of > 1):
        return sum(own) == 1
    return name == "div" and not own[1]


def _run(steps: list[Step], known: dict[Number, Any], wanted: Number) -> Any:
    """The number that is wanted, of those that are known."""

    def read(number: Number) -> Any:
        return known[number] if number in known else number.whole

    for step in steps:
        found = bound(step.equation, [read(number) for number in step.inputs])
        known.update(zip(step.outputs, found, strict=True))
    return read(wanted)
