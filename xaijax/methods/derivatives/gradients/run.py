"""The loop that fills tiles with lines, and asks the model itself for its answers.

Letters: N instances, n of a group, U groups and V tiles of lines of a dispatch, D lines of a tile,
S places, R = n D S rows of a tile, C codes, P players, K outputs, M rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from xaijax.games.engine.compiled import Recipe, shape
from xaijax.games.engine.dispatch import LOOK_AHEAD, dealt
from xaijax.games.engine.evaluator import Engine
from xaijax.games.engine.placement import Placement
from xaijax.methods.derivatives.gradients.lines import Lines
from xaijax.methods.derivatives.gradients.reading import Work
from xaijax.methods.derivatives.gradients.sizes import Sizes
from xaijax.methods.derivatives.gradients.space import Space, whole_model
from xaijax_kernels.gradients.lines import LineShape, line_values

WHAT = "a dispatch of gradients"
FEW = 8  # a tile's rows that are worth a call of it, in parts of the tile
LESS = "Raise max_memory=, or lower tile= or batch_size=."


@dataclass(frozen=True)
class Run:
    """The programs of one explainer, and what they are given."""

    engine: Engine
    space: Space
    lines: Lines  # as many places on each as a tile takes
    sizes: Sizes
    placement: Placement
    players: int  # P

    @property
    def outputs(self) -> int:
        """K of the model."""
        return self.engine.findings.outputs

    @cached_property
    def params(self) -> Any:
        """The model's parameters, on the devices."""
        return self.placement.params(self.engine.model.params)

    def answers(self, codes: Any) -> np.ndarray:
        """The model's own answers to rows of codes [M, C], by blocks of a tile; float64 [M, K]."""
        out = np.empty((len(codes), self.outputs))
        for first in range(0, len(codes), self.sizes.rows):
            some = np.asarray(codes[first : first + self.sizes.rows])
            out[first : first + len(some)] = self._answered(some)
        offset = self.engine.offset
        return out if offset is None else out + offset

    def _answered(self, some: np.ndarray) -> np.ndarray:
        """The answers to a tile of rows at most: to few of them by the program of the probe."""
        if not self.in_tiles(len(some)):
            rows, params = self.engine.findings.rows, self.engine.model.params
            program = cast(Any, self.engine.findings.programs)["probe"][0]
            shape = self.engine.replacement.table.shape
        else:
            rows, params, shape = self.sizes.rows, self.params, some.shape[1:]
            program = self.engine.compiled.program(self.answer_recipe)
        filled = np.pad(some, ((0, -len(some) % rows), (0, 0)), mode="edge")
        parts = filled.reshape(-1, rows, *shape)
        self.engine.clock.model_calls += len(parts)
        found = [np.asarray(program(params, part)).reshape(rows, -1) for part in parts]
        return np.concatenate(found)[: len(some)]

    def in_tiles(self, M: int) -> bool:
        """Whether some of so many rows are answered by a tile."""
        return M * FEW > self.sizes.rows

    def answer_calls(self, M: int) -> int:
        """Calls for the answers to so many rows."""
        whole, rest = divmod(M, self.sizes.rows)
        if self.in_tiles(rest):
            return whole + 1
        return whole + -(-rest // self.engine.findings.rows)

    @cached_property
    def answer_recipe(self) -> Recipe:
        """Of the program that answers a tile of rows."""
        codes, same = self.engine.replacement.codes, self.placement.same
        rows = shape(same, self.sizes.rows, codes.shape[1], dtype=codes.dtype)
        whole = whole_model(self.engine, self.sizes.rows)
        results = self.placement.results
        return Recipe(("answers",), whole, (self.params, rows), "a tile of rows", results=results)

    def values(
        self, work: Work, done: Callable[[int], object]
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(values [N, P, K], variances of drawn ones), float64; done(model rows) as they come."""
        run = self.engine.compiled.program(self.recipe(work))
        K = self._shape(work).found
        values = np.zeros((len(work), self.players, K))
        spread = np.zeros_like(values) if self.lines.drawn else None
        waiting: deque[tuple[_Group, int, Any]] = deque()

        def read() -> None:
            group, rows, found = waiting.popleft()
            for total, part in zip((values, spread), found, strict=True):
                if total is not None:  # else zeros, that stand for no variances
                    total[group.here] += group.taken(np.asarray(part))
            done(rows)

        for group, rows, arguments in self._dispatches(work):
            waiting.append((group, rows, run(self.params, *arguments)))
            self.engine.clock.model_calls += 1
            if len(waiting) > LOOK_AHEAD:
                read()
        while waiting:
            read()
        return values, spread

    def dispatches(self, N: int) -> int:
        """Calls of the program for N instances, without those for answers."""
        s, lines = self.sizes, len(self.lines.donor)
        return -(-N // (s.groups * s.instances)) * -(-lines // (s.turns * s.lines))

    def recipe(self, work: Work) -> Recipe:
        """What the program is compiled of."""
        s, place, own = self.sizes, self.placement, self._shape(work)
        donors = self.engine.replacement.codes
        dtype, codes, C = self._dtype, donors.dtype, donors.shape[1]
        U, n, V, D, S = s.groups, s.instances, s.turns, s.lines, s.steps
        x = shape(place.split, U, n, C, dtype=codes)
        starts = x if own.own else shape(place.same, V, D, C, dtype=codes)
        places = shape(place.same, V, D, S, dtype=dtype)
        owner = work.owner
        if owner is not None:
            of_each = owner.ndim == 2
            owner = shape(place.split, U, n, C) if of_each else shape(place.same, C)
        column = shape(place.split, U, n) if own.chosen else None
        counts = shape(place.split, place.mesh.size), shape(place.same)
        head = self.space.head(self.engine, s.rows)
        run = partial(line_values, self.space.lift, head, own, place.mesh)
        arguments = self.params, x, starts, places, places, owner, column, *counts
        key = "line values", own, self.space.key
        return Recipe(key, run, arguments, WHAT, LESS, LOOK_AHEAD, results=place.results)

    @property
    def _dtype(self) -> np.dtype:
        """Of places, weights and values."""
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
            own=work.own is not None,
            pairs=self.lines.drawn,
            chosen=work.column is not None,
        )

    def _dispatches(self, work: Work) -> Iterator[tuple[_Group, int, tuple[Any, ...]]]:
        """(instances, their model rows, the program's arguments) of each dispatch."""
        s, N, E = self.sizes, len(work), len(self.lines.donor)
        together, at_once = s.groups * s.instances, s.turns * s.lines
        clock, devices = self.engine.clock, self.placement.mesh.size
        for first in range(0, N, together):
            here = slice(first, min(N, first + together))
            groups = -(-(here.stop - first) // s.instances)
            place, counts = dealt(groups, s.groups, devices, clock.tiles)
            clock.tiles += groups
            group = _Group(here, place, s.groups, s.instances)
            own = [group.filled(rows) for rows in (work.codes, work.own, work.column)]
            owner = work.owner if work.owner is None or work.owner.ndim == 1 else None
            owner = group.filled(work.owner) if owner is None else owner
            for begin in range(0, E, at_once):
                lines = min(at_once, E - begin)
                x, donors, column = own
                mine, *places = self._places(begin)
                donors = mine if donors is None else donors
                turns = np.int32(-(-lines // s.lines))
                rows = (here.stop - first) * lines * s.steps
                yield group, rows, (x, donors, *places, owner, column, counts, turns)

    def _places(self, begin: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(donors [V, D, C], places and weights [V, D, S]) of lines from one on."""
        s, donors = self.sizes, self.engine.replacement.codes
        part = self.lines.part(begin, s.turns * s.lines)
        times, weights = (
            one.reshape(s.turns, s.lines, s.steps).astype(self._dtype)
            for one in (part.times, part.weights)
        )
        return donors[part.donor].reshape(s.turns, s.lines, -1), times, weights


@dataclass(frozen=True)
class _Group:
    """Instances of one dispatch, and where their groups stand among those of the devices."""

    here: slice
    place: np.ndarray  # of each group of n, in U
    groups: int  # U
    each: int  # n

    def filled(self, rows: Any) -> np.ndarray | None:
        """Their rows [U, n, ..] of rows [N, ..]; the last one fills up."""
        if rows is None:
            return None
        some = np.asarray(rows[self.here])
        missing = len(self.place) * self.each - len(some)
        some = np.pad(some, ((0, missing), *((0, 0),) * (some.ndim - 1)), mode="edge")
        some = some.reshape(len(self.place), self.each, *some.shape[1:])
        out = np.broadcast_to(some[-1:], (self.groups, *some.shape[1:])).copy()
        out[self.place] = some
        return out

    def taken(self, found: np.ndarray) -> np.ndarray:
        """What was found of them [.., P, K], out of [U, n, P, K]."""
        flat = found[self.place].reshape(-1, *found.shape[2:])
        return flat[: self.here.stop - self.here.start]


def base_rows(run: Run, work: Work) -> int:
    """Rows that are asked for the answers to where lines begin."""
    B = 1 if work.own is not None else run.engine.replacement.count
    return len(work) * B if _stays(run, work) is not None or work.own is not None else B


def base_answers(run: Run, work: Work) -> np.ndarray:
    """The mean answer to where lines begin, by the donors' weights; float64 [N, K] or [1, K]."""
    donors, weights = run.engine.replacement.codes, run.engine.replacement.weights
    stays = _stays(run, work)
    if stays is None:
        own = None if work.own is None else run.answers(work.own)
        return weights[None] @ run.answers(donors) if own is None else own
    B = 1 if work.own is not None else len(donors)
    together, out = max(1, run.sizes.rows // B), []
    for first in range(0, len(work), together):
        x = np.asarray(work.codes[first : first + together])[:, None]  # [m, 1, C]
        keep = np.broadcast_to(stays, (len(work), donors.shape[1]))[first : first + together, None]
        start = donors[None] if work.own is None else work.own[first : first + together, None]
        rows = np.where(keep, x, start)
        answers = run.answers(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:2], -1)
        out.append(np.einsum("mbk,b->mk", answers, weights))
    return np.concatenate(out)


def _stays(run: Run, work: Work) -> np.ndarray | None:
    """Which entries stay as they are in the instance, bool [C] or [N, C]; None: no entry."""
    stays = None if work.owner is None else work.owner == run.players
    return stays if stays is not None and stays.any() else None
