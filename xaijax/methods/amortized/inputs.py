"""Converts rows of any kind to numbers for a network: standardised columns, and distinct values.

Letters: R rows, F columns, H distinct values that have their own inputs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputTypeError
from xaijax.tables.rows import rows_of

FEWEST, MOST = 3, 16  # distinct values of a column of numbers; one number is enough for two
MOST_TEXTS = 64  # of a column of texts, the most frequent ones
BEYOND = 0.1  # share of a column's range by which a row may be outside of it
LEAST_TIMES = 5  # occurrences of a text: a text of a single row is no input, and is in no file


@dataclass(frozen=True)
class Inputs:
    """Properties of the columns of the training rows, used to read other rows.

    A column of numbers is one standardised input. A column with few distinct values is a code as
    often as an amount, so each of its values also has its own input, 1 if the row has it. A column
    of texts has only those. A missing number is 0, the mean, and a distinct value.
    """

    shape: tuple[int, ...]  # shape of one row, as the user's network takes it
    mean: np.ndarray  # float64 [F]; 0 for texts
    scale: np.ndarray  # float64 [F]; 1 for texts and constant columns
    numbers: np.ndarray  # int64, which columns are numbers that vary
    hot_columns: np.ndarray  # int64 [H]
    hot_levels: np.ndarray  # float32 [H], as `read` gives them
    texts: dict[int, tuple[str, ...]]  # column -> its texts; `read` returns their positions
    reach: np.ndarray  # float64 [2, F], lowest and highest numbers that the bounds cover, as read
    gaps: np.ndarray  # bool [F], whether they cover a missing number

    @classmethod
    def of(cls, rows: Any) -> Inputs:
        """The inputs for the training rows."""
        columns = _columns(rows)
        F = len(columns)
        texts = {j: _levels(data) for j, data in enumerate(columns) if data.dtype.kind == "O"}
        mean, scale, numbers = np.zeros(F), np.ones(F), []
        for j, data in enumerate(columns):
            if j not in texts and np.isfinite(data.astype(np.float64)).any():
                mean[j], spread = np.nanmean(data, dtype=float), np.nanstd(data, dtype=float)
                if spread > 0:
                    scale[j] = spread
                    numbers.append(j)
        reach, gaps = np.zeros((2, F)), np.zeros(F, bool)
        distinct = np.zeros(0, np.int64), np.zeros(0, np.float32)
        known = np.array(numbers, int), *distinct, texts, reach, gaps
        known = cls(_shape(rows), mean, scale, *known)
        return _with_distinct(known, known.read(rows))

    def reaching(self, read: np.ndarray) -> Inputs:
        """The same, if the network and its bounds cover rows, read [R, F], only."""
        gaps, filled = np.isnan(read), read.astype(np.float64)
        low = np.where(gaps, np.inf, filled).min(axis=0)
        high = np.where(gaps, -np.inf, filled).max(axis=0)
        numbers = np.isin(np.arange(len(low)), self.numbers)
        more = np.where(numbers & (high > low), BEYOND * np.maximum(high - low, 0), 0.0)
        return replace(self, reach=np.stack([low - more, high + more]), gaps=gaps.any(axis=0))

    def outside(self, read: np.ndarray) -> np.ndarray:
        """Whether each number of rows, read [R, F], is outside of the range; bool [R, F]."""
        gaps = np.isnan(read)
        known = (read >= self.reach[0]) & (read <= self.reach[1])
        return np.where(gaps, ~self.gaps, ~known)

    def read(self, rows: Any) -> np.ndarray:
        """Standardised numbers float32 [R, F]; for texts their positions, -1 for unknown ones."""
        if not self.texts and not rows_of(rows).is_frame:
            X = np.asarray(rows_of(rows).matrix()).reshape(len(rows_of(rows)), -1)
            return ((X - self.mean) / self.scale).astype(np.float32)
        out = np.empty((len(rows_of(rows)), len(self.mean)), np.float32)
        for j, data in enumerate(_columns(rows)):
            if j in self.texts:
                place = {text: n for n, text in enumerate(self.texts[j])}
                out[:, j] = [place.get(str(value), -1) for value in data]
            else:
                out[:, j] = (data.astype(np.float64) - self.mean[j]) / self.scale[j]
        return out

    @property
    def width(self) -> int:
        """Number of inputs of a dense network, without f(x)."""
        return len(self.numbers) + len(self.hot_columns)

    def encoded(self, read: jax.Array) -> jax.Array:
        """The result of `read` [R, F] as inputs [R, width]; traced."""
        dense = jnp.nan_to_num(read[:, self.numbers])
        columns, levels = read[:, self.hot_columns], jnp.asarray(self.hot_levels)
        hot = (columns == levels) | (jnp.isnan(columns) & jnp.isnan(levels))
        return jnp.concatenate([dense, hot.astype(jnp.float32)], axis=1)

    def shaped(self, read: jax.Array) -> jax.Array:
        """The result of `read` [R, F] as rows [R, *F] of standardised numbers; traced."""
        return jnp.nan_to_num(read).reshape(-1, *self.shape)


def _with_distinct(known: Inputs, read: np.ndarray) -> Inputs:
    """The same with the distinct values of the training rows, as read [R, F]."""
    columns, levels = [], []
    for j, data in enumerate(read.T):
        if j in known.texts:
            values = np.arange(len(known.texts[j]), dtype=np.float32)
        else:
            values = np.unique(data)
            few = FEWEST <= len(values) <= MOST
            values = values if few else values[np.isnan(values)]
        columns += [j] * len(values)
        levels += values.tolist()
    levels = np.array(levels, np.float32)
    return replace(known, hot_columns=np.array(columns, np.int64), hot_levels=levels)


def _columns(rows: Any) -> list[np.ndarray]:
    """Each column [R], of numbers or of objects that are texts."""
    table = rows_of(rows)
    if table.is_frame:
        columns = table.columns()
    else:
        columns = list(np.asarray(table.matrix()).reshape(len(table), -1).T)
    for j, data in enumerate(columns):
        if data.dtype.kind not in "biufO":
            raise InputTypeError(f"X: column {j} has dtype {data.dtype}, no numbers or texts.")
    return columns


def _shape(rows: Any) -> tuple[int, ...]:
    """The shape of one row; frames, and rows in several arrays, have all entries in a line."""
    held = rows_of(rows)
    if held.kind == "array":
        return tuple(held.instance)
    return (len(held.labels),) if held.is_frame else (held.width,)


def _levels(column: np.ndarray) -> tuple[str, ...]:
    texts, times = np.unique([str(value) for value in column], return_counts=True)
    most = np.argsort(-times, kind="stable")[:MOST_TEXTS]
    most = most[times[most] >= LEAST_TIMES]
    return tuple(str(text) for text in texts[np.sort(most)])
