"""The question of an `AnchorExplainer`: its arguments as read, and the games made of them.

Letters: N instances, B data rows, F columns, P players.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, MemoryPlanError
from xaijax.games.engine.evaluator import Evaluator
from xaijax.games.engine.plan import limits_of
from xaijax.games.measure.players_of_rows import players_of_rows
from xaijax.games.measure.replacement.baseline import Baseline
from xaijax.games.measure.replacement.rows import pool_of
from xaijax.games.measure.score import Agrees, Score, Within
from xaijax.games.rules.bins import Bins, bins_of
from xaijax.games.rules.game import BYTES_OF_DRAW, RuleAsker, RuleGame, draws_at_a_time
from xaijax.games.rules.players_space import PlayerSpace, space_of_players
from xaijax.games.rules.sampler import SampledGame, check_sampler
from xaijax.games.rules.space import SPACES, Perturbation
from xaijax.methods.anchors.settings import SearchSettings
from xaijax.players.players import PerInstancePlayers, Players, column_labels, players_from
from xaijax.results.rules import Rules
from xaijax.tables.rows import rows_of
from xaijax.tables.table import FloatTable


class AnchorProblem:
    """Model, data, bins, space and what counts as the same prediction."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        """Reads the arguments of `AnchorExplainer`."""
        args = SimpleNamespace(**arguments)
        model, data, weights = args.model, args.data, args.weights
        perturbation = args.perturbation
        if not model.deterministic:
            raise InputError(
                "model: rules need one answer per row, and it is declared deterministic=False. "
                "Explain a model that averages its answers."
            )
        self.seed = checks.whole_number(args.seed, "seed", least=0)
        self.tolerance = args.tolerance
        if self.tolerance is not None:
            at_least = "a number of at least 0"
            self.tolerance = checks.number(
                self.tolerance, "tolerance", at_least, lambda size: 0 <= size < math.inf
            )
        self.model, self.data = model, data
        self.explained_model, self.codes, self.score = _scored(model, self.tolerance)
        self.balanced = isinstance(weights, str)
        if self.balanced:
            checks.one_of(weights, "weights", ("balanced",))
            if self.tolerance is not None:
                raise InputError(
                    "weights='balanced' needs classes; with tolerance= there are none."
                )
        masked = isinstance(perturbation, Baseline)
        sampled = not masked and not isinstance(perturbation, str)
        if (sampled or masked) and weights is not None:
            raise InputError(
                "weights= are of the data rows, and a sampler draws its own rows. Leave them out."
            )
        replacement = pool_of(model, data, None if self.balanced else weights)
        table = replacement.table
        self.table, self.B = table, replacement.rows_given
        self.names = _names(args.feature_names, table, data)
        self.players = players_of_rows(
            args.players, table, self.names if len(table.shape) == 1 else None
        )
        if sampled and isinstance(self.players, PerInstancePlayers):
            raise InputError(
                "players= of each instance are unknown to a sampler. Give one numbering for all, "
                "or perturbation='row'."
            )
        single = isinstance(self.players, Players) and self.players.single
        singles = players_from(None, None, table.shape)
        self.sampler: Callable[..., Any] | PlayerSpace | None = None
        self.space: Perturbation | None = None
        self.bins: Bins | None = None
        self.rows: Any = None  # the data rows [B], if there are bins
        if single and len(table.shape) == 1 and not masked:
            self.rows = replacement.as_read
            if not sampled and (exact := self._exact(data, "data", "the model")) is not None:
                self.rows = exact[replacement.row]
            self.bins = bins_of(self.rows, self.names, args.categories, args.bins)
        flip = checks.share(args.flip_probability, "flip_probability", top=True)
        if sampled:
            self.sampler = check_sampler(perturbation)
        elif self.bins is None:
            if self.balanced:
                raise InputError("weights='balanced' is for rules of single columns; give numbers.")
            self.sampler = space_of_players(self.players, perturbation, flip, model.allow_nan)
        else:
            named = checks.one_of(perturbation, "perturbation", tuple(SPACES))
            count = checks.whole_number(args.table_rows, "table_rows")
            self.space = SPACES[named](replacement, self.bins, flip, count)
        if self.bins is None:  # rules are about players, which have their own names
            self.names = tuple(self.players.names)
        limits = limits_of("auto", args.max_memory, args.devices, args.tile, args.path)
        self.evaluator = Evaluator(self.explained_model, replacement, singles, limits)
        if self.space is not None:  # a draw: donor, weight, flags
            self._refuse(64 * self.space.table_rows, f"table_rows={self.space.table_rows:,}")
        self._asker: RuleAsker | None = None
        self._weighed: int | None = None  # the fit that balances the data

    @property
    def F(self) -> int:
        """The number of columns, or of players, that rules are about."""
        return self.players.count

    @property
    def space_name(self) -> str:
        """The space's name in messages and in the provenance."""
        if isinstance(self.sampler, PlayerSpace):
            return self.sampler.NAME
        return "sampler" if self.space is None else self.space.NAME

    def read(self, X: Any) -> Any:
        """The rows X, checked, with all digits that bins compare; raises the input errors."""
        rows = self.table.read(X, "X", self.model.allow_nan, "the data")
        rows = rows[:] if not isinstance(rows, np.ndarray) and hasattr(rows, "then") else rows
        if self.space is not None and (exact := self._exact(X, "X", "the data")) is not None:
            rows = exact
        self.players.refuse_others(len(rows_of(rows)))
        if self.bins is not None:
            self.bins.refuse_unseen(rows, self.bins.of(rows))
        return rows

    def _exact(self, X: Any, name: str, owner: str) -> np.ndarray | None:
        """The rows with all their digits; None if the model's rows have them all."""
        if not isinstance(self.table, FloatTable):
            return None
        return self.table.read_exactly(X, name, self.model.allow_nan, owner)

    def games(
        self, rows: Any, row_count: int, coverage_samples: int, beam: int, seed: int | None = None
    ) -> Any:
        """(first position, game) of as many instances as fit into memory together; row_count:
        model rows of an instance, approximately.
        """
        step, N = self.at_a_time(beam, coverage_samples), len(rows_of(rows))
        for first in range(0, N, step):
            part = rows_of(rows).part(first, first + step)
            of_all = -(-row_count * N // len(rows_of(part)))  # the path is that of all N together
            yield first, self.game(part, coverage_samples, seed, first, row_count=of_all)

    def game(
        self,
        rows: Any,
        coverage_samples: int,
        seed: int | None = None,
        first: int = 0,
        bins: Bins | None = None,
        row_count: int | None = None,
    ) -> Any:
        """The game of these rows.

        seed: for separate draws; first: the position of the rows in X; bins: in place of those of
        the explainer; row_count: model rows of an instance, by which a path is chosen; None: tiles.
        """
        coalitions = None if row_count is None else self.coalitions(row_count)
        if self.sampler is None:
            return RuleGame(self.asker(bins, seed), rows, first, coalitions)
        bins = self.bins if bins is None else bins
        what = self.evaluator, self.score, self.sampler, bins, self.players
        seed = self.seed if seed is None else seed
        return SampledGame(*what, seed, coverage_samples, rows, first, coalitions)

    def coalitions(self, row_count: int) -> Callable[[int], int]:
        """`GameRun.coalitions` if an instance needs `row_count` model rows."""
        donors = self.evaluator.engine.replacement.count
        return lambda P: -(-row_count // donors)

    def asker(self, bins: Bins | None = None, seed: int | None = None) -> RuleAsker:
        """The loop and arrays of the space; for other bins or another seed they are made anew."""
        assert self.space is not None
        self._weigh()
        if bins is None and seed is None and self._asker is not None:
            return self._asker
        space = self.space if bins is None else self.space.with_bins(bins)
        own_seed = self.seed if seed is None else seed
        asker = RuleAsker(self.evaluator, space, self.score, own_seed, self.rows)
        if bins is None and seed is None:
            self._asker = asker
        return asker

    def predictions(self, answers: np.ndarray) -> list[Any]:
        """The predictions for the model's answers float64 [N, A]."""
        if self.tolerance is not None:
            return answers[:, 0].tolist()
        return [self.codes.label(code) for code in answers[:, 0].tolist()]

    def refuse_answers(self, answers: np.ndarray) -> None:
        """Raises InputError if tolerance= is used with several outputs."""
        if self.tolerance is not None and answers.shape[1] != 1:
            raise InputError(
                f"tolerance={self.tolerance:g} compares one number a row, and the model returns "
                f"{answers.shape[1]}. Say output= in as_model."
            )

    def _weigh(self) -> None:
        """Applies weights="balanced": every predicted class of the data has the same total
        weight.
        """
        if not self.balanced or self.space is None:
            return
        self.evaluator.refresh()
        if self._weighed == self.evaluator.fits:
            return
        labels = self.model.labels(self.data)
        _, place, count = np.unique(labels, return_inverse=True, return_counts=True)
        weights = (1 / count)[place]
        self.space = self.space.weighted_by(weights / weights.sum())
        self._weighed, self._asker = self.evaluator.fits, None

    def refuse_draws(self, draws: int, name: str) -> None:
        """Raises MemoryPlanError if these draws of one instance do not fit; name: their
        argument.
        """
        # A question, a place, a number and a flag each; a row of the space names its columns too.
        of_rows = self.space is None or self.space.OF_ROWS
        each = 64 + 4 * self.F if of_rows else 4 + self.F // 4
        self._refuse(draws * each, name)

    def _refuse(self, held: int, name: str) -> None:
        if held > self.evaluator.engine.memory.whole:
            raise MemoryPlanError(
                f"{name} takes about {held:,} bytes an instance of {self.F:,} features, more than "
                f"max_memory={self.evaluator.engine.memory.whole:,}. Say fewer, or raise "
                "max_memory=."
            )

    def held(self, settings: SearchSettings, N: int) -> dict[str, int]:
        """The bytes of results that a search for the rules of N instances holds.

        These are the searches, and the draws of a table that are processed together.
        """
        beam, samples = settings.beam_size or 1, settings.coverage_samples
        together = min(N, self.at_a_time(beam, samples))
        results = together * self._bytes_of_search(beam, samples)
        draws = 0
        if self.space is not None and settings.finite:
            draws = together * self.F * beam * len(self.space.listed(settings.search)[1])
            draws = BYTES_OF_DRAW * min(draws, draws_at_a_time(self.evaluator.engine.memory))
        return {"results": results + draws}

    def _bytes_of_search(self, beam: int, samples: int) -> int:
        """Bytes that the search for one instance's rule holds."""
        B = self.evaluator.engine.replacement.count if self.sampler is None else samples
        A = beam * self.F
        each = A * (-(-B // 64) * 8 + 2 * self.F + 40) + beam * self.F * self.F
        if self.sampler is not None and self.bins is not None:
            each += 4 * samples * self.F
        return each

    def at_a_time(self, beam: int, samples: int) -> int:
        """Number of instances whose rules are searched together.

        It raises MemoryPlanError if one instance alone needs more than the whole memory.
        """
        each = self._bytes_of_search(beam, samples)
        wide = f"beam_size={beam:,}"
        sampled = self.sampler is not None and self.bins is not None
        self._refuse(each, f"coverage_samples={samples:,} with {wide}" if sampled else wide)
        engine = self.evaluator.engine
        return max(1, min(engine.rows_at_a_time, engine.memory.fits("results", each)))


def _scored(model: Any, tolerance: float | None) -> tuple[Any, Any, Score]:
    if tolerance is not None:
        if model.output == "label":
            raise InputError("tolerance= is for numbers; the model answers with class labels.")
        return model, None, Score(Within(tolerance), reads_own=True)
    alone = model.output == "value" and model.threshold is None and model.classes is None
    if alone and type(model.name) is str and "egressor" in model.name:
        raise InputError(
            "model: a regression has no classes. Say tolerance=, or threshold= in as_model."
        )
    decided, codes = model.decided()
    return decided, codes, Score(Agrees(), reads_own=True)


def _names(feature_names: Any, table: Any, data: Any) -> tuple[str, ...]:
    labels = table.feature_names or tuple(column_labels(table.shape))
    if feature_names is None:
        return tuple(labels)
    names = tuple(str(name) for name in checks.listed(feature_names, "feature_names"))
    checks.unique_names(names, "feature_names")
    if len(names) != len(labels):
        raise InputError(
            f"feature_names has {len(names)} names, but the data has {len(labels)} columns."
        )
    if rows_of(data).is_frame and names != tuple(labels):
        raise InputError("feature_names differ from the columns of the data frame. Leave them out.")
    return names


def refuse_empty(
    problem: AnchorProblem,
    game: RuleGame | SampledGame,
    rule: np.ndarray,
    bins: Bins,
    numbers: np.ndarray,
    rows: Any,
) -> None:
    """Raises InputError for the rule bool [1, F] of one instance; numbers int32 [1, F]: its
    bins.
    """
    if game.cover is None or problem.space is None:
        return
    needs = problem.space.with_bins(bins).needs_support()
    together = problem.space.OF_ROWS
    single = np.eye(rule.shape[1], dtype=bool)[None] & rule[:, None]
    lost = (game.cover.of(np.zeros(1, int), single)[0] == 0) & needs & rule[0]
    if together and game.cover.of(np.zeros(1, int), rule[:, None])[0, 0] == 0:
        lost = rule[0]
    if lost.any():
        text = " AND ".join(bins.said(rows, lost[None], numbers, numbers)[0][1])
        raise InputError(
            f"predicates: no data row satisfies {text}, so perturbation={problem.space_name!r} has "
            "nothing to draw. Widen the rule, or say perturbation='row'."
        )


def refuse_unsupported(problem: AnchorProblem, game: RuleGame | SampledGame, before: int) -> None:
    """Raises InputError for an instance if no data row satisfies any of its predicates."""
    lost = np.flatnonzero(~game.allowed().any(axis=1))
    if len(lost) and isinstance(game, RuleGame):
        n = int(lost[0])
        rows, bins = rows_of(game.rows).part(n, n + 1), game.bins[n : n + 1]
        first = np.arange(problem.F)[None] == 0
        text = game.read_bins.said(rows, first, bins, bins)[0][1][0]
        raise InputError(
            f"X row {before + n}: no data row satisfies any of its predicates, such as {text!r}. "
            "Use coarser bins, or perturbation='row'."
        )


def refuse_strangers(problem: AnchorProblem, rules: Rules, rows: Any) -> None:
    """Raises InputError if a row, as read, does not satisfy its rule."""
    if problem.bins is None:
        return
    instances = rows_of(rows)
    for n, rule in enumerate(rules):
        if not rule.applies(instances.part(n, n + 1))[0]:
            raise InputError(
                f"X row {n} does not satisfy its rule (IF {' AND '.join(rule.rule)}). Give the "
                "rows that explain had, in their order."
            )
