"""Semivalues of instances that differ from every donor in every player, by tables of mean scores.

Continuous columns are like this. The model's structure gives all sub-coalitions of a pair, and
their mean over donors is taken on the device (`structures/averaged.py`), so that only one table an
instance is turned into semivalues: here, in float64.

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
from xaijax.games.strategies.totals import Stretch, Totals, Weights
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

FEWEST_DONORS = 4  # of fewer there is little to average
FILLED = 8  # blocks may have an eighth more donors than there are


class ByAveragedTables:
    """The strategy for instances that differ from every donor in every player."""

    def __init__(self, run: GameRun, weights: Weights) -> None:
        self._run, self._weights = run, weights

    def takes(self, stretch: Stretch) -> np.ndarray:
        """The instances that differ from every donor in every player; bool [n]."""
        assert stretch.differs is not None
        whole = stretch.differs.all(axis=(1, 2))
        program = self._averaged(stretch.backend) if whole.any() else None
        # A plan compiles nothing, and takes it that a dispatch fits.
        fits = program is not None and program.holds and (not self._run.asks or program.compiles)
        return whole if fits else np.zeros_like(whole)

    def add(self, stretch: Stretch, places: np.ndarray, own: Totals) -> np.ndarray:
        """Puts the sums of the instances at `places` into `own`; bool, those that were put. An
        instance whose scores are bad is not: its pairs say which.
        """
        program, run = self._averaged(stretch.backend), self._run
        assert program is not None
        part, count = own.like(len(places)), run.count
        well = program.add(run.codes[stretch.here[places]], self._weights, part, run.report)
        own.put(places[well], part, well)
        count.distinct += int(well.sum()) * program.asked
        count.padded += len(places) * program.padded - int(well.sum()) * program.asked
        return well

    def cost(self, stretch: Stretch, places: np.ndarray) -> None:
        """Adds what `add` asks for to the run's cost."""
        program, cost = self._averaged(stretch.backend), self._run.cost
        assert program is not None
        background = stretch.backend.held["background"] + program.donor_bytes
        cost.hold(background=background, results=program.result_bytes)
        cost.add_rows(stretch.here[places], program.asked)
        recipe, *before = program.recipes(len(places))
        cost.add_calls(program.calls(len(places)), recipe)
        cost.add_runs(1, *before)

    def _averaged(self, backend: Any) -> Averaged | None:
        """The donors and the program; None if donors are not averaged."""
        if not isinstance(backend, DeviceBackend):
            return None
        return _averaged(self._run.engine, backend)  # another backend where the tile was halved


@once
def _averaged(engine: Engine, backend: DeviceBackend) -> Averaged | None:
    platform = platform_of(backend.mesh)
    shape = _shape(engine, backend, platform)
    return None if shape is None else Averaged(engine, backend.programs, shape, platform)


