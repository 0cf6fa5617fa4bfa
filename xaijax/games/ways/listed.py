"""v(S) for coalitions that are given as a list, shared by all instances.

Letters: N instances, B donors, C coalitions, P players, K outputs, k players that differ.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from xaijax.games.engine.loop import Backend, Question, Stream
from xaijax_kernels.engine.lattice import LISTED, Pairs
from xaijax_kernels.engine.listed import ListedStream
from xaijax_kernels.engine.tables import host_ranks

# Where its pairs need at most this share of the rows, an instance is asked by corners.
WORTH = 0.75
MOST_ROWS = 1 << 24  # answers held at a time, where memory allows


def corner_rows(differs: np.ndarray, C: int) -> np.ndarray:
    """Rows that each pair needs for C coalitions: its 2^k corners, or C if fewer; [..., B]."""
    k = differs.sum(axis=-1, dtype=np.int64)
    return np.minimum(np.int64(1) << np.minimum(k, 62), C)


class Masks(Protocol):
    """A list of coalitions; an array bool [C, P], or one whose parts are made when asked for."""

    def __len__(self) -> int: ...

    def __getitem__(self, part: slice, /) -> np.ndarray: ...


class WithWhole:
    """A list with the coalition that keeps everything as its last."""

    def __init__(self, masks: Masks, P: int) -> None:
        self._masks, self._whole = masks, np.ones((1, P), bool)

    def __len__(self) -> int:
        return len(self._masks) + 1

    def __getitem__(self, part: slice) -> np.ndarray:
        first, last, _ = part.indices(len(self))
        C = len(self._masks)
        own = self._masks[min(first, C) : min(last, C)]
        return np.concatenate([own, self._whole]) if first <= C < last else own


class Asking(Protocol):
    """What a list needs of the game that asks it; `questions.Questions`."""

    evaluator: Any

    @property
    def P(self) -> int:
        """Players."""
        ...

    def pack(
        self,
        backend: Backend,
        instance: np.ndarray,
        donor: np.ndarray,
        differs: np.ndarray,
        listed: int | None = None,
    ) -> Pairs:
        """The stream of these pairs, counted."""
        ...

    def counted(self, stream: Stream) -> None:
        """Add the stream's rows to the count."""
        ...

    def question(
        self,
        stream: Stream,
        rows: np.ndarray,
        donors: np.ndarray,
        backend: Backend,
        masks: np.ndarray | None = None,
    ) -> Question:
        """What goes with the stream."""
        ...


class ListOfCoalitions:
    """The values of one list of coalitions, for a stretch of instances at a time."""

    def __init__(self, game: Asking, masks: Masks, K: int) -> None:
        """masks bool [C, P], or what gives such an array for a slice."""
        self._game, self._masks = game, masks
        self._weights = game.evaluator.replacement.weights
        self._most = max(1, min(MOST_ROWS, game.evaluator.max_memory // 4 // (16 * K)))
        self._K = K

    def of(self, backend: Backend, rows: np.ndarray, differs: np.ndarray | None) -> np.ndarray:
        """Values of the instances `rows` [n], float64 [n, C, K]; differs bool [n, B, P].

        None: nothing may be asked once for two, since the model is random.
        """
        out = np.zeros((len(rows), len(self._masks), self._K))
        slot = 1 << backend.slot_bits
        fits = max(slot, self._most // len(self._weights) // slot * slot)
        step = min(self._game.evaluator.listed, fits)
        thrifty = np.zeros(len(rows), bool)
        if differs is not None:
            # Corners are asked once for each part of the list.
            C = min(step, len(self._masks))
            thrifty = corner_rows(differs, C).sum(axis=1) <= WORTH * C * len(self._weights)
        for c in range(0, len(self._masks), step):
            masks = self._masks[c : c + step]
            padded = -(-len(masks) // slot) * slot
            donors = max(1, min(len(self._weights), self._most // padded))
            together = max(1, self._most // (padded * donors))
            here = slice(c, c + step)
            for b in range(0, len(self._weights), donors):
                own = np.arange(b, min(b + donors, len(self._weights)))
                for part in _pieces(np.flatnonzero(~thrifty), together):
                    out[part, here] += self._by_list(backend, rows[part], masks, own)
                for part in _pieces(np.flatnonzero(thrifty), together):
                    assert differs is not None
                    out[part, here] += self._by_corners(
                        backend, rows[part], masks, own, differs[part][:, own]
                    )
        return out

    def _by_list(
        self, backend: Backend, rows: np.ndarray, masks: np.ndarray, donors: np.ndarray
    ) -> np.ndarray:
        """One model row for each coalition and donor."""
        game = self._game
        stream = ListedStream(
            np.arange(len(rows), dtype=np.int32),
            donors.astype(np.int32),
            len(masks),
            game.P,
            backend.slot_bits,
        )
        game.counted(stream)
        return backend.stream_means(stream, game.question(stream, rows, donors, backend, masks))

    def _by_corners(
        self,
        backend: Backend,
        rows: np.ndarray,
        masks: np.ndarray,
        donors: np.ndarray,
        differs: np.ndarray,
    ) -> np.ndarray:
        """A pair's corners, where they are fewer than the coalitions."""
        game = self._game
        n, B, _ = differs.shape
        instance, donor = np.repeat(np.arange(n), B), np.tile(donors, n)
        pairs = game.pack(backend, instance, donor, differs, len(masks))
        first = np.empty(n * B, np.int32)
        first[pairs.order] = pairs.first
        places = (
            pairs.start_as_given.reshape(n, B),
            (first >= LISTED).reshape(n, B),
            host_ranks(differs),
        )
        return backend.pair_means(pairs, game.question(pairs, rows, donors, backend, masks), places)


def _pieces(rows: np.ndarray, size: int) -> list[np.ndarray]:
    return [rows[i : i + size] for i in range(0, len(rows), size)]
