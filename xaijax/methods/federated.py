"""`FederatedExplainer`: Shapley values of a vertically split table, each guest as one player.

Letters: N instances, F columns, P players, m guests, K outputs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from xaijax._errors import EnumerationLimitError, InputError, InputTypeError
from xaijax._explanation import Explanation
from xaijax._index import Index
from xaijax._players import column_labels
from xaijax._public import public_class
from xaijax._worth import GuestWorth
from xaijax.estimators.exact import Estimate
from xaijax.estimators.least_squares import least_squares
from xaijax.games._refuse import LARGEST_TABLE
from xaijax.games.game import Game
from xaijax.games.replacement import Baseline, replacement_of
from xaijax.methods._guest_worth import guest_worth
from xaijax.methods._parties import Parties, copied, parties_of
from xaijax.methods._reference import reference_of
from xaijax.methods.explainer import Explainer

END_WEIGHT = 1e4  # the authors'


@public_class
class FederatedExplainer:
    """Values of the host's columns one by one, and of each guest's columns as one united player.

    Algorithm 2 of Wang (2019, "Interpret federated learning with Shapley values"), all parties in
    one process. The value of a coalition T of instance x is w(T) = link(f(x on the columns of T,
    the reference elsewhere)). This is the quotient game of the game on single columns: a guest's
    united value differs from the sum of its columns' own values where at least two of them interact
    with a column of the host or of another guest (`interaction_`).

    Arguments:
        model: from `as_model`.
        background: rows [B, F] (array or frame), of which the reference is made.
        guests: {"name": [columns]}, names or positions; at least one column stays the host's.
        reference: what a party's block shows when it is switched off. "median": of each column of
            the background (of a column that is not numeric, the most frequent value). "na":
            missing, for models with allow_nan=True. A row [F]. Rows [B, F]: w is then the mean over
            them, which departs from Algorithm 2.
        index: as of `Explainer`; "shapley" (the paper's formula, and what the authors computed) or
            "banzhaf" (Algorithm 1 read literally: the plain mean over all coalitions).
        estimator: as of `Explainer`, or "wls": the authors' weighted least squares over all 2^P
            coalitions, which is Shapley's value up to about 1 / end_weight.
        end_weight: "wls" only, the weight of the empty and the full coalition.
        weights: [B], of the reference rows.
        budget, link, seed, batch_size, max_memory, devices, tolerance, tile: as of `Explainer`.

    Attributes:
        reference_: the reference as rows: [F], or [B, F], or a frame.
        interaction_: after a call, see there.

    Raises `InputError`, `InputTypeError` for arguments that are not accepted,
    `EnumerationLimitError` for "wls" with more than 20 players. The model is not called before the
    first explanation.
    """

    def __init__(
        self,
        model: Any,
        background: Any,
        guests: Mapping[str, Any],
        reference: Any = "median",
        index: Index = "shapley",
        estimator: str = "auto",
        end_weight: float = END_WEIGHT,
        budget: int | None = None,
        link: Any = "identity",
        seed: int = 0,
        batch_size: int | str = "auto",
        max_memory: int | None = None,
        devices: Any = None,
        weights: Any = None,
        tolerance: float | None = None,
        tile: int | None = None,
    ) -> None:
        if not hasattr(model, "probe"):
            raise InputTypeError(
                f"model must come from xaijax.as_model, got {type(model).__name__}. Say "
                "xaijax.FederatedExplainer(xaijax.as_model(f), background, guests)."
            )
        self.model = model
        source, self._reference_kind = reference_of(reference, background, model.allow_nan)
        if weights is not None and self._reference_kind != "rows":
            raise InputError(
                f"weights are of several reference rows, but reference is one "
                f"({self._reference_kind}). Leave weights out, or give reference= rows."
            )
        self.parties = _parties(model, source, guests)
        self._end_weight = _end_weight(end_weight, estimator, index, model)
        if estimator == "wls" and (budget is not None or tolerance is not None):
            raise InputError(
                "estimator='wls' asks all coalitions; leave budget= and tolerance= out."
            )
        shown = source.as_rows(model.allow_nan) if isinstance(source, Baseline) else source
        if isinstance(shown, np.ndarray):  # the caller's rows may change
            shown = np.array(shown[0] if isinstance(source, Baseline) else shown)
        self.reference_ = shown
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
        }
        self._united = self._explainer(self.parties.players())
        self._last: tuple[Any, Explanation] | None = None  # a copy of the rows, and their result
        self._own: Explanation | None = None  # of the single columns of the same rows

    def __call__(self, X: Any, progress: bool | None = None) -> Explanation:
        """Explain the instances X [N, F]: values [N, P] or [N, P, K], guests last.

        `data` of the result holds the host's columns only, and no provenance tells more of a guest
        than its name and how many columns it has.

        Raises what a call of `Explainer` raises.
        """
        explanation = self._explained(X, progress)
        self._last, self._own = (copied(X), explanation), None
        return explanation

    def check(self, X: Any) -> None:
        """Raise InputError or InputTypeError for instances that a call would not accept."""
        self._united.check(X)

    def _explained(self, X: Any, progress: bool | None) -> Explanation:
        if self._estimator == "wls":
            self._refuse_large(self._united)
        found = self._named(self._united(X, progress))
        guests = {name: len(own) for name, own in self.parties.guests.items()}
        provenance = dict(found.provenance) | {
            "method": "federated",
            "guests": guests,
            "reference": self._reference_kind,
            "player_columns": self.parties.columns_of_host_data(),
        }
        data = None if found.data is None else self.parties.host_data(found.data)
        # It is of the reference row, which holds a guest's values and could be found by trying.
        stats = {name: value for name, value in found.stats.items() if name != "fingerprint"}
        return dataclasses.replace(found, data=data, stats=stats, provenance=provenance)

    @property
    def interaction_(self) -> np.ndarray:
        """United value less the sum of the guest's columns' own values; [N, m] or [N, m, K].

        Of the instances last explained by a call. The columns' own values are those of the game in
        which every column plays by itself, asked for now, with the same estimator. 0 where no
        interaction joins two columns of the guest with a column of another party. For one guest
        Shapley's interaction is - sum over sets R of columns of a_R h (k - 1) / ((h + 1) (h + k)),
        where a_R is R's Harsanyi dividend and R has h columns of the host and k of the guest.

        Raises InputError before the first call and for a callable index, which is written for the
        players of one of the two games, and what a call of `Explainer` raises.
        """
        united, single = self._both()
        return self.parties.united_less_single(united.values, single.values)

    @property
    def interaction_std_errors_(self) -> np.ndarray | None:
        """Bounds of the standard errors of `interaction_`; None where both games are exact.

        The sum of the errors of the values that it is made of, which holds however they correlate.
        """
        united, single = self._both()
        if united.std_errors is None and single.std_errors is None:
            return None
        known = [
            np.zeros(one.shape) if one.std_errors is None else one.std_errors
            for one in (united, single)
        ]
        return self.parties.united_less_single(known[0], -known[1])

    def worth(
        self,
        X: Any,
        y: Any,
        metric: Any = "accuracy",
        refitted: Mapping[str, Any] | None = None,
        progress: bool | None = None,
    ) -> GuestWorth:
        """What the guests' columns are worth: to the answers, and to the model's score.

        Args:
            X: rows [N, F]. y: [N], the truth.
            metric: "accuracy" (of the model's labels), or a callable of (y, model's answers [N]).
            refitted: {"guest": model trained without the guest's columns, from `as_model`}; its
                rows are X less these columns.
            progress: as of a call.

        Returns:
            For the host and for each guest the mean over rows of |value|; the model's score with
            all columns, and with each guest's at the reference, and of the models refitted.

        Raises InputError for several outputs or several reference rows, y of another length or of
        values that no label can be, and guests that are not there; and what a call raises.
        """
        several = self._reference_kind == "rows"
        off = self.parties, self.reference_
        return guest_worth(
            self.model, self._explained, off, X, y, metric, refitted, progress, several
        )

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
                "interaction_ compares two games of different numbers of players, and a callable "
                "index= is written for one of them. Say index='shapley' or 'banzhaf'."
            )
        if self._own is None:
            if not self.parties.guests:
                self._own = united  # every column is single already
                return united, united
            single = self._explainer(None)
            if self._estimator == "wls":
                self._refuse_large(single)
            self._own = single(X, progress=False)
        return united, self._own

    def _explainer(self, players: Any) -> Explainer:
        if self._estimator == "wls":
            return _LeastSquares(self._end_weight, players=players, **self._common)
        return Explainer(players=players, estimator=self._estimator, **self._common)

    def _refuse_large(self, explainer: Explainer) -> None:
        P = explainer.players.count
        if P > LARGEST_TABLE:
            raise EnumerationLimitError(
                f"estimator='wls' is a regression on all 2^{P} coalitions of {P} players; at most "
                f"{LARGEST_TABLE} players can be. Say estimator='auto'."
            )

    def _named(self, found: Explanation) -> Explanation:
        """Say of the least squares that they are not exact."""
        if self._estimator != "wls":
            return found
        stats = dict(found.stats) | {"estimator": "wls"}
        stats.pop("efficiency_bound", None)  # of exact values; the regression's residual is larger
        provenance = dict(found.provenance) | {"estimator": "wls", "end_weight": self._end_weight}
        return dataclasses.replace(found, exact=False, stats=stats, provenance=provenance)


class _LeastSquares(Explainer):
    """An `Explainer` that solves the authors' regression on the full table."""

    efficient = False  # a regression's residual is no rounding

    def __init__(self, end_weight: float, **arguments: Any) -> None:
        super().__init__(estimator="exact", **arguments)
        self._end_weight = end_weight

    def _enumerated(self, game: Game, rows: np.ndarray) -> Estimate:
        return least_squares(game, self.weights, rows, self._end_weight)


def _parties(model: Any, source: Any, guests: Any) -> Parties:
    table = replacement_of(model, source, None).table
    if len(table.shape) != 1:
        raise InputError(
            f"background has instances of shape {table.shape}; parties own columns of a table, so "
            "rows [B, F] are needed."
        )
    return parties_of(guests, table.feature_names or column_labels(table.shape))


def _end_weight(end_weight: Any, estimator: str, index: Any, model: Any) -> float:
    if isinstance(end_weight, bool) or not isinstance(end_weight, int | float | np.number):
        raise InputTypeError(f"end_weight must be a positive number, got {end_weight!r}.")
    if not 0 < float(end_weight) < math.inf:
        raise InputError(f"end_weight must be a positive number, got {end_weight!r}.")
    if estimator != "wls":
        if float(end_weight) != END_WEIGHT:
            raise InputError(
                f"end_weight={end_weight!r} is given, but estimator={estimator!r} has none. Say "
                "estimator='wls', or leave it out."
            )
        return float(end_weight)
    if index != "shapley":
        raise InputError(
            f"estimator='wls' is the authors' regression for index='shapley', got index={index!r}."
        )
    if not model.deterministic:
        raise InputError("estimator='wls' needs a model that is deterministic; say 'permutation'.")
    return float(end_weight)
