"""`QII`: quantitative input influence, with its four axes.

Letters: N individuals (1 for quantities of the data), D data rows, P players, K classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._coalition_table import CoalitionTable
from xaijax._coalitions import player_place, set_of_players
from xaijax._errors import InputError
from xaijax._exact_sums import remember
from xaijax._explanation import Explanation
from xaijax._public import public_class
from xaijax.games.game import Game
from xaijax.games.quantities import Interest
from xaijax.methods import _qii_ask as ask
from xaijax.methods import _qii_exact as exact
from xaijax.methods._qii_index import QiiIndex, qii_index
from xaijax.methods._qii_problem import Problem
from xaijax.methods._qii_proxies import Proxy, ranked, refuse_no_gap
from xaijax.methods._qii_record import explanation
from xaijax.methods._qii_recount import QiiRecount
from xaijax.methods._qii_sampled import sampled_index


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
            weights of the data; a sampler takes none).
        quantity: "individual" (chance of the positive class), "actual" (chance that the class stays
            the same), their means over the data "rate" and "average", "group", "disparity" (between
            group and rest; absolute unless `signed`), "ratio" (group / rest), one of
            `xaijax.quantities`, or a score: f(answers [R, A], own answers [R, A]) -> [R].
        outcome: "label": 1 where the decided class is `positive`; "score": its column, cut to
            `bounds`, whichever column the model selects (one number per row is that of the second
            of two classes; for the first, 1 - p of a chance, -s of a decision); "proba": the
            vector of class probabilities, also of randomised classifiers: rows of sum 1. A vector
            does not "stay the same": "actual" and "average" are "individual" and "rate" of it.
        positive: a class label; None: the last of the classes, or of the labels seen on data. Of
            scores without classes the number of a column; None: the last, or the one selected.
            Without effect where no class is singled out ("actual", "average").
        bounds: (low, high) that scores are cut to; one's own must keep them, or an error says so.
        members: the group: bool [D], {column: value}, or a function of the data -> bool [D];
            decided by the rows as they are, also where the column itself is replaced. A pandas
            Series goes by its index.
        difference: "subtract", "l1", "l2", "linf", of class probabilities "tv", "kl" (p = real, q =
            intervened), "js"; or d(p [..., K], q [..., K]) -> [...]. floor: for "kl" and "js".
        samples: None: exact, or an error that names samples=. n: draws of (order, x, u), P + 1
            model rows each, with standard errors; x is fixed for individuals.
        scheme: "fresh": a donor of its own for every draw. "fixed-pool": the authors' scheme, about
            sqrt(n) orders with each row of a pool of about sqrt(n), drawn once (`unary`,
            `influence`, `marginal`: the pool alone); its errors count what the pool leaves, which
            stats tell apart.
        stop: "bernstein": go on until all values of an individual are within `epsilon` with chance
            1 - `delta` (empirical Bernstein, a union bound over looks and values, not over
            individuals), n draws at most. None: 0.01 and 0.05.
        seed: of the draws; orders depend on (seed, draw), an individual's donors on its row too,
            and all donors and data rows on the order in which pool and data stand.
        batch_size, max_memory, devices, tile: as of `Explainer`.

    Raises `InputError`, `InputTypeError` for arguments that are not accepted. The model is not
    called before the first question, which raises `ModelOutputError` for answers that are not
    finite, scores out of their bounds, chances that are no distribution, unknown labels.
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
        epsilon: float | None = None,
        delta: float | None = None,
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
        found = ask.singles(self._problem, game)
        return self._done(game, found, "unary", None, X, rows, before, started)

    def influence(self, S: Any, X: Any = None, return_std: bool = False) -> Any:
        """iota(S) of a set of REPLACED players, float64 [N]; with return_std (values, errors).

        S: places and names of players, or a bool mask [P]. Standard errors are 0 where exact, as
        of all players also with samples= (but for a sampler pool, whose end is its rows' mean).
        """
        replaced = set_of_players(S, self._problem.players.names)
        _checks.yes_or_no(return_std, "return_std")
        game, *_ = self._problem.begin(X)
        found = ask.change(self._problem, game, np.zeros_like(replaced), replaced)
        return ask.shown(*found, return_std)

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
        _checks.yes_or_no(direct, "direct")
        _checks.yes_or_no(return_std, "return_std")
        more = replaced.copy()
        more[place] = True
        direct = direct and self._problem.distance is not None
        game, *_ = self._problem.begin(X, distances=not direct)
        if direct:
            d = ask.direct(self._problem, game, replaced, more)
            return (d, np.zeros_like(d)) if return_std else d
        return ask.shown(*ask.change(self._problem, game, replaced, more), return_std)

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

        Base value plus exact Shapley values is Q(nothing replaced), stats["quantity"]; for
        distances the values sum to d(Q(nothing), Q(all)). Sampled, base and quantity are exact and
        the values are not, so that the sum holds within their errors. Raises what `Explainer`
        raises, saying what samples= can do where the exact answer is too large.
        """
        players, otherwise = self._problem.players.count, self._problem.otherwise
        read = qii_index(index, players, threshold, absolute, otherwise)
        game, rows, before, started = self._problem.begin(X)
        ready = self._problem.ready
        if self._problem.samples is None:
            found = exact.explained(game, read, self._problem.distance is None, ready)
        else:
            drawn = sampled_index(game, read, self._problem.plan, ready)
            ends = exact.ends(game)
            found = exact.Influences(drawn.values, *ends, drawn.std_errors, stats=drawn.stats)
        return self._done(game, found, read.name, read, X, rows, before, started)

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
        asked = self._problem
        table, rounding = exact.whole_table(game, asked.distance is None, asked.ready)
        return CoalitionTable(table[:, :, 0], asked.players.names, rounding)

    def proxies(self, protected: Any, index: Any = None) -> tuple[Proxy, ...]:
        """Inputs by how much of the gap between group and rest goes with them; largest first.

        Without the protected ones. Ordered by `reduction`, of the absolute gap |Q - c|, c = 0 for a
        disparity and 1 for a ratio: |Q - c| - |Q - influence - c|, above 0 where the gap is smaller
        with the input replaced. It is the influence itself but for signed=True and for a ratio, in
        which a group that is worse off has influences below 0. index: None (unary influences), or
        an index of `explain`.
        """
        asked = self._problem
        refuse_no_gap(asked.interest.name, asked.difference, asked.outcome.kind)
        left = ~set_of_players(protected, self._problem.players.names, "protected")
        found = self.unary() if index is None else self.explain(index=index)
        return ranked(found, left)

    def prior(self) -> np.ndarray:
        """Pr[S] of the data itself, float64 [2^P]: the share, by data_weights, of rows with ones S.

        Every player must be one column of zeros and ones (QII paper, VIII-A); give it as index=.
        """
        return self._problem.prior()

    def _done(
        self,
        game: Game,
        found: exact.Influences,
        kind: str,
        index: QiiIndex | None,
        X: Any,
        rows: Any,
        before: Any,
        started: float,
    ) -> Explanation:
        seconds = time.perf_counter() - started
        whose = self._problem.whose(X)
        made = explanation(self._problem, game, found, kind, index, rows, before, seconds, whose)
        remember(made, QiiRecount(self._problem, rows, index))
        return made
