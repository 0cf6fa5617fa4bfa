"""Computes semivalues of instances that differ from nearly every donor in every player, by mean
scores.

This is the case for continuous columns. The model's structure evaluates all sub-coalitions of a
pair, and the device averages them over donors (`structures/averaged.py`). One table per instance is
then turned into semivalues here, in float64.

Letters: n instances, B donors, P players, K scores, S donors of a block, T tiles of a dispatch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.games.engine.device import DeviceBackend
from xaijax.games.engine.dispatch import LOOK_AHEAD, THREADS, Dispatches, ProgramRecipe, put
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.engine.loop import Done
from xaijax.games.engine.plan import bucket
from xaijax.games.engine.programs import Programs
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import Chunk, Totals, Weights
from xaijax_kernels.engine.tiles import platform_of
from xaijax_kernels.sizes import (
    MOST_DONORS,
    ROWS_OF_MEANS,
    SMALLEST_TILE,
    TILES_OF_MEANS,
    counted,
    donors_at_once,
    head_rows,
)
from xaijax_kernels.structures.averaged import MeansShape, mean_tables, prepared_rows
from xaijax_kernels.structures.base import shapes_of

FEWEST_DONORS = 4  # with fewer there is little to average
FILLED = 8  # blocks may have an eighth more donors than there are
# A sixteenth of the sub-coalitions may be equal to others and evaluated all the same. Else a few
# equal entries among continuous ones need the programs of pairs, which take longer to compile.
EQUAL = 16


class ByAveragedTables:
    """The strategy for instances that differ from nearly every donor in every player."""

    def __init__(self, run: GameRun, weights: Weights) -> None:
        self._run, self._weights = run, weights

    def takes(self, chunk: Chunk) -> np.ndarray:
        """The instances with hardly two equal sub-coalitions; bool [n]. Some donor differs from
        them in every player: else half of the sub-coalitions would be equal to others.
        """
        assert chunk.differs is not None
        alike = (~chunk.differs).sum(axis=2, dtype=float)
        whole = np.exp2(-alike).mean(axis=1) >= 1 - 1 / EQUAL
        program = self._averaged(chunk.backend) if whole.any() else None
        # A plan compiles nothing, and takes it that a dispatch fits.
        fits = (
            program is not None and program.holds and (not self._run.asks or program.compile_all())
        )
        return whole if fits else np.zeros_like(whole)

    def add(self, chunk: Chunk, places: np.ndarray, totals: Totals) -> np.ndarray:
        """Writes the sums of the instances at `places` into `totals`; bool, those written.
        Instances with invalid scores are left to the pairs, which name the hybrid.
        """
        program, run = self._averaged(chunk.backend), self._run
        assert program is not None
        part, count, rows = totals.like(len(places)), run.count, _distinct(chunk, places)
        done = run.reporting(len(places) * program.asked, int(rows.sum()))
        well = program.add(run.codes[chunk.here[places]], self._weights, part, done)
        totals.put(places[well], part, well)
        count.distinct += int(rows[well].sum())
        count.padded += len(places) * program.padded - int(rows[well].sum())
        return well

    def cost(self, chunk: Chunk, places: np.ndarray) -> None:
        """Adds what `add` asks for to the run's cost."""
        program, cost = self._averaged(chunk.backend), self._run.cost
        assert program is not None
        background = chunk.backend.held["background"] + program.donor_bytes
        cost.reserve(background=background, results=program.result_bytes)
        cost.add_rows(chunk.here[places], _distinct(chunk, places))
        recipe, *before = program.recipes(len(places))
        cost.add_calls(program.calls(len(places)), recipe)
        cost.add_runs(1, *before)

    def _averaged(self, backend: Any) -> Averaged | None:
        """The donors and the program; None if donors are not averaged."""
        if not isinstance(backend, DeviceBackend) or self._run.engine.fixed:
            return None
        return _averaged(self._run.engine, backend)  # another backend if the tile was halved


def _distinct(chunk: Chunk, places: Any) -> np.ndarray:
    """The number of distinct sub-coalitions of the instances at `places`, int64 [n]."""
    assert chunk.differs is not None
    return (np.int64(1) << chunk.differs[places].sum(axis=2)).sum(axis=1)


