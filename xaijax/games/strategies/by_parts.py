"""Computes v(S) of listed coalitions by a layer: x's part plus the donor's part.

A layer that adds computes both once per coalition: x's part for all donors, a donor's part for all
instances processed together (`structures/listed_means.py`). Trees have no such parts: the bounds
that a row violates are computed once, as bits. Whether the layer is used depends on the sizes of
the model and the number of donors, so that an instance's result does not depend on the others.

Letters: n instances, B donors, P players, C coalitions, K scores, T tiles of a dispatch, G
instances of a tile.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from typing import Any

import jax
import numpy as np

from xaijax.games.engine.device import DeviceBackend
from xaijax.games.engine.dispatch import LOOK_AHEAD, Dispatches, ProgramRecipe
from xaijax.games.engine.dispatch import shape as shape_of
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.engine.loop import Backend
from xaijax.games.engine.plan import (
    bucket,
    capacity,
    power_below,
    refuse_larger,
    rows_of_head,
    waiting,
)
from xaijax.games.run import GameRun
from xaijax.games.strategies.listed import ByRows, ListedChunk
from xaijax_kernels.engine.lattice import list_words
from xaijax_kernels.engine.tiles import counted_on, platform_of
from xaijax_kernels.sizes import (
    CALLS_OF_LIST,
    COALITIONS_OF_BITS,
    COALITIONS_OF_LIST,
    INSTANCES_OF_LIST,
    LEAST_CALLS,
    NUMBERS_OF_LIST,
    ROWS_OF_LIST,
    TILES_OF_LIST,
    turns_of,
)
from xaijax_kernels.structures.averaged import prepared_rows
from xaijax_kernels.structures.base import shapes_of
from xaijax_kernels.structures.listed_means import ListShape, listed_means, player_parts

FEWEST_DONORS = 4  # x's part of a coalition is computed once for all of them
LEAST_ROWS = 16  # instances whose parts by player are held


class ByParts:
    """Sums of parts, where a layer that adds saves enough of the model."""

    def __init__(self, run: GameRun) -> None:
        self._run = run

    @property
    def structure(self) -> str:
        """The structure that answers in place of the model."""
        return self._run.engine.structure_name

    def holds_answers(self, backend: Backend) -> bool:
        """See `BySubsets`. A CPU has no loop to fill, so its chunks are not changed."""
        return not isinstance(backend, DeviceBackend) or platform_of(backend.mesh) == "cpu"

    def takes(self, n: int, differs: np.ndarray | None, C: int) -> np.ndarray:
        """All of n instances, or none; bool [n]."""
        run = self._run
        few = run.engine.replacement.count < FEWEST_DONORS
        by = not few and isinstance(run.backend(), DeviceBackend) and run.may_structure()
        return np.full(n, by and (run.engine.known.adds or _holds_bits(run.engine)))

    def of(
        self, backend: Backend, rows: np.ndarray, masks: np.ndarray, part: ListedChunk
    ) -> np.ndarray:
        """Means over the part's donors, float64 [n, C, K]; masks bool [C, P].

        An instance with an invalid score is evaluated by rows, which name it.
        """
        assert isinstance(backend, DeviceBackend)
        run, B, C = self._run, len(part.donors), len(masks)
        means, bad = listed_of(run.engine, backend, B).means(run, rows, masks, part.donors)
        well = np.flatnonzero(~bad)
        run.count.distinct += len(well) * B * C
        run.report(len(well) * B * C)
        if bad.any():
            by_rows, invalid = ByRows(run), np.flatnonzero(bad)
            chunk = ListedChunk(invalid, part.coalitions, part.donors, None)
            means[invalid] = by_rows.of(backend, rows[invalid], masks, chunk)
        return means

    def cost(self, backend: Backend, rows: np.ndarray, C: int, part: ListedChunk) -> None:
        """Adds what `of` asks for C coalitions to the run's cost."""
        assert isinstance(backend, DeviceBackend)
        n, B, cost = len(rows), len(part.donors), self._run.cost
        program = listed_of(self._run.engine, backend, B)
        held = program.capacity(C)
        cost.add_rows(rows, C * B)
        recipe, *parts = program.recipes(held, n, C)
        cost.add_calls(program.calls(n, C), recipe)
        cost.add_runs(1, *parts)
        cost.reserve(**program.held(n, C))


