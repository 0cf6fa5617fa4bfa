"""The question that a `QII` object asks: its arguments as read, and games made of them.

Letters: N individuals (1 for quantities of the data), D data rows, P players.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError
from xaijax._frames import frame_kind
from xaijax._players import column_labels, players_from
from xaijax._subsample import Subsample
from xaijax.estimators.draws import ROWS_OF_CHUNK
from xaijax.games.difference import OF_DISTRIBUTIONS, as_outer, difference_of
from xaijax.games.evaluator import Evaluator
from xaijax.games.game import Game
from xaijax.games.quantities import Interest, interest_of, signed_gap
from xaijax.games.quantity import Quantity
from xaijax.games.replacement import intervention_of, table_of
from xaijax.methods._qii_groups import groups_of, members_of
from xaijax.methods._qii_outcome import outcome_of, positive_of
from xaijax.methods._qii_sample import (
    members_drawn,
    pool_facts,
    refuse_sample_weights,
    sample_facts,
    sample_of,
)
from xaijax.methods._qii_settings import binary_prior, plan_of, pool_rows


class Problem:
    """What is asked of whom: quantity, outcome, intervention, difference, plan of sampling."""

    def __init__(
        self,
        model: Any,
        data: Any,
        *,
        players: Any,
        pool: Any,
        data_weights: Any,
        pool_weights: Any,
        quantity: Any,
        outcome: Any,
        positive: Any,
        bounds: Any,
        members: Any,
        signed: Any,
        difference: Any,
        samples: Any,
        scheme: Any,
        stop: Any,
        seed: Any,
        epsilon: Any,
        delta: Any,
        floor: Any,
        **options: Any,
    ) -> None:
        """Arguments as of `QII`; options: of the `Evaluator`."""
        if not hasattr(model, "probe"):
            raise InputTypeError(
                f"model must come from xaijax.as_model, got {type(model).__name__}. Say "
                "xaijax.QII(xaijax.as_model(f), data)."
            )
        self.interest = interest_of(quantity)
        self.outcome = outcome_of(model, self.interest, outcome, positive, bounds)
        self.signed = _signed(signed, self.interest)
        self.difference, self.distance = difference_of(difference, floor)
        self._refuse_difference()
        self.plan = plan_of(samples, scheme, stop, seed, epsilon, delta, self.outcome.width)
        self.samples, self.scheme, self.stop, self.seed = samples, scheme, stop, self.plan.seed
        self._refuse_sampled_difference()
        self._model, self._given_positive = model, positive
        self.subsample = data if isinstance(data, Subsample) else None
        if self.subsample is not None:
            pool = None if pool is data else pool
            data = self.subsample.rows
        refuse_sample_weights(self.subsample, pool, data_weights, pool_weights)
        table = table_of(model, data, "data")
        self.data = table.read(data, "data", model.allow_nan, "the model")
        D = len(self.data)
        weights, given = _checks.row_weights(data_weights, D, "data_weights", "the data")
        if pool is None:
            pool_weights = data_weights if pool_weights is None else pool_weights
        donors, kind = pool_rows(pool, data, self.plan, samples)
        replacement = intervention_of(model, table, donors, pool_weights, kind)
        self._table = replacement.table
        labels = self._table.feature_names or tuple(column_labels(table.shape))
        self.players = players_from(players, self._table.feature_names, table.shape)
        asked = data if self.subsample is None else self.subsample.full
        self.full_mask = members_of(members, self.interest, asked, labels, len(asked))
        mask = members_drawn(self.full_mask, self.subsample, self.interest)
        groups = groups_of(self.interest, mask, weights)
        self.groups, self.mask, self.tile = groups, mask, options.get("tile")
        self.sample = None if self.subsample is None else sample_of(self.subsample, self.full_mask)
        largest = weights.max() if groups is None else np.max(groups, axis=1).max()
        self.facts: dict[str, Any] = {
            "data_rows": D,
            "members": None if mask is None else int(mask.sum()),
            "rest": None if mask is None else int(D - mask.sum()),
            **pool_facts(pool, data, replacement, table, self.data),
            **sample_facts(self.sample),
            "data_weights": "equal" if given is None else "given",
            "largest_data_weight": float(largest),
        }
        known = positive is not None or self.outcome.classes is not None
        self.facts["positive_given"] = known or not self.outcome.needs_positive
        listed = max(ROWS_OF_CHUNK, self.players.count + 3)
        self.evaluator = Evaluator(
            self.outcome.model, replacement, self.players, coalitions=listed, **options
        )
        self.positive: Any = None
        if self.outcome.classes is not None or not self.outcome.needs_positive:
            self.ready()

    def prior(self) -> np.ndarray:
        """Pr[S] of the data itself; see `QII.prior`."""
        weights = None if self.groups is None else self.groups.mean(axis=0)
        rows = self.data
        array = rows.to_numpy() if frame_kind(rows) else np.asarray(rows[:]).reshape(len(rows), -1)
        return binary_prior(array, self.players, weights)

    def is_prior(self, chance: np.ndarray | None) -> bool:
        """Whether these chances are those of the data."""
        if chance is None:
            return False
        try:
            return np.array_equal(chance, self.prior())
        except InputError:  # the data has no prior over sets
            return False

    def model_identity(self) -> str:
        """Of the model as it is given these rows."""
        return self._model.identity(self._table.shape, getattr(self._table, "dtype", None))

    def plain_rows(self, rows: Any) -> Any:
        """The rows as the model takes them, array or frame, all that was rounded being rounded."""
        table, codes = self._table.encode(rows)
        return table.decode(codes[:])

    @property
    def full_rows(self) -> Any:
        """The data, or all rows that a subsample was drawn from, as the model takes them."""
        if self.subsample is None:
            return self.plain_rows(self.data)
        full = self._table.read(self.subsample.full, "data", self._model.allow_nan, "the data")
        return self.plain_rows(full)

    @property
    def pool_rows(self) -> Any:
        """The donors of positive weight, as the model takes them."""
        replacement = self.evaluator.replacement
        return replacement.table.decode(replacement.codes)

    def described(self) -> str:
        """The text of the repr."""
        parts = [repr(self.interest.name), f"outcome={self.outcome.kind!r}"]
        if self.outcome.needs_positive:
            known = self.evaluator.score is not None
            last = "the last label seen on data"
            shown = repr(self.positive) if known else repr(self._given_positive or last)
            parts.append(f"positive={shown}")
        parts.append(f"difference={self.difference!r}")
        pool = self.evaluator.replacement
        parts.append(f"{len(self.data):,} data rows, {pool.rows_given:,} pool rows")
        parts.append("exact" if self.samples is None else f"samples={self.samples:,}")
        return f"QII({', '.join(parts)}, {self.players.count} players)"

    def ready(self) -> None:
        """Make the score, for which the positive label must be known."""
        if self.evaluator.score is None:
            if self.outcome.needs_positive:
                self.positive = positive_of(
                    self._model, self.outcome.classes, self._given_positive, self.data
                )
            elif self.outcome.kind == "score":
                classes = self.outcome.classes
                last = None if classes is None else classes[-1]
                self.positive = last if self._given_positive is None else self._given_positive
            self.evaluator.score = self.outcome.score_for(self.positive)

    def begin(self, X: Any, distances: bool = True) -> tuple[Game, Any, Any, float]:
        """(the game, the rows explained, the clock as it stands, the time); X as of the methods.

        The game can be asked after `ready`, which may call the model: refuse first.
        """
        started = time.perf_counter()
        rows = None
        if self.interest.of_data:
            if X is not None:
                raise InputError(
                    f"X has no place with quantity={self.interest.name!r}, one number for the "
                    "whole data. Leave it out, or say quantity='individual' or 'actual'."
                )
        elif X is None:
            rows = self.data
        else:
            self.evaluator.refuse_overflow(_checks.rows_given(X))
            rows = self._table.read(X, "X", self._model.allow_nan, "the data")
        self.evaluator.refuse_too_little_memory()
        quantity = self._quantity(distances)
        if not self._model.deterministic and (distances and self.distance is not None):
            raise InputError(
                f"difference={self.difference!r} of a random model's means is biased by its noise. "
                "Say difference='subtract' with deterministic=False."
            )
        game = Game(self.evaluator, self.data if rows is None else rows, quantity)
        return game, rows, self.evaluator.clock.copy(), started

    def _quantity(self, distances: bool) -> Quantity:
        two = self.interest.whom == "members and rest"
        linear = signed_gap() if two else np.ones(1)
        own = None if self.signed else self.interest.combine
        outer = as_outer(self.distance) if distances and self.distance is not None else None
        return Quantity(
            self.difference,
            argument="difference",
            measured=self.interest.name,
            outer=outer,
            reads_full=outer is not None,
            groups=self.groups,
            combine=None if self.groups is None else own if two and own is not None else linear,
            remedy="Say floor= (a small share for every class), or another difference.",
        )

    def _refuse_difference(self) -> None:
        if self.difference not in OF_DISTRIBUTIONS:
            return
        if self.outcome.kind != "proba" or self.interest.score is not None:
            raise InputError(
                f"difference={self.difference!r} compares vectors of class probabilities. Say "
                "outcome='proba', or difference='l1'."
            )
        if self.interest.whom == "members and rest":
            raise InputError(
                f"difference={self.difference!r} compares distributions, and quantity="
                f"{self.interest.name!r} is none. Say difference='subtract', 'l1', 'l2' or 'linf'."
            )

    def _refuse_sampled_difference(self) -> None:
        if self.samples is not None and self.distance is not None:
            raise InputError(
                f"difference={self.difference!r} of sampled means is biased, so samples= goes with "
                "difference='subtract'. Say samples=None."
            )


def _signed(signed: Any, interest: Interest) -> bool:
    if not isinstance(signed, bool):
        raise InputTypeError(f"signed must be True or False, got {signed!r}.")
    if signed and interest.name != "disparity":
        raise InputError(
            f"signed= goes with quantity='disparity', not with {interest.name!r}. Leave it out."
        )
    return signed
