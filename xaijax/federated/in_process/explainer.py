"""`FederatedExplainer`: Shapley values of a vertically split table, each guest as one player.

Letters: N instances, F columns, P players, m guests, K outputs, M sets of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np

from xaijax.core import checks, html
from xaijax.core.errors import EnumerationLimitError, InputError, InputTypeError
from xaijax.core.typing import AnswerPath, AnyModel, ArrayLike, Devices, Progress, Rows
from xaijax.estimators.driver import EstimatorName, InstanceValues
from xaijax.estimators.least_squares import LeastSquares
from xaijax.federated.in_process.parties import HOST, without
from xaijax.federated.in_process.reference import (
    END_WEIGHT,
    end_weight_of,
    parties_in,
    reference_of,
)
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.refuse import LARGEST_TABLE
from xaijax.games.run import GameRun
from xaijax.games.strategies.totals import OfPlayers
from xaijax.methods.explainer.choice import EstimatorChoice
from xaijax.methods.explainer.explainer import Explainer
from xaijax.models import Model, explainer_class, model_of
from xaijax.players.index import IndexLike, index_weights
from xaijax.players.players import Players
from xaijax.results.explanation import Explanation
from xaijax.results.guest_worth import GuestWorth
from xaijax.results.interactions import Interactions
from xaijax.results.plan import Plan
from xaijax.results.set_keys import all_of
from xaijax.tables.rows import rows_of

# Such a player is null. Shapley's and Banzhaf's values of the others are what they are without it;
# weights by size count it, so that the others' weights are those that it induces on them.


class WithIdle(Explainer):
    """An `Explainer` of players some of whom own no column."""

    def __init__(
        self, idle: Mapping[int, str], end_weight: float | None = None, **arguments: Any
    ) -> None:
        """idle: {place among all players: name}; players= names the others, in order. end_weight:
        that of the least squares that give the values; None: an estimator of `Explainer` does.
        """
        self._idle = dict(idle)
        super().__init__(**arguments)
        names = list(self.players.names)
        for place in sorted(self._idle):
            names.insert(place, self._idle[place])
        if end_weight is not None:
            self.exact = LeastSquares(
                self.weights, self.exact.index, end_weight, tuple(sorted(self._idle))
            )
        busy = np.array([p for p in range(len(names)) if p not in self._idle])
        # All players, for the record; the games have the others only.
        self.players = Players(busy[self.players.of_column], tuple(names))

    def _weights(self, index: IndexLike) -> tuple[np.ndarray, str]:
        busy = self.players.count
        weights, name = index_weights(index, busy + len(self._idle))
        self.index_weights = weights  # of all players
        if isinstance(index, str) or not self._idle:
            return index_weights(index, busy)
        return OfPlayers(tuple(weights.tolist()))(busy)[0], name

    def _answer(self, game: GameRun, choice: EstimatorChoice) -> InstanceValues:
        answer = super()._answer(game, choice)
        if not self._idle or answer.values.shape[1] == self.players.count:
            return answer
        P = self.players.count
        return _filled(answer, P, [p for p in range(P) if p not in self._idle])


Told = TypeVar("Told", Explanation, Interactions)
Score = Callable[[Any, Any], float]  # (model, rows) -> one number
Filled = TypeVar("Filled", InstanceValues, Interactions)


@explainer_class
class FederatedExplainer:
    """Values of the host's columns one by one, and of each guest's columns as one player.

    The columns of a table belong to parties: the host, who explains, and guests. Here all parties
    are in one process. The value of a coalition T of players, for the instance x, is

        w(T) = link(f(x on the columns of T, the reference on the others)).

    The result says how much each player adds to w. This is the quotient game of the game in which
    each column is a player. For the Shapley value, a guest's value can differ from the sum of its
    columns' values there only if at least two of them interact with a column of another party.
    `interaction_` is the difference.

    Args:
        model: a `Model` of `as_model`, or what `as_model` takes without options: a function of
            rows, a fitted estimator or its `predict_proba`, a module.
        background: rows [B, F] that the reference is made of: an array, or a frame for a host
            model.
        guests: {"name": [columns]}, columns by name or position. All others are the host's. A guest
            without columns is a player whose value is 0; an index by size counts it. A host without
            columns has no values; one guest with all columns then gets w(all) - w(none).
        reference: what the columns of a player that is absent show.
            "median" (default): the median of each column of the background; of a column that is
            not numeric, the most frequent value. "na": missing values, for a model with
            allow_nan=True. A row [F], an array; for a frame as background a frame of one row or a
            pandas Series. Rows [B, F], array or frame: w is then link(mean over them), unlike
            Algorithm 2.
        index: as for `Explainer`. "shapley" (default) is the paper's formula, and what its authors
            computed. "banzhaf" is Algorithm 1 read literally, the plain mean over all coalitions.
        estimator: as for `Explainer`, or "wls": the authors' least squares over all 2^P coalitions.
            It gives Shapley's value up to about 1 / end_weight. It needs index="shapley" and a
            deterministic model, and takes neither budget nor tolerance.
        end_weight: float. It is for "wls" only: the weight of the empty and of the full coalition.
        budget: int or None. It is the largest number of distinct coalitions asked for each sampled
            instance, as in `Explainer`. With estimator="exact" leave it out.
        link: "identity", "logit" or a function of arrays.
        seed: int. Sampled estimators use it.
        weights: float [B] or None. They are the weights of the reference rows, if there are
            several.
        tolerance: float or None. How far a value may be off, with 95 % probability, in units of
            link(f), as in `Explainer`.
        {batch_size}
        {memory}
        {path}

    Attributes:
        reference_: the reference: [F], [B, F], or a frame.
        interaction_: after a call, the interaction of each guest; see there.
        interaction_std_errors_: after a call, bounds of its standard errors.

    Raises:
        InputError, InputTypeError: an argument is not accepted. The model is not called before
            the first explanation.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def f(X):
        ...     return X[:, 0] * X[:, 1] * X[:, 2]
        >>> federated = xj.FederatedExplainer(xj.as_model(f), np.zeros((1, 3)), {"bank": [1, 2]})
        >>> federated(np.ones((1, 3))).values.round(3)
        array([[0.5, 0.5]])
        >>> federated.interaction_.round(3)
        array([[-0.167]])

        Two players share the answer 1. Column by column, the bank's two get 1/3 each.

    References:
        Wang, "Interpret federated learning with Shapley values" (2019), Algorithm 2.
    """

    def __init__(
        self,
        model: AnyModel,
        background: Rows,
        guests: Mapping[str, Sequence[str | int]],
        reference: Literal["median", "na"] | Rows = "median",
        index: IndexLike = "shapley",
        estimator: EstimatorName | Literal["wls"] = "auto",
        end_weight: float = END_WEIGHT,
        budget: int | None = None,
        link: Literal["identity", "logit"] | Callable[[Any], Any] = "identity",
        seed: int = 0,
        batch_size: int | Literal["auto"] = "auto",
        max_memory: int | None = None,
        devices: Devices = None,
        weights: ArrayLike | None = None,
        tolerance: float | None = None,
        tile: int | None = None,
        path: AnswerPath = "auto",
    ) -> None:
        self.model = model
        source, self._reference_kind = reference_of(reference, background, model.allow_nan)
        if weights is not None and self._reference_kind != "rows":
            raise InputError(
                f"weights are of several reference rows, not {self._reference_kind}. Leave them "
                "out."
            )
        self.parties = parties_in(model, source, guests)
        self._end_weight = end_weight_of(end_weight, estimator, index, model)
        if estimator == "wls" and (budget is not None or tolerance is not None):
            raise InputError(
                "estimator='wls' takes all coalitions; leave budget= and tolerance= out."
            )
        shown = source.as_rows(model.allow_nan) if isinstance(source, Baseline) else source
        shown = rows_of(shown).copy()  # the caller's rows may change
        self.reference_ = rows_of(shown).first if isinstance(source, Baseline) else shown
        self._estimator, self._index = estimator, index
        self._common: dict[str, Any] = {
            "model": model,
            "background": source,
            "index": index,
            "budget": budget,
            "link": link,
            "seed": seed,
            "batch_size": batch_size,
            "max_memory": max_memory,
            "devices": devices,
            "weights": weights,
            "tolerance": tolerance,
            "tile": tile,
            "path": path,
        }
        self._united = self._explainer(self.parties.players(), self.parties.idle)
        self.path = self._united.path
        self._last: tuple[Any, Explanation] | None = None  # a copy of the rows, and their result
        self._own: Explanation | None = None  # of the single columns of the same rows

    def __call__(self, X: Rows, progress: Progress = None) -> Explanation:
        """Explains the instances X.

        Args:
            X: rows [N, F] of the background's columns.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False.

        Returns:
            An `Explanation` with values [N, P], or [N, P, K] for a model with K outputs; the host's
            columns first, then the guests. Its `data` holds the host's columns only, or is None if
            there are none. `provenance` says no more of a guest than its name and its number of
            columns.

        Raises:
            EnumerationLimitError: "wls" with more than 20 players that have columns. For others,
                and for the other errors, see `Explainer.__call__`.
        """
        explanation = self._explained(X, progress)
        self._last, self._own = (rows_of(X).copy(), explanation), None
        return explanation

    def plan(self, X: Rows) -> Plan:
        """Reports the cost of explaining X before it is run.

        Args:
            X: rows [N, F], as for a call.

        Returns:
            A `Plan`. The model is asked no more than its probe.

        Raises:
            What a call raises before it asks.
        """
        if self._estimator == "wls":
            self._refuse_large(self._united)
        return self._united.plan(X)

    def check(self, X: Rows) -> None:
        """Raises InputError or InputTypeError for instances that a call would not accept."""
        self._united.check(X)

    def _explained(self, X: Any, progress: bool | None) -> Explanation:
        if self._estimator == "wls":
            self._refuse_large(self._united)
        explanation = self._named(self._united(X, progress))
        return self._told(explanation, index_weights=self._united.index_weights.tolist())

    def _told(self, result: Told, **facts: Any) -> Told:
        """The same with what may be said of the guests, and the host's rows alone."""
        guests = {name: len(columns) for name, columns in self.parties.guests.items()}
        provenance = dict(result.provenance) | {
            "method": "federated",
            "guests": guests,
            "reference": self._reference_kind,
            "player_columns": self.parties.columns_of_host_data(),
            "players": self._united.players.count,
            **facts,
        }
        data = None if result.data is None else self.parties.host_data(result.data)
        # It is of the reference row, which holds a guest's values and could be found by trying.
        stats = {name: value for name, value in result.stats.items() if name != "fingerprint"}
        return replace(result, data=data, stats=stats, provenance=provenance)

    @property
    def interaction_(self) -> np.ndarray:
        """Returns each guest's value as one player, minus the sum of its columns' values.

        It is of the instances that were last explained by a call. The columns' values are those of
        the game in which every column of the table is a player. They are computed when this is
        first read, by the same estimator. For exact Shapley values it is 0 if no interaction joins
        two columns of the guest with a column of another party. For other indices this need not
        hold. For one guest and the Shapley value it is

            - sum over sets R of columns of a_R h (k - 1) / ((h + 1) (h + k)),

        where a_R is the Harsanyi dividend of R, and R has h columns of the host and k of the guest.

        Returns:
            float64 [N, m], or [N, m, K] for a model with K outputs.

        Raises:
            InputError: before the first call; for an index that is a function, since it is written
                for the players of one of the two games. Errors of a call are raised too; "wls" then
                counts each column as a player.
        """
        united, single = self._both()
        return self.parties.united_less_single(united.values, single.values)

    @property
    def interaction_std_errors_(self) -> np.ndarray | None:
        """Upper bounds of the standard errors of `interaction_`; None if nothing was sampled.

        Each is the sum of the standard errors of the values that the interaction is made of. It
        holds however their errors correlate. It raises what `interaction_` raises.
        """
        united, single = self._both()
        if united.std_errors is None and single.std_errors is None:
            return None
        known = [
            np.zeros(result.shape) if result.std_errors is None else result.std_errors
            for result in (united, single)
        ]
        return self.parties.united_less_single(known[0], -known[1])

    def interactions(
        self, X: Rows, order: int = 2, index: str = "sii", progress: Progress = None
    ) -> Interactions:
        """Computes how much the host's columns and the guests, each as one player, move the answer
        together.

        It works like `Explainer.interactions`. `interaction_` is another thing, of one guest's
        columns.

        Args:
            X: rows [N, F], as for a call.
            order, index, progress: as for `Explainer.interactions`.

        Returns:
            `Interactions`; players, data and provenance as for a call. Sets with a guest that owns
            no column are 0.

        Raises:
            InputError: "wls"; an order above the players who own columns. Errors of
                `Explainer.interactions` are raised too.
        """
        if self._estimator == "wls":
            raise InputError(
                "estimator='wls' is a regression without interactions. Say 'auto' or 'exact'."
            )
        idle = self.parties.idle
        explainer = self._explainer(self.parties.players(), {}) if idle else self._united
        if idle and checks.whole_number(order, "order") > explainer.players.count:
            raise InputError(
                f"order={order}: only {explainer.players.count} players own columns; "
                f"{', '.join(idle.values())} own none. Lower order=."
            )
        return self._told(with_idle(explainer.interactions(X, order, index, progress), idle))

    def worth(
        self,
        X: Rows,
        y: ArrayLike,
        metric: Literal["accuracy"] | Callable[[Any, Any], Any] = "accuracy",
        refitted: Mapping[str, AnyModel] | None = None,
        progress: Progress = None,
    ) -> GuestWorth:
        """Computes the worth of each party's columns: to the answers, and to the model's score.

        A guest is switched off for the score: its columns show the reference in all rows.

        Args:
            X: rows [N, F].
            y: [N]. It is the truth, in the model's labels for "accuracy".
            metric: "accuracy" (the share of rows in which the model's label is y), or a function of
                (y, the model's answers [N]) that returns one number.
            refitted: {"guest": model} or None. They are models from `as_model` that were trained
                without the guest's columns. They get the rows X without these columns.
            progress: as for a call.

        Returns:
            A `GuestWorth`: for the host and each guest the mean of |value| over the rows; the score
            with all columns, with each guest switched off, and of the refitted models.

        Raises:
            InputError, InputTypeError: an argument is not accepted; a model with several
                outputs; several reference rows; y of another length, or of another kind than the
                labels; a guest that is not there. Errors of a call are raised too.
        """
        model, parties, reference = self.model, self.parties, self.reference_
        checks.instance(refitted, "refitted", Mapping | None, 'a dict {"guest": model} or None')
        refits = dict(refitted or {})
        unknown = [name for name in refits if name not in parties.guests]
        if unknown:
            raise InputError(
                f"refitted: there is no guest {unknown[0]!r} in {list(parties.guests)}."
            )
        if self._reference_kind == "rows":
            raise InputError("worth needs one reference row, got several. Say 'median' or a row.")
        refits = {name: model_of(refit, f"refitted[{name!r}]") for name, refit in refits.items()}
        rows: Any = X if rows_of(X).is_frame else checks.as_array(X, "X")
        try:
            truth = np.asarray(y)
        except ValueError as error:
            raise InputTypeError(f"y must have one entry per row of X; {error}.") from error
        if truth.ndim != 1 or truth.shape != rows.shape[:1]:
            raise InputError(f"y must have shape {rows.shape[:1]}, that of X; got {truth.shape}.")
        score = _score_of(metric, truth)
        if model.predict(rows[:1]).ndim == 2:
            raise InputError("worth needs a model with one output; say as_model(..., output=).")
        # The model's scores first: what they refuse, they refuse before all coalitions are asked.
        whole = score(model, rows)
        blinded = [score(model, _off(rows, block, reference)) for block in parties.guests.values()]
        others = [
            score(refits[name], without(rows, block)) if name in refits else np.nan
            for name, block in parties.guests.items()
        ]
        values, h = self._explained(rows, progress).values, len(parties.host)
        each = np.concatenate([values[:, :h].sum(axis=1, keepdims=True), values[:, h:]], axis=1)
        size = np.abs(each)
        return GuestWorth(
            parties=(HOST, *parties.guests),
            mean_absolute=size.mean(axis=0),
            mean_value=each.mean(axis=0),
            standard_errors=_spread(size),
            metric=metric if isinstance(metric, str) else getattr(metric, "__name__", "score"),
            score=whole,
            score_without=np.array(blinded),
            score_refitted=np.array(others),
            instances=len(rows),
        )

    _repr_html_ = html.shown("model", "parties.host")

    def __repr__(self) -> str:
        guests = ", ".join(f"{k} ({len(v)} columns)" for k, v in self.parties.guests.items())
        return (
            f"FederatedExplainer({len(self.parties.host)} host columns; guests: {guests or 'none'};"
            f" reference: {self._reference_kind}; estimator: {self._estimator})"
        )

    def _both(self) -> tuple[Explanation, Explanation]:
        if self._last is None:
            raise InputError("interaction_ is of the instances last explained; explain some first.")
        X, united = self._last
        if callable(self._index):
            raise InputError(
                "interaction_ compares games of different players, and a callable index= is "
                "written for one of them. Say index='shapley' or 'banzhaf'."
            )
        if self._own is None:
            if not self.parties.guests:
                self._own = united  # every column is single already
                return united, united
            single = self._explainer(None, {})
            if self._estimator == "wls":
                self._refuse_large(single)
            self._own = single(X, progress=False)
        return united, self._own

    def _explainer(self, players: Any, idle: Mapping[int, str]) -> WithIdle:
        wls = self._estimator == "wls"
        by: Any = {"estimator": "exact", "end_weight": self._end_weight}
        by = by if wls else {"estimator": self._estimator}
        return WithIdle(idle, players=players, **by, **self._common)

    def _refuse_large(self, explainer: Explainer) -> None:
        P = explainer.players.count - len(self.parties.idle)
        if P > LARGEST_TABLE:
            raise EnumerationLimitError(
                f"estimator='wls' takes all 2^{P} coalitions of {P} players; at most "
                f"{LARGEST_TABLE} players are accepted. Say estimator='auto'."
            )

    def _named(self, result: Explanation) -> Explanation:
        """Says of the least squares that they are not exact."""
        if self._estimator != "wls":
            return result
        stats = dict(result.stats) | {"estimator": "wls"}
        stats.pop("efficiency_bound", None)  # of exact values; the regression's residual is larger
        provenance = dict(result.provenance) | {"estimator": "wls", "end_weight": self._end_weight}
        return replace(result, exact=False, stats=stats, provenance=provenance)


