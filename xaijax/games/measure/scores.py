"""Scores of a model row that quantities of interest are made of; hashable functions, see `Score`.

Those with a method `refuse(answers)` raise where a model of so many columns does not have theirs.

Letters: R rows, A answers, K scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError, InputTypeError, ModelOutputError


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
    """The column of the positive class.

    A lone column s stands for it by `lone`: (0, 1) is s itself, (1, -1) is 1 - s, (0, -1) is -s.
    """

    place: int  # where there are several columns; -1: the last
    classes: int | None = None  # how many several columns must be; None: any number
    lone: tuple[float, float] | None = (0.0, 1.0)  # None: a lone column is not that class's
    positive: Any = None  # for messages
    output: Any = None

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, A] -> [R, 1]."""
        if answers.shape[1] > 1:
            column = answers[:, self.place, None]
        else:
            assert self.lone is not None
            shift, factor = self.lone
            column = answers if self.lone == (0.0, 1.0) else shift + factor * answers
        return column

    def refuse(self, answers: int) -> None:
        """Raise InputError or ModelOutputError where A columns do not hold the class."""
        if answers > 1:
            _refuse_columns(answers, self.classes)
            if self.place >= answers:
                raise InputError(
                    f"positive={self.positive!r} is no column of the model, which answers with "
                    f"{answers}, numbered from 0. Say another, or give as_model the classes=."
                )
        elif self.lone is None:
            raise InputError(
                f"positive={self.positive!r}: the model answers with one number per row, output="
                f"{self.output!r}, which is not that class's score and cannot be turned into it. "
                "Make the model with a column for each class, or say another positive=."
            )


@dataclass(frozen=True)
class Chances:
    """The vector of class probabilities; of a lone one p, (1 - p, p)."""

    classes: int | None = None  # None: not known

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, A] -> [R, A], or [R, 2]."""
        if answers.shape[1] > 1:
            return answers
        return answers.__array_namespace__().concat([1 - answers, answers], axis=1)

    def refuse(self, answers: int) -> None:
        """Raise ModelOutputError where A columns are not one for each class."""
        _refuse_columns(max(2, answers), self.classes)


def _refuse_columns(columns: int, classes: int | None) -> None:
    if classes is not None and columns != classes:
        raise ModelOutputError(
            f"the model returned {columns} columns, but there are {classes} classes. Give as_model "
            "the classes= in the order of the columns."
        )


@dataclass(frozen=True)
class Own:
    """A user's score, made sure to be one number for each row."""

    function: Callable[[Any, Any], Any]
    name: str

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, A] -> [R, 1]."""
        try:
            scores = self.function(answers, own)
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
            raise InputTypeError(
                f"quantity= ({self.name}) cannot be traced by JAX ({type(error).__name__}). Write "
                "its score with jax.numpy (jnp.where in place of if), or make the model with "
                "backend='host'."
            ) from error
        except Exception as error:
            error.add_note(f"xaijax: raised by quantity= ({self.name}) of {answers.shape} answers")
            raise
        if not isinstance(scores, np.ndarray | jax.Array):
            try:
                scores = np.asarray(scores)
            except ValueError:
                scores = np.empty(0, object)
        numbers = jnp.issubdtype(scores.dtype, np.floating) or scores.dtype.kind in "biu"
        if not numbers or scores.shape not in ((len(answers),), (len(answers), 1)):
            raise InputError(
                f"quantity= ({self.name}): its score must return one number for each row, shape "
                f"({len(answers)},) for answers of shape {answers.shape}; got {scores.dtype} of "
                f"shape {scores.shape}. Reduce over axis 1, never over the rows."
            )
        return scores.reshape(-1, 1).astype(answers.dtype)
