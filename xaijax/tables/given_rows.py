"""`GivenRows`: what is asked of rows, whatever holds them; `FrameRows`: of frames of a library.

Letters: M rows, F columns.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from xaijax.core.checks import NanColumns


class GivenRows(ABC):
    """Rows as a person gave them. A member that makes rows makes them of the same kind.

    To add a kind of rows: write a class with these members in a file of its own, and name it in
    `KINDS` of `rows.py`.
    """

    kind: ClassVar[str]  # in a word, for messages
    is_frame: ClassVar[bool] = True  # each column has a label and a dtype of its own

    def __init__(self, given: Any) -> None:
        self.given = given

    def __len__(self) -> int:
        return len(self.given)

    @classmethod
    def holds(cls, given: Any) -> bool:
        """Whether these are rows of this kind; nothing is imported for the answer."""
        return False

    @property
    @abstractmethod
    def labels(self) -> list[Any]:
        """[F], the columns' labels as given; an array has none."""

    @property
    def index(self) -> Any:
        """The labels of the rows, a pandas Index [M]; None: they are only counted from 0."""
        return None

    def labelled(self, index: Any) -> Any:
        """The rows with these labels, where the library keeps labels; else as they are."""
        return self.given

    @property
    def instance(self) -> Any:
        """What one row is shaped like."""
        return self.given.shape[1:]

    @property
    def first(self) -> Any:
        """The first row alone: without the axis of rows, or a frame of one row."""
        return self.part(0, 1) if self.is_frame else self.given[0]

    @property
    def width(self) -> int:
        """F, the entries of one row; 0 of what has no rows."""
        return math.prod(self.given.shape[1:]) if len(self.given.shape) > 1 else 0

    @abstractmethod
    def take(self, places: Any, counted: bool = False) -> Any:
        """The rows at these places, int or slice; counted: an index starts at 0 again."""

    @abstractmethod
    def part(self, first: int, last: int) -> Any:
        """Rows first to last - 1."""

    @abstractmethod
    def columns_at(self, places: Sequence[int] | np.ndarray) -> Any:
        """All rows of the columns at these places."""

    @abstractmethod
    def column(self, place: int) -> np.ndarray:
        """One column [M] as NumPy: numbers stay numbers (missing: NaN), the rest as objects."""

    def is_category(self, place: int) -> bool:
        """Whether the dtype of a column says that its values are categories, numbers or not."""
        return False

    def columns(self) -> list[np.ndarray]:
        """All columns of a frame, each [M]."""
        return [self.column(j) for j in range(len(self.labels))]

    @abstractmethod
    def matrix(self) -> np.ndarray:
        """All of the rows as one array."""

    @abstractmethod
    def texts(self) -> Iterator[bytes]:
        """For each row bytes that are the same for equal rows."""

    @abstractmethod
    def copy(self) -> Any:
        """The same rows, which the person who gave them cannot change."""

    @abstractmethod
    def stacked(self, parts: Sequence[Any]) -> Any:
        """Rows of this kind, with the same columns, one under the other."""

    @abstractmethod
    def beside(self, numbers: np.ndarray, labels: Sequence[str]) -> Any:
        """These rows and, to their right, numbers [M, k] as columns of these labels."""

    @abstractmethod
    def with_row(self, columns: Sequence[int], row: Any) -> Any:
        """These rows, those columns at the values of a row: [F], or one of this kind."""

    @abstractmethod
    def summary(self, how: str, name: str, allow_nan: bool | NanColumns) -> Any:
        """One row, of the "median" or "mean" of each column; of other values the most frequent.

        Raises InputError for no rows, and for NaN unless allowed.
        """

    @abstractmethod
    def missing(self, name: str) -> Any:
        """One row with nothing in it; an array's is [*F].

        Raises InputError for a column that cannot be missing.
        """


class FrameRows(GivenRows):
    """A `DataFrame` of the library that `kind` names; the library is never imported here."""

    @classmethod
    def holds(cls, given: Any) -> bool:
        """Whether it is a frame of the library."""
        frame = getattr(sys.modules.get(cls.kind), "DataFrame", None)
        return frame is not None and isinstance(given, frame)

    @property
    def labels(self) -> list[Any]:
        """Of pandas of any type."""
        return list(self.given.columns)

    def matrix(self) -> np.ndarray:
        """Of the dtype that holds all columns."""
        return self.given.to_numpy()

    def stacked(self, parts: Sequence[Any]) -> Any:
        """Of pandas each with its own index."""
        return sys.modules[self.kind].concat(parts)
