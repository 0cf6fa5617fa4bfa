"""Sizes of tiles and dispatches, the run that fills them with lines, and the model's own answers.

Letters: N instances, n of a group, U groups and V tiles of lines of a dispatch, D lines of a
tile, S places, R = n D S rows of a tile, C codes, P players, K outputs, M rows, B donors, E
lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from xaijax.games.engine.dispatch import THREADS as AT_WORK
from xaijax.games.engine.dispatch import Dispatches, Placement, ProgramRecipe, shape
from xaijax.games.engine.evaluator import Engine
from xaijax.games.engine.plan import fitting_tile, refuse_larger, refuse_shares, waiting
from xaijax.methods.derivatives.gradients.reading import Work
from xaijax.methods.derivatives.gradients.space import LineSpace, whole_model
from xaijax_kernels import sizes
from xaijax_kernels.engine import tiles as tiling
from xaijax_kernels.engine.steps import numbers_made, operations
from xaijax_kernels.games.sampling import LINES, PLACES, Wheel, fractions
from xaijax_kernels.gradients.lines import LineShape, line_values

WHAT = "a dispatch of gradients"
FEW = 8  # rows worth a call of the tile: at least 1/8 of its rows, or 8 of the probe's calls
LESS = "Raise max_memory=, or lower tile= or batch_size=."


@dataclass(frozen=True)
class GradientPrograms:
    """The programs of one explainer, and their inputs."""

    engine: Engine
    space: LineSpace
    lines: Lines  # with as many points on each as a tile takes
    sizes: GradientSizes
    placement: Placement
    players: int  # P

    @property
    def outputs(self) -> int:
        """The number K of the model's outputs."""
        return self.engine.findings.outputs

    @property
    def estimator(self) -> str:
        """The estimator's name in results."""
        return "sampled" if self.lines.drawn else "quadrature"

    @cached_property
    def params(self) -> Any:
        """The model's parameters, on the devices."""
        return self.placement.params(self.engine.model.params)

    def answers(self, codes: Any) -> np.ndarray:
        """The model's own answers to rows of codes [M, C], by blocks of a tile; float64 [M, K]."""
        out = np.empty((len(codes), self.outputs))
        for first in range(0, len(codes), self.sizes.rows):
            part = np.asarray(codes[first : first + self.sizes.rows])
            out[first : first + len(part)] = self._answered(part)
        offset = self.engine.offset
        return out if offset is None else out + offset

    def _answered(self, codes: np.ndarray) -> np.ndarray:
        """The answers to at most a tile of rows; a few rows are answered by the probe's program."""
        if not self.in_tiles(len(codes)):
            rows, params = self.engine.findings.rows, self.engine.model.params
            program = cast(Any, self.engine.findings.programs)["probe"][0]
            shape = self.engine.replacement.table.shape
        else:
            rows, params, shape = self.sizes.rows, self.params, codes.shape[1:]
            program = self.engine.compiled.program(self.answer_recipe)
        filled = np.pad(codes, ((0, -len(codes) % rows), (0, 0)), mode="edge")
        parts = filled.reshape(-1, rows, *shape)
        self.engine.clock.model_calls += len(parts)
        answers = [np.asarray(program(params, part)).reshape(rows, -1) for part in parts]
        return np.concatenate(answers)[: len(codes)]

    def in_tiles(self, M: int) -> bool:
        """Whether this number of rows is answered by a tile. An accelerator takes as long for a
        tile as for a few calls of the probe's program.
        """
        if tiling.platform_of(self.placement.mesh) != "cpu":
            return M > FEW * self.engine.findings.rows
        return M * FEW > self.sizes.rows

    def answer_calls(self, M: int) -> int:
        """Number of calls for the answers to this number of rows."""
        whole, rest = divmod(M, self.sizes.rows)
        if self.in_tiles(rest):
            return whole + 1
        return whole + -(-rest // self.engine.findings.rows)

    @cached_property
    def answer_recipe(self) -> ProgramRecipe:
        """The recipe of the program that answers a tile of rows."""
        donors, same = self.engine.replacement, self.placement.same
        rows = shape(same, self.sizes.rows, donors.columns, dtype=donors.dtype)
        whole = whole_model(self.engine, self.sizes.rows)
        results = self.placement.results
        return ProgramRecipe(
            ("answers",), whole, (self.params, rows), "a tile of rows", results=results
        )

    def values(
        self, work: Work, done: Callable[[int], object]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(values [N, P, K], variances of drawn ones), float64; done(model rows) as they come."""
        program, ahead = self.engine.compiled.with_ahead(self.recipe(work))
        T = self._groups_of(len(work))
        queue = Dispatches(self.placement.mesh, self.engine.clock, T, ahead)
        values = np.zeros((len(work), self.players, self._shape(work).found))
        spread = np.zeros_like(values) if self.lines.drawn else None
        for dispatch in queue.run(program, (self.params,), self._work(work)):
            chunk, rows = dispatch.asked
            for total, part in zip((values, spread), dispatch.read(), strict=True):
                if total is not None:  # otherwise zeros, which mean no variances
                    flat = part.reshape(-1, *part.shape[2:])
                    total[chunk] += flat[: chunk.stop - chunk.start]
            done(rows)
        return values, spread

    def dispatches(self, N: int) -> int:
        """Number of calls of the program for N instances, without those for answers."""
        s, lines = self.sizes, len(self.lines.donor)
        together = self._groups_of(N) * s.instances
        return -(-N // together) * -(-lines // (s.line_tiles * s.lines))

    @property
    def ahead(self) -> int:
        """Dispatches whose results wait while one is read, as many as the memory holds."""
        return waiting(sum(self.sizes.held(self.sizes.groups).values()), self.engine.memory)

    def held(self, N: int) -> dict[str, int]:
        """The bytes of what is under way for N instances: a tile in each thread at work, and the
        instances and lines of all dispatches.
        """
        count, each = min(self.ahead + 1, self.dispatches(N)), self.sizes.held(self._groups_of(N))
        return {
            "tile": min(AT_WORK, count) * each["tile"],
            "answers": count * each["answers"],
        }

    def _groups_of(self, N: int) -> int:
        """The number U for N instances: fewer for a small question if all turns are made."""
        s, mesh = self.sizes, self.placement.mesh
        if not tiling.counted_on(mesh):
            return s.groups
        return sizes.turns_of(-(-N // s.instances), s.groups, mesh.size)

    def recipe(self, work: Work) -> ProgramRecipe:
        """The recipe that the program is compiled from."""
        s, place, lines = self.sizes, self.placement, self._shape(work)
        donors = self.engine.replacement
        dtype, codes, C = self._dtype, donors.dtype, donors.columns
        U, n, V, D, S = self._groups_of(len(work)), s.instances, s.line_tiles, s.lines, s.steps
        x = shape(place.split, U, n, C, dtype=codes)
        starts = None if lines.own else shape(place.same, V, D, C, dtype=codes)
        places = shape(place.same, V, D, S, dtype=dtype)
        owner = of_each = None
        if work.owner is not None:
            each = work.owner.ndim == 2
            of_each = shape(place.split, U, n, C) if each else None
            owner = None if each else shape(place.same, C)
        column = shape(place.split, U, n) if lines.chosen else None
        counts, line_tiles = shape(place.split, place.mesh.size), shape(place.same)
        tiles = x, x if lines.own else None, of_each, column
        head = self.space.head(self.engine, s.rows)
        run = partial(_values, (self.space.lift, head, lines, place.mesh))
        arguments = self.params, counts, tiles, starts, places, places, owner, line_tiles
        key = "line values", lines, self.space.key
        return ProgramRecipe(key, run, arguments, WHAT, LESS, self.ahead, results=place.results)

    @property
    def _dtype(self) -> np.dtype:
        """The dtype of points, weights and values."""
        return np.dtype("f8" if self.engine.model.precision == "float64" else "f4")

    def _shape(self, work: Work) -> LineShape:
        s = self.sizes
        return LineShape(
            s.instances,
            s.lines,
            s.steps,
            self.players,
            self.outputs,
            self.space.entries,
            pulls=self.space.pulls,
            own=work.baselines is not None,
            pairs=self.lines.drawn,
            chosen=work.column is not None,
        )

    def _work(self, work: Work) -> Iterator[tuple[Any, ...]]:
        """Yields each dispatch: its instances and their model rows, its groups, and its lines."""
        s, N, E = self.sizes, len(work), len(self.lines.donor)
        together, at_once = self._groups_of(N) * s.instances, s.line_tiles * s.lines
        each = work.owner is not None and work.owner.ndim == 2
        owner, shared = None if each else work.owner, work.baselines is None
        of_rows = work.codes, work.baselines, work.owner if each else None, work.column
        for first in range(0, N, together):
            chunk = slice(first, min(N, first + together))
            tiles = tuple(None if rows is None else self._groups(rows[chunk]) for rows in of_rows)
            for begin in range(0, E, at_once):
                lines = min(at_once, E - begin)
                donors, *places = self._places(begin)
                line_tiles = np.int32(-(-lines // s.lines))
                chunk_rows = chunk, (chunk.stop - first) * lines * s.steps
                yield chunk_rows, tiles, donors if shared else None, *places, owner, line_tiles

    def _groups(self, rows: Any) -> np.ndarray:
        """Rows [U, n, ..] of some instances [m, ..], padded with the last one."""
        rows, n = np.asarray(rows), self.sizes.instances
        filled = np.pad(rows, ((0, -len(rows) % n), *((0, 0),) * (rows.ndim - 1)), mode="edge")
        return filled.reshape(-1, n, *rows.shape[1:])

    def _places(self, begin: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(donors [V, D, C], points and weights [V, D, S]) of the lines from `begin` on."""
        s, donors = self.sizes, self.engine.replacement.for_loops
        part = self.lines.part(begin, s.line_tiles * s.lines)
        times, weights = (
            array.reshape(s.line_tiles, s.lines, s.steps).astype(self._dtype)
            for array in (part.times, part.weights)
        )
        return donors[part.donor].reshape(s.line_tiles, s.lines, -1), times, weights


Shared = tuple[Any, Any, LineShape, Any]


def _values(shared: Shared, params: Any, counts: Any, tiles: Any, donors: Any, *rest: Any) -> Any:
    """`line_values` with the arguments of `Dispatches`; the arrays of instances are in tiles.

    shared: lift, head, shape and mesh; rest: points, weights, owner and the number of tiles.
    """
    x, starts, of_each, column = tiles
    times, weights, owner, line_tiles = rest
    starts, owner = (donors if starts is None else starts), (owner if of_each is None else of_each)
    lines = x, starts, times, weights, owner, column, counts, line_tiles
    return line_values(*shared, params, *lines)


def base_rows(run: GradientPrograms, work: Work) -> int:
    """Number of model rows for the answers at the starts of the lines."""
    if work.baselines is not None:
        return len(work)
    B = run.engine.replacement.count
    return B if _stays(run, work) is None else len(work) * B


def base_answers(run: GradientPrograms, work: Work) -> np.ndarray:
    """The mean answer at the starts of the lines, by the donors' weights; float64 [N, K] or [1,
    K].
    """
    donors, weights = run.engine.replacement.for_loops, run.engine.replacement.weights
    stays, baselines = _stays(run, work), work.baselines
    if stays is None:
        shared = baselines is None
        return weights[None] @ run.answers(donors) if shared else run.answers(baselines)
    B = 1 if baselines is not None else len(donors)
    together, out = max(1, run.sizes.rows // B), []
    for first in range(0, len(work), together):
        x = np.asarray(work.codes[first : first + together])[:, None]  # [m, 1, C]
        keep = np.broadcast_to(stays, (len(work), donors.shape[1]))[first : first + together, None]
        start = donors[None] if baselines is None else baselines[first : first + together, None]
        rows = np.where(keep, x, start)
        answers = run.answers(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:2], -1)
        out.append(np.einsum("mbk,b->mk", answers, weights))
    return np.concatenate(out)


def _stays(run: GradientPrograms, work: Work) -> np.ndarray | None:
    """Whether each entry stays as in the instance, bool [C] or [N, C]; None: no entry does."""
    stays = None if work.owner is None else work.owner == run.players
    return stays if stays is not None and stays.any() else None


PASSES = 3.0  # a forward pass and a backward one, in forward passes
HELD = 1 << 21  # numbers of the instances of one dispatch


@dataclass(frozen=True)
class GradientSizes:
    """The sizes of a run, fixed before its first dispatch."""

    instances: int  # n
    lines: int  # D
    steps: int  # S
    groups: int  # U
    line_tiles: int  # V
    bytes_per_row: int  # of a tile at work
    row_bytes: int  # of codes and values of one instance, or one line

    @property
    def rows(self) -> int:
        """The number R of rows."""
        return self.instances * self.lines * self.steps

    def held(self, groups: int) -> dict[str, int]:
        """The bytes of one dispatch of this number of groups: a tile at work, and its instances and
        lines.
        """
        rows, lines = groups * self.instances, self.line_tiles * self.lines
        return {"tile": self.rows * self.bytes_per_row, "answers": (rows + lines) * self.row_bytes}


def sizes_of(engine: Engine, line: Lines, devices: int) -> GradientSizes:
    """Chooses n, D, U and V; raises MemoryPlanError if even one row does not fit.

    line: the lines of one instance. Drawn ones come in pairs.
    """
    codes, memory, limits = engine.replacement.for_loops, engine.memory, engine.limits
    platform, C = engine.devices[0].platform, codes.shape[1]
    findings, even = engine.findings, line.drawn
    jaxpr, traced, outputs = findings.jaxpr, findings.rows, findings.outputs
    lines, steps = line.times.shape
    each = operations(jaxpr, traced) * PASSES
    # The numbers of a row's forward pass are kept for the backward pass, which makes as many again.
    per_row = int(codes.itemsize * (2 * numbers_made(jaxpr, traced) + 4 * C))
    rows = limits.tile or _rows(jaxpr, traced, codes, platform, each)
    rows = limits.tile or fitting_tile(rows, per_row, memory, least=1)
    least = 2 if even else 1
    what = f"a tile of {max(rows, least)} rows and their gradients"
    refuse_larger(max(rows, least) * per_row, what, memory)
    S = min(steps, rows)
    S = -(-steps // -(-steps // S))  # evenly, as in `Lines.cut`
    every = lines * -(-steps // S)
    D = min(every, max(1, rows // S))
    D = -(-every // -(-every // D))
    D += D % 2 if even else 0
    n = max(1, rows // (D * S))
    T = sizes.tiles_of_dispatch(n * D * S, each, platform)
    if limits.batch_rows is not None:
        T = -(-limits.batch_rows // (n * D * S))
    V = min(-(-every // D), T)
    P, row_bytes = engine.players.count, codes.itemsize * (2 * C + 2 * outputs * C)
    fits = max(1, min(HELD, memory.fits("results", codes.itemsize)) // (n * max(C, P) * outputs))
    U = max(1, min(T // V, fits))
    made = GradientSizes(n, D, S, -(-U // devices) * devices, V, per_row, row_bytes)
    refuse_shares(made.held(made.groups), memory)
    return made


def _rows(jaxpr: Any, traced: int, codes: Any, platform: str, each: float) -> int:
    """Number of rows of a tile, by the model alone."""
    widest = max(tiling.widest_layer(jaxpr, traced), codes.shape[1])
    rows = sizes.rows_of_gradients(widest, codes.itemsize, platform, each)
    if platform != "cpu":
        return rows
    return sizes.rows_of_wide(rows, widest, tiling.weights_of(jaxpr), codes.itemsize, platform)


# A line runs from a donor (t = 0) to the instance (t = 1). All instances share donors and places.


@dataclass(frozen=True)
class Lines:
    """Donors, points and their weights."""

    donor: np.ndarray  # int64 [E]
    times: np.ndarray  # float64 [E, S], within 0 and 1
    weights: np.ndarray  # float64 [E, S], of sum 1
    drawn: bool = False  # lines 2h and 2h + 1 are independent draws from one stratum

    @property
    def rows(self) -> int:
        """Model rows of one instance."""
        return self.times.size

    @property
    def dof(self) -> float:
        """Degrees of freedom of the variance of draws: half of the strata count.

        There is one for each stratum if all have the same variance. Half of them is conservative.
        """
        return max(1.0, len(self.donor) / 4)

    def cut(self, most: int) -> Lines:
        """The same points, with at most `most` on a line: longer lines become several."""
        E, S = self.times.shape
        parts = -(-S // most)
        if parts == 1:
            return self
        each = -(-S // parts)
        # The last part is filled up with a point of the line with the weight 0.
        filled = ((0, 0), (0, parts * each - S))
        times = np.pad(self.times, filled, mode="edge").reshape(-1, each)
        weights = np.pad(self.weights, filled).reshape(-1, each)
        return Lines(np.repeat(self.donor, parts), times, weights, self.drawn)

    def part(self, first: int, count: int) -> Lines:
        """`count` lines from `first`, padded with the last line at weight 0."""
        positions = np.arange(first, first + count)
        place = np.minimum(positions, len(self.donor) - 1)
        weights = np.where((positions == place)[:, None], self.weights[place], 0.0)
        return Lines(self.donor[place], self.times[place], weights, self.drawn)


def quadrature(donor_weights: np.ndarray, steps: int) -> Lines:
    """The `steps` Gauss-Legendre points on the line from each donor; donor_weights float64 [B].

    The quadrature is exact if the gradients are polynomials of degree 2 steps - 1 along the line.
    """
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    B = len(donor_weights)
    times = np.broadcast_to((nodes + 1) / 2, (B, steps))
    return Lines(np.arange(B), times, donor_weights[:, None] * weights / 2)


def drawn(donor_weights: np.ndarray, samples: int, seed: int) -> Lines:
    """`samples` draws of a donor, by its weight, and a point; an even number.

    Points are stratified: the line is cut into samples / 2 strata of equal length, with two draws
    in each. The draws are independent, so their difference estimates the variance of their mean.
    """
    donor = Wheel(donor_weights).places(seed, (LINES,), 0, samples)
    stratum = np.arange(samples) // 2
    times = (stratum + fractions(seed, (PLACES,), samples)) / (samples // 2)
    weights = np.full((samples, 1), 1 / samples)
    return Lines(donor, times[:, None], weights, drawn=True)
