"""Probes of a model on a few rows: does it answer the same rows alike, whatever rows come with
them?

Both take `evaluate(rows [R, *F]) -> [R] or [R, K]`, so that the caller's compiled function is what
is probed, and rows as an array or anything that `take(rows, index)` can gather from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.core.errors import ModelOutputError, NonDeterministicModelError
from xaijax.tables.rows import rows_of

Evaluate = Callable[[Any], np.ndarray]

# The same sum of n terms, added up in another order, differs by about sqrt(n) roundings of its
# largest partial sum. 2**10 roundings allow for sums of 2**20 terms, more than a layer has.
_ROUNDINGS = 2.0**10


def probe_determinism(evaluate: Evaluate, rows: Any, name: str = "the model") -> np.ndarray:
    """The answer to `rows`; NonDeterministicModelError if a second call gives another.

    Answers agree within 2**10 roundings of their dtype at the size of the largest answer in the
    column (threads may add in another order); NaN agrees with NaN.
    """
    # Copies: a model may return views of one buffer, in which all of its answers would agree.
    first, second = np.array(evaluate(rows)), np.array(evaluate(rows))
    gap = _largest_gap(first, second, _epsilon(first.dtype))
    if gap is not None:
        raise NonDeterministicModelError(
            f"{name} gave different answers to the same rows: by up to {gap[0]:.3g}, first in row "
            f"{gap[1]} of the probe. Turn dropout or sampling off, or say as_model(..., "
            "deterministic=False)."
        )
    return first


def probe_neighbours(
    evaluate: Evaluate, rows: Any, name: str = "the model", among: np.ndarray | None = None
) -> None:
    """Raises ModelOutputError if the answer to a row depends on the rows that come with it.

    The first row, the last and the most different ones are each asked among the others and among
    copies of themselves, and all rows are asked with other ones in the lead, in batches of one
    shape: a compiled function has one shape only, and the same shape keeps the order of sums.
    Tolerance as in `probe_determinism`, in float32, in which a model may work whatever it returns.

    among: the answer to the rows as they are, if it is known.
    """
    count = len(rows)
    if count < 2:
        return
    among = np.array(evaluate(rows)) if among is None else among
    epsilon = max(_epsilon(among.dtype), _epsilon(np.dtype(np.float32)))
    for row in dict.fromkeys((0, *extremes(rows, among))):
        copies = np.array(evaluate(take_rows(rows, np.full(count, row, dtype=np.int64))))
        # All copies are compared, so a model that looks at a row's place is found too. The scale
        # comes from both batches: the one row's own answer may happen to be near zero.
        scale = np.maximum(_scale(among), _scale(copies))
        alone = np.broadcast_to(among[row], among.shape)
        gap = _largest_gap(alone, copies, epsilon, scale)
        if gap is not None:
            raise ModelOutputError(beside_copies(name, gap))
    scale = _scale(among)
    for lead in {1, opposite(rows), count - 1} - {0}:
        moved = np.roll(np.arange(count), -lead)
        answers = np.array(evaluate(take_rows(rows, moved)))
        gap = _largest_gap(among[moved], answers, epsilon, np.maximum(scale, _scale(answers)))
        if gap is not None:
            raise ModelOutputError(
                f"{name} gave other answers to the same rows in another order: by up to "
                f"{gap[0]:.3g}. Each row's output must depend on that row alone, not on X[0] say."
            )


def beside_copies(name: str, gap: tuple[float, int]) -> str:
    """The message for a row that has another answer among copies of itself."""
    return (
        f"{name} answers a row differently among other rows than among copies of itself: by up to "
        f"{gap[0]:.3g}. Its output depends on the batch, as with batch normalisation in train mode "
        "or a statistic taken over axis 0. Switch it to inference mode; each row's output must "
        "depend on that row alone."
    )


def extremes(rows: Any, answer: np.ndarray) -> tuple[int, ...]:
    """The last row, and for each of the sizes that may characterise a batch the row that has least
    of it: its copies have other statistics than all rows together.
    """
    least = (int(size.argmin()) for size in _sizes(rows, answer))
    return tuple(dict.fromkeys((len(answer) - 1, *least)))


def half_without(rows: Any, answer: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """(as many places as half of the rows, with other statistics: of rows that are largest in none
    of the sizes, those with the lowest answers; `extremes` by sizes for which no row was left out).

    The row that is most unlike the first one is in the lead, the others in another order.
    """
    sizes = _sizes(rows, answer)
    usable, extreme = np.ones(len(answer), bool), []
    for size in sizes:
        without = size < size.max()
        if 2 * without.sum() >= len(size) and (usable & without).any():
            usable &= without
        elif size.min() < size.max():
            extreme.append(int(size.argmin()))
    lowest = np.flatnonzero(usable)[np.argsort(sizes[0][usable], kind="stable")]
    half = np.sort(np.resize(lowest, (len(answer) + 1) // 2))[::-1]
    lead = int(unlike_first(rows)[half].argmax())
    return np.roll(half, -lead), tuple(dict.fromkeys(extreme))


def _sizes(rows: Any, answer: np.ndarray) -> list[np.ndarray]:
    """Sizes of each row [R]: its answer, its largest number and its largest magnitude, and the
    negatives of its answer and its smallest number. If there are several answers, the one that
    differs most counts.
    """
    answers = _told(answer)
    sizes = [answers, -answers]
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iuf" and rows.size:
        flat = np.nan_to_num(rows.reshape(len(rows), -1).astype(np.float64))
        sizes += [flat.max(axis=1), np.abs(flat).max(axis=1), -flat.min(axis=1)]
    return sizes


def highest(answer: np.ndarray) -> int:
    """The row with the highest answer."""
    return int(_told(answer).argmax())


def _told(answer: np.ndarray) -> np.ndarray:
    """The answer to each row, [R]; of several the one that differs most."""
    flat = answer.reshape(len(answer), -1).astype(np.float64)
    flat = np.where(np.isfinite(flat), flat, 0.0)
    return flat[:, np.ptp(flat, axis=0).argmax()]


def opposite(rows: Any) -> int:
    """The row that is on the other side of the median than the first one in most columns.

    What an answer takes from the first row, a sign say, most likely changes where this one leads.
    """
    return int(unlike_first(rows).argmax())


def unlike_first(rows: Any) -> np.ndarray:
    """Number of columns in which each row is on the other side of the median than the first one,
    [R]; of rows that are no array of numbers the one in the middle has one, and the others none.
    """
    count = len(rows)
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
        return (np.arange(count) == count // 2).astype(np.int64)
    flat = rows.reshape(count, -1)
    above = flat > np.sort(flat, axis=0)[(count - 1) // 2]
    return (above != above[0]).sum(axis=1)


def take_rows(rows: Any, index: np.ndarray) -> Any:
    """The rows of an array or a frame at `index`."""
    return rows[index] if isinstance(rows, np.ndarray) else rows_of(rows).take(index)


def gap_of(wanted: np.ndarray, found: np.ndarray, answer: np.ndarray) -> tuple[float, int] | None:
    """(largest difference, first row) of two answers to the same rows in other company, or None.

    Tolerance as in `probe_neighbours`; answer: to all of the probe's rows, which give the scale.
    """
    if wanted.shape != found.shape:
        return float("inf"), 0
    epsilon = max(_epsilon(answer.dtype), _epsilon(np.dtype(np.float32)))
    return _largest_gap(wanted, found, epsilon, np.maximum(_scale(answer), _scale(found)))


def _epsilon(dtype: np.dtype) -> float:
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _scale(values: np.ndarray) -> np.ndarray:
    """The largest finite size of each column, [] or [K]."""
    sizes = np.abs(values.astype(np.float64))
    return np.where(np.isfinite(sizes), sizes, 0.0).max(axis=0)


def _largest_gap(
    first: np.ndarray, second: np.ndarray, epsilon: float, scale: np.ndarray | None = None
) -> tuple[float, int] | None:
    """(largest difference, first row that differs), or None if all agree."""
    if first.shape != second.shape:
        return float("inf"), 0
    scale = np.maximum(_scale(first), _scale(second)) if scale is None else scale
    a, b = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    differs = ~(gaps <= _ROUNDINGS * epsilon * scale)  # a NaN on one side only differs
    if not differs.any():
        return None
    wrong = gaps[differs]
    largest = float("nan") if np.isnan(wrong).all() else float(np.nanmax(wrong))
    return largest, int(np.argwhere(differs)[0][0])
