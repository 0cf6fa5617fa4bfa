"""Computes exact integer sums of scores with one model row for each (set, row, donor).

This is for private releases only. The influence of one record must be bounded, so a row's score may
depend on that row alone. Elsewhere equal hybrids are evaluated once, and the rest of the data
decides the position of a hybrid in its batch, which may change the last bit of its rounding. Here
the position of every hybrid depends on the sizes only: nothing is left out, shared or sorted.

Letters: N instances, D data rows, B donors, G groups, C sets, K scores, P players.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xaijax.core.errors import EnumerationLimitError
from xaijax.games.run import GameRun

ROWS = 1 << 19  # instances processed together
LISTED = 1 << 13  # sets evaluated as one list
MOST_ROWS = 1 << 33
LIMB = 26  # bits

# float64 scores [..., K] -> int64 [..., K], a function of each row alone
ToInts = Callable[[np.ndarray], np.ndarray]


def refuse_too_many(instances: int, donors: int, sets: int) -> None:
    """Raises EnumerationLimitError if the plain path would take hours."""
    rows = instances * donors * sets
    if rows > MOST_ROWS:
        raise EnumerationLimitError(
            f"a private release counts {instances:,} rows x {donors:,} donors x {sets:,} sets one "
            f"by one, {rows:,} model rows and more than 2^33. Release an explanation of fewer rows "
            "(xaijax.privacy.subsample), unite columns with players=, or say unary()."
        )


def plain_sums(
    run: GameRun,
    replaced: np.ndarray,  # bool [C, P]; the first set is empty
    outer: tuple[np.ndarray, ...] | None,  # G times int64 [D]; None: every instance by itself
    inner: np.ndarray,  # int64 [B]
    to_ints: ToInts,
    width: int,
    nothing: int | None,  # the score with nothing replaced; None: that of the row itself
) -> np.ndarray:
    """Sums of weights times scores over donors, and over data rows by groups; [N, G, C, K].

    int64 if no sum can overflow, otherwise Python integers in an array of objects. Evaluates N B (C
    - 1) + N rows, in an order that depends on these sizes only.
    """
    instances = np.arange(run.N) if outer is None else np.flatnonzero(np.any(outer, axis=0))
    B, C = len(inner), len(replaced)
    refuse_too_many(len(instances), B, C)
    run.backend()
    K = run.engine.outputs
    heaviest = 1 if outer is None else max(int(weights.sum()) for weights in outer)
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

    for rows, sets, scores in _scores(run, instances, ~replaced[1:], B):
        add(rows, sets.sets, over_donors(inner[sets.donors], to_ints(scores), wide))
    step = run.engine.rows_at_a_time
    for rows in (instances[n : n + step] for n in range(0, len(instances), step)):
        scores = run.full_rows(rows)
        integers = to_ints(scores) if nothing is None else np.full_like(to_ints(scores), nothing)
        integers = integers.astype(object) if wide else integers
        add(rows, slice(0, 1), integers[:, None] * int(inner.sum()))
    return sums


def over_donors(weights: np.ndarray, scores: np.ndarray, wide: bool) -> np.ndarray:
    """sum over b of weights int64 [B] times scores int64 [n, C, B, K], exactly: [n, C, K].

    Wide: Python integers, by separate low and high bits; weights sum to less than 2^31, scores are
    below 2^57.
    """
    if not wide:
        return (scores * weights[:, None]).sum(axis=2)
    low = ((scores & ((1 << LIMB) - 1)) * weights[:, None]).sum(axis=2)
    high = ((scores >> LIMB) * weights[:, None]).sum(axis=2)
    return high.astype(object) * (1 << LIMB) + low.astype(object)


def weighted_sum(weights: np.ndarray, part: np.ndarray, small: bool) -> np.ndarray:
    """sum over n of weights int64 [n] times part [n, C, K], int64 or Python integers, exactly.

    If they are not `small`, low and high bits are summed separately, so that each product of sums
    stays below 2^63; weights sum to less than 2^31, parts are below 2^57.
    """
    if part.dtype == object:
        return np.tensordot(weights.astype(object), part, axes=1)
    if small:
        return np.tensordot(weights, part, axes=1)
    low = np.tensordot(weights, part & ((1 << LIMB) - 1), axes=1)
    high = np.tensordot(weights, part >> LIMB, axes=1)
    return high.astype(object) * (1 << LIMB) + low.astype(object)


class _Part:
    """The sets and donors of a piece."""

    def __init__(self, sets: slice, donors: slice) -> None:
        self.sets, self.donors = sets, donors


def _scores(
    run: GameRun, instances: np.ndarray, coalitions: np.ndarray, B: int
) -> Iterator[tuple[np.ndarray, _Part, np.ndarray]]:
    """Yields (instances [n], sets and donors, float64 [n, C', B', K]) piece by piece."""
    C = len(coalitions)
    step_c = max(1, min(C, run.engine.listed, LISTED))
    step_b = max(1, min(B, ROWS // step_c))
    step_n = max(1, min(run.engine.rows_at_a_time, ROWS // (step_c * step_b)))
    for c in range(0, C, step_c):
        masks = coalitions[c : c + step_c]
        for b in range(0, B, step_b):
            donors = np.arange(b, min(b + step_b, B))
            for n in range(0, len(instances), step_n):
                chosen = instances[n : n + step_n]
                shape = (len(chosen), len(masks), len(donors))
                place, coalition, donor = (index.reshape(-1) for index in np.indices(shape))
                scores = run.rows_asked(chosen, place, donors[donor], coalition, masks)
                part = _Part(slice(1 + c, 1 + c + len(masks)), slice(b, b + len(donors)))
                yield chosen, part, scores.reshape(*shape, -1)
