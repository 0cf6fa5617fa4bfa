"""`Score`: a function of a model's output for a row, and its bounds.

Letters: R model rows, A answers, K scores, N instances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError, ModelOutputError

# (outputs [R, A], outputs [R, A] of the instances behind the rows) -> [R, K]; NumPy or JAX.
RowScore = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Score:
    """A score per model row; hashable, so that it can be a part of a compiled program's key."""

    function: RowScore
    # K; None: a vector of probabilities, one per output, two for a single output
    outputs: int | None = 1
    reads_own: bool = False  # whether it reads f(x)
    bounds: tuple[float, float] | None = None  # None: the function itself ensures them
    distribution: bool = False  # whether a row of scores must sum to 1
    of_classes: bool = False  # whether outputs are numbers of classes
    made_of_own: Callable[[np.ndarray], np.ndarray] | None = None  # f(x) [N, A] -> [N, 1]
    chooses: bool = False  # whether it selects the output whose number is given with the row
    cuts: bool = False  # whether scores out of bounds are cut to them, and marked for `kept`
    slack: float = 0.0  # allowed rounding of a score, or of the sum; see `fitted`

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, A] -> [R, K]; an output that is not finite gives a NaN score, unless another output
        is selected.

        Scores that leave the bounds by rounding only are cut to them. Others stay as they are, or
        with `cuts` are set a few roundings beyond the bound; `kept` is False for them in both
        cases.
        """
        xp = answers.__array_namespace__()
        scores = self.function(answers, reference)
        if self.chooses:
            return scores
        scores = scores[:, None] if scores.ndim == 1 else scores
        if self.bounds is not None:
            inside = scores.clip(*self.bounds)
            beyond = scores
            if self.cuts:
                beyond = inside + xp.sign(scores - inside) * (2 * self._reach(scores))
            scores = xp.where(abs(scores - inside) <= self.slack, inside, beyond)
        sound = xp.all(xp.isfinite(answers), axis=1, keepdims=True)
        return xp.where(sound, scores, xp.asarray(np.nan, dtype=answers.dtype))

    def kept(self, scores: Any) -> Any:
        """Whether scores [R, K] are finite and keep the bounds; bool [R, K]."""
        xp = scores.__array_namespace__()
        valid = xp.isfinite(scores)
        if self.bounds is not None:
            low, high = self.bounds
            reach = self._reach(scores) if self.cuts else self.slack
            valid &= (scores >= low - reach) & (scores <= high + reach)
        if self.distribution:
            valid &= abs(scores.sum(axis=1, keepdims=True) - 1) <= self.slack
        return valid

    def _reach(self, scores: Any) -> float:
        """Two roundings of the larger bound, in the dtype of the scores."""
        assert self.bounds is not None
        return 2 * float(jnp.finfo(scores.dtype).eps) * max(map(abs, self.bounds))

    def width(self, answers: int) -> int:
        """Numbers of f(x) that it reads, for a model of `answers` outputs."""
        return answers if self.made_of_own is None else 1

    def count(self, answers: int) -> int:
        """K for a model of `answers` outputs."""
        return max(2, answers) if self.outputs is None else self.outputs

    def fitted(self, answers: int, dtype: str) -> Score:
        """The score for a model of `answers` outputs in this dtype.

        Each class's probability e / s has the rounding error of a sum of A terms, of an exponential
        and of a division, and their sum that of A more: (A + 4) roundings, times four for the model
        itself. A rounding is at least that of float32, which a model may use internally.

        Raises the function's errors, for example for a missing column.
        """
        refuse = getattr(self.function, "refuse", None)
        if refuse is not None:
            refuse(answers)
        if self.bounds is None:
            return self
        floating = jnp.issubdtype(jnp.dtype(dtype), jnp.floating)
        rounding = max(float(jnp.finfo(dtype).eps) if floating else 0.0, 2.0**-23)
        return replace(self, slack=4 * (answers + 4) * rounding * max(map(abs, self.bounds)))

    def complaint(self, row: np.ndarray, where: str) -> str:
        """The error in a row of scores [K] that `kept` rejects, and the remedy, in words."""
        if self.distribution:
            return (
                "outcome='proba' needs class probabilities, each in (0, 1) and of sum 1, but the "
                f"model answered {np.array2string(row, precision=6, threshold=10)} (sum "
                f"{row.sum():.6g}) for {where}. Make it answer with probabilities (a softmax of "
                "its scores, say), or say outcome='score' with bounds=."
            )
        low, high = self.bounds or (-np.inf, np.inf)
        return (
            f"the score of quantity= is {row[0]:g} for {where}, outside of bounds=({low:g}, "
            f"{high:g}). Say bounds=(low, high) that hold every score: bounds on errors are made "
            "of them."
        )


PREDICTED = "predicted"


@dataclass(frozen=True)
class TargetColumn:
    """Selects the column whose number is given with the row, as [R, 1]. In JAX the compiled
    program computes no other column, if the model's trace allows it (`engine/tiles.py` of the
    kernels).
    """

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, A], column numbers [R, 1] -> [R, 1]."""
        return answers.__array_namespace__().take_along_axis(
            answers, reference[:, :1].astype(np.int32), axis=1
        )

    def refuse(self, answers: int) -> None:
        """Raises InputError if there is only one output."""
        if answers == 1:
            raise InputError(
                "outputs= chooses one of several outputs for each instance, and the model answers "
                "with one number a row. Leave it out."
            )


def largest(answers: np.ndarray) -> np.ndarray:
    """The number of the largest column, the first of equal ones; [N, A] -> float64 [N, 1]."""
    return answers.argmax(axis=1)[:, None].astype(np.float64)