@once
def _averaged(engine: Engine, backend: DeviceBackend) -> Averaged | None:
    platform = platform_of(backend.mesh)
    shape = _shape(engine, backend, platform)
    return None if shape is None else Averaged(engine, backend.programs, shape, platform)


def _shape(engine: Engine, backend: DeviceBackend, platform: str) -> MeansShape | None:
    tile, P, B = backend.sizes.tile, engine.players.count, engine.replacement.count
    score = engine.score
    # Maximum and minimum over probabilities say nothing about the sum of each row.
    if B < FEWEST_DONORS or 1 << P > tile.rows or (score is not None and score.distribution):
        return None
    if platform != "cpu":
        known, itemsize = engine.known, engine.replacement.dtype.itemsize
        held = engine.memory.fits("answers", itemsize * (known.width + 4 * engine.findings.outputs))
        most = head_rows(known.width, platform, itemsize)
        S = donors_at_once(B, P, most, held >> P)
        return MeansShape(P, S, 1, tile.outputs, tile.dtype) if S << P >= SMALLEST_TILE else None
    S = min(tile.rows >> P, MOST_DONORS)
    while S > 1 and -B % S > B // FILLED:
        S //= 2
    if S << P < SMALLEST_TILE:
        return None
    blocks = -(-B // S)
    segments = -(-blocks // max(1, ROWS_OF_MEANS // (S << P)))
    # The padding of a segment is not evaluated.
    return MeansShape(P, S, bucket(-(-blocks // segments)), tile.outputs, tile.dtype)


@dataclass
class HeldDonors:
    """Donors on the devices. They do not depend on the number of instances, so programs for more
    instances share the arrays of the first.
    """

    rows: Any  # [R, F], including the padding of the last segment
    own: np.ndarray  # float64 [segments, D, S], their weights; equal weights are exactly one
    weights: Any  # the weights in the program's dtype
    taken: Any = None  # [segments, D, S, ..], in the program's form; None: not made yet


def _held_donors(engine: Engine, programs: Programs, split: tuple[int, int, int]) -> HeldDonors:
    """The donors of an explainer, put on the devices the first time."""
    if split in programs.cache:
        return programs.cache[split]
    donors, weights = engine.replacement.codes, engine.replacement.weights
    missing = int(np.prod(split)) - len(weights)
    donors = np.pad(donors, ((0, missing), (0, 0)), mode="edge")
    scaled = np.pad(weights / weights.max(), (0, missing)).reshape(split)
    same = programs.same
    held = HeldDonors(put(donors, same), scaled, put(scaled.astype(donors.dtype), same))
    return programs.cache.setdefault(split, held)


class Averaged:
    """The donors of one explainer in segments of blocks, and the program of its instances."""

    def __init__(
        self, engine: Engine, programs: Programs, shape: MeansShape, platform: str
    ) -> None:
        self._programs, self._P = programs, shape.P
        self._platform, self._counted = platform, counted(platform)
        weights = engine.replacement.weights
        self._B = B = len(weights)
        per_segment = shape.donors * shape.blocks
        self._segments = -(-B // per_segment)
        split = (self._segments, shape.blocks, shape.donors)
        self._scale = weights.max()
        self._split, self.shape = split, shape
        self._held = _held_donors(engine, programs, split)
        self._rows, self._weights = self._held.rows, self._held.weights
        self._totals = self._held.own.sum(axis=(1, 2))
        self._blocks = [  # blocks of each segment that are used
            min(shape.blocks, -(-(B - first) // shape.donors)) for first in range(0, B, per_segment)
        ]
        # Rows of an instance, including the padding of the last block.
        self.padded = sum(self._blocks) * shape.donors << shape.P
        self.asked = B << shape.P
        # in float64, or a sum and its rounding error
        self._table = shape.subsets * shape.outputs * 8
        self._most = engine.memory.fits("results", self._table)  # instances at a time
        self._recipes: dict[int, ProgramRecipe] = {}  # by the tiles of a dispatch
        self._made: dict[int, Any] = {}  # programs of these
        self._compiled: bool | None = None  # see `compile_all`
        self._tiles = self._dealt(max(1, min(TILES_OF_MEANS, self._most // (LOOK_AHEAD + 1))))
        self.shape = replace(shape, prepared=self._prepares(engine))
        # Two simultaneous dispatches get the same size, otherwise one core waits for the other. If
        # the trip count of a loop must be known, all tiles are computed.
        self._alike = 1 if self._counted else THREADS

    @property
    def holds(self) -> bool:
        """Whether the memory holds the table of one instance."""
        return self._most > 0

    @property
    def donor_bytes(self) -> int:
        """Bytes of the donors and their weights, held once for any number of instances."""
        return self._rows.size * self._rows.dtype.itemsize + self._weights.size * 4

    @property
    def result_bytes(self) -> int:
        """Bytes of the donors' contributions by player, if held, and of the tables of the
        running dispatches.
        """
        held = self._prepared.size * self._prepared.dtype.itemsize * self.shape.prepared
        return held + (LOOK_AHEAD + 1) * self._tiles * self._table

    def _prepares(self, engine: Engine) -> bool:
        """Whether donors are held as their players' contributions, which must fit the memory."""
        p = self._programs
        if not shapes_of(p.structure, p.params).prepares(self._platform):
            return False
        held = self._prepared.size * self._prepared.dtype.itemsize
        if self._platform != "cpu":  # with the instances of a dispatch
            held += held * TILES_OF_MEANS // len(self._rows)
        return engine.memory.fits("results", held) > 0

    @cached_property
    def _prepared(self) -> jax.ShapeDtypeStruct:
        """The shape of the players' contributions of all donors."""
        recipe = self._preparing()
        return jax.eval_shape(recipe.function, *recipe.arguments)

    def _preparing(self) -> ProgramRecipe:
        """Recipe of the program that computes them."""
        p, P = self._programs, self._P
        known = p.structure
        function = partial(prepared_rows, known.of, P, False, self._platform)
        arguments = (p.params, self._rows, p.players)
        key, what = ("prepared rows", known, P), "donors, prepared"
        return ProgramRecipe(key, function, arguments, what=what, results=p.same)

    def _make_donors(self) -> jax.Array:
        """The donors in the program's form; [segments, D, S, ..]."""
        if self._held.taken is None:
            if self.shape.prepared:
                rows = self._programs.compiled.run(self._preparing())
            else:  # on the host, where no program is compiled for it
                rows = np.asarray(self._rows)
            rows = rows.reshape(*self._split, *rows.shape[1:])
            self._held.taken = jax.device_put(rows, self._programs.same)
        return self._held.taken

    def compile_all(self) -> bool:
        """Compiles a dispatch and the programs before it; False: one does not fit the memory."""
        if self._compiled is None:
            try:
                for recipe in self.recipes():
                    self._programs.compiled.program(recipe)
                self._compiled = True
            except MemoryPlanError:
                self._compiled = False
        return self._compiled

    def add(self, codes: np.ndarray, weights: Weights, totals: Totals, done: Done) -> np.ndarray:
        """Writes the sums of instances with codes [n, F] into `totals`; bool [n], those written.

        Instances with invalid scores are left to the pairs. done(rows) is called after each
        dispatch.
        """
        step = min(self._most, self._programs.sizes.instances)
        well = np.zeros(len(codes), bool)
        for first in range(0, len(codes), step):
            at = slice(first, first + step)
            tables, totals.full[at], totals.span[at], well[at] = self._tables(codes[at], done)
            tables[:, -1] = totals.full[at]  # all donors have this score, which needs no mean
            totals.empty[at] = tables[:, 0]
            matrix = weights.subsets(self.shape.P, self.shape.subsets)  # [2^P, P]
            tables -= tables[:, :1]
            totals.phi[at] = (tables.swapaxes(1, 2) @ matrix).swapaxes(1, 2)
        return well

    def _tables(self, codes: np.ndarray, done: Done) -> tuple[np.ndarray, ...]:
        """(v(S) [n, 2^P, K], f(x) [n, K], spans [n], whether all scores are valid [n]), float64."""
        programs, segments = self._programs, self._segments
        n, K = len(codes), self.shape.outputs
        T = self._turns(n)
        rows = np.zeros((programs.sizes.instances, codes.shape[1]), codes.dtype)
        rows[:n] = codes
        fixed = (
            programs.params,
            jax.device_put(rows, programs.same),
            self._make_donors(),
            self._weights,
        )
        instance, segment = np.divmod(np.arange(n * segments), segments)
        blocks = np.asarray(self._blocks)[segment]
        work = np.stack([instance, segment, blocks], axis=1).astype(np.int32)
        tables, full, well = (
            np.zeros((n, self.shape.subsets, K)),
            np.zeros((n, K)),
            np.ones(n, bool),
        )
        top, bottom = np.full((n, K), -np.inf), np.full((n, K), np.inf)
        program, ahead = self._program(T)
        dispatches = Dispatches(programs.mesh, programs.compiled.clock, T, ahead)
        step = self._step(len(work), T)
        parts = ((part, part) for part in (work[t : t + step] for t in range(0, len(work), step)))
        with np.errstate(invalid="ignore"):  # scores that are not finite
            for dispatch in dispatches.run(program, (*fixed, programs.players), parts):
                part, (high, low, empty_and_full, bad) = dispatch.asked, dispatch.read()
                sums = high.astype(np.float64) + low
                sums += empty_and_full[:, :1] * self._totals[part[:, 1], None, None]
                for segment in range(segments):  # in order
                    t = np.flatnonzero(part[:, 1] == segment)
                    i = part[t, 0]
                    tables[i] += sums[t]
                    full[i], well[i] = empty_and_full[t, 1], well[i] & (bad[t] == 0)
                    top[i] = np.maximum(top[i], empty_and_full[t, 2])
                    bottom[i] = np.minimum(bottom[i], empty_and_full[t, 3])
                whole = part[part[:, 1] == segments - 1, 0]
                done(self.asked * int(well[whole].sum()))
            tables *= self._scale
            return tables, full, (top - bottom).max(axis=1), well

    def _dealt(self, tiles: int) -> int:
        """`tiles`, up to as many for each device."""
        devices = self._programs.mesh.size
        return -(-tiles // devices) * devices

    def _turns(self, n: int) -> int:
        """Number of tiles of the program for n instances: if it computes all tiles, a power of
        two is enough for a few instances.
        """
        if not self._counted:
            return self._tiles
        return min(self._tiles, self._dealt(1 << (n * self._segments - 1).bit_length()))

    def _step(self, tiles: int, T: int) -> int:
        """Tiles of a dispatch of up to T, given their total number."""
        dispatches = -(-tiles // T)
        dispatches = min(tiles, -(-dispatches // self._alike) * self._alike)
        return -(-tiles // max(dispatches, 1)) or 1

    def calls(self, n: int) -> int:
        """Dispatches of n instances."""
        step = min(self._most, self._programs.sizes.instances)
        sizes = [step] * (n // step) + [n % step] * (n % step > 0)
        tiles = [(size * self._segments, self._turns(size)) for size in sizes]
        return sum(-(-count // self._step(count, T)) for count, T in tiles)

    def recipes(self, n: int | None = None) -> list[ProgramRecipe]:
        """Recipes of all programs for n instances; None: for a full dispatch."""
        T = self._tiles if n is None else self._turns(n)
        return [self._recipe(T), *([self._preparing()] if self.shape.prepared else [])]

    def _recipe(self, T: int) -> ProgramRecipe:
        """Recipe of the program of a dispatch of T tiles."""
        if T in self._recipes:
            return self._recipes[T]
        p = self._programs
        held = self._prepared if self.shape.prepared else self._rows
        same = partial(jax.ShapeDtypeStruct, sharding=p.same)
        split = partial(jax.ShapeDtypeStruct, dtype=np.int32, sharding=p.split)
        donors = same((*self._split, *held.shape[1:]), held.dtype)
        x = same((p.sizes.instances, p.sizes.columns), p.donors.dtype)
        tiles = split((p.mesh.size,)), split((T, 3))
        arguments = (p.params, x, donors, self._weights, p.players, *tiles)
        D = 1 if self._platform == "cpu" else self.shape.blocks
        rows = p.block(self.shape.rows * D, self.shape.P)
        made = p.means(mean_tables, "averaged tables", self.shape, rows, arguments)
        return self._recipes.setdefault(T, made)

    def _program(self, T: int) -> tuple[Any, int]:
        """(the program of a dispatch of T tiles, number of its results that wait)."""
        if T not in self._made:
            self._made[T] = self._programs.compiled.with_ahead(self._recipe(T))
        return self._made[T]
