"""The compiled programs of one explainer: those that hold a JAX model, and reductions of values.

Letters: T tiles in a dispatch, R rows in a tile, S slots in a tile, K scores, A answers, C code
columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.once import shapes_of
from xaijax.games.engine.compiled import RAISE, Compiled, Recipe, shape
from xaijax.games.engine.dispatch import LOOK_AHEAD
from xaijax.games.engine.placement import Placement
from xaijax.games.engine.plan import LEAST_DONORS, Sizes, bucket, capacity, tiles_that_fit
from xaijax.games.measure.score import Score
from xaijax_kernels.engine.seeds import runs_of_tile
from xaijax_kernels.engine.tiles import SMALLEST_TILE, TileShape, Traced, over_tiles, run_tiles
from xaijax_kernels.engine.turns import counted_on
from xaijax_kernels.structures.averaged import MeansShape, mean_tables
from xaijax_kernels.structures.base import Structure
from xaijax_kernels.structures.listed_means import ListShape, listed_means

MOST_ANSWERS = 1 << 23  # numbers of a dispatch, where a row has more answers than scores
OF_PAIRS = ("corners", "structured", "mixed")  # kinds of slots that pairs have
NAMES_LIST = ("list", "mixed", "rows")  # kinds of slots that name coalitions of a list


class Programs:
    """What the programs of one explainer take, on the devices, and the programs themselves."""

    def __init__(
        self,
        apply: Callable[[Any, jax.Array], jax.Array],
        params: Any,
        compiled: Compiled,
        sizes: Sizes,
        players: np.ndarray | None,
        donors: np.ndarray,
        placement: Placement,
        listed: int,
        score: Score | None = None,
        outputs: int = 1,
        structure: Structure | None = None,
        look: Callable[[Any, int], None] | None = None,
    ) -> None:
        """listed: coalitions of the list that slots may name at most; outputs: A.

        look(trace, rows): sees the model's trace before any program is made of it.

        structure: what is known of the model; None: nothing.
        """
        self.sizes, self.compiled, self.listed = sizes, compiled, listed
        self.mesh, self.same, self.split = placement.mesh, placement.same, placement.split
        self.results = placement.results
        self.params = placement.params(params)
        # The padding is never asked: slots name donors by their number.
        padded = bucket(len(donors), LEAST_DONORS) - len(donors)
        donors = np.pad(donors, ((0, padded), (0, 0)), mode="edge")
        self.donors = jax.device_put(donors, self.same)
        self.players = None if players is None else jax.device_put(players, self.same)
        self._apply, self._look = apply, look
        self._score, self._outputs, self._structure = score, outputs, structure
        self._runs: dict[
            tuple[str, int | None, bool, int], Any
        ] = {}  # the programs that hold the model

    def reads_own(self, scored: bool) -> bool:
        """Whether the score looks at the model's answer to x itself."""
        return scored and self._score is not None and self._score.reads_own

    def shape(self, kind: str, scored: bool = True, bits: int | None = None) -> TileShape:
        """The tile for slots of one kind; slots of "rows" are single rows.

        bits: slots of 2^bits corners, answered by the structure; None: by the model.
        """
        tile = self.sizes.tile if scored else replace(self.sizes.tile, outputs=self._outputs)
        bits = 0 if kind == "rows" else bits
        return tile if bits is None else replace(tile, slot_bits=bits, slots=tile.rows >> bits)

    def tiles(self, scored: bool = True) -> int:
        """T; fewer where the model's own answers are many numbers beside the scores of a row."""
        T, rows, devices = self.sizes.tiles, self.sizes.tile.rows, self.mesh.size
        if scored or self._outputs <= self.sizes.tile.outputs:
            return T
        itemsize = self.donors.dtype.itemsize
        held = tiles_that_fit(rows, self._outputs, itemsize, self.compiled.max_memory)
        fits = min(held, max(1, MOST_ANSWERS // (rows * self._outputs)))
        return min(T, -(-fits // devices) * devices)

    def seeded(self, kind: str) -> bool:
        """Whether the device makes the slots: of pairs, where it outruns the host."""
        return kind in OF_PAIRS and counted_on(self.mesh)

    def pairs(self, scored: bool = True, bits: int | None = None) -> int:
        """C: pairs of a table, no fewer than a dispatch can have."""
        return self.tiles(scored) * self.shape("corners", scored, bits).slots

    def run(
        self, kind: str, scored: bool = True, bits: int | None = None, coalitions: int = 1
    ) -> Any:
        """The program that holds the model, for slots of one kind, compiled once; see `shape`.

        coalitions: of the list that its slots name.
        """
        key = (kind, bits, scored, capacity(coalitions, self.listed))
        if key not in self._runs:
            recipe = self.run_recipe(kind, scored, bits, coalitions)
            self._runs[key] = self.compiled.program(recipe)
        return self._runs[key]

    def run_recipe(
        self, kind: str, scored: bool = True, bits: int | None = None, coalitions: int = 1
    ) -> Recipe:
        """What that program is compiled of."""
        s, tile = self.sizes, self.shape(kind, scored, bits)
        known = None if bits is None else self._structure
        score = self._score if scored else None
        words = -(-tile.P // 32)
        listed = capacity(coalitions, self.listed), words
        dtype, own = self.donors.dtype, None
        if self.reads_own(scored):
            assert score is not None
            own = shape(self.same, s.instances, score.beside(self._outputs), dtype=dtype)
        chosen = score is not None and score.chooses
        if known is not None:
            apply = self._head(known, s.tile.rows)
        else:
            apply = self.traced().one_output if chosen else self.traced()
        run = partial(
            run_tiles,
            apply,
            tile,
            self.mesh,
            kind=kind,
            score=None if chosen else score,
            kept=jnp.isfinite if score is None else score.kept,
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
            own,
            pairs,
        )
        return Recipe(
            ("run", kind, tile, score, known),
            run,
            arguments,
            what=f"a dispatch of {self.tiles(scored)} tiles of {tile.rows} rows",
            remedy=f"{RAISE[:-1]}, or lower batch_size= or tile= (at least {SMALLEST_TILE}).",
            ahead=LOOK_AHEAD,
            results=self.results,
        )

    def traced(self) -> Traced:
        """The model for one tile of rows."""
        tile = self.sizes.tile
        rows = jax.ShapeDtypeStruct((tile.rows, *tile.instance_shape), self.donors.dtype)
        return self.compiled.trace(("model",), self._apply, self.params, rows, self._look)

    def mean_tables(self, means: MeansShape, arguments: tuple[Any, ...]) -> Recipe:
        """Of the program that averages the structure's corners over donors; see `averaged`."""
        known, score = self.structure, self._score
        kept = jnp.isfinite if score is None else score.kept
        head = self._head(known, means.rows)
        run = partial(mean_tables, known.of, head, score, kept, means, self.mesh)
        key = ("averaged", known, score, means)
        what = "a dispatch of averaged tables"
        return Recipe(key, run, arguments, what=what, ahead=LOOK_AHEAD, results=self.results)

    def listed_means(self, means: ListShape, arguments: tuple[Any, ...]) -> Recipe:
        """Of the program that averages listed coalitions over donors; see `listed_means`."""
        known, score = self.structure, self._score
        kept = jnp.isfinite if score is None else score.kept
        hidden = self.compiled.head(known, self.params, means.rows, self.donors.dtype)
        run = partial(listed_means, known.of, hidden, score, kept, means, self.mesh)
        key = ("listed means", known, score, means)
        what = "a dispatch of listed coalitions"
        return Recipe(key, run, arguments, what=what, ahead=LOOK_AHEAD, results=self.results)

    @property
    def structure(self) -> Structure:
        """What is known of the model, where something is."""
        assert self._structure is not None
        return self._structure

    def _head(self, known: Structure, rows: int) -> Callable[[Any, jax.Array], jax.Array]:
        """The rest of a model whose structure is known, for the rows that it takes at a time."""
        rows = shapes_of(known.of, self.params).block(rows)
        return self.compiled.head(known, self.params, rows, self.donors.dtype)

    def reduction(
        self, key: str, function: Callable[..., Any], split: tuple[bool, ...], *arguments: Any
    ) -> Recipe:
        """Of a reduction of (values, *arguments); split: which have the tile axis."""
        s = self.sizes
        dims = (s.tiles, s.tile.rows, s.tile.outputs)
        values = shape(self.split, *dims, dtype=s.tile.dtype)
        whole = over_tiles(function, self.mesh, (True, *split))
        what = "a sum of answers"
        return Recipe((key,), whole, (values, *arguments), what=what, results=self.results)
