"""Answers of rows that a host model has given, so that no hybrid is asked twice.

Against one reference row, instances that agree in the players they keep have the same hybrids: on
codes a third of the rows and more. Against many background rows it is rare, and not looked for.

Letters: R rows, C code columns, K outputs, M rows kept.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from xaijax.games.replacement import agreement_codes

# Rows in a call of the model at least, where so many are at hand: a lone row is rounded in another
# way by many models than a row of a batch, and which rows are new depends on the other instances.
FEWEST = 256

Ask = Callable[[np.ndarray], np.ndarray]  # codes [R, C] -> float64 [R, K]


class Memo:
    """Rows by a hash of their codes; equal codes are compared, so that a collision costs a row."""

    def __init__(self, most: int) -> None:
        """most: rows that are kept; what comes later is asked each time."""
        self._most = most
        self._hashes = np.zeros(0, np.uint64)  # [M], sorted
        self._codes: np.ndarray | None = None  # [M, C]
        self._values: np.ndarray | None = None  # [M, K]

    def answers(self, codes: np.ndarray, ask: Ask) -> tuple[np.ndarray, int, int]:
        """float64 [R, K] of rows codes [R, C]; how many were spared, and how many filled a call."""
        words = agreement_codes(codes)
        hashes = _hashes(words)
        same_as = _first_of_its_kind(words, hashes)
        own = np.flatnonzero(same_as == np.arange(len(codes)))
        place, known = self._find(words[own], hashes[own])
        new = own[~known]
        filling = np.setdiff1d(np.arange(min(len(codes), FEWEST)), new)[: max(0, FEWEST - len(new))]
        asked = None
        if len(new):
            asked = ask(codes[np.concatenate([new, filling])])[: len(new)]
        else:
            filling = filling[:0]
        K = asked.shape[1] if asked is not None else self._known_values().shape[1]
        out = np.empty((len(codes), K))
        if known.any():
            out[own[known]] = self._known_values()[place[known]]
        if asked is not None:
            out[new] = asked
            self._keep(words[new], hashes[new], asked)
        return out[same_as], len(codes) - len(new), len(filling)

    def _known_values(self) -> np.ndarray:
        assert self._values is not None
        return self._values

    def _find(self, words: np.ndarray, hashes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Places in the memo, and whether the row there is the same."""
        place = np.minimum(np.searchsorted(self._hashes, hashes), max(0, len(self._hashes) - 1))
        if self._codes is None or not len(self._codes):
            return place, np.zeros(len(words), bool)
        known = self._hashes[place] == hashes
        known[known] = (self._codes[place[known]] == words[known]).all(axis=1)
        return place, known

    def _keep(self, words: np.ndarray, hashes: np.ndarray, values: np.ndarray) -> None:
        fits = max(0, self._most - len(self._hashes))
        words, hashes, values = words[:fits], hashes[:fits], values[:fits]
        if self._codes is None or self._values is None:
            all_words, all_hashes, all_values = words, hashes, values
        else:
            all_words = np.concatenate([self._codes, words])
            all_hashes = np.concatenate([self._hashes, hashes])
            all_values = np.concatenate([self._values, values])
        order = np.argsort(all_hashes, kind="stable")
        self._hashes, self._codes = all_hashes[order], all_words[order]
        self._values = all_values[order]


def _hashes(words: np.ndarray) -> np.ndarray:
    """64 bits of each row of whole numbers [R, C], by a polynomial in an odd constant; [R]."""
    out = np.zeros(len(words), np.uint64)
    for column in words.T:
        out ^= column.astype(np.int64).view(np.uint64)
        out *= np.uint64(0x9E3779B97F4A7C15)
        out ^= out >> np.uint64(29)
    return out


def _first_of_its_kind(words: np.ndarray, hashes: np.ndarray) -> np.ndarray:
    """For each row the first row that equals it, or itself where a hash belongs to two; [R]."""
    order = np.argsort(hashes, kind="stable")
    new = np.r_[True, np.diff(hashes[order]) != 0]
    first = np.empty(len(words), np.int64)
    first[order] = order[np.flatnonzero(new)][np.cumsum(new) - 1]
    alike = (words[first] == words).all(axis=1)
    return np.where(alike, first, np.arange(len(words)))