def with_idle(interactions: Interactions, idle: Mapping[int, str]) -> Interactions:
    """The interactions of all players, given those of the players who own columns.

    Who owns nothing is null: its sets are 0, and those of the others are what they are without it,
    by every index.
    """
    if not idle:
        return interactions
    names = list(interactions.feature_names)
    for place in sorted(idle):
        names.insert(place, idle[place])
    busy = [p for p in range(len(names)) if p not in idle]
    sets = all_of(len(names), interactions.order or 1)
    place = {S: m for m, S in enumerate(sets)}
    at = [place[tuple(busy[p] for p in S)] for S in interactions.sets]
    return _filled(interactions, len(sets), at, sets=sets, feature_names=tuple(names))


def _filled(old: Filled, count: int, places: Sequence[int], **more: Any) -> Filled:
    """The same with `count` entries for each instance: 0, but for those at these places."""

    def filled(values: np.ndarray | None) -> Any:
        if values is None:
            return None
        out = np.zeros((len(values), count, *values.shape[2:]))
        out[:, places] = values
        return out

    return replace(old, values=filled(old.values), std_errors=filled(old.std_errors), **more)


def _spread(size: np.ndarray) -> np.ndarray:
    """Standard errors of the means over rows; NaN for one row."""
    N = len(size)
    return size.std(axis=0, ddof=1) / np.sqrt(N) if N > 1 else np.full(size.shape[1], np.nan)