def _bits(engine: Engine) -> int:
    """Bytes of the bits of a row, for a layer that lists."""
    return 4 * engine.known.parts * -(-engine.players.count // 32)


@once
def _holds_bits(engine: Engine) -> bool:
    """Whether the layer `lists`, and the memory holds the bits of the donors and of some rows."""
    rows = LEAST_ROWS + 2 * engine.replacement.count  # segments are padded
    return engine.known.lists and engine.memory.fits("parts", _bits(engine)) >= rows


@once
def listed_of(engine: Engine, backend: DeviceBackend, donors: int) -> Listed:
    """The program for lists of coalitions, for `donors` donors at a time."""
    return Listed(backend, engine, donors)


class Listed:
    """The program of the lists of one explainer."""

    def __init__(self, backend: DeviceBackend, engine: Engine, donors: int) -> None:
        self._programs = programs = backend.programs
        tile, self._B = backend.sizes.tile, donors
        known = shapes_of(programs.structure, programs.params)
        platform = platform_of(programs.mesh)
        cpu = platform == "cpu"
        itemsize, width, rows = programs.donors.dtype.itemsize, known.width, tile.rows
        # Per row: also the donor's part, and the instances' parts of CALLS_OF_LIST calls.
        parts = itemsize * width * (1 + CALLS_OF_LIST / donors)
        self._row_bytes = backend.sizes.bytes_per_row + int(parts)
        if cpu:
            block = programs.block(rows)
        else:
            block = rows_of_head(rows, self._row_bytes, platform, engine.memory)
        self.segments = -(-donors // block)
        together = min(bucket(-(-donors // self.segments)), block)
        coalitions, blocks, of_call = block // together, 1, 0
        if cpu and known.lists:  # reached leaves are searched once for all of them
            blocks = max(1, COALITIONS_OF_BITS // coalitions)
        elif cpu:
            most = min(ROWS_OF_LIST, max(rows, NUMBERS_OF_LIST // width))
            blocks = max(1, most // block)
        else:
            coalitions = min(COALITIONS_OF_LIST, power_below(coalitions))
        # Per instance: sums, rounding errors, and (with `at_once`) whether one is invalid.
        self._sums = (2 if cpu else 3) * coalitions * blocks * tile.outputs * itemsize
        fits = max(1, engine.memory.fits("results", (LOOK_AHEAD + 1) * self._sums))
        instances = min(INSTANCES_OF_LIST, fits)
        if not cpu:
            of_call = min(max(1, block // (coalitions * together)), fits)
            instances = of_call * min(CALLS_OF_LIST, fits // of_call)
        dims = together, coalitions, blocks, instances, tile.outputs
        # Parts of single players, if a product with them is cheaper than the layer itself.
        of_row = tile.P * width
        cheap = of_row <= known.work() / (1 if known.dense is None else 2)
        self._bytes = _bits(engine) if known.lists else of_row * itemsize
        held = engine.memory.fits("parts", self._bytes)
        left = held - self.segments * together  # the memory left by the donors
        by_player = cheap and left >= 0 and held >= LEAST_ROWS and not known.lists
        self._made = by_player or known.lists
        # Parts are computed for several rows at once; this number does not depend on the run.
        most = min(engine.rows_at_a_time, power_below(max(LEAST_ROWS, left)))
        self._instances = most if self._made else programs.sizes.instances
        self.shape = ListShape(
            tile.P, *dims, tile.dtype, by_player, known.lists, of_call, made=instances
        )
        what = f"one call of {self.shape.rows} rows of listed coalitions"
        refuse_larger(self.shape.rows * self._row_bytes, what, engine.memory)
        devices = programs.mesh.size
        self._tiles = -(-max(1, min(TILES_OF_LIST, fits // instances)) // devices) * devices
        self.most = programs.listed + self.shape.coalitions
        # Cached by coalitions and rows, because the look-up takes as long as a small run.
        self._program = cache(lambda *held: programs.compiled.with_ahead(self.recipe(*held)))

    def means(
        self, run: GameRun, rows: np.ndarray, masks: np.ndarray, donors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(weighted means [n, C, K], which instances have an invalid score [n]).

        rows: the instances, int [n]; masks: the coalitions, bool [C, P]; donors: int [B].
        """
        replacement, shape, programs = run.engine.replacement, self.shape, self._programs
        (n, C), K = (len(rows), len(masks)), shape.outputs
        G, T = self._sizes(n, C)
        missing = self.segments * shape.donors - len(donors)
        filled = np.pad(donors, (0, missing), mode="edge")
        codes = replacement.codes[filled].reshape(self.segments, shape.donors, -1)
        # Equal weights become exactly one; the scale is restored in float64.
        w = replacement.weights[donors]
        scale = w.max()
        scaled = np.pad(w / scale, (0, missing)).reshape(self.segments, -1).astype(codes.dtype)
        held = self.capacity(C)
        words = list_words(masks, held)
        put = partial(jax.device_put, device=programs.same)
        theirs = codes
        if self._made:
            theirs = self._given(put(codes.reshape(-1, codes.shape[2])))
            theirs = theirs.reshape(*codes.shape[:2], *theirs.shape[1:])
        fixed = (put(theirs), put(scaled), self._players, put(words))
        program = self._program(held, self._rows_of(n), G, T)
        out, bad = np.zeros((n, C, K)), np.zeros(n, bool)
        step = self._instances
        for first in range(0, n, step):
            chunk = rows[first : first + step]
            x = np.zeros((self._rows_of(n), codes.shape[2]), codes.dtype)
            x[: len(chunk)] = run.codes[chunk]
            before = (programs.params, put(self._given(put(x))), *fixed)
            part = slice(first, first + step)
            self._some(program, before, C, G, T, out[part], bad[part])
        run.count.padded += self._rows(n, C) - n * C * len(donors)
        out *= scale
        return out, bad

    def capacity(self, C: int) -> int:
        """Number of coalitions that fit the list of a program for C coalitions."""
        return capacity(C + self.shape.coalitions, self.most, self.shape.P)

    @property
    def _players(self) -> jax.Array | None:
        return None if self._made else self._programs.players

    def _sizes(self, n: int, C: int) -> tuple[int, int]:
        """(G, T) for n instances and C coalitions: fewer for a small run if all iterations are
        always made.
        """
        G, T, mesh = self.shape.instances, self._tiles, self._programs.mesh
        if not counted_on(mesh):
            return G, T
        n, each = min(n, self._instances), max(1, self.shape.of_call)
        calls = max(LEAST_CALLS, 1 << (-(-n // each) - 1).bit_length())
        G = min(G, each * calls)
        return G, turns_of(self._tiles_of(n, C, G), T, mesh.size)

    def _rows_of(self, n: int) -> int:
        """Rows held for n instances; fewer with parts by player, which are large."""
        if not self._made:
            return self._instances
        return min(self._instances, max(LEAST_ROWS, 1 << (n - 1).bit_length()))

    def _given(self, rows: jax.Array) -> jax.Array:
        """Rows [R, F] in the program's form."""
        return self._programs.compiled.run(self._parts(rows)) if self._made else rows

    def _parts(self, rows: Any) -> ProgramRecipe:
        """Recipe of the program that computes each player's term, or violated bounds, of rows."""
        p, P = self._programs, self.shape.P
        function = partial(player_parts, p.structure.of, P)
        if self.shape.prepared:
            function = partial(prepared_rows, p.structure.of, P, False, platform_of(p.mesh))
        arguments = (p.params, rows, p.players)
        key, what = ("player parts", p.structure, P), "what players add"
        return ProgramRecipe(key, function, arguments, what=what)

    def _some(
        self,
        program: tuple[Any, int],
        before: Any,
        C: int,
        G: int,
        T: int,
        out: np.ndarray,
        bad: np.ndarray,
    ) -> None:
        """Writes the sums of the given instances into out [n, C, K], in the donors' order."""
        programs, work = self._programs, self._work(len(out), C, G)
        parts = ((part, part) for part in (work[t : t + T] for t in range(0, len(work), T)))
        run, ahead = program
        dispatches = Dispatches(programs.mesh, programs.compiled.clock, T, ahead)
        for dispatch in dispatches.run(run, before, parts):
            high, low, lost = dispatch.read()
            with np.errstate(invalid="ignore"):  # of scores that are not finite
                sums = high.astype(np.float64) + low
            for t, (c, _, i, count) in enumerate(dispatch.asked):
                out[i : i + count, c : c + self.shape.coalitions] += sums[t, :count, : C - c]
                bad[i : i + count] |= lost[t, :count] > 0

    def _work(self, n: int, C: int, G: int) -> np.ndarray:
        """int32 [tiles, 4], see `listed_means`."""
        tiles = [
            (c, segment, i, min(G, n - i))
            for c in range(0, C, self.shape.coalitions)
            for i in range(0, n, G)
            for segment in range(self.segments)
        ]
        return np.array(tiles, np.int32).reshape(-1, 4)

    def _rows(self, n: int, C: int) -> int:
        """Hybrids evaluated by the head, including the padding."""
        shape, each = self.shape, max(1, self.shape.of_call)
        full = [self._instances] * (n // self._instances), n % self._instances
        calls = sum(-(-size // each) for size in (*full[0], full[1]))
        return calls * -(-C // shape.coalitions) * shape.blocks * shape.rows * self.segments

    def calls(self, n: int, C: int) -> int:
        """Dispatches of n instances and C coalitions."""
        step, (G, T) = self._instances, self._sizes(n, C)
        sizes = [step] * (n // step) + [n % step] * (n % step > 0)
        return sum(-(-self._tiles_of(size, C, G) // T) for size in sizes)

    def held(self, n: int, C: int) -> dict[str, int]:
        """The bytes of the running dispatches for n instances and C coalitions, and of the held
        arrays of instances and donors.
        """
        (G, T), shape = self._sizes(n, C), self.shape
        each, dispatches = self._each(G, T), self._ahead(G, T) + 1
        rows = self._rows_of(n) + self.segments * shape.donors
        return {
            **{name: dispatches * size for name, size in each.items()},
            "parts": rows * self._bytes if self._made else 0,
        }

    def _each(self, G: int, T: int) -> dict[str, int]:
        """The bytes of one dispatch."""
        return {"tile": self.shape.rows * self._row_bytes, "results": T * G * self._sums}

    def _ahead(self, G: int, T: int) -> int:
        """Number of dispatches that wait; outputs of other programs, and all results, have their
        own shares.
        """
        memory = self._programs.compiled.memory
        return waiting(self._each(G, T)["tile"], memory, beside=memory.share("answers"))

    def _tiles_of(self, n: int, C: int, G: int) -> int:
        return -(-C // self.shape.coalitions) * -(-n // G) * self.segments

    def recipes(self, held: int, n: int, C: int) -> list[ProgramRecipe]:
        """Recipes of all programs for C coalitions of n instances; held: as for `recipe`."""
        p, donors = self._programs, self.segments * self.shape.donors
        rows = (self._rows_of(n), donors) if self._made else ()
        row = partial(shape_of, p.same, dtype=p.donors.dtype)
        return [
            self.recipe(held, self._rows_of(n), *self._sizes(n, C)),
            *(self._parts(row(R, p.sizes.columns)) for R in rows),
        ]

    def recipe(self, held: int, rows: int, G: int, T: int) -> ProgramRecipe:
        """Recipe of the program of a dispatch; held: number of coalitions in its list."""
        p, shape = self._programs, replace(self.shape, instances=G)
        dims, dtype = (self.segments, shape.donors), p.donors.dtype
        row = jax.ShapeDtypeStruct((1, p.sizes.columns), dtype)
        if self._made:
            recipe = self._parts(row)
            row = jax.eval_shape(recipe.function, *recipe.arguments)
        of_row = partial(shape_of, p.same, dtype=row.dtype)
        arguments = (
            p.params,
            of_row(rows, *row.shape[1:]),
            of_row(*dims, *row.shape[1:]),
            shape_of(p.same, *dims, dtype=dtype),
            self._players,
            shape_of(p.same, held, -(-shape.P // 32), dtype=np.uint32),
            shape_of(p.split, p.mesh.size),
            shape_of(p.split, T, 4),
        )
        what, ahead = "listed coalitions", self._ahead(G, T)
        return p.means(listed_means, what, shape, shape.rows, arguments, ahead)
