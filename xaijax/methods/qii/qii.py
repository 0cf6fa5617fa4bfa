"""`QII`: quantitative input influence, with its four axes.

Letters: N individuals (1 for quantities of the data), D data rows, P players, K classes, L sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from xaijax.core import checks, html
from xaijax.core.errors import InputError
from xaijax.core.typing import AnswerPath, AnyModel, ArrayLike, Devices, PlayerSpec, Progress, Rows
from xaijax.games.measure.quantity import refuse_not_finite
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.run import GameRun
from xaijax.methods.qii import exact, sampled
from xaijax.methods.qii.exact import qii_index, refuse_long_list, warn_long_list
from xaijax.methods.qii.problem import QIIProblem
from xaijax.methods.qii.quantities import Interest
from xaijax.methods.qii.record import done, fingerprint_of_run, kept_table
from xaijax.methods.record import plan_of, progress_bar
from xaijax.models import explainer_class
from xaijax.players.index import SizeLimited, named
from xaijax.players.sets import player_place, set_of_players
from xaijax.results.coalition_table import CoalitionTable
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint
from xaijax.results.plan import Plan
from xaijax.results.subsample import Subsample


@explainer_class
class QII:
    """Measures how much inputs influence a model's decisions: quantitative input influence (QII).

    A quantity of interest Q is one number made of the model's answers, such as the share of people
    who get the positive class. The influence of a set S of players is

        iota(S) = d(Q(nothing replaced), Q(S replaced)).

    A player is an input column or a group of columns. To replace S, the columns of all its players
    are copied together from one donor row; Q(S replaced) is a mean over the donor rows. A set lists
    the players that are REPLACED here; the sets of `Explainer` list those that are kept.

    Args:
        model: a `Model` from `as_model`, or what `as_model` accepts without options: a function of
            rows, a fitted estimator or its `predict_proba`, a module.
        data: rows [D, *F] that quantities of the data are about: an array or a frame. For a private
            release, it may be a sample that `xaijax.privacy.subsample` drew from them.
        players: None (each column is a player), or groups of columns as for `Explainer`.
        pool: donor rows [B, *F]. None: the data. `Baseline(row)`: one constant row ("how does
            person A differ from B"). A function sampler(rng, n) that returns n rows needs
            `samples`; draw d takes row d.
        data_weights: float [D] or None. Weights of the data rows. None: equal weights.
        pool_weights: float [B] or None. Weights of the donor rows. None: equal weights, or those of
            the data if `pool` is None. They cannot be given with a sampler or a `Baseline`.
        quantity: "individual": the probability that a person gets the positive class. "actual": the
            probability that a person's class stays the same. "rate" and "average": their means over
            the data. "group": the rate of the members. "disparity": the distance between the rates
            of the members and of the rest. "ratio": the first rate divided by the second. It may
            also be an object of `xaijax.quantities`, or a function score(answers [R, A], own
            [R, A]) -> [R] of one person, with `own` the answers to the original rows.
        outcome: how a model row is scored.
            "label": 1 if the decided class is `positive`, else 0. For "actual" and "average": 1 if
            the decided class is that of the original row, else 0.
            "score": the model's column for the class `positive`, clipped to `bounds`, even if
            `as_model` selected another column. A model with two classes may return one number per
            row, the score of the second class; the first's is then 1 - p for a probability p, -s
            for a decision value s. It does not go with "actual" (the default) and "average": say
            "individual" or "rate".
            "proba": the vector of class probabilities, each row of sum 1; also for models with
            deterministic=False. The answers are vectors, so "actual" and "average" are treated as
            "individual" and "rate".
        positive: a class label. None: the model's last class, or else the last in order of the
            labels seen on the data. For scores without classes: a column number; None: the last, or
            the one `as_model` selected. "actual" and "average" do not use it; "proba" refuses it.
        bounds: (low, high) that scores are clipped to, with an XaiWarning if that changes a score
            (but none in a private release). Scores of your own function are not clipped: one that
            lies outside raises ModelOutputError.
        members: the group: bool [D], {column: value}, or a function of the data that returns
            bool [D]. The original rows decide who is a member, also when the column that decides it
            is replaced. A pandas Series is matched by its index.
        signed: bool, for "disparity": the members' rate minus the rest's (True) or its absolute
            value.
        difference: d(p, q), p with nothing replaced, q with S replaced. "subtract": p - q. "l1",
            "l2", "linf". For class probabilities also "tv" (half of "l1"), "kl" (KL(p || q)) and
            "js" (Jensen-Shannon), both in nats, but not for a disparity or a ratio, which are not
            distributions. It may also be a function d(p [..., K], q [..., K]) -> [...].
        samples: None or int. None: exact values, or an error that says what `samples` can do. n:
            the number of draws, each of an order of the players, a data row (fixed for individuals)
            and a donor; values then have standard errors. A draw takes P + 1 model rows (2 in
            `influence` and `marginal`). Sampling needs difference="subtract". `explain` samples a
            disparity only with signed=True, and neither a ratio nor "deegan-packel". `unary`,
            `influence` and `marginal` sample an unsigned disparity and a ratio too, without `stop`.
        scheme: "fresh": each draw has its own donor. "fixed-pool": the scheme of the paper's
            authors. About sqrt(n) donors are drawn once, and each of about sqrt(n) orders is
            combined with all of them; `unary`, `influence` and `marginal` have no orders and use
            these donors alone. The errors include the error of drawing the donors;
            stats["pool_std_errors"] is that part.
        stop: None or "bernstein": draw until all values of an individual are within `epsilon` with
            probability 1 - `delta`, with at most n draws. This is the empirical Bernstein bound,
            with a union bound over checks and values, not over individuals. It needs
            scheme="fresh".
        seed: int, of the draws. Orders depend on (seed, draw); an individual's donors also depend
            on its row. All draws of donors and data rows depend on the order of the rows in pool
            and data.
        epsilon, delta: floats between 0 and 1 or None, for `stop`. None: 0.01 and 0.05.
        floor: float or None, for "kl" and "js". Smaller probabilities are raised to it, then all
            are divided by their sum.
        {batch_size}
        {memory}
        {path}

    Raises:
        InputError, InputTypeError: an argument is not accepted. The model is not called yet.
        ModelOutputError: raised by the methods for answers that are not finite, scores outside
            `bounds`, probabilities that are not a distribution, and unknown labels.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> data = np.array([[0, 0], [0, 1], [1, 1], [1, 1]])
        >>> names = ["gender", "lifts"]
        >>> hired = xj.as_model(lambda X: X[:, 1] > 0, output="label", feature_names=names)
        >>> qii = xj.QII(hired, data, quantity="disparity", members={"gender": 1})
        >>> qii.unary().values
        array([[0. , 0.5]])

        All of the group and half of the rest are hired. Lifting decides it, gender does not.

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE
        S&P 2016), sections II to IV.
    """

    def __init__(
        self,
        model: AnyModel,
        data: Rows | Subsample,
        players: PlayerSpec | None = None,
        pool: Rows | Baseline | Callable[[np.random.Generator, int], Rows] | None = None,
        data_weights: ArrayLike | None = None,
        pool_weights: ArrayLike | None = None,
        quantity: Literal["individual", "actual", "rate", "average", "group", "disparity", "ratio"]
        | Interest
        | Callable[..., Any] = "actual",
        outcome: Literal["label", "score", "proba"] = "label",
        positive: Any = None,
        bounds: tuple[float, float] = (0, 1),
        members: ArrayLike | Mapping[Any, Any] | Callable[[Any], Any] | None = None,
        signed: bool = False,
        difference: Literal["subtract", "l1", "l2", "linf", "tv", "kl", "js"]
        | Callable[..., Any] = "subtract",
        samples: int | None = None,
        scheme: Literal["fresh", "fixed-pool"] = "fresh",
        stop: Literal["bernstein"] | None = None,
        seed: int = 0,
        epsilon: float | None = None,
        delta: float | None = None,
        floor: float | None = None,
        batch_size: int | Literal["auto"] = "auto",
        max_memory: int | None = None,
        devices: Devices = None,
        tile: int | None = None,
        path: AnswerPath = "auto",
    ) -> None:
        options = {name: value for name, value in locals().items() if name != "self"}
        self._problem = QIIProblem(options)
        self.path = self._problem.limits.path

    @property
    def positive(self) -> Any:
        """The positive label; None if the quantity uses none, or before it is known."""
        return self._problem.positive

    @property
    def player_names(self) -> tuple[str, ...]:
        """Names of the players [P], in the order of the values."""
        return self._problem.players.names

    _repr_html_ = html.shown("_problem.model", "player_names")

    def __repr__(self) -> str:
        return self._problem.described()

    def unary(self, X: Rows | None = None, progress: Progress = None) -> Explanation:
        """Computes the influence iota({i}) of each single player.

        Args:
            X: individuals [N, *F]. None: the data. Quantities of the data take None only (N is 1).
            progress: None (the model rows asked so far in terminals and notebooks, once a run takes
                a while), True or False.

        Returns:
            An `Explanation` with values [N, P], or [N, P, K] for the differences of vectors of K
            probabilities. base_values are Q(all replaced), or 0 for distances (all but "subtract");
            stats["quantity"] is Q(nothing replaced).
        """
        with progress_bar(progress, None) as bar:
            run = self._problem.begin(X, sets=self._problem.players.count + 1, report=bar.update)
            return done(self._problem, run, singles(self._problem, run.game))

    def influence(
        self, S: Iterable[int | str] | np.ndarray, X: Rows | None = None, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Computes the influence iota(S) of a set of players.

        Args:
            S: the REPLACED players: places and names, or a bool mask [P].
            X: as in `unary`.
            return_std: also return standard errors.

        Returns:
            float64 [N], or [N, K] for differences of vectors; with return_std the tuple (values,
            errors). Errors of exact values are 0, except for the noise of a random model. The empty
            set and the set of all players are exact also with `samples`, unless `pool` is a
            sampler.
        """
        replaced = set_of_players(S, self._problem.players.names)
        checks.yes_or_no(return_std, "return_std")
        game, *_ = self._problem.begin(X, sets=2)
        nothing = np.zeros_like(replaced)
        return shown(*change(self._problem, game, nothing, replaced), return_std)

    def marginal(
        self,
        i: int | str,
        S: Iterable[int | str] | np.ndarray,
        X: Rows | None = None,
        direct: bool = False,
        return_std: bool = False,
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Computes what replacing player i adds to the influence of S: iota(S + i) - iota(S).

        With "subtract" this is Q(S) - Q(S + i) (definition 3 of the paper).

        Args:
            i: a player's position or name. InputError is raised if it is in S.
            S: the players that are REPLACED already, as for `influence`.
            X: as in `unary`.
            direct: True: d(Q(S), Q(S + i)), which is another number for distances.
            return_std: also return standard errors.

        Returns:
            The same as `influence`.
        """
        replaced = set_of_players(S, self._problem.players.names)
        place = player_place(i, self._problem.players.names, "i")
        if replaced[place]:
            raise InputError(f"i: player {self._problem.players.names[place]!r} is in S already.")
        checks.yes_or_no(direct, "direct")
        checks.yes_or_no(return_std, "return_std")
        more = replaced.copy()
        more[place] = True
        direct = direct and self._problem.distance is not None
        game, *_ = self._problem.begin(X, sets=2, distances=not direct)
        if direct:
            d = changed_directly(self._problem, game, replaced, more)
            return (d, np.zeros_like(d)) if return_std else d
        return shown(*change(self._problem, game, replaced, more), return_std)

    def explain(
        self,
        X: Rows | None = None,
        index: str | SizeLimited | ArrayLike | Callable[..., Any] = "shapley",
        threshold: float | None = None,
        absolute: bool = False,
        progress: Progress = None,
    ) -> Explanation:
        """Computes an index of the game v(S) = iota(S): one number for each player.

        Args:
            X: as in `unary`.
            index: "shapley", "banzhaf", "deegan-packel", `SizeLimited(k)` (at most k replaced
                players), or probabilities Pr[S] of sets, an array [2^P] or a function of masks
                bool [2^P, P]. With Pr[S] player i gets the sum over all S without i of
                Pr[S] (v(S + i) - v(S)); the sum is not divided by the total of their Pr[S].
            threshold: float or None, for "deegan-packel": a set wins if v(S) >= threshold. None is
                for games of zeros and ones.
            absolute: for "deegan-packel": a set wins if |v(S)| >= threshold.
            progress: as in `unary`.

        Returns:
            An `Explanation` as for `unary`. The base value plus exact Shapley values is
            stats["quantity"], Q(nothing replaced); for distances they sum to d(Q(nothing replaced),
            Q(all replaced)). Sampled values satisfy this only within their errors.

        Raises:
            EnumerationLimitError, MemoryPlanError: the exact answer is too large; the message says
                what `samples` can do. InputError, InputTypeError: as for `Explainer`.
        """
        players, otherwise = self._problem.players.count, self._problem.otherwise
        read = qii_index(index, players, threshold, absolute, otherwise)
        with progress_bar(progress, None) as bar:
            run, ready = self._problem.begin(X, report=bar.update), self._problem.ready
            game = run.game
            if self._problem.samples is None:
                result = exact.explained(game, read, self._problem.distance is None, ready)
            else:
                drawn = sampled.sampled_index(game, read, self._problem.plan, ready)
                both = exact.empty_and_full(game)
                result = exact.Influences(drawn.values, *both, drawn.std_errors, stats=drawn.stats)
            return done(self._problem, run, result, read)

    def plan(
        self,
        X: Rows | None = None,
        index: str | SizeLimited | ArrayLike | Callable[..., Any] = "shapley",
    ) -> Plan:
        """Computes the cost of `explain(X, index)` before it is run.

        Args:
            X, index: as for `explain`.

        Returns:
            A `Plan`; if values are drawn, its figures are upper limits. Only the model's probe is
            run.

        Raises:
            The errors that `explain` raises before it runs the model.
        """
        problem = self._problem
        read = qii_index(index, problem.players.count, None, False, problem.otherwise)
        game, *_ = problem.begin(X, evaluator=problem.planner())
        if problem.samples is None:
            exact.explained_cost(game, read)
        else:
            sampled.sampled_cost(game, read, problem.plan)
        return plan_of(game, "exact" if problem.samples is None else "sampled")

    def fingerprint(
        self,
        X: Rows | None = None,
        index: str | SizeLimited | ArrayLike | Callable[..., Any] = "shapley",
        threshold: float | None = None,
        absolute: bool = False,
    ) -> Fingerprint:
        """Identifies the question of `explain(X, index, threshold, absolute)` before it is run.

        Args:
            X, index, threshold, absolute: as for `explain`.

        Returns:
            A `Fingerprint`, equal to that of the explanation. Only the model's probe is run.

        Raises:
            The errors that `explain` raises before it runs the model.
        """
        problem, otherwise = self._problem, self._problem.otherwise
        read = qii_index(index, problem.players.count, threshold, absolute, otherwise)
        game, rows, *_ = problem.begin(X, evaluator=problem.planner())
        return fingerprint_of_run(problem, game, read, rows)

    def game(self, X: Rows | None = None) -> CoalitionTable:
        """Computes the exact influence v(S) of each of the 2^P sets of replaced players.

        Args:
            X: as in `unary`.

        Returns:
            A `CoalitionTable` with values [N, 2^P], whose interactions keep X.

        Raises:
            InputError: `samples`, deterministic=False or vectors are used. EnumerationLimitError,
                MemoryPlanError: the table is too large.
        """
        if self._problem.samples is not None:
            raise InputError(
                "samples= draws marginal influences. Say samples=None for game(), or explain()."
            )
        game, rows, *_ = self._problem.begin(X)
        if self._problem.distance is None and self._problem.outcome.kind == "proba":
            raise InputError(
                "game() of outcome='proba' has a vector for every set. Say difference='l1', "
                "outcome='score' for one class, or explain()."
            )
        return kept_table(self._problem, game, rows, X)

    def proxies(
        self,
        protected: Iterable[int | str] | np.ndarray,
        index: str | SizeLimited | ArrayLike | Callable[..., Any] | None = None,
    ) -> tuple[Proxy, ...]:
        """Ranks players by how much of the gap between group and rest goes when they are replaced.

        The gap is |Q - c|, with c = 0 for a disparity and c = 1 for a ratio. The reduction of a
        player is |Q - c| - |Q - influence - c|, above 0 if the gap is smaller without the player.
        For an unsigned disparity the influence is reported as the reduction. With an index or with
        sampling it may be larger than the gap, and then it is not the amount by which the gap
        shrinks. With signed=True and for a ratio, an input that causes the gap has an influence
        below 0 if the group is worse off. Deegan-Packel shares are ordered as they are.

        Args:
            protected: players that are left out, as S of `influence`.
            index: None: unary influences; or an index of `explain`.

        Returns:
            A tuple of (name, influence, std_error, reduction), the largest reduction first.

        Raises:
            InputError: the quantity is neither "disparity" nor "ratio", or there is a distance or
                vectors.
        """
        problem = self._problem
        refuse_no_gap(problem.interest.name, problem.difference, problem.outcome.kind)
        left = ~set_of_players(protected, problem.players.names, "protected")
        return ranked(self.unary() if index is None else self.explain(index=index), left)

    def prior(self) -> np.ndarray:
        """Computes Pr[S] of binary data: the weighted share of the rows whose ones are exactly S.

        Pass it as index= to `explain` (QII paper, VIII-A).

        Returns:
            float64 [2^P].

        Raises:
            InputError: there are more than 20 players, or a player is not one column of zeros and
                ones.
        """
        return self._problem.prior()


def singles(problem: QIIProblem, game: GameRun) -> exact.Influences:
    """iota({i}) of every player, with Q(all replaced) and Q(nothing replaced)."""
    P, subtract = game.P, problem.distance is None
    replaced = np.concatenate([np.zeros((1, P), bool), np.eye(P, dtype=bool)])
    _refuse_long(problem, game, replaced)
    problem.ready()
    if problem.samples is None:
        warn_long_list(game, replaced)
    games = game.N if problem.groups is None else 1
    base, full = exact.empty_and_full(game) if subtract else np.zeros((2, games, 1))
    if problem.samples is None:
        v = exact.list_of(game, replaced[1:], subtract)
        return exact.Influences(v, base, full, exact.noise_errors(game, np.full(v.shape[1], 2)))
    contrast = np.concatenate([np.ones((P, 1)), -np.eye(P)], axis=1)
    drawn = sampled.sampled_list(game, replaced, contrast, problem.plan)
    return exact.Influences(drawn.values, base, full, drawn.std_errors, stats=drawn.stats)


def change(
    problem: QIIProblem, game: GameRun, before: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(iota(after) - iota(before), its standard error) of sets replaced bool [P]; [N, K] each."""
    replaced, factors = np.stack([before, after]), np.array([1.0, -1.0])
    _refuse_long(problem, game, replaced)
    problem.ready()
    if problem.samples is None:
        warn_long_list(game, replaced)
    if problem.samples is not None and not _empty_or_full(problem, replaced):
        drawn = sampled.sampled_list(game, replaced, factors[None], problem.plan)
        return drawn.values[:, 0], drawn.std_errors[:, 0]
    Q = exact.values_of(game, replaced)
    sign = 1.0 if problem.distance is None else -1.0  # distances grow as Q falls
    value = sign * np.tensordot(factors, Q, axes=(0, 1))
    noise = exact.noise_errors(game, np.array([factors @ factors]))
    return value, np.zeros_like(value) if noise is None else noise[:, 0]


def _refuse_long(problem: QIIProblem, game: GameRun, replaced: np.ndarray) -> None:
    sampled.refuse_stop(game, problem.plan)
    if problem.samples is None:
        refuse_long_list(game, replaced)
    elif not _empty_or_full(problem, replaced):
        sampled.refuse_long_draws(game, len(replaced), sampled.of_a_list(game, problem.plan))


def _empty_or_full(problem: QIIProblem, replaced: np.ndarray) -> bool:
    """Whether each set is empty or full; these are never sampled, unless the pool is a sampler."""
    sampler = problem.evaluator.engine.replacement.kind == "sampler"
    full = replaced.all(axis=1) if not sampler else np.zeros(len(replaced), bool)
    return bool((full | ~replaced.any(axis=1)).all())


def changed_directly(
    problem: QIIProblem, game: GameRun, before: np.ndarray, after: np.ndarray
) -> np.ndarray:
    """d(Q(before), Q(after)), [N]; the game measures Q itself."""
    assert problem.distance is not None
    replaced = np.stack([before, after])
    refuse_long_list(game, replaced)
    problem.ready()
    warn_long_list(game, replaced)
    Q = exact.values_of(game, replaced)
    d = problem.distance(Q[:, 0], Q[:, 1])
    who = f"difference={problem.difference!r}"
    remedy = "Say floor=, or another difference."
    refuse_not_finite(d[:, None, None], Q[:, 1:], lambda _: "S + i", who, remedy)
    return d


def shown(value: np.ndarray, error: np.ndarray, return_std: bool) -> Any:
    """The values, [N] if there is one score; with the errors if wanted."""
    if value.shape[1] == 1:
        value, error = value[:, 0], error[:, 0]
    return (value, error) if return_std else value


# The value of a quantity if both groups fare alike.
ALIKE = {"disparity": 0.0, "ratio": 1.0}


class Proxy(NamedTuple):
    """One input and its influence on the disparity."""

    name: str
    influence: float  # Q(nothing replaced) - Q(replaced), or the index's share of it
    std_error: float | None  # of the influence; None: exact
    reduction: float  # how much smaller the gap is without that influence


def refuse_no_gap(quantity: str, difference: str, outcome: str) -> None:
    """Raises InputError for what does not say whether a gap shrinks."""
    if quantity not in ALIKE:
        raise InputError(f"quantity={quantity!r}: proxies are found by quantity='disparity'.")
    if outcome == "proba":
        raise InputError(
            "outcome='proba' has one gap for each class, so proxies have no single order. Say "
            "outcome='score' for the positive class, or outcome='label'."
        )
    if difference != "subtract":
        raise InputError(
            f"difference={difference!r} is a distance. Say difference='subtract' for proxies."
        )


def ranked(explanation: Explanation, left: np.ndarray) -> tuple[Proxy, ...]:
    """The players left [P] of a disparity's influences [1, P], the largest reduction first.

    The reduction of the absolute gap g = |Q - c|, c = 0 for a disparity and 1 for a ratio, is |Q -
    c| - |Q - influence - c|. For an absolute disparity the influence is reported as the reduction:
    with an index or with sampling it may be larger than the gap, and then it is not the amount by
    which the gap shrinks. A signed one below 0, and a ratio below 1, are reduced by influences
    below 0. Deegan-Packel's shares are not amounts: they are ordered as they are.
    """
    facts = explanation.provenance
    values = explanation.values[0]
    errors = explanation.std_errors
    reduction = values
    if not named(explanation.kind).simple and (facts["signed"] or facts["quantity"] == "ratio"):
        gap = float(explanation.stats["quantity"][0]) - ALIKE[facts["quantity"]]
        reduction = abs(gap) - np.abs(gap - values)
    order = [i for i in np.argsort(-reduction, kind="stable") if left[i]]
    return tuple(
        Proxy(
            explanation.feature_names[i],
            float(values[i]),
            None if errors is None else float(errors[0, i]),
            float(reduction[i]),
        )
        for i in order
    )