def _shape(engine: Engine, backend: DeviceBackend, platform: str) -> MeansShape | None:
    tile, P, B = backend.sizes.tile, engine.players.count, engine.replacement.count
    score = engine.score
    # The largest shares of classes are no shares: they say nothing of the sum of each answer's.
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
    # What fills a segment up is not asked.
    return MeansShape(P, S, bucket(-(-blocks // segments)), tile.outputs, tile.dtype)


@dataclass
class HeldDonors:
    """Donors on the devices. They do not depend on the number of instances: programs for more of
    them share what an explainer's first ones hold.
    """

    rows: Any  # [R, F], what fills the last segment up included
    own: np.ndarray  # float64 [segments, D, S], their weights; equal ones are ones, exactly
    weights: Any  # the same as the program takes them
    taken: Any = None  # [segments, D, S, ..], as the program takes them; None: not made yet


def _held_donors(engine: Engine, programs: Programs, split: tuple[int, int, int]) -> HeldDonors:
    """The donors of an explainer, put on the devices the first time."""
    if split in programs.kept:
        return programs.kept[split]
    donors, given = engine.replacement.codes, engine.replacement.weights
    missing = int(np.prod(split)) - len(given)
    donors = np.pad(donors, ((0, missing), (0, 0)), mode="edge")
    own = np.pad(given / given.max(), (0, missing)).reshape(split)
    same = programs.same
    held = HeldDonors(put(donors, same), own, put(own.astype(donors.dtype), same))
    return programs.kept.setdefault(split, held)


class Averaged:
    """The donors of one explainer in segments of blocks, and the program of its instances."""

    def __init__(
        self, engine: Engine, programs: Programs, shape: MeansShape, platform: str
    ) -> None:
        self._programs, self._P = programs, shape.P
        self._platform, self._counted = platform, counted(platform)
        given = engine.replacement.weights
        self._B = B = len(given)
        per_segment = shape.donors * shape.blocks
        self._segments = -(-B // per_segment)
        split = (self._segments, shape.blocks, shape.donors)
        self._scale = given.max()
        self._split, self.shape = split, shape
        self._held = _held_donors(engine, programs, split)
        self._rows, self._weights = self._held.rows, self._held.weights
        self._totals = self._held.own.sum(axis=(1, 2))
        self._blocks = [  # of each segment, that are asked
            min(shape.blocks, -(-(B - first) // shape.donors)) for first in range(0, B, per_segment)
        ]
        # Rows of an instance, with what fills the last block up.
        self.padded = sum(self._blocks) * shape.donors << shape.P
        self.asked = B << shape.P
        self._table = shape.subsets * shape.outputs * 8  # in float64, or a sum and what it lost
        self._most = engine.memory.fits("results", self._table)  # instances at a time
        self._made: dict[int, Any] = {}  # programs by their tiles
        self._tiles = self._dealt(max(1, min(TILES_OF_MEANS, self._most // (LOOK_AHEAD + 1))))
        self.shape = replace(shape, prepared=self._prepares(engine))
        # If two dispatches run at the same time they are made alike, or one core waits for the
        # other; where the turns of a loop must be known, all tiles that there is room for are made.
        self._alike = 1 if self._counted else THREADS

    @property
    def holds(self) -> bool:
        """Whether the memory holds the table of one instance."""
        return self._most > 0

    @property
    def donor_bytes(self) -> int:
        """Bytes of the donors and their weights, which are held once for any number of
        instances.
        """
        return self._rows.size * self._rows.dtype.itemsize + self._weights.size * 4

    @property
    def result_bytes(self) -> int:
        """Bytes of what players of the donors contribute, if that is held, and of the tables of the
        dispatches under way.
        """
        held = self._prepared.size * self._prepared.dtype.itemsize * self.shape.prepared
        return held + (LOOK_AHEAD + 1) * self._tiles * self._table

    def _prepares(self, engine: Engine) -> bool:
        """Whether donors are held as what their players contribute, which must fit the memory."""
        p = self._programs
        if not shapes_of(p.structure, p.params).prepares(self._platform):
            return False
        held = self._prepared.size * self._prepared.dtype.itemsize
        if self._platform != "cpu":  # with the instances of a dispatch
            held += held * TILES_OF_MEANS // len(self._rows)
        return engine.memory.fits("results", held) > 0

    @cached_property
    def _prepared(self) -> jax.ShapeDtypeStruct:
        """What players of all donors contribute, as a shape."""
        recipe = self._preparing()
        return jax.eval_shape(recipe.function, *recipe.arguments)

    def _preparing(self) -> ProgramRecipe:
        """Recipe of the program that makes it."""
        p, P = self._programs, self._P
        known = p.structure
        function = partial(prepared_rows, known.of, P, False, self._platform)
        arguments = (p.params, self._rows, p.players)
        key, what = ("prepared rows", known, P), "donors, prepared"
        return ProgramRecipe(key, function, arguments, what=what, results=p.same)

    @property
    def _donors(self) -> jax.Array:
        """The donors as the program takes them; [segments, D, S, ..]."""
        if self._held.taken is None:
            rows = self._rows
            if self.shape.prepared:
                rows = self._programs.compiled.run(self._preparing())
            self._held.taken = rows.reshape(*self._split, *rows.shape[1:])
        return self._held.taken

    @cached_property
    def compiles(self) -> bool:
        """Whether a dispatch fits the memory, and what is made before it; compiles both."""
        try:
            for recipe in self.recipes():
                self._programs.compiled.program(recipe)
            return True
        except MemoryPlanError:
            return False

    def add(self, codes: np.ndarray, weights: Weights, own: Totals, done: Done) -> np.ndarray:
        """Puts the sums of instances with codes [n, F] into `own`; bool [n], those that were put.

        One whose scores are bad is not: the pairs say which. done(rows) after each dispatch.
        """
        step = min(self._most, self._programs.sizes.instances)
        well = np.zeros(len(codes), bool)
        for first in range(0, len(codes), step):
            here = slice(first, first + step)
            tables, own.full[here], own.span[here], well[here] = self._tables(codes[here], done)
            tables[:, -1] = own.full[here]  # all donors have this score, which needs no mean
            own.empty[here] = tables[:, 0]
            matrix = weights.subsets(self.shape.P, self.shape.subsets)  # [2^P, P]
            tables -= tables[:, :1]
            own.phi[here] = (tables.swapaxes(1, 2) @ matrix).swapaxes(1, 2)
        return well

    def _tables(self, codes: np.ndarray, done: Done) -> tuple[np.ndarray, ...]:
        """(v(S) [n, 2^P, K], f(x) [n, K], spans [n], whether all is well [n]), float64."""
        programs, segments = self._programs, self._segments
        n, K = len(codes), self.shape.outputs
        T = self._turns(n)
        rows = np.zeros((programs.sizes.instances, codes.shape[1]), codes.dtype)
        rows[:n] = codes
        fixed = (
            programs.params,
            jax.device_put(rows, programs.same),
            self._donors,
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
        dispatches = Dispatches(programs.mesh, programs.compiled.clock, T)
        step = self._step(len(work), T)
        parts = ((some, some) for some in (work[t : t + step] for t in range(0, len(work), step)))
        with np.errstate(invalid="ignore"):  # of scores that are not finite
            for dispatch in dispatches.run(self._program(T), (*fixed, programs.players), parts):
                some, (high, low, ends, bad) = dispatch.asked, dispatch.read()
                sums = high.astype(np.float64) + low
                sums += ends[:, :1] * self._totals[some[:, 1], None, None]
                for segment in range(segments):  # one after another, as they were cut
                    t = np.flatnonzero(some[:, 1] == segment)
                    i = some[t, 0]
                    tables[i] += sums[t]
                    full[i], well[i] = ends[t, 1], well[i] & (bad[t] == 0)
                    top[i] = np.maximum(top[i], ends[t, 2])
                    bottom[i] = np.minimum(bottom[i], ends[t, 3])
                whole = some[some[:, 1] == segments - 1, 0]
                done(self.asked * int(well[whole].sum()))
            tables *= self._scale
            return tables, full, (top - bottom).max(axis=1), well

    def _dealt(self, tiles: int) -> int:
        """`tiles`, up to as many for each device."""
        devices = self._programs.mesh.size
        return -(-tiles // devices) * devices

    def _turns(self, n: int) -> int:
        """Tiles that the program of n instances has: where it makes the turns of all, a power of
        two of them is enough for a few instances.
        """
        if not self._counted:
            return self._tiles
        return min(self._tiles, self._dealt(1 << (n * self._segments - 1).bit_length()))

    def _step(self, tiles: int, T: int) -> int:
        """Tiles of a dispatch of up to T, given their number in all."""
        dispatches = -(-tiles // T)
        dispatches = min(tiles, -(-dispatches // self._alike) * self._alike)
        return -(-tiles // max(dispatches, 1)) or 1

    def calls(self, n: int) -> int:
        """Dispatches of n instances."""
        step = min(self._most, self._programs.sizes.instances)
        sizes = [step] * (n // step) + [n % step] * (n % step > 0)
        tiles = [(size * self._segments, self._turns(size)) for size in sizes]
        return sum(-(-some // self._step(some, T)) for some, T in tiles)

    def recipes(self, n: int | None = None) -> list[ProgramRecipe]:
        """Recipes of all programs that n instances run; None: as many as fill a dispatch."""
        T = self._tiles if n is None else self._turns(n)
        return [self.recipe(T), *([self._preparing()] if self.shape.prepared else [])]

    def recipe(self, T: int) -> ProgramRecipe:
        """What the program of a dispatch of T tiles is compiled of."""
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
        return p.means(mean_tables, "averaged tables", self.shape, rows, arguments)

    def _program(self, T: int) -> Any:
        if T not in self._made:
            self._made[T] = self._programs.compiled.program(self.recipe(T))
        return self._made[T]
