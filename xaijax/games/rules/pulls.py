"""Pulls: rules of instances as rows of a loop, the two loops, and sums of their bits.

`RuleDevice` runs pulls of JAX models in tiles, by the engine's trace. `RuleHost` makes the same
rows on the device as codes, and a host model evaluates them; a few rows are made in NumPy, also for
JAX models. `satisfying` draws rows that satisfy a rule, by the same hash as on the device.

Letters: Q questions (an instance and a rule), F columns, L columns of a rule at most, p draws of
a pull, D draws of a question, B donors, R draws of rows that satisfy a rule, T tiles in a dispatch,
G pulls in a tile, M pulls, N instances, C code columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from xaijax.games.engine.device import part_of_tile
from xaijax.games.engine.dispatch import (
    LOOK_AHEAD,
    RAISE,
    THREADS,
    Dispatches,
    ProgramRecipe,
    shape,
)
from xaijax.games.engine.host import HostBackend, SmallBackend
from xaijax.games.engine.loop import named_rows
from xaijax.games.engine.programs import Programs
from xaijax.games.measure.score import Score
from xaijax.games.run import GameRun
from xaijax_kernels.engine.lattice import player_words
from xaijax_kernels.rules.perturbed_rows import (
    HEADER,
    PerturbationSpace,
    Pool,
    PullShape,
    Subjects,
    keys_of,
    perturbed,
    run_pulls,
)
from xaijax_kernels.sizes import counted

NAMED = 32  # draws of a pull that lists them: one word of bits
SHORT = 20  # draws of a random pull: half of a candidate's first draws


@dataclass(frozen=True)
class Pulls:
    """Pulls in the order of their questions."""

    header: np.ndarray  # int32 [M, 4 + L], as `perturbed_rows.perturbed` takes them
    question: np.ndarray  # int64 [M]
    used: np.ndarray  # int64 [M], real draws of the pull
    draws: int  # p


def rule_columns(rules: np.ndarray, longest: int) -> np.ndarray:
    """The columns of rules bool [Q, F]: int32 [Q, longest], -1 if there are no more."""
    order = np.argsort(~rules, axis=1, kind="stable")[:, :longest]
    return np.where(np.take_along_axis(rules, order, axis=1), order, -1).astype(np.int32)


def pulls_of(
    instance: np.ndarray,
    keys: np.ndarray,
    rules: np.ndarray,
    first: np.ndarray,
    draws: np.ndarray,
    p: int,
    longest: int,
) -> Pulls:
    """Pulls of p draws that cover draws first .. first + draws - 1 of each question.

    instance int [Q], keys int32 [Q, 2], rules bool [Q, F], first and draws int [Q].
    """
    pieces = -(-draws // p)
    question = np.repeat(np.arange(len(draws)), pieces)
    before = np.repeat(np.cumsum(pieces) - pieces, pieces)
    offset = (np.arange(len(question)) - before) * p
    header = np.empty((len(question), HEADER + longest), np.int32)
    header[:, 0] = instance[question]
    header[:, 1:3] = keys[question]
    header[:, 3] = first[question] + offset
    header[:, HEADER:] = rule_columns(rules, longest)[question]
    return Pulls(header, question, np.minimum(draws[question] - offset, p), p)


def named_pulls(
    instance: np.ndarray,
    keys: np.ndarray,
    rules: np.ndarray,
    wanted: np.ndarray,
    p: int,
    longest: int,
) -> tuple[Pulls, np.ndarray]:
    """(pulls that list the draws wanted bool [Q, D], the flat positions of these draws in
    `wanted`).

    A pull's last draws are repeated if it has fewer than p.
    """
    places, D = np.flatnonzero(wanted), wanted.shape[1]
    each = np.count_nonzero(wanted, axis=1)
    pieces = -(-each // p)
    of_pull = np.repeat(np.arange(len(each)), pieces)
    before = np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = (np.arange(len(of_pull)) - before) * p  # within the question
    first, left = (np.cumsum(each) - each)[of_pull] + start, each[of_pull] - start
    header = np.empty((len(of_pull), HEADER + longest + p), np.int32)
    header[:, 0] = instance[of_pull]
    header[:, 1:3], header[:, 3] = keys[of_pull], 0
    header[:, HEADER : HEADER + longest] = rule_columns(rules, longest)[of_pull]
    at = first[:, None] + np.minimum(np.arange(p), left[:, None] - 1)
    header[:, HEADER + longest :] = places[at] - (of_pull * D)[:, None]
    return Pulls(header, of_pull, np.minimum(left, p), p), places


def counts(pulls: Pulls, bits: np.ndarray, questions: int) -> np.ndarray:
    """Draws that agree, int64 [questions], of bits uint32 [M, ceil(p / 32)]."""
    left = pulls.used[:, None] - 32 * np.arange(bits.shape[1])
    low = (np.uint64(1) << left.clip(0, 32).astype(np.uint64)) - np.uint64(1)
    hits = np.bitwise_count(bits & low.astype(np.uint32)).sum(axis=1, dtype=np.int64)
    return np.bincount(pulls.question, hits, minlength=questions).astype(np.int64)


def flags(bits: np.ndarray, p: int) -> np.ndarray:
    """Returns which draws agree, bool [M, p], of bits uint32 [M, ceil(p / 32)]."""
    bytes_ = np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), -1)
    return np.unpackbits(bytes_, axis=1, bitorder="little", count=p).view(bool)


def satisfying(
    holds: np.ndarray, weights: np.ndarray, keys: np.ndarray, first: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(question, a donor that satisfies its rule, any donor) of every draw; int64 [R] each.

    holds bool [Q, B], at least one a question; weights [B]; keys int32 [Q, 2]; first, draws [Q].
    """
    question = np.repeat(np.arange(len(draws)), draws)
    before = np.repeat(np.cumsum(draws) - draws, draws)
    draw = (np.arange(len(question)) - before + first[question]).astype(np.uint64)
    key = words_of(keys)[question]
    # Uniform numbers in [0, 1).
    both = [(words_of(keys_of(i, key, draw)) >> np.uint64(11)) * 2.0**-53 for i in (0, 1)]
    cumulative = np.cumsum(holds * weights, axis=1)
    total = cumulative[:, -1]
    # One search in all questions: question q's running shares lie in (q, q + 1].
    shares = cumulative / total[:, None] + np.arange(len(holds))[:, None]
    flat = np.searchsorted(shares.ravel(), question + both[0], side="right")
    last = holds.shape[1] - 1 - holds[:, ::-1].argmax(axis=1)
    donor = np.minimum(flat - question * holds.shape[1], last[question])
    cumulative = np.cumsum(weights)
    free = np.searchsorted(cumulative, both[1] * cumulative[-1], side="right")
    return question, donor, np.minimum(free, np.flatnonzero(weights)[-1])


