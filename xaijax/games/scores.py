"""Scores of a model row that quantities of interest are made of; hashable functions, see `Score`.

Letters: R rows, A answers, K scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class IsClass:
    """1 where the decided class has this number, else 0."""

    code: float

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, 1] -> [R, 1]."""
        return (answers == self.code).astype(answers.dtype)


@dataclass(frozen=True)
class Agrees:
    """1 where the decided class is that of the original row, else 0."""

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, 1] -> [R, 1]."""
        return (answers == own).astype(answers.dtype)


@dataclass(frozen=True)
class Within:
    """1 where the answer is at most `tolerance` away from that of the original row, else 0."""

    tolerance: float

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, 1] -> [R, 1]."""
        return (abs(answers - own) <= self.tolerance).astype(answers.dtype)


@dataclass(frozen=True)
class Column:
    """One column, cut to [low, high]; the only one where there is one."""

    place: int
    low: float
    high: float

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, A] -> [R, 1]."""
        place = self.place if answers.shape[1] > 1 else 0
        return answers[:, place, None].clip(self.low, self.high)


@dataclass(frozen=True)
class Chances:
    """The vector of class probabilities; of a lone one p, (1 - p, p)."""

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, A] -> [R, A], or [R, 2]."""
        if answers.shape[1] > 1:
            return answers
        return answers.__array_namespace__().concat([1 - answers, answers], axis=1)
