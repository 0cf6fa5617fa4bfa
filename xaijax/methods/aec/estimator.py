"""`AEC`: additive effects of collinearity, a list of columns that minds how they depend.

Letters: M rows, F features, K classes, S bootstrap replicates.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._public import public_class
from xaijax.methods.aec.bootstrap import (
    Plan,
    errors,
    rank_shares,
    refuse_many,
    replicate_effects,
    tell_many,
)
from xaijax.methods.aec.draws import LARGEST_SEED, Draws
from xaijax.methods.aec.learner import fit as fit_learner
from xaijax.methods.aec.learner import learner_of
from xaijax.methods.aec.logistic import LogisticFit
from xaijax.methods.aec.logistic import fit as fit_logistic
from xaijax.methods.aec.record import explanation, meaning
from xaijax.methods.aec.rows import Chunks, Rows, Table, table_of, text_names
from xaijax.methods.aec.survey import Survey, survey, tell
from xaijax.methods.aec.target import TASKS
from xaijax_kernels.collinearity import (
    RemainingEffects,
    effects,
    feature_slopes,
    ranking,
    sums_of_others,
)

SOLVERS = ("sklearn", "newton")


@public_class
class AEC(BaseEstimator):
    """Additive effects of collinearity (Salih 2024, eq. 7), a scikit-learn estimator.

        effect_j = b_j * sum_{i != j} sum_{z != i} B[z, i]

    B[z, i] is the slope of the regression of column z on column i alone, b_j that of y on column j
    alone: least squares for a regression, logistic for a classification (one class against the
    rest). z = j is among the terms. Columns are ranked by |effect|.

    What an effect is not. It is no share of an answer, and its sign is not the direction of an
    effect: it is the sign of b_j times that of the sum of the other columns' slopes. Where columns
    are uncorrelated every effect is 0, whatever y is. With `standardize=False`, the paper's
    reading, slopes in mixed units are added: multiplying one column by 10 changes the list, and
    columns of small spread lead it. Shifting a column changes nothing, up to where solver="sklearn"
    stops.

    Parameters
    ----------
    task : "auto", "regression" or "classification". "auto": a classification when y is bool, text,
        categorical or has exactly two distinct values, else a regression.
    standardize : whether columns are divided by their standard deviations first; B is then their
        correlation matrix, and the list does not depend on units.
    decimals : None, or digits to which every B, every b and the effects are rounded; the author's
        code has 4.
    solver : of the logistic fits, both with the loss of `LogisticRegression()` (L2, C = 1, the
        intercept free). "sklearn": that class's own stopping point, as in the paper. It may be far
        from the minimum, with the wrong sign even, where a column's mean is many standard
        deviations from 0 or its standard deviation is small; one warning names such columns and
        both slopes. "newton": the minimum.
    learner : None, or what gives b_j instead: a scikit-learn estimator with a slope (`coef_`), or a
        function (x [M], y [M]) -> slope, called with a third argument where rows have weights. In a
        classification y is 0 or 1.
    bootstrap : None, or the number S of resamplings of the rows, at least 2. Their logistic slopes
        are at the minimum, also with solver="sklearn": errors and ranks are those of
        solver="newton". With sample_weight every replicate draws M of the M rows of positive
        weight, each as likely as any other, and a drawn row counts with its weight. So a weight of
        2 is one row that may be drawn, not two: effects are those of the row twice, errors are not.
    seed : of the resampling; the same seed draws the same rows, however data are cut into chunks.

    Attributes
    ----------
    effects_ : float64 [F]; [K, F] with more than two classes.
    ranking_ : column indices [F] ([K, F]), largest |effect| first, ties in column order.
    slopes_ : B, float64 [F, F], with 1 on the diagonal, 0 for constant columns.
    target_slopes_ : b, float64 [F] ([K, F]); 0 for constant columns.
    correlation_ : float64 [F, F], of the columns; 0 for constant ones.
    std_errors_ : like effects_, None without bootstrap: the standard deviation over replicates.
    rank_probabilities_ : [F, F] ([K, F, F]), None without bootstrap: the share of replicates in
        which a column (first axis) has a rank (second axis, 0 the top).
    classes_ : [K], ascending; None for a regression. With two classes b is of the second.
    n_features_in_ : F.
    feature_names_in_ : [F], the columns of a frame where all names are text; else not there.
    n_iter_ : passes over all rows of the Newton solver, 0 where none was needed.
    explanation_ : the result as an `Explanation`, for plots, tables and the report.

    The unit of an effect is that of y (of a regression) times units of columns over units of
    columns, added. Constant columns have slope and effect 0 and are named in one warning; another
    is given when standard deviations differ by more than 100 times and standardize is False.
    """

    def __init__(
        self,
        task: str = "auto",
        standardize: bool = False,
        decimals: int | None = None,
        solver: str = "sklearn",
        learner: Any = None,
        bootstrap: int | None = None,
        seed: int = 0,
    ) -> None:
        self.task = task
        self.standardize = standardize
        self.decimals = decimals
        self.solver = solver
        self.learner = learner
        self.bootstrap = bootstrap
        self.seed = seed

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> AEC:
        """Fit to X [M, F] (array, pandas or polars frame of numbers) and y [M]; returns self.

        sample_weight: [M], at least 0; for the effects a weight of 2 is the same as the row twice,
            for bootstrap errors it is one row (see `bootstrap`).

        Raises, before any fit: InputError for NaN, infinity, duplicate names, y of another length,
        a single class and the like; InputTypeError for types that are not accepted.
        """
        started = time.perf_counter()
        self._check()
        table = table_of(X, y, sample_weight)
        self._check_learner(weighted=table.weights is not None)
        self._fit(table, started)
        self._keep_names(text_names(X))
        return self

    def fit_chunks(self, chunks: Any) -> AEC:
        """Fit to rows that come in chunks, for tables larger than memory; returns self.

        The result is that of `fit` on all rows at once, up to rounding: a regression takes one
        pass, a classification one and about seven more (solver="newton" only; fewer where the fit
        of the first rows is a good start), bootstrap some more.

        chunks: what can be iterated over several times and gives tuples (X, y) or
            (X, y, sample_weight), X [R, F] always an array or always a frame, with the same columns
            each time: a list, an object whose __iter__ starts anew, or a function that returns a
            new iterator.

        Raises: as `fit`; InputTypeError for an iterator that can be read once; InputError for
        solver="sklearn" in a classification, and for learner=, which need all rows at once.
        """
        started = time.perf_counter()
        self._check()
        if self.learner is not None:
            raise InputError("learner= needs all rows at once; call fit, or leave learner out.")
        rows = Chunks(chunks)
        self._fit(rows, started)
        self._keep_names(rows.labels)
        return self

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        text = BaseEstimator.__repr__(self, N_CHAR_MAX)
        return f"{text}\n  {meaning(self.standardize)}" if hasattr(self, "effects_") else text

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _keep_names(self, names: tuple[str, ...] | None) -> None:
        """Names of an earlier fit go, as scikit-learn has it."""
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _check(self) -> None:
        """Parameters are looked at here, not in the constructor, as scikit-learn wants it."""
        _checks.one_of(self.task, "task", TASKS)
        _checks.one_of(self.solver, "solver", SOLVERS)
        if not isinstance(self.standardize, bool | np.bool_):
            given = _checks.shown(self.standardize)
            raise InputTypeError(f"standardize must be True or False, got {given}.")
        if self.decimals is not None:
            _checks.whole_number(self.decimals, "decimals", least=0)
        if self.bootstrap is not None:
            _checks.whole_number(self.bootstrap, "bootstrap", least=2)
        if _checks.whole_number(self.seed, "seed", least=0) >= LARGEST_SEED:
            raise InputError(f"seed must be below 2^128, got {self.seed}.")
        self._check_learner(weighted=False)

    def _check_learner(self, weighted: bool) -> None:
        if self.learner is None:
            return
        if self.solver != "sklearn":
            raise InputError(
                f"solver={self.solver!r} has no part where learner= gives the slopes; leave one "
                "out."
            )
        learner_of(self.learner, weighted or self.bootstrap is not None)

    def _fit(self, rows: Rows, started: float) -> None:
        found = survey(rows, self.task)
        labelled = found.target.classes is not None
        if labelled and self.solver == "sklearn" and not isinstance(rows, Table):
            raise InputError(
                "solver='sklearn' needs all rows of a classification at once; say solver='newton' "
                "for chunks."
            )
        if self.bootstrap is not None:
            refuse_many(found, self.bootstrap)
        tell(found, self.standardize)
        target, logistic = self._target_slopes(rows, found)
        self._first = found.first
        with np.errstate(over="ignore", invalid="ignore"):  # looked at below
            slopes = feature_slopes(found.products, found.constant, self.standardize)
            if self.decimals is not None:
                slopes, target = np.round(slopes, self.decimals), np.round(target, self.decimals)
            values = effects(target, sums_of_others(slopes), self.decimals)
        if not np.isfinite(values).all():
            raise InputError(
                "X: the scales of the columns are so far apart that effects leave the range of "
                "float64. Say standardize=True, or rescale the columns."
            )
        replicates = self._replicates(rows, found, logistic)
        several = len(values) > 1
        std_errors = shares = None
        if replicates is not None:
            std_errors, shares = errors(replicates), rank_shares(replicates)

        def shaped(array: Any) -> Any:
            return array if array is None or several else array[0]

        self.effects_ = shaped(values)
        self.ranking_ = shaped(ranking(values))
        self.slopes_, self.target_slopes_ = slopes, shaped(target)
        self.correlation_ = feature_slopes(found.products, found.constant, True)
        self.std_errors_, self.rank_probabilities_ = shaped(std_errors), shaped(shares)
        self.classes_ = found.target.classes
        self.n_features_in_ = found.F
        self.n_iter_ = 0 if logistic is None else logistic.passes
        stats = {
            "estimator": "AEC",
            "bootstrap": self.bootstrap,
            "rank_probabilities": self.rank_probabilities_,
            "passes": self.n_iter_,
            "seconds": time.perf_counter() - started,
        }
        self.explanation_ = explanation(
            found, values, std_errors, self.correlation_, self._settings(labelled), stats
        )

    def _settings(self, labelled: bool) -> dict[str, Any]:
        """What the provenance tells of the parameters."""
        return {
            "task": "classification" if labelled else "regression",
            "standardize": bool(self.standardize),
            "decimals": self.decimals,
            "solver": self.solver if labelled and self.learner is None else None,
            "learner": None if self.learner is None else repr(self.learner),
            "bootstrap": self.bootstrap,
            "seed": self.seed if self.bootstrap else None,
        }

    def _target_slopes(self, rows: Rows, found: Survey) -> tuple[np.ndarray, LogisticFit | None]:
        """b [K, F], or [1, F] of a regression or of two classes."""
        F = found.F
        if self.learner is not None:
            assert isinstance(rows, Table)
            learner = learner_of(self.learner, rows.weights is not None)
            scales = (found.mean, found.spread) if self.standardize else None
            return fit_learner(learner, rows, found, scales), None
        if found.target.classes is not None:
            fitted = fit_logistic(rows, found, self.solver, self.standardize)
            return fitted.slopes, fitted
        squares = np.where(found.constant, 1.0, np.diagonal(found.products))
        b = np.where(found.constant, 0.0, found.moments.products[F, :F] / squares)
        return (b * found.spread if self.standardize else b)[None], None

    def _replicates(
        self, rows: Rows, found: Survey, logistic: LogisticFit | None
    ) -> np.ndarray | None:
        """Effects of the replicates [S, K, F], None without bootstrap; tells of lost ones."""
        if self.bootstrap is None:
            return None
        learner = None if self.learner is None else learner_of(self.learner, True)
        draws = Draws(rows, found.moments.rows, self.seed)
        plan = Plan(draws, found, self.standardize, self.decimals, logistic, learner)
        tell_many(plan, self.bootstrap)
        replicates = replicate_effects(plan, self.bootstrap)
        lost = int(np.isnan(replicates).any(axis=(1, 2)).sum())
        kept = np.isfinite(replicates).all(axis=2).sum(axis=0).min()
        if kept < 2:
            raise InputError(
                f"bootstrap={self.bootstrap}: fewer than 2 replicates have rows of every class. "
                "Give more rows, or leave bootstrap out."
            )
        if lost:
            _checks.warn(
                f"In {lost:,} of {self.bootstrap:,} replicates a class has no row; these are left "
                "out of std_errors_ and rank_probabilities_."
            )
        return replicates

    def _remaining(self, X: Any, y: Any) -> RemainingEffects:
        """The effects on any columns that remain, without a further fit; see `RemainingEffects`."""
        plain: Any = clone(self)
        plain.set_params(bootstrap=None).fit(X, y)
        if plain.effects_.ndim > 1:
            raise InputError(
                f"y has {len(plain.effects_)} classes, and each has a list of its own. Pass one of "
                "them, y == label."
            )
        return RemainingEffects(plain.slopes_, plain.target_slopes_, self.decimals, plain._first)
