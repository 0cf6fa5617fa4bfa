"""A small sweep that tests share: a function that can be imported, rows, and a count of calls."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

import xaijax as xj

N, F, EACH = 25, 4, 10  # rows, columns, rows of a part: the last part has 5
RNG = np.random.default_rng(0)
X = RNG.integers(0, 4, (N, F)).astype(np.float32)
B = RNG.integers(0, 4, (3, F)).astype(np.float32)


def product(rows):
    """Interactions of two columns, for NumPy arrays."""
    rows = np.asarray(rows, np.float64)
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def raises_on(value, rows):
    """The same, but for rows that hold a value."""
    if (np.asarray(rows) == value).any():
        raise ArithmeticError(f"a row holds {value}")
    return product(rows)


def explainer(function=product, **options):
    """Of a function on the host: nothing is compiled."""
    return xj.Explainer(xj.as_model(function, backend="host"), B, **options)


def parts(out):
    """The names of the parts that are there."""
    return sorted(file.name for file in Path(out).glob("part-*.npz"))


class Counted:
    """A model on the host that counts the rows that it is asked."""

    def __init__(self):
        self.rows = 0

    def __call__(self, rows):
        self.rows += len(rows)
        return product(rows)


def hangs(rows):
    """The same, but for rows that hold 99: then there is no answer."""
    if (np.asarray(rows) == 99).any():
        threading.Event().wait()
    return product(rows)
