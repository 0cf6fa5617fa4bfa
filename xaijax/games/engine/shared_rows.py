"""Hybrids that several instances share, found among the rows that a host model is to be asked.

Against one reference row, instances that agree in the players they keep have the same hybrids: on
codes a third of the rows and more. On continuous columns there are next to none, which the first
rows tell. Against many background rows they are rare, and not looked for.

Letters: R rows, C code columns.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xaijax.games.measure.replacement import agreement_codes
from xaijax_kernels.engine.lattice import Dispatch

MOST_ROWS = 1 << 19  # looked through together
FIRST_ROWS = 1 << 16  # and of the first look, which decides whether there is another
WORTH = 0.1  # of the rows at least must be spared; continuous columns share 2^-k of them
# Rows of a call are filled up to a multiple: how many are new depends on the other instances, and
# linear algebra rounds the last few rows of a product in another way than the rest.
MULTIPLE = 64


class Sharing:
    """Whether and in how large stretches shared rows are looked for."""

    def __init__(self, most_rows: int) -> None:
        """most_rows: whose codes fit the memory."""
        self.worth = True
        self._most = min(most_rows, MOST_ROWS)
        self._first = True

    def stretches(self, pieces: Iterator[Dispatch]) -> Iterator[list[Dispatch]]:
        """The pieces, some at a time. One is taken ahead: the rest is in what this returns."""
        held: list[Dispatch] = []
        rows = 0
        for piece in pieces:
            most = min(FIRST_ROWS, self._most) if self._first else self._most
            if held and rows + piece.rows > most:
                yield held
                held, rows = [], 0
            held.append(piece)
            rows += piece.rows
        if held:
            yield held

    def places(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to ask, int64 [distinct], and for each row its place among them; codes [R, C]."""
        words = agreement_codes(codes)
        same_as = first_alike(words, hashes(words))
        asked = np.flatnonzero(same_as == np.arange(len(codes)))
        self.worth = self.worth and len(asked) <= (1 - WORTH) * len(codes)
        self._first = False
        return asked, np.searchsorted(asked, same_as)


def filled(rows: np.ndarray) -> np.ndarray:
    """Rows [R, C] with the last one repeated to a whole multiple."""
    return np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % MULTIPLE, axis=0)])


def hashes(words: np.ndarray) -> np.ndarray:
    """64 bits of each row of whole numbers [R, C], by a polynomial in an odd constant; [R]."""
    out = np.zeros(len(words), np.uint64)
    for column in words.T:
        out ^= column.astype(np.int64).view(np.uint64)
        out *= np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return out


def first_alike(words: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """For each row the first row that equals it, or itself where rows of one key differ; [R]."""
    order = np.argsort(keys, kind="stable")
    new = np.r_[True, np.diff(keys[order]) != 0]
    first = np.empty(len(words), np.int64)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    alike = (words[first] == words).all(axis=1)
    return np.where(alike, first, np.arange(len(words)))