def _score_of(metric: Any, y: np.ndarray) -> Score:
    if isinstance(metric, str):
        checks.one_of(metric, "metric", ("accuracy",))
        if y.dtype.kind == "f":
            checks.finite(y, "y", False)
        return lambda model, rows: _accuracy(y, model.labels(rows))
    if not callable(metric):
        raise InputTypeError(f"metric must be 'accuracy' or callable(y, answers), got {metric!r}.")
    function: Callable[[Any, Any], Any] = metric

    def score(model: Model, rows: Any) -> float:
        number = np.asarray(function(y, model.predict(rows)))
        if number.ndim or number.dtype.kind not in "biuf":
            raise InputTypeError(f"metric must return one number, got {number!r}.")
        return float(number)

    return score


def _accuracy(y: np.ndarray, labels: np.ndarray) -> float:
    kinds = {"number" if a.dtype.kind in "biuf" else "text" for a in (y, np.asarray(labels))}
    if len(kinds) > 1:
        raise InputError(
            f"y holds {_some(y)}, the model's labels are {_some(labels)}. Give y as the model's "
            "labels."
        )
    return float(np.mean(labels == y))


def _some(values: Sequence[Any] | np.ndarray) -> str:
    return ", ".join(sorted(map(repr, set(np.asarray(values).tolist())))[:3])


def _off(X: Any, columns: tuple[int, ...], reference: Any) -> Any:
    """X with these columns at the reference."""
    if not columns:
        return X
    rows, row = rows_of(X), rows_of(reference)
    if row.is_frame and row.kind != rows.kind:
        reference = row.matrix()[0]
    return rows.with_row(columns, reference)
