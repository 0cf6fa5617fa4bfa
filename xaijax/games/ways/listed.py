"""v(S) for coalitions that are given as a list, shared by all instances.

Letters: N instances, B donors, C coalitions, P players, K outputs, k players that differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from xaijax.games.engine.loop import Backend, Question, Stream
from xaijax.games.engine.setting import Setting
from xaijax.games.ways.coming import Coming
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

    @property
    def setting(self) -> Setting:
        """What is asked about, by which limits."""
        ...

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
        self._weights = game.setting.replacement.weights
        self._most = max(1, min(MOST_ROWS, game.setting.max_memory // 4 // (16 * K)))
        self._K = K

    def of(self, backend: Backend, rows: np.ndarray, differs: np.ndarray | None) -> np.ndarray:
        """Values of the instances `rows` [n], float64 [n, C, K]; differs bool [n, B, P].

        None: nothing may be asked once for two, since the model is random.
        """
        out = np.zeros((len(rows), len(self._masks), self._K))
        for here, own, part, by_corners in self._parts(backend, len(rows), differs):
            masks = self._masks[here]
            if by_corners:
                assert differs is not None
                of_pairs = differs[part][:, own]
                found = self._by_corners(backend, rows[part], masks, own, of_pairs)
            else:
                found = self._by_list(backend, rows[part], masks, own)
            out[part, here] += found
        return out

    def coming(self, backend: Backend, rows: np.ndarray, differs: np.ndarray | None) -> Coming:
        """What `of` would ask for."""
        each, calls, recipes = np.zeros(len(rows), np.int64), 0, []
        slot = 1 << backend.slot_bits
        for here, own, part, by_corners in self._parts(backend, len(rows), differs):
            C = min(here.stop, len(self._masks)) - here.start
            if by_corners:
                assert differs is not None
                of_pairs = differs[part][:, own]
                asked = corner_rows(of_pairs, C)
                each[part] += asked.sum(axis=1)
                held = int((-(-asked // slot) * slot).sum())
                more = of_pairs.sum(axis=2) > (C.bit_length() - 1)  # than C corners
                kind = "mixed" if more.any() else "corners"
                recipes += backend.pair_mean_recipes(kind, held, len(part), len(own), C)
            else:
                each[part] += C * len(own)
                held = len(part) * -(-C // slot) * slot * len(own)
                recipes += backend.stream_mean_recipes(held, len(own), C)
            calls += backend.calls(held)
        return Coming(each, calls, recipes)

    def _parts(
        self, backend: Backend, n: int, differs: np.ndarray | None
    ) -> Iterator[tuple[slice, np.ndarray, np.ndarray, bool]]:
        """(coalitions, donors, instances int of n, whether by corners) that are asked together."""
        slot, B = 1 << backend.slot_bits, len(self._weights)
        fits = max(slot, self._most // B // slot * slot)
        step = min(self._game.setting.listed, fits)
        thrifty = np.zeros(n, bool)
        if differs is not None:
            # Corners are asked once for each part of the list.
            C = min(step, len(self._masks))
            thrifty = corner_rows(differs, C).sum(axis=1) <= WORTH * C * B
        for c in range(0, len(self._masks), step):
            padded = -(-min(step, len(self._masks) - c) // slot) * slot
            donors = max(1, min(B, self._most // padded))
            together = max(1, self._most // (padded * donors))
            for b in range(0, B, donors):
                own = np.arange(b, min(b + donors, B))
                for by_corners in (False, True):
                    for part in _pieces(np.flatnonzero(thrifty == by_corners), together):
                        yield slice(c, c + step), own, part, by_corners

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
