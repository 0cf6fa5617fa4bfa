"""`QII`: quantitative input influence, with its four axes.

Letters: N individuals (1 for quantities of the data), D data rows, P players, K classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax._coalition_table import CoalitionTable
from xaijax._coalitions import player_place, set_of_players
from xaijax._errors import InputError, InputTypeError
from xaijax._exact_sums import remember
from xaijax._explanation import Explanation
from xaijax._public import public_class
from xaijax.games.game import Game
from xaijax.games.quantities import Interest
from xaijax.games.quantity import refuse_not_finite
from xaijax.methods import _qii_exact as exact
from xaijax.methods._qii_index import QiiIndex, qii_index
from xaijax.methods._qii_problem import Problem
from xaijax.methods._qii_proxies import Proxy, ranked
from xaijax.methods._qii_record import explanation
from xaijax.methods._qii_recount import QiiRecount
from xaijax.methods._qii_sampled import Drawn, refuse_stop, sampled_index, sampled_list


@public_class
class QII:
    """Influence of inputs on a quantity of interest: Datta, Sen and Zick 2016, section II to IV.

    The influence of a set S of players is iota(S) = d(Q(nothing replaced), Q(S replaced)), where
    the columns of S are copied together from one donor row. Bit 1 of a set = REPLACED (`Explainer`
    counts the players that are KEPT).

    Arguments:
        model: from `as_model`.
        data: the rows D that quantities are about; array, or a frame for a host model; or what
            `xaijax.privacy.subsample` drew of them, for a private release.
        players: as of `Explainer`: groups of columns.
        pool: donor rows; None: the data. `Baseline(row)`: one constant row ("how does A differ from
            B"). A function sampler(rng, n) -> n rows, for samples= only: draw d takes row d.
        data_weights [D], pool_weights: of the rows; None: equal (a pool that is the data has the
            weights of the data).
        quantity: "individual" (chance of the positive class), "actual" (chance that the class stays
            the same), their means over the data "rate" and "average", "group", "disparity" (between
            group and rest; absolute unless `signed`), "ratio" (group / rest), one of
            `xaijax.quantities`, or a score: f(answers [R, A], own answers [R, A]) -> [R].
        outcome: "label": 1 where the decided class is `positive`; "score": its column, cut to
            `bounds`; "proba": the vector of class probabilities, also of randomised classifiers.
        positive: a class label; None: the last of the classes, or of the labels seen on data.
            Without effect where no class is singled out ("actual", "average", outcome="proba").
        members: the group: bool [D], {column: value}, or a function of the data -> bool [D];
            decided by the rows as they are, also where the column itself is replaced.
        difference: "subtract", "l1", "l2", "linf", of class probabilities "tv", "kl" (p = real, q =
            intervened), "js"; or d(p [..., K], q [..., K]) -> [...]. floor: for "kl" and "js".
        samples: None: exact, or an error that names samples=. n: draws of (order, x, u), P + 1
            model rows each, with standard errors; x is fixed for individuals.
        scheme: "fresh": a donor of its own for every draw. "fixed-pool": the authors' scheme, about
            sqrt(n) orders with each row of a pool of about sqrt(n), drawn once; its errors count
            what the pool leaves, which stats tell apart.
        stop: "bernstein": go on until all values are within `epsilon` with chance 1 - `delta`
            (empirical Bernstein, a union bound over looks and values), n draws at most.
        seed: of the draws; orders depend on (seed, draw), an individual's donors on its row too.
        batch_size, max_memory, devices, tile: as of `Explainer`.

    Raises `InputError`, `InputTypeError` for arguments that are not accepted. The model is not
    called before the first question.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        players: Any = None,
        pool: Any = None,
        data_weights: Any = None,
        pool_weights: Any = None,
        quantity: str | Interest | Callable[..., Any] = "actual",
        outcome: str = "label",
        positive: Any = None,
        bounds: tuple[float, float] = (0, 1),
        members: Any = None,
        signed: bool = False,
        difference: str | Callable[..., Any] = "subtract",
        samples: int | None = None,
        scheme: str = "fresh",
        stop: str | None = None,
        seed: int = 0,
        epsilon: float = 0.01,
        delta: float = 0.05,
        floor: float | None = None,
        batch_size: int | str = "auto",
        max_memory: int | None = None,
        devices: Any = None,
        tile: int | None = None,
    ) -> None:
        self._problem = Problem(
            model,
            data,
            players=players,
            pool=pool,
            data_weights=data_weights,
            pool_weights=pool_weights,
            quantity=quantity,
            outcome=outcome,
            positive=positive,
            bounds=bounds,
            members=members,
            signed=signed,
            difference=difference,
            samples=samples,
            scheme=scheme,
            stop=stop,
            seed=seed,
            epsilon=epsilon,
            delta=delta,
            floor=floor,
            batch_size=batch_size,
            max_memory=max_memory,
            devices=devices,
            tile=tile,
        )

    @property
    def positive(self) -> Any:
        """The positive label; None where the quantity asks for none, or it is not known yet."""
        return self._problem.positive

    @property
    def player_names(self) -> tuple[str, ...]:
        """[P], in the order of the values."""
        return self._problem.players.names

    def __repr__(self) -> str:
        return self._problem.described()

    def unary(self, X: Any = None) -> Explanation:
        """iota({i}) for every player; values [N, P] (or [N, P, K] of "proba" vectors).

        X: individuals (default the data); None for quantities of the data. base_values are Q(all
        replaced), 0 for distances; stats["quantity"] is Q(nothing replaced).
        """
        game, rows, before, started = self._problem.begin(X)
        P = self._problem.players.count
        single = np.eye(P, dtype=bool)
        found = self._listed(game, np.concatenate([np.zeros((1, P), bool), single]))
        return self._done(game, found, "unary", None, rows, before, started)

    def influence(self, S: Any, X: Any = None, return_std: bool = False) -> Any:
        """iota(S) of a set of REPLACED players, float64 [N]; with return_std (values, errors).

        S: places and names of players, or a bool mask [P]. Standard errors are 0 where exact.
        """
        replaced = set_of_players(S, self._problem.players.names)
        return self._of_sets([np.zeros_like(replaced), replaced], [1.0, -1.0], X, return_std)

    def marginal(
        self, i: int | str, S: Any, X: Any = None, direct: bool = False, return_std: bool = False
    ) -> Any:
        """iota(S + i) - iota(S), float64 [N]; with return_std (values, errors).

        For "subtract" that is Q(S) - Q(S + i) (definition 3). direct: d(Q(S), Q(S + i)), another
        number for other differences. A player i in S is an InputError.
        """
        replaced = set_of_players(S, self._problem.players.names)
        place = player_place(i, self._problem.players.names, "i")
        if replaced[place]:
            raise InputError(f"i: player {self._problem.players.names[place]!r} is in S already.")
        if not isinstance(direct, bool):
            raise InputTypeError(f"direct must be True or False, got {direct!r}.")
        more = replaced.copy()
        more[place] = True
        if direct and self._problem.distance is not None:
            game, *_ = self._problem.begin(X, distances=False)
            self._problem.ready()
            Q = game.values(~np.stack([replaced, more]), distinct=True)
            d = self._problem.distance(Q[:, 0], Q[:, 1])
            who = f"difference={self._problem.difference!r}"
            remedy = "Say floor=, or another difference."
            refuse_not_finite(d[:, None, None], Q[:, 1:], lambda _: "S + i", who, remedy)
            return (d, np.zeros_like(d)) if return_std else d
        return self._of_sets([replaced, more], [1.0, -1.0], X, return_std)

    def explain(
        self,
        X: Any = None,
        index: Any = "shapley",
        threshold: float | None = None,
        absolute: bool = False,
    ) -> Explanation:
        """An index of the game v(S) = iota(S); values [N, P] (or [N, P, K] of "proba" vectors).

        index: "shapley", "banzhaf", "deegan-packel" (of v >= threshold; None for games of zeros and
        ones), `SizeLimited(k)`, or Pr[S] as an array [2^P] or a function of masks [2^P, P]:
        phi_i = sum over S of Pr[S] m_i(S), m_i(S) = 0 where i is in S, not renormalised.

        Base value plus Shapley values is Q(nothing replaced); for distances the Shapley values sum
        to d(Q(nothing), Q(all)). Raises what `Explainer` raises, naming samples= where the exact
        answer is too large.
        """
        read = qii_index(index, self._problem.players.count, threshold, absolute)
        game, rows, before, started = self._problem.begin(X)
        ready = self._problem.ready
        if self._problem.samples is None:
            found = exact.explained(game, read, self._problem.distance is None, ready)
        else:
            found = self._sampled(game, sampled_index(game, read, self._problem.plan, ready))
        return self._done(game, found, read.name, read, rows, before, started)

    def game(self, X: Any = None) -> CoalitionTable:
        """v(S) of all 2^P sets of replaced players, exactly: a `CoalitionTable` [N, 2^P]."""
        if self._problem.samples is not None:
            raise InputError(
                "samples= draws marginal influences, and game() asks all 2^P sets. Make the QII "
                "with samples=None, or say explain()."
            )
        game, *_ = self._problem.begin(X)
        if self._problem.distance is None and self._problem.outcome.kind == "proba":
            raise InputError(
                "game() of outcome='proba' has a vector for every set. Say difference='l1' (or "
                "another), outcome='score' for one class, or explain()."
            )
        table = exact.whole_table(game, self._problem.distance is None, self._problem.ready)
        return CoalitionTable(table[:, :, 0], self._problem.players.names)

    def proxies(self, protected: Any, index: Any = None) -> tuple[Proxy, ...]:
        """Inputs by their influence on the disparity, without the protected ones; largest first.

        A positive influence: replacing the input reduces the disparity between the group and the
        rest, so the input carries it. index: None (unary influences), or an index of `explain`.
        """
        quantity = self._problem.interest.name
        if quantity not in ("disparity", "ratio"):
            raise InputError(f"quantity={quantity!r}: proxies are found by quantity='disparity'.")
        left = ~set_of_players(protected, self._problem.players.names, "protected")
        found = self.unary() if index is None else self.explain(index=index)
        return ranked(found, left)

    def prior(self) -> np.ndarray:
        """Pr[S] of the data itself, float64 [2^P]: the share of rows whose ones are S.

        Every player must be one column of zeros and ones (QII paper, VIII-A); give it as index=.
        """
        return self._problem.prior()

    def _listed(self, game: Game, replaced: np.ndarray) -> exact.Influences:
        """v of the sets after the first, which replaces nothing; base and full with them."""
        subtract = self._problem.distance is None
        refuse_stop(game, self._problem.plan)
        self._problem.ready()
        base, full = exact.ends(game) if subtract else self._distance_ends(game)
        if self._problem.samples is None:
            v = exact.list_of(game, replaced[1:], subtract)
            return exact.Influences(v, base, full, exact.noise_errors(game, np.full(v.shape[1], 2)))
        count = len(replaced) - 1
        contrast = np.concatenate([np.ones((count, 1)), -np.eye(count)], axis=1)
        drawn = sampled_list(game, replaced, contrast, self._problem.plan)
        return exact.Influences(drawn.values, base, full, drawn.std_errors, stats=drawn.stats)

    def _sampled(self, game: Game, drawn: Drawn) -> exact.Influences:
        base, full = exact.ends(game)
        return exact.Influences(drawn.values, base, full, drawn.std_errors, stats=drawn.stats)

    def _distance_ends(self, game: Game) -> tuple[np.ndarray, np.ndarray]:
        zero = np.zeros((game.N if self._problem.groups is None else 1, 1))
        return zero, zero

    def _of_sets(self, sets: list[np.ndarray], contrast: Any, X: Any, return_std: Any) -> Any:
        """sum_l contrast[l] Q(sets[l]) for "subtract", and of the distances otherwise."""
        if not isinstance(return_std, bool):
            raise InputTypeError(f"return_std must be True or False, got {return_std!r}.")
        game, *_ = self._problem.begin(X)
        refuse_stop(game, self._problem.plan)
        self._problem.ready()
        replaced, factors = np.stack(sets), np.array(contrast)
        if self._problem.samples is not None:
            drawn = sampled_list(game, replaced, factors[None], self._problem.plan)
            value, error = drawn.values[:, 0], drawn.std_errors[:, 0]
        else:
            Q = game.values(~replaced, distinct=True)
            sign = 1.0 if self._problem.distance is None else -1.0  # distances grow as Q falls
            value = sign * np.tensordot(factors, Q, axes=(0, 1))
            noise = exact.noise_errors(game, np.array([factors @ factors]))
            error = np.zeros_like(value) if noise is None else noise[:, 0]
        if value.shape[1] == 1:
            value, error = value[:, 0], error[:, 0]
        return (value, error) if return_std else value

    def _done(
        self,
        game: Game,
        found: exact.Influences,
        kind: str,
        index: QiiIndex | None,
        rows: Any,
        before: Any,
        started: float,
    ) -> Explanation:
        seconds = time.perf_counter() - started
        data = None if rows is None else getattr(rows, "array", rows)
        own = rows is self._problem.data
        whose = "none" if rows is None else "data" if own else "given"
        made = explanation(self._problem, game, found, kind, index, data, before, seconds, whose)
        remember(made, QiiRecount(self._problem, rows, index))
        return made
