"""What evaluation and the two loops agree on: streams of rows in, answers and sums out.

Letters: N instances, B donors, P players, K scores, A answers, C coalitions, R rows, k players that
differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from xaijax.games.engine.compiled import Clock, ProgramRecipe
from xaijax_kernels.engine.lattice import Dispatch, Pairs
from xaijax_kernels.engine.listed import ListedStream


class TileOutputs(Protocol):
    """A piece of the stream with the model's answers, on the device or on the host."""

    @property
    def piece(self) -> Dispatch:
        """Which rows."""
        ...


class Stream(Protocol):
    """Rows to be asked, as a loop takes them; `lattice.Pairs` and `listed.ListedStream`."""

    @property
    def kind(self) -> str:
        """What its slots are: "corners", "structured", "list", "mixed" or "rows"."""
        ...

    @property
    def slot_bits(self) -> int:
        """A slot has 2^slot_bits rows."""
        ...

    @property
    def rows(self) -> int:
        """Model rows, padding included."""
        ...

    @property
    def distinct_rows(self) -> int:
        """Model rows without padding."""
        ...

    def dispatches(self, rows_each: int) -> Iterator[Dispatch]:
        """The rows in pieces."""
        ...

    def locate(self, row: int, masks: Any) -> tuple[int, int, np.ndarray]:
        """(instance, donor, kept bool [P]) of a row."""
        ...


Check = Callable[[Any, Any], None]  # (stream, answers): sees every piece before it is used
Done = Callable[[int], None]  # (rows): called afterwards
Count = Callable[[int], int]  # players -> values that are summed of their corners


@dataclass(frozen=True)
class Instances:
    """The instances that a stream numbers from 0."""

    codes: np.ndarray  # [N, C]
    own: np.ndarray | None = None  # float64 [N, A], f(x), if the score looks at it
    here: np.ndarray | None = None  # int [N], which rows of X they are, for messages


@dataclass(frozen=True)
class GameQuery:
    """What every question for v(S) brings along, in addition to its stream."""

    x: Instances
    donor_weights: np.ndarray  # [B]
    check: Check
    done: Done
    masks: np.ndarray | None = None  # bool [C, P], the coalitions that the stream names


def every_row(stream: Stream, answered: Iterator[Any]) -> Iterator[Any]:
    """The pieces as they come; RuntimeError if they are not all rows of the stream, in order.

    What is made of the answers takes their places from the stream. A lost piece would give wrong
    numbers, and f(x) is read from the same rows, so that base value and values still add up to it.
    """
    row = 0
    for answers in answered:
        if answers.piece.first_row != row:
            break
        yield answers
        row += answers.piece.rows
    else:
        if row == stream.rows:
            return
    raise RuntimeError(
        f"The answers to {stream.rows:,} hybrids end or go on elsewhere after {row:,}. This is a "
        "fault of xaijax, and no result is given; please report it."
    )


class Backend(Protocol):
    """What evaluation asks of a loop; `device.DeviceBackend` and `host.HostBackend`."""

    clock: Clock

    @property
    def slot_bits(self) -> int:
        """A pair takes at least 2^slot_bits rows."""
        ...

    @property
    def rows_per_block(self) -> int:
        """Rows within which a pair is reduced in one go; a power of two."""
        ...

    @property
    def held(self) -> dict[str, int]:
        """The bytes that are planned for donors, instances, rows at work and their answers."""
        ...

    def calls(self, rows: int, scored: bool = True) -> int:
        """Calls of the model for a stream of `rows` rows; scored: as for `answers`."""
        ...

    def recipe(
        self, kind: str, bits: int | None = None, scored: bool = True, coalitions: int = 1
    ) -> ProgramRecipe:
        """Recipe of the program that answers, or draws, slots of one kind; bits: those of
        structured slots, coalitions: those of the list that slots name.
        """
        ...

    def pair_recipe(
        self, k: int, slot_bits: int, matrix: np.ndarray, count: Count
    ) -> ProgramRecipe | None:
        """Recipe of the program that `pair_sums` runs; None if there is none."""
        ...

    def piece_recipe(self, matrices: np.ndarray) -> ProgramRecipe | None:
        """Recipe of the program that `piece_sums` runs; None if there is none."""
        ...

    def stream_mean_recipes(self, rows: int, donors: int, C: int) -> list[ProgramRecipe]:
        """Recipes of the programs that `stream_means` runs for a stream of `rows` rows."""
        ...

    def pair_mean_recipes(
        self, kind: str, rows: int, n: int, donors: int, C: int
    ) -> list[ProgramRecipe]:
        """Recipes of the programs that `pair_means` runs for n instances and C coalitions."""
        ...

    def answers(
        self, stream: Any, x: Instances, masks: np.ndarray | None = None, scored: bool = True
    ) -> Iterator[Any]:
        """Scores all rows of the stream; masks bool [Q, P], the coalitions it names.

        scored: False gives the model's answers themselves, [R, A].
        """
        ...

    def pair_sums(
        self, answers: Any, k: int, matrix: np.ndarray, count: Count
    ) -> Callable[[np.ndarray], np.ndarray]:
        """Starts the values of the piece's blocks; called with the places of some consecutive
        blocks, int [b], the result gives theirs, float64 [b, K, M + 3].

        matrix [rows, M] of k players that differ; count(k) gives M.
        """
        ...

    def piece_sums(
        self, answers: Any, matrices: np.ndarray, high_bits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        """Starts the sums of pairs larger than a block; float64 [tiles, K, columns + 3] on call."""
        ...

    def tables(
        self, streams: list[tuple[Pairs, GameQuery]], start: np.ndarray, differs: np.ndarray
    ) -> np.ndarray:
        """v(S) of N instances over B donors: float64 [N, 2^P, K].

        start [N, B]: a pair's first row, the streams one after another; differs bool [N, B, P].
        """
        ...

    def stream_means(self, stream: ListedStream, question: GameQuery) -> np.ndarray:
        """v(S) of the stream's instances for a list of coalitions, float64 [N, C, K]."""
        ...

    def pair_means(
        self, pairs: Pairs, question: GameQuery, places: tuple[np.ndarray, np.ndarray, np.ndarray]
    ) -> np.ndarray:
        """The same if some pairs answer their corners; places as in `list_means`."""
        ...

    def values(self, answers: Any) -> np.ndarray:
        """The answers of a piece, float64 [rows, K]."""
        ...

    def any_bad(self, answers: Any) -> bool:
        """Whether an answer of the piece is not finite, or does not keep its score's bounds."""
        ...
