"""`AEC`: additive effects of collinearity.

AEC ranks the columns of a table for a target. The effect of a column is its slope on the target
times a sum of slopes among the columns. The ranking therefore depends on how columns are
correlated.

Letters: M rows, F features, K classes, S bootstrap replicates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, clone

from xaijax.core import checks, typing
from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.core.version import __version__
from xaijax.methods.aec.bootstrap import (
    LARGEST_SEED,
    BootstrapPlan,
    Draws,
    rank_shares,
    refuse_many,
    replicate_effects,
    warn_many,
)
from xaijax.methods.aec.first_pass import TASKS, FirstPass, first_pass, warn_columns
from xaijax.methods.aec.learner import Learner, learner_of
from xaijax.methods.aec.learner import fit as fit_learner
from xaijax.methods.aec.logistic import LogisticFit
from xaijax.methods.aec.logistic import fit as fit_logistic
from xaijax.methods.aec.rows import Chunks, InMemoryRows, Rows, table_of, text_names
from xaijax.results.explanation import Explanation
from xaijax_kernels.collinearity.effects import (
    RemainingEffects,
    effects,
    feature_slopes,
    ranking,
    sums_of_others,
)

SOLVERS = ("sklearn", "newton")


MOST_DECIMALS = 300  # NumPy's rounding multiplies by 10^decimals, below the largest float64


@public_class
class AEC(BaseEstimator):
    """Ranks the columns of a table for a target by their additive effects of collinearity (AEC).

    AEC is a scikit-learn estimator. It does not explain a model: it fits simple regressions to the
    data. The effect of column j is

        effect_j = b_j * sum_{i != j} sum_{z != i} B[z, i].

    B[z, i] is the slope of the regression of column z on column i alone, and b_j is the slope of y
    on column j alone. B is fitted by least squares, and so is b in a regression. In a
    classification b is logistic, one class against the rest. The case z = j is included. Columns
    are ranked by |effect|.

    An effect is not a share of an answer. Its sign is the sign of b_j times that of the sum of the
    other columns' slopes, not the direction in which y moves. If the columns are uncorrelated,
    every effect is 0, whatever y is. With standardize=False, as in the paper, slopes in mixed units
    are added. Multiplying one column by 10 then changes the ranking, and columns of small spread
    lead it. Shifting a column changes nothing, except for where solver="sklearn" stops.

    Args:
        task: "regression", "classification" or "auto". "auto" is a classification if y is bool,
            text, categorical or has exactly two distinct values, and a regression otherwise. A y
            with a single value raises an error; say task="regression".
        standardize: bool. True: the columns are divided by their standard deviations first. B is
            then their correlation matrix, and the ranking does not depend on units.
        decimals: int or None. Digits to which B, b and the effects are rounded; the author's code
            uses 4. None: no rounding.
        solver: solver of the logistic fits. Both minimise the loss of `LogisticRegression()`: L2, C
            = 1, with a free intercept. "sklearn": that class's own stopping point, as in the paper.
            It may be far from the minimum, even with the wrong sign, if a column's mean is many
            standard deviations from 0 or its standard deviation is small. One warning names such
            columns and both slopes. "newton": the minimum.
        learner: None, or the source of b_j instead: a scikit-learn estimator with a slope
            (`coef_`), or a function (x [M], y [M]) -> slope, called with the weights as a third
            argument if rows have weights (always under `bootstrap`). In a classification y is 0 or
            1.
        bootstrap: int of at least 2, or None. The number of times that the M rows are drawn anew,
            with replacement, for standard errors and ranks. Logistic slopes of these replicates are
            at the minimum, also with solver="sklearn". With sample_weight each replicate draws M of
            the M rows of positive weight, all equally likely, and a drawn row counts with its
            weight. A row of weight 2 thus has the effect of two rows, but is drawn as one.
        seed: int, for `bootstrap`. The same seed draws the same rows, however the data are cut into
            chunks.

    Attributes:
        effects_: float64 [F], or [K, F] with K > 2 classes. The unit is that of y (log-odds in a
            classification) times ratios of the columns' units, added up.
        ranking_: column indices [F] or [K, F], the largest |effect| first, with ties in column
            order.
        slopes_: B, float64 [F, F], with 1 on the diagonal; 0 for constant columns.
        target_slopes_: b, float64 [F] or [K, F]; 0 for constant columns.
        correlation_: float64 [F, F], correlations of the columns; 0 for constant columns.
        std_errors_: like effects_; the standard deviation over replicates; None without bootstrap.
        rank_probabilities_: float64 [F, F] or [K, F, F]: the share of replicates in which a column
            (first axis of the two) has a rank (second axis, 0 the top); None without bootstrap.
        classes_: [K], ascending; None in a regression. With two classes b belongs to the second.
        n_features_in_: F.
        feature_names_in_: [F], set only if X is a frame whose column names are all text.
        n_iter_: passes of the Newton solver over all rows, 0 if none was needed.
        explanation_: the result as an `Explanation`, for plots, tables and the report.

    Raises:
        InputError, InputTypeError: raised by `fit` and `fit_chunks`; the constructor accepts
            anything, as scikit-learn requires.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [2.0, 1.0], [3.0, 4.0], [4.0, 3.0]])
        >>> aec = xj.AEC().fit(X, y=X[:, 0])
        >>> aec.effects_.round(3), aec.ranking_
        (array([0.6 , 0.36]), array([0, 1]))

    Constant columns have slope and effect 0, and a warning names them. With standardize=False
    another warning is given if standard deviations differ by more than 100 times.

    References:
        Salih, "Explainable artificial intelligence for dependent features: additive effects of
        collinearity" (2024), equation 7.
    """

    def __init__(
        self,
        task: Literal["auto", "regression", "classification"] = "auto",
        standardize: bool = False,
        decimals: int | None = None,
        solver: Literal["sklearn", "newton"] = "sklearn",
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

    def fit(
        self,
        X: typing.Rows,
        y: typing.ArrayLike,
        sample_weight: typing.ArrayLike | None = None,
    ) -> AEC:
        """Computes the effects of the columns of X on y.

        Args:
            X: numbers [M, F]: an array, or a pandas or polars frame.
            y: target [M]: numbers, bools or labels.
            sample_weight: float [M] of at least 0, or None. For the effects, a row of weight 2 is
                the same as the row twice; for `bootstrap` it is one row.

        Returns:
            self.

        Raises:
            InputError: raised before any fit for NaN, infinity, duplicate names, y of another
                length, a single class and the like. InputTypeError: a type is not accepted.
            MemoryPlanError: there are more replicates than fit into memory.
            ModelOutputError: `learner` gave no finite slope.
        """
        started = time.perf_counter()
        self._check()
        table, learner = table_of(X, y, sample_weight), None
        if self.learner is not None:
            weighted = table.weights is not None or self.bootstrap is not None
            learner = learner_of(self.learner, weighted)
        self._fit(table, learner, started)
        self._keep_names(text_names(X))
        return self

    def fit_chunks(
        self, chunks: Iterable[tuple[Any, ...]] | Callable[[], Iterable[tuple[Any, ...]]]
    ) -> AEC:
        """Computes the effects from rows that come in chunks, for tables larger than memory.

        The result equals that of `fit` on all rows at once, up to rounding. A regression takes one
        pass over the rows. A classification takes about eight, or fewer if the fit of the first
        rows is a good start. Bootstrap takes some more.

        Args:
            chunks: iterable of tuples (X, y) or (X, y, sample_weight), with X [R, F] always an
                array or always a frame, of the same columns each time. It must be iterable several
                times: a list, an object whose `__iter__` starts anew, or a function that returns a
                new iterator.

        Returns:
            self.

        Raises:
            InputError: as for `fit`; solver="sklearn" is used in a classification, or `learner`,
                which both need all rows at once. InputTypeError: `chunks` is an iterator that can
                be read only once.
        """
        started = time.perf_counter()
        self._check()
        if self.learner is not None:
            raise InputError("learner= needs all rows at once; call fit, or leave learner out.")
        rows = Chunks(chunks)
        self._fit(rows, None, started)
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
        """Keeps the names, and drops those of an earlier fit, as scikit-learn does."""
        vars(self).pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)

    def _check(self) -> None:
        """Checks the parameters here, not in the constructor, as scikit-learn requires."""
        checks.one_of(self.task, "task", TASKS)
        checks.one_of(self.solver, "solver", SOLVERS)
        flag = self.standardize
        checks.yes_or_no(bool(flag) if isinstance(flag, np.bool_) else flag, "standardize")
        if self.decimals is not None:
            if checks.whole_number(self.decimals, "decimals", least=0) > MOST_DECIMALS:
                raise InputError(
                    f"decimals must be at most {MOST_DECIMALS}, got {self.decimals}: a float64 "
                    "has no more. None rounds nothing."
                )
        if self.bootstrap is not None:
            checks.whole_number(self.bootstrap, "bootstrap", least=2)
        if checks.whole_number(self.seed, "seed", least=0) >= LARGEST_SEED:
            raise InputError(f"seed must be below 2^128, got {self.seed}.")
        if self.learner is not None and self.solver != "sklearn":
            raise InputError(
                f"solver={self.solver!r} is not used if learner= gives the slopes; leave one out."
            )
        if self.learner is not None:
            learner_of(self.learner, self.bootstrap is not None)

    def _fit(self, rows: Rows, learner: Learner | None, started: float) -> None:
        facts = first_pass(rows, self.task)
        labelled = facts.target.classes is not None
        if labelled and self.solver == "sklearn" and not isinstance(rows, InMemoryRows):
            raise InputError(
                "solver='sklearn' needs all rows of a classification at once; say solver='newton' "
                "for chunks."
            )
        if self.bootstrap is not None:
            refuse_many(facts, self.bootstrap)
        warn_columns(facts, self.standardize)
        target, logistic = self._target_slopes(rows, facts, learner)
        self._first = facts.first
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            slopes = feature_slopes(facts.products, facts.constant, self.standardize)
            if self.decimals is not None:
                slopes, target = np.round(slopes, self.decimals), np.round(target, self.decimals)
            values = effects(target, sums_of_others(slopes), self.decimals)
        if not np.isfinite(values).all():
            raise InputError(
                "X: the scales of the columns are so far apart that effects leave the range of "
                "float64. Say standardize=True, or rescale the columns."
            )
        several, std_errors, shares = len(values) > 1, None, None
        if self.bootstrap is not None:
            draws = Draws(rows, facts.moments.rows, self.seed)
            plan = BootstrapPlan(draws, facts, self.standardize, self.decimals, logistic, learner)
            replicates = self._replicates(plan, self.bootstrap)
            std_errors, shares = np.nanstd(replicates, axis=0, ddof=1), rank_shares(replicates)

        def shaped(array: Any) -> Any:
            return array if array is None or several else array[0]

        self.effects_ = shaped(values)
        self.ranking_ = shaped(ranking(values))
        self.slopes_, self.target_slopes_ = slopes, shaped(target)
        self.correlation_ = feature_slopes(facts.products, facts.constant, True)
        self.std_errors_, self.rank_probabilities_ = shaped(std_errors), shaped(shares)
        self.classes_ = facts.target.classes
        self.n_features_in_ = facts.F
        self.n_iter_ = 0 if logistic is None else logistic.passes
        self.explanation_ = self._explanation(facts, time.perf_counter() - started)

    def _explanation(self, facts: FirstPass, seconds: float) -> Explanation:
        """The explanation of one instance, the data set: values [1, F], or [1, F, K] for K > 2
        classes.
        """
        classes, several = self.classes_, self.effects_.ndim > 1
        labels = None if classes is None else tuple(map(str, classes))
        provenance = {
            "task": "regression" if classes is None else "classification",
            "standardize": bool(self.standardize),
            "decimals": self.decimals,
            "solver": self.solver if labels and self.learner is None else None,
            "learner": None if self.learner is None else repr(self.learner),
            "bootstrap": self.bootstrap,
            "seed": self.seed if self.bootstrap else None,
            "method": "AEC",
            "meaning": meaning(self.standardize),
            "columns": facts.names,
            "rows": facts.moments.rows,
            "versions": {
                "xaijax": __version__,
                "numpy": np.__version__,
                "scikit-learn": sklearn.__version__,
            },
        }
        stats = {
            "estimator": "AEC",
            "bootstrap": self.bootstrap,
            "rank_probabilities": self.rank_probabilities_,
            "passes": self.n_iter_,
            "seconds": seconds,
            "correlation": self.correlation_,
        }
        return Explanation(
            values=self.effects_.T[None],
            base_values=np.zeros((1, len(self.effects_)) if several else 1),
            std_errors=None if self.std_errors_ is None else self.std_errors_.T[None],
            feature_names=facts.names,
            output_names=labels if several else None,
            exact=True,
            kind="aec",
            stats=stats,
            provenance=provenance if labels is None else provenance | {"classes": labels},
        )

    def _target_slopes(
        self, rows: Rows, facts: FirstPass, learner: Learner | None
    ) -> tuple[np.ndarray, LogisticFit | None]:
        """b [K, F], or [1, F] for a regression or two classes."""
        F = facts.F
        if learner is not None:
            assert isinstance(rows, InMemoryRows)
            scales = (facts.mean, facts.spread) if self.standardize else None
            return fit_learner(learner, rows, facts, scales), None
        if facts.target.classes is not None:
            fitted = fit_logistic(rows, facts, self.solver, self.standardize)
            return fitted.slopes, fitted
        squares = np.where(facts.constant, 1.0, np.diagonal(facts.products))
        b = np.where(facts.constant, 0.0, facts.moments.products[F, :F] / squares)
        return (b * facts.spread if self.standardize else b)[None], None

    def _replicates(self, plan: BootstrapPlan, count: int) -> np.ndarray:
        """Effects of the replicates [S, K, F]; warns of lost ones."""
        warn_many(plan, count)
        replicates = replicate_effects(plan, count)
        lost = int(np.isnan(replicates).any(axis=(1, 2)).sum())
        complete = np.isfinite(replicates).all(axis=2).sum(axis=0).min()
        if complete < 2:
            raise InputError(
                f"bootstrap={count}: fewer than 2 replicates have rows of every class. "
                "Give more rows, or leave bootstrap out."
            )
        if lost:
            checks.warn(
                f"In {lost:,} of {count:,} replicates a class has no row; these are left "
                "out of std_errors_ and rank_probabilities_."
            )
        return replicates

    def _remaining(self, X: Any, y: Any) -> RemainingEffects:
        """The effects of any remaining columns, without a further fit; see `RemainingEffects`."""
        plain: Any = clone(self)
        plain.set_params(bootstrap=None).fit(X, y)
        if plain.effects_.ndim > 1:
            raise InputError(
                f"y has {len(plain.effects_)} classes, and each has its own list. Pass one of "
                "them, y == label."
            )
        return RemainingEffects(plain.slopes_, plain.target_slopes_, self.decimals, plain._first)


def meaning(standardize: bool) -> str:
    """One line on sign and units."""
    units = "effects add slopes in mixed units and change when a column's unit does"
    if standardize:
        units = "columns are standardised, so effects are free of their units"
    sign = "the sign is that of b_j times the sum of the others' slopes"
    return f"{units}; {sign}, not the direction of an effect"
