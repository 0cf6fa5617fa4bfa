"""Exact integer sums of scores, on the plain path: one model row for each (set, row, donor).

This is for private releases only. What one record can move must be bounded, so a row's score may
depend on nothing but that row. Elsewhere equal hybrids are asked once, and what else is in the data
decides at which place of a batch a hybrid is; there a model may round its last bit in another way.
Here the place of every hybrid follows from the sizes alone: nothing is left out, shared or sorted.

Letters: N instances, D data rows, B donors, G groups, C sets, K scores, P players.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xaijax.core.errors import EnumerationLimitError
from xaijax.games.run import GameRun

ROWS = 1 << 19  # asked together
LISTED = 1 << 13  # sets asked as one list
MOST_ROWS = 1 << 33
LIMB = 26  # bits

# float64 scores [..., K] -> int64 [..., K], a function of each row alone
ToInts = Callable[[np.ndarray], np.ndarray]


def refuse_too_many(asked: int, donors: int, sets: int) -> None:
    """Raises EnumerationLimitError if the plain path would take hours."""
    rows = asked * donors * sets
    if rows > MOST_ROWS:
        raise EnumerationLimitError(
            f"a private release counts {asked:,} rows x {donors:,} donors x {sets:,} sets one by "
            f"one, {rows:,} model rows and more than 2^33. Release an explanation of fewer rows "
            "(xaijax.privacy.subsample), unite columns with players=, or say unary()."
        )


def plain_sums(
    run: GameRun,
    replaced: np.ndarray,  # bool [C, P]; the first set is empty
    outer: tuple[np.ndarray, ...] | None,  # G times int64 [D]; None: every instance by itself
    inner: np.ndarray,  # int64 [B]
    to_ints: ToInts,
    width: int,
    nothing: int | None,  # the score where nothing is replaced; None: that of the row itself
) -> np.ndarray:
    """sums over donors, and over data rows by groups, of weights times scores; [N, G, C, K].

    int64 where no sum can overflow, else Python integers in an array of objects. Asks the model
    N B (C - 1) + N rows, in an order that follows from these sizes.
    """
    asked = np.arange(run.N) if outer is None else np.flatnonzero(np.any(outer, axis=0))
    B, C = len(inner), len(replaced)
    refuse_too_many(len(asked), B, C)
    run.backend()
    K = run.engine.outputs
    heaviest = 1 if outer is None else max(int(one.sum()) for one in outer)
    wide = int(inner.sum()) * width >= 1 << 57  # the sum over donors alone
    small = not wide and heaviest * int(inner.sum()) * width < 1 << 62
    N, G = (run.N, 1) if outer is None else (1, len(outer))
    sums = np.zeros((N, G, C, K), np.int64 if small else object)

    def add(rows: np.ndarray, sets: slice, part: np.ndarray) -> None:
        """part [n, C', K]: sums over donors of the instances `rows`."""
        if outer is None:
            sums[rows, 0, sets] += part
            return
        for g, weights in enumerate(outer):
            sums[0, g, sets] += weighted_sum(weights[rows], part, small)

    for rows, sets, scores in _scores(run, asked, ~replaced[1:], B):
        add(rows, sets.sets, over_donors(inner[sets.donors], to_ints(scores), wide))
    step = run.engine.rows_at_a_time
    for rows in (asked[n : n + step] for n in range(0, len(asked), step)):
        scores = run.full_rows(rows)
        own = to_ints(scores) if nothing is None else np.full_like(to_ints(scores), nothing)
        own = own.astype(object) if wide else own
        add(rows, slice(0, 1), own[:, None] * int(inner.sum()))
    return sums


def over_donors(weights: np.ndarray, scores: np.ndarray, wide: bool) -> np.ndarray:
    """sum over b of weights int64 [B] times scores int64 [n, C, B, K], exactly: [n, C, K].

    Wide: Python integers, of low and high bits apart; weights below 2^31 in all, scores below 2^57.
    """
    if not wide:
        return (scores * weights[:, None]).sum(axis=2)
    low = ((scores & ((1 << LIMB) - 1)) * weights[:, None]).sum(axis=2)
    high = ((scores >> LIMB) * weights[:, None]).sum(axis=2)
    return high.astype(object) * (1 << LIMB) + low.astype(object)


def weighted_sum(weights: np.ndarray, part: np.ndarray, small: bool) -> np.ndarray:
    """sum over n of weights int64 [n] times part [n, C, K], int64 or Python integers, exactly.

    If they are not `small`, low and high bits are summed apart, so that each product of sums stays
    below 2^63; weights below 2^31 in all, parts below 2^57.
    """
    if part.dtype == object:
        return np.tensordot(weights.astype(object), part, axes=1)
    if small:
        return np.tensordot(weights, part, axes=1)
    low = np.tensordot(weights, part & ((1 << LIMB) - 1), axes=1)
    high = np.tensordot(weights, part >> LIMB, axes=1)
    return high.astype(object) * (1 << LIMB) + low.astype(object)


class _Part:
    """Which sets and donors a piece is about."""

    def __init__(self, sets: slice, donors: slice) -> None:
        self.sets, self.donors = sets, donors


def _scores(
    run: GameRun, asked: np.ndarray, kept: np.ndarray, B: int
) -> Iterator[tuple[np.ndarray, _Part, np.ndarray]]:
    """(instances [n], which sets and donors, float64 [n, C', B', K]) piece by piece."""
    C = len(kept)
    step_c = max(1, min(C, run.engine.listed, LISTED))
    step_b = max(1, min(B, ROWS // step_c))
    step_n = max(1, min(run.engine.rows_at_a_time, ROWS // (step_c * step_b)))
    for c in range(0, C, step_c):
        masks = kept[c : c + step_c]
        for b in range(0, B, step_b):
            donors = np.arange(b, min(b + step_b, B))
            for n in range(0, len(asked), step_n):
                here = asked[n : n + step_n]
                shape = (len(here), len(masks), len(donors))
                place, coalition, donor = (one.reshape(-1) for one in np.indices(shape))
                scores = run.rows_asked(here, place, donors[donor], coalition, masks)
                part = _Part(slice(1 + c, 1 + c + len(masks)), slice(b, b + len(donors)))
                yield here, part, scores.reshape(*shape, -1)