def target_column() -> Score:
    """The score of `outputs=`."""
    return Score(TargetColumn(), reads_own=True, made_of_own=largest, chooses=True)


def read_outputs(
    outputs: Any, N: int, classes: Sequence[Any] | None, names: Sequence[str] | None = None
) -> np.ndarray | None:
    """Column numbers, float64 [N, 1], of the argument `outputs=`; None: the predicted ones.

    If classes are known, an entry is read as a label. Otherwise a text is the name of an output,
    one of names [K]. Raises InputError and InputTypeError.
    """
    if isinstance(outputs, str) and outputs == PREDICTED:
        return None
    try:
        array = outputs if hasattr(outputs, "__array__") else np.asarray(outputs, dtype=object)
        array = np.asarray(array)
    except ValueError as error:
        raise InputTypeError(
            f"outputs= must be 'predicted' or one output for each of the {N} instances; got "
            f"{type(outputs).__name__}, which is no array: {error}."
        ) from error
    if array.shape != (N,):
        raise InputError(
            f"outputs= must be 'predicted' or one output for each of the {N} instances; got "
            f"{checks.shown(outputs) if array.ndim == 0 else f'shape {array.shape}'}."
        )
    items = array.tolist()
    named = classes is None and names is not None and all(isinstance(item, str) for item in items)
    labels = names if named else classes
    if labels is not None:
        places = {label: place for place, label in enumerate(labels)}
        unknown = [item for item in items if isinstance(item, list | dict) or item not in places]
        if unknown:
            what = "names of outputs" if named else "class labels, as they were given to as_model"
            raise InputError(
                f"outputs= must hold {what}, {list(labels)[:10]}; got {checks.shown(unknown[0])}."
            )
        return np.array([[places[label]] for label in items], np.float64)
    wrong = [item for item in items if not isinstance(item, int) or isinstance(item, bool)]
    if wrong:
        raise InputTypeError(
            f"outputs= must hold column numbers, since the model's classes are not known; got "
            f"{checks.shown(wrong[0])}, a {type(wrong[0]).__name__}. Give as_model classes= to use "
            "labels, or output_names= to use names."
        )
    return array.astype(np.float64)[:, None]


def refuse_columns(columns: np.ndarray, K: int) -> None:
    """Raises InputError for column numbers that a model of K outputs does not have."""
    wrong = np.flatnonzero((columns[:, 0] < 0) | (columns[:, 0] >= K))
    if len(wrong):
        raise InputError(
            f"outputs= names column {int(columns[wrong[0], 0])} for X row {wrong[0]}, but the "
            f"model has {K}, numbered from 0."
        )


# Scores with a method `refuse(answers)` raise if a model with this number of columns lacks theirs.


@dataclass(frozen=True)
class IsClass:
    """1 where the decided class has this number, else 0."""

    code: float

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, 1] -> [R, 1]."""
        return (answers == self.code).astype(answers.dtype)


@dataclass(frozen=True)
class Agrees:
    """1 where the decided class is that of the original row, else 0."""

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, 1] -> [R, 1]."""
        return (answers == reference).astype(answers.dtype)


@dataclass(frozen=True)
class Within:
    """1 where the output differs by at most `tolerance` from that of the original row, else 0."""

    tolerance: float

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, 1] -> [R, 1]."""
        return (abs(answers - reference) <= self.tolerance).astype(answers.dtype)


@dataclass(frozen=True)
class PositiveColumn:
    """The column of the positive class.

    `lone` converts a single column s to it: (0, 1) is s itself, (1, -1) is 1 - s, (0, -1) is -s.
    """

    place: int  # if there are several columns; -1: the last
    classes: int | None = None  # required number of columns, if several; None: any number
    lone: tuple[float, float] | None = (0.0, 1.0)  # None: a single column is not that class's
    positive: Any = None  # for messages
    output: Any = None

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, A] -> [R, 1]."""
        if answers.shape[1] > 1:
            column = answers[:, self.place, None]
        else:
            assert self.lone is not None
            shift, factor = self.lone
            column = answers if self.lone == (0.0, 1.0) else shift + factor * answers
        return column

    def refuse(self, answers: int) -> None:
        """Raises InputError or ModelOutputError if A columns do not hold the class."""
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
class ClassProbabilities:
    """The vector of class probabilities; for a single column p, (1 - p, p)."""

    classes: int | None = None  # None: unknown

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, A] -> [R, A], or [R, 2]."""
        if answers.shape[1] > 1:
            return answers
        return answers.__array_namespace__().concat([1 - answers, answers], axis=1)

    def refuse(self, answers: int) -> None:
        """Raises ModelOutputError if the A columns are not one per class."""
        _refuse_columns(max(2, answers), self.classes)


def _refuse_columns(columns: int, classes: int | None) -> None:
    if classes is not None and columns != classes:
        raise ModelOutputError(
            f"the model returned {columns} columns, but there are {classes} classes. Give as_model "
            "the classes= in the order of the columns."
        )


@dataclass(frozen=True)
class Own:
    """A user's score, checked to be one number per row."""

    function: Callable[[Any, Any], Any]
    name: str

    def __call__(self, answers: Any, reference: Any) -> Any:
        """[R, A] -> [R, 1]."""
        try:
            scores = self.function(answers, reference)
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as error:
            raise InputTypeError(
                f"quantity= ({self.name}) cannot be traced by JAX ({type(error).__name__}). Write "
                "its score with jax.numpy (jnp.where in place of if), or make the model with "
                "backend='host'."
            ) from error
        except Exception as error:
            error.add_note(f"xaijax: raised by quantity= ({self.name}) of {answers.shape} answers")
            raise
        if isinstance(answers, np.ndarray) or not isinstance(scores, np.ndarray | jax.Array):
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
