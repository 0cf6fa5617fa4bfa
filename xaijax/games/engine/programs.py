"""Compiles the programs of one explainer: those that hold a JAX model, and reductions of values.

Letters: T tiles in a dispatch, R rows in a tile, S slots in a tile, K scores, A answers, C code
columns.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np

from xaijax.core.checks import warn
from xaijax.core.errors import ModelOutputError
from xaijax.games.engine.dispatch import LOOK_AHEAD, RAISE, Placement, ProgramRecipe, put, shape
from xaijax.games.engine.plan import TilePlan, capacity, tiles_that_fit
from xaijax.models.queries.probe import RowCounts, rounding
from xaijax_kernels.engine.seeds import runs_of_tile
from xaijax_kernels.engine.tiles import (
    TileShape,
    Traced,
    counted_on,
    in_blocks,
    over_tiles,
    platform_of,
    run_tiles,
)
from xaijax_kernels.sizes import SMALLEST_OF_WIDE
from xaijax_kernels.structures.base import Structure, shapes_of

if TYPE_CHECKING:
    from xaijax.games.engine.evaluator import Engine

PROBE_ROWS = 32  # as for the probe
IN_BLOCKS = "in blocks of the probe's rows"  # among a model's programs, if larger ones are wrong
STEP = 7919  # a prime: positions are mixed, but equal in each run
_JAXLIB = f"jaxlib {jaxlib.version.__version__}"
ROUNDINGS = 2.0**10  # by which two correct programs may differ, as in the probe
MOST_ANSWERS = 1 << 23  # numbers of a dispatch, if a row has more outputs than scores
OF_PAIRS = ("subsets", "structured", "mixed")  # kinds of slots that pairs have
NAMES_LIST = ("list", "mixed", "rows")  # kinds of slots that name coalitions of a list


class Programs:
    """The programs of one explainer, and their constant arguments on the devices."""

    def __init__(self, engine: Engine, sizes: TilePlan, placement: Placement) -> None:
        self.sizes, self.compiled, self.listed = sizes, engine.compiled, engine.listed
        self.cache: dict[Any, Any] = {}  # for any number of instances: `holding` shares it
        self.mesh, self.same, self.split = placement.mesh, placement.same, placement.split
        self.results = placement.results
        self._placed = placement.params
        self.params = self._placed(engine.model.params)
        donors, players = engine.replacement.for_loops, engine.players_of_codes
        # The padding is never used: slots name donors by number.
        padded = sizes.donors - len(donors)
        donors = np.pad(donors, ((0, padded), (0, 0)), mode="edge")
        self.donors = put(donors, self.same)
        self.players = None if players is None else put(players, self.same)
        self._apply: Any = engine.model.apply
        self._look = engine.findings.look
        self._score, self._outputs = engine.score, engine.findings.outputs  # A
        self._structure = engine.usable_structure  # of the model; None: none
        self._runs: dict[Any, tuple[Any, int]] = {}  # see `run`

    def holding(self, instances: int) -> Programs:
        """The programs with room for this number of instances."""
        wider = copy.copy(self)
        wider.sizes, wider._runs = replace(self.sizes, instances=instances), {}
        return wider

    def capacity(self, coalitions: int) -> int:
        """Number of coalitions that fit the list of a program, see `plan.capacity`."""
        return capacity(coalitions, self.listed, self.sizes.tile.P)

    def reads_own(self, scored: bool) -> bool:
        """Whether the score reads the model's output for x."""
        return scored and self._score is not None and self._score.reads_own

    def shape(self, kind: str, scored: bool = True, bits: int | None = None) -> TileShape:
        """The tile for slots of one kind; slots of "rows" are single rows.

        bits: slots of 2^bits sub-coalitions for the structure; None: for the model.
        """
        tile = self.sizes.tile if scored else replace(self.sizes.tile, outputs=self._outputs)
        bits = 0 if kind == "rows" else bits
        return tile if bits is None else replace(tile, slot_bits=bits, slots=tile.rows >> bits)

    def tiles(self, scored: bool = True) -> int:
        """T; fewer if the model has many outputs compared with the scores of a row."""
        T, rows, devices = self.sizes.tiles, self.sizes.tile.rows, self.mesh.size
        if scored or self._outputs <= self.sizes.tile.outputs:
            return T
        itemsize = self.donors.dtype.itemsize
        held = tiles_that_fit(rows, self._outputs, itemsize, self.compiled.memory)
        fits = min(held, max(1, MOST_ANSWERS // (rows * self._outputs)))
        return min(T, -(-fits // devices) * devices)

    def seeded(self, kind: str) -> bool:
        """Whether the device makes the slots: for pairs, if it is faster than the host."""
        return kind in OF_PAIRS and counted_on(self.mesh)

    def pairs(self, scored: bool = True, bits: int | None = None) -> int:
        """C: pairs of a table, at least the maximum of a dispatch."""
        return self.tiles(scored) * self.shape("subsets", scored, bits).slots

    def run(
        self, kind: str, scored: bool = True, bits: int | None = None, coalitions: int = 1
    ) -> tuple[Any, int]:
        """(the program that holds the model, for slots of one kind, compiled once; number of its
        results that wait); see `shape`.

        coalitions: number in the list that its slots name.
        """
        key = (kind, bits, scored, self.capacity(coalitions))
        if key not in self._runs:
            recipe = self.run_recipe(kind, scored, bits, coalitions)
            fresh = self.compiled.lacks(recipe)
            self._runs[key] = self.compiled.with_ahead(recipe)
            if fresh:
                self._hold(kind, scored, bits, coalitions)
        return self._runs[key]

    def _hold(self, kind: str, scored: bool, bits: int | None, coalitions: int) -> None:
        """Evaluates the probe's rows by a new program. If its outputs differ from the probe's, the
        model is called in blocks of the probe's number of rows, with a warning; raises
        ModelOutputError if that does not help.

        Programs of a structure are not checked here: their f(x) is compared with the model's in
        every run. Scores that read f(x), or that select one output per row, are not checked either.
        """
        look, score = self._look, self._score if scored else None
        if look is None or look.asked is None or bits is not None:
            return
        if score is not None and (score.reads_own or score.chooses):
            return
        gap = self._gap(look, kind, scored, coalitions)
        if gap is None:
            return
        name, rows = look.name, self.sizes.tile.rows
        where = f"{self.mesh.devices.flat[0].platform} (jax {jax.__version__}, {_JAXLIB})"
        said = (
            f"{name} gave other answers to the {PROBE_ROWS} rows of the probe in a program of "
            f"{rows} rows than in one of {PROBE_ROWS}: by up to {gap[0]:.3g}."
        )
        if not self._in_blocks:
            self.compiled.cache[IN_BLOCKS] = True
            recipe = self.run_recipe(kind, scored, bits, coalitions)
            key = (kind, bits, scored, self.capacity(coalitions))
            self._runs = {key: self.compiled.with_ahead(recipe)}
            if self._gap(look, kind, scored, coalitions) is None:
                warn(
                    f"{said} XLA's compiler for {where} makes the larger program wrong, so the "
                    f"model is asked in blocks of {PROBE_ROWS} rows, which takes longer. Use "
                    "another version of jaxlib."
                )
                return
        raise ModelOutputError(
            f"{said} If a row's answer depends on other rows of its batch, change the model: that "
            f"is not allowed. Otherwise XLA's compiler for {where} made a wrong program: use "
            "another version of jaxlib, or say backend='host' in as_model."
        )

    def _gap(
        self, look: RowCounts, kind: str, scored: bool, coalitions: int
    ) -> tuple[float, int] | None:
        """The difference of the outputs of the probe's rows, mixed in one tile of each device,
        from the probe's.
        """
        assert look.asked is not None
        params, rows = look.asked
        s, tile, T = self.sizes, self.shape(kind, scored), self.tiles(scored)
        codes = rows.reshape(len(rows), -1)[: min(s.instances, len(self.donors))]
        # Each instance is its own donor, so every hybrid is that row.
        instances = np.arange(tile.slots) * STEP % len(codes)
        slots = np.zeros((T, tile.slots, 3 + -(-tile.P // 32)), np.int32)
        slots[:, :, 1] = slots[:, :, 2] = instances
        x, donors = (codes[np.arange(n) % len(codes)] for n in (s.instances, len(self.donors)))
        words = np.zeros((self.capacity(coalitions), slots.shape[2] - 3), np.uint32)
        table = None
        if self.seeded(kind):  # one run of pairs with one slot each, equal in every tile
            table = np.zeros((self.pairs(scored), slots.shape[2]), np.int32)
            table[:] = np.resize(slots[0], table.shape)
            slots = np.zeros((T, runs_of_tile(tile.P, tile.slot_bits) + 1, 4), np.int32)
            slots[:, 1:, 0] = tile.slots
            slots[:, 0, 3] = 1
        values, _ = self.run(kind, scored, None, coalitions)[0](
            self._placed(params),
            *jax.device_put((x, donors), self.same),
            self.players,
            np.ones(self.mesh.size, np.int32),
            slots,
            jax.device_put(words, self.same) if kind in NAMES_LIST else None,
            None,
            None if table is None else jax.device_put(table, self.same),
        )
        got = np.asarray(values)[:: T // self.mesh.size]
        which = np.tile(instances.repeat(1 << tile.slot_bits), self.mesh.size)
        got = got.reshape(len(which), -1)
        if not scored or self._score is None:
            return look.gap(look.answer[which], got)
        unit = ROUNDINGS * rounding(look.precision)
        low, high = self._scores_near(look.answer.astype(values.dtype), unit)
        off = np.maximum(low[which] - got, got - high[which])
        off = np.where(np.isnan(low[which]) & np.isnan(got), 0.0, off)
        bad = np.argwhere(~(off <= unit * np.nanmax(np.abs(high), initial=0.0)))
        return (float(np.nanmax(off)), int(bad[0, 0])) if len(bad) else None

    def _scores_near(self, answer: np.ndarray, unit: float) -> tuple[np.ndarray, np.ndarray]:
        """The lowest and the highest scores [r, K] if rounding changes outputs [r, A] by `unit` of
        the largest.

        A score by label or threshold may jump there.
        """
        assert self._score is not None
        size = np.abs(np.where(np.isfinite(answer), answer, 0)).max(axis=0)
        signs = np.arange(16 * answer.size).reshape(16, *answer.shape) * STEP >> 10 & 1
        signs = 2 * signs - 1  # mixed without a random generator, because private releases use this
        signs[:3] = np.array([0, 1, -1])[:, None, None]
        moved = answer + signs * (unit * size)
        rows = jnp.asarray(moved.reshape(-1, answer.shape[1]).astype(answer.dtype))
        scores = np.asarray(self._score(rows, None)).reshape(len(signs), len(answer), -1)
        return scores.min(axis=0), scores.max(axis=0)

    @property
    def _in_blocks(self) -> bool:
        """Whether the model is called in blocks of the probe's number of rows."""
        return IN_BLOCKS in self.compiled.cache

    def run_recipe(
        self, kind: str, scored: bool = True, bits: int | None = None, coalitions: int = 1
    ) -> ProgramRecipe:
        """The recipe of that program."""
        s, tile = self.sizes, self.shape(kind, scored, bits)
        known = None if bits is None else self._structure
        score = self._score if scored else None
        words = -(-tile.P // 32)
        listed = self.capacity(coalitions), words
        dtype, reference = self.donors.dtype, None
        if self.reads_own(scored):
            assert score is not None
            reference = shape(self.same, s.instances, score.width(self._outputs), dtype=dtype)
        chosen = score is not None and score.chooses
        if known is not None:
            apply = self.compiled.head(
                known, self.params, self.block(s.tile.rows, bits or 0), dtype
            )
        else:
            apply = self.traced().one_output if chosen else self.traced()
        run = partial(
            run_tiles,
            apply,
            tile,
            self.mesh,
            kind=kind,
            score=None if chosen else score,
            valid=jnp.isfinite if score is None else score.kept,
            structure=None if known is None else known.of,
            chosen=chosen,
        )
        slots, pairs = (tile.slots, 3 + words), None
        if self.seeded(kind):
            slots = runs_of_tile(tile.P, tile.slot_bits) + 1, 4
            pairs = shape(self.same, self.pairs(scored, bits), 3 + words)
        arguments = (
            self.params,
            shape(self.same, s.instances, s.columns, dtype=dtype),
            self.donors,
            self.players,
            shape(self.split, self.mesh.size),
            shape(self.split, self.tiles(scored), *slots),
            shape(self.same, *listed, dtype=jnp.uint32) if kind in NAMES_LIST else None,
            reference,
            pairs,
        )
        return ProgramRecipe(
            ("run", kind, tile, score, known, self._in_blocks),
            run,
            arguments,
            what=f"a dispatch of {self.tiles(scored)} tiles of {tile.rows} rows",
            remedy=f"{RAISE[:-1]}, or lower batch_size= or tile= (at least {SMALLEST_OF_WIDE}).",
            ahead=s.ahead,
            results=self.results,
        )

    def traced(self) -> Traced:
        """The model for one tile of rows."""
        tile = self.sizes.tile
        rows = jax.ShapeDtypeStruct((tile.rows, *tile.instance_shape), self.donors.dtype)
        if self._in_blocks:
            apply = in_blocks(self._apply, math.gcd(tile.rows, PROBE_ROWS))
            return self.compiled.trace((IN_BLOCKS,), apply, self.params, rows)
        return self.compiled.trace(("model",), self._apply, self.params, rows, self._look)

    def means(
        self,
        kernel: Any,
        what: str,
        means: Any,
        rows: int,
        arguments: tuple[Any, ...],
        ahead: int = LOOK_AHEAD,
    ) -> ProgramRecipe:
        """Recipe of a program in which the structure evaluates hybrids and the kernel averages
        over donors, see `averaged` and `listed_means`; means: its shape, rows: per call of the
        head, ahead: dispatches started before the first is fetched.
        """
        known, score = self.structure, self._score
        keeps = jnp.isfinite if score is None else score.kept
        head = self.compiled.head(known, self.params, rows, self.donors.dtype)
        run = partial(kernel, known.of, head, score, keeps, means, self.mesh)
        key, what = (what, known, score, means), f"a dispatch of {what}"
        return ProgramRecipe(key, run, arguments, what=what, ahead=ahead, results=self.results)

    @property
    def structure(self) -> Structure:
        """The known structure of the model."""
        assert self._structure is not None
        return self._structure

    def block(self, rows: int, bits: int = 0) -> int:
        """Rows per call of the structure's head, for a tile of `rows` in slots of 2^bits."""
        return shapes_of(self.structure, self.params).block(rows, platform_of(self.mesh), bits)

    def reduction(
        self, key: str, function: Callable[..., Any], split: tuple[bool, ...], *arguments: Any
    ) -> ProgramRecipe:
        """Recipe of a reduction of (values, *arguments); split: which have the tile axis."""
        s = self.sizes
        dims = (s.tiles, s.tile.rows, s.tile.outputs)
        values = shape(self.split, *dims, dtype=s.tile.dtype)
        whole = over_tiles(function, self.mesh, (True, *split))
        what = "a sum of answers"
        return ProgramRecipe((key,), whole, (values, *arguments), what=what, results=self.results)