def words_of(keys: np.ndarray) -> np.ndarray:
    """uint64 [R] of the keys int32 [R, 2] of `keys_of`."""
    return np.ascontiguousarray(keys.astype("<i4")).view("<u8").ravel()


# A round ends in a partly filled tile, and the last rounds have few instances: with tiles of the
# engine's size, two fifths of the model rows of a search by draws were padding.
TILE_PARTS = 4
# Tiles of one dispatch: few programs, and small arrays for small queries.
LADDER = (4, 32, 256)


def shorten_tiles(questions: GameRun) -> None:
    """Uses smaller tiles on devices, if tile= was not given; probes the model."""
    engine, evaluator = questions.probe(), questions.evaluator
    if engine.model.loop == "jax" and engine.limits.tile is None and not questions.probe_small():
        evaluator.use_tile(part_of_tile(engine, TILE_PARTS))


class RuleDevice:
    """Runs pulls on the devices of the engine's own programs."""

    def __init__(self, programs: Programs, score: Score) -> None:
        self._programs, self._score = programs, score
        self.rows_per_call = programs.sizes.tile.rows  # R
        self._held: tuple[Any, Any] | None = None  # the pool and its copy on the devices
        self._who: tuple[Any, Any] | None = None

    def bits(
        self, space: PerturbationSpace, pool: Pool, subjects: Subjects, pulls: Pulls
    ) -> tuple[np.ndarray, int]:
        """(bits uint32 [M, ceil(p / 32)], the first pull of a tile with an invalid output or
        -1)."""
        programs, clock = self._programs, self._programs.compiled.clock
        pull = PullShape(programs.sizes.tile.instance_shape, self.rows_per_call, pulls.draws)
        G, words, devices = pull.pulls, pull.words, programs.mesh.size
        threads, each, T = self._cut(len(pulls.header), G)
        pool = self._pool(pool)
        who = self._subjects(subjects)
        recipe = self._recipe(space, pull, T, pool, who, pulls.header.shape[1])
        run, ahead = programs.compiled.with_ahead(recipe)
        out = np.empty((len(pulls.header), words), np.uint32)
        bad, step = -1, each * devices * G

        def work() -> Iterator[tuple[int, np.ndarray]]:
            for first in range(0, len(pulls.header), step):
                part = pulls.header[first : first + step]
                tiles = -(-len(part) // G)
                clock.padded_rows += tiles * pull.rows - len(part) * pulls.draws
                full = np.concatenate([part, np.repeat(part[-1:], tiles * G - len(part), axis=0)])
                yield first, full.reshape(tiles, G, -1)

        dispatches = Dispatches(programs.mesh, clock, T, ahead)
        for dispatch in dispatches.run(run, (programs.params, pool, who), work(), threads=threads):
            first, (bits, lost) = dispatch.asked, dispatch.read()
            part = bits.reshape(-1, words)
            out[first : first + len(part)] = part[: len(out) - first]
            wrong = np.flatnonzero(lost)
            bad = max(bad, first + int(wrong[0]) * G if len(wrong) else -1)
        return out, bad

    def cost(
        self, space: PerturbationSpace, pool: Pool, A: int, pulls: int, draws: int, L: int
    ) -> tuple[ProgramRecipe, int]:
        """(recipe of the program, number of its dispatches) for pulls of `draws` draws with headers
        of L numbers; A: outputs of the model.
        """
        programs, (F, c) = self._programs, pool.donors.shape[1:]
        pull = PullShape(programs.sizes.tile.instance_shape, self.rows_per_call, draws)
        _, each, T = self._cut(pulls, pull.pulls)
        count, place, dtype = programs.sizes.instances, programs.same, programs.donors.dtype
        ranges = shape(place, count, F)
        rows, reference = (shape(place, count, *dims, dtype=dtype) for dims in ((F, c), (A,)))
        who = Subjects(rows, ranges, ranges, reference)
        held = Pool(*(shape(place, *array.shape, dtype=array.dtype) for array in pool))
        calls = -(-pulls // (each * programs.mesh.size * pull.pulls))
        return self._recipe(space, pull, T, held, who, L), calls

    def _cut(self, pulls: int, G: int) -> tuple[int, int, int]:
        """(dispatches that are one call of the model, tiles of a device in each, T)."""
        devices = self._programs.mesh.size
        needed = -(-pulls // (G * devices))  # tiles of a device
        # A longer query is split over the threads, and again if it is very long.
        threads = THREADS if needed > LADDER[0] else 1
        pieces = max(threads, -(-needed // LADDER[-1]))
        each = -(-needed // pieces)
        return threads, each, devices * next(t for t in LADDER if t >= each)

    def _pool(self, pool: Pool) -> Any:
        if self._held is None or self._held[0] is not pool:
            self._held = pool, jax.device_put(pool, self._programs.same)
        return self._held[1]

    def _subjects(self, subjects: Subjects) -> Any:
        """The instances, padded to the same number for every call."""
        if self._who is None or self._who[0] is not subjects:
            count, dtype = self._programs.sizes.instances, self._programs.donors.dtype

            def padded(rows: Any, kind: Any) -> np.ndarray:
                full = np.zeros((count, *rows.shape[1:]), kind)
                full[: len(rows)] = rows
                return full

            kinds = dtype, np.int32, np.int32, dtype
            full = Subjects(*map(padded, subjects, kinds))
            self._who = subjects, jax.device_put(full, self._programs.same)
        return self._who[1]

    def _recipe(
        self, space: PerturbationSpace, pull: PullShape, T: int, pool: Any, who: Any, L: int
    ) -> ProgramRecipe:
        p = self._programs
        run = partial(run_pulls, p.traced(), self._score, space, pull, p.mesh)
        tiles = shape(p.split, p.mesh.size), shape(p.split, T, pull.pulls, L)
        return ProgramRecipe(
            ("pulls", space, pull, self._score),
            run,
            (p.params, pool, who, *tiles),
            what="a dispatch of pulls",
            remedy=f"{RAISE[:-1]}, or lower tile=.",
            ahead=LOOK_AHEAD,
            results=p.results,
        )


@dataclass(frozen=True)
class PullChunk:
    """The pulls of one call, as a piece of the host loop."""

    first_row: int
    rows: int
    pulls: np.ndarray  # int32 [at most G, 4 + L]

    @property
    def slots(self) -> np.ndarray:
        """The pull of each row, int32 [rows, 4 + L]."""
        return np.repeat(self.pulls, self.rows // len(self.pulls), axis=0)


class RuleHost:
    """Runs pulls through a host model, or few pulls through any model."""

    def __init__(self, backend: HostBackend, score: Score) -> None:
        self._backend, self._score = backend, score
        self.rows_per_call = backend.rows_per_call  # R
        self.first = 0  # the row of X of instance 0, for messages

    def bits(
        self, space: PerturbationSpace, pool: Pool, subjects: Subjects, pulls: Pulls
    ) -> tuple[np.ndarray, int]:
        """(bits uint32 [M, ceil(p / 32)], the first pull with an invalid output or -1)."""
        p, M = pulls.draws, len(pulls.header)
        # Few sizes compile; a call has at most the pulls of the round.
        G = max(1, min(self._backend.rows_together // p, 1 << (M - 1).bit_length()))
        draw = self._drawer(space, pool, subjects, G, p, pulls.header.shape[1])
        reference = np.asarray(subjects.own, np.float64)

        def drawn(piece: PullChunk) -> Any:
            full = np.repeat(piece.pulls[-1:], G, axis=0)
            full[: len(piece.pulls)] = piece.pulls
            return draw(full)

        pieces = (
            PullChunk(first * p, len(pulls.header[first : first + G]) * p, pulls.header[first:][:G])
            for first in range(0, M, G)
        )
        parts, bad = [], -1

        def whose(slots: np.ndarray) -> str:
            return f"these are drawn around X {named_rows(slots[:, 0] + self.first)}"

        for piece, answers in self._backend.answered(drawn, pieces, whose):
            who = np.repeat(piece.pulls[:, 0], p)
            scores = np.asarray(self._score(answers, reference[who]))[:, 0]
            lost = np.flatnonzero(~np.isfinite(scores))
            if len(lost):
                bad = (piece.first_row + int(lost[0])) // p
            parts.append(player_words((scores > 0.5).reshape(-1, p)))
        return np.concatenate(parts), bad

    def _drawer(
        self, space: PerturbationSpace, pool: Pool, subjects: Subjects, G: int, p: int, L: int
    ) -> Callable[[np.ndarray], Any]:
        """The function that makes the rows of G pulls, on the first device of the run or in
        NumPy."""
        if isinstance(self._backend, SmallBackend):
            return lambda batch: perturbed(space, pool, subjects, batch, p, xp=np).reshape(
                len(batch) * p, -1
            )
        device = self._backend.device
        known = counted(device.platform)
        # Outputs are float64 on the host; the program that makes rows does not read them.
        subjects = subjects._replace(own=np.zeros(subjects.own.shape, np.float32))
        held = jax.device_put((pool, subjects), device)

        def rows(pool: Any, subjects: Any, pulls: Any) -> jax.Array:
            made = perturbed(space, pool, subjects, pulls, p, known)
            return made.reshape(G * p, -1)

        arguments = (*held, shape(SingleDeviceSharding(device), G, L))
        recipe = ProgramRecipe(("draw pulls", space, p), rows, arguments, what="a draw of pulls")
        return partial(self._backend.compiled.program(recipe), *held)
