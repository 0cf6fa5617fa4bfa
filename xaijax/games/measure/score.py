"""`Score`: what is made of a model's answer to a row, and the bounds that it must keep.

Letters: R model rows, A answers, K scores.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

# (answers [R, A], own answers [R, A] of the instances behind the rows) -> [R, K]; NumPy or JAX.
RowScore = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Score:
    """A score per model row; hashable, so that it can be a part of a compiled program's key."""

    function: RowScore
    outputs: int | None = 1  # K; None: a vector of chances, one an answer, two for a lone one
    reads_own: bool = False  # whether it looks at f(x)
    bounds: tuple[float, float] | None = None  # None: kept by the function itself
    distribution: bool = False  # whether a row of scores must have the sum 1
    of_classes: bool = False  # whether answers are the numbers of classes
    made_of_own: Callable[[np.ndarray], np.ndarray] | None = None  # f(x) [N, A] -> [N, 1]
    chooses: bool = False  # whether it is the one answer whose number stands beside the row
    cuts: bool = False  # whether what leaves the bounds is cut to them, and marked for `kept`
    slack: float = 0.0  # how far rounding may take a score, or the sum; see `fitted`

    def __call__(self, answers: Any, own: Any) -> Any:
        """[R, A] -> [R, K]; an answer that is not finite has a score that is NaN, unless another
        one is chosen.

        What leaves the bounds by rounding alone is cut to them. What leaves them further stays as
        it is, or with `cuts` a few roundings beyond the bound; either way `kept` tells it.
        """
        xp = answers.__array_namespace__()
        scores = self.function(answers, own)
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
        kept = xp.isfinite(scores)
        if self.bounds is not None:
            low, high = self.bounds
            reach = self._reach(scores) if self.cuts else self.slack
            kept &= (scores >= low - reach) & (scores <= high + reach)
        if self.distribution:
            kept &= abs(scores.sum(axis=1, keepdims=True) - 1) <= self.slack
        return kept

    def _reach(self, scores: Any) -> float:
        """Two roundings of the larger bound, in the dtype of the scores."""
        assert self.bounds is not None
        return 2 * float(jnp.finfo(scores.dtype).eps) * max(map(abs, self.bounds))

    def beside(self, answers: int) -> int:
        """Numbers of f(x) that it looks at, of a model of so many answers."""
        return answers if self.made_of_own is None else 1

    def count(self, answers: int) -> int:
        """K for a model of so many answers."""
        return max(2, answers) if self.outputs is None else self.outputs

    def fitted(self, answers: int, dtype: str) -> Score:
        """The score for a model of so many answers, made in this dtype.

        Each class's chance e / s has the error of a sum of A terms, of an exponential and of a
        division, and the sum of all that of A more: (A + 4) roundings, times four for what models
        do beside. A float32 rounding at least, in which a model may work whatever it returns.

        Raises what the function refuses: a column that the model does not have.
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
        """What is wrong with a row of scores [K] that `kept` does not accept, and what to do."""
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
