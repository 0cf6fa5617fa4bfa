"""The searches, round by round for all instances that are not done, and the `Rules` they find.

Letters: N instances, n of them still searching, F columns, A candidates, D listed draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from xaijax.core.errors import EnumerationLimitError
from xaijax.core.typing import Progress
from xaijax.methods.anchors.problem import AnchorProblem, refuse_unsupported
from xaijax.methods.anchors.settings import SearchSettings, asked_of_search, warn_long_search
from xaijax.methods.anchors.widening import widen
from xaijax.methods.record import VERSIONS, cost, path_of, progress_bar
from xaijax.results.rules import AS_IT_IS, Rule, Rules
from xaijax.tables.rows import rows_of
from xaijax_kernels.games.sampling import HELD_OUT, words
from xaijax_kernels.rules.bandits import KlLucb, Rejects, Validation, lower
from xaijax_kernels.rules.beam import DONE, BeamSearch, ExactBeam, extend
from xaijax_kernels.rules.best_first import BestFirst

FIRST = 20  # draws that a candidate gets before it is compared
MOST_WAITING = 1 << 16  # rules of one instance that wait in the search for the optimum
OWN_VALUES = "tested at the instance's own values"

Report = Callable[[int], Any]  # reports how many more instances are done


def bounds_of(
    precision: np.ndarray, delta: float, draws: float | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(lower bound at delta, standard error) of precisions on this number of draws."""
    floor = lower(precision, np.log(1 / delta) / draws)
    return floor, np.sqrt(precision * (1 - precision) / draws)


@dataclass
class SearchResult:
    """The results of a search; every array begins with the axis N."""

    rules: np.ndarray  # bool [N, F]
    precision: np.ndarray  # float64 [N]
    lower: np.ndarray  # float64 [N]; NaN: no bound
    error: np.ndarray  # float64 [N], standard error of precision; NaN: exact
    cover: np.ndarray  # float64 [N]
    accepted: np.ndarray  # bool [N]
    samples: np.ndarray  # int64 [N]
    rounds: int = 0
    widened: int = 0  # rules that were widened

    @classmethod
    def empty(cls, N: int, F: int) -> SearchResult:
        """Returns a result without rules, for N instances of F columns."""
        lost = np.full(N, np.nan)
        zero = np.zeros(N, np.int64)
        held = np.zeros(N, bool)
        return cls(np.zeros((N, F), bool), lost, lost.copy(), lost.copy(), lost.copy(), held, zero)


def search(
    game: Any, settings: SearchSettings, seed: int, report: Report = lambda done: None
) -> SearchResult:
    """The rules of all instances of the game."""
    searched = (lambda done: None) if settings.widen else report
    if settings.finite:
        result = by_lists(game, settings, seed, searched)
    else:  # widening may err too, with half of delta
        delta = settings.delta / 2 if settings.widen else settings.delta
        result = by_draws(game, bandit(game, replace(settings, delta=delta)), searched)
    if settings.widen:
        widen(game, result, settings, report)
    return result


def cover_of(game: Any) -> Any:
    """Coverage of rules; if the space has none, fewer predicates count as more coverage."""
    if game.cover is None:
        return lambda rows, rules: 1.0 / (1.0 + rules.sum(axis=2))
    if getattr(game, "space", None) is None or not game.space.OF_ROWS:
        return game.cover.of

    def supported(rows: np.ndarray, rules: np.ndarray) -> np.ndarray:
        # Below any rule's coverage: such a rule is never a candidate, since it has no rows to draw.
        cover = game.cover.of(rows, rules)
        return np.where(cover > 0, cover, -1.0)

    return supported


def bandit(game: Any, settings: SearchSettings) -> BeamSearch:
    """The components of the chapter's search."""
    width = settings.beam_size
    assert width is not None
    batch = settings.batch_size
    if settings.search == "sar":
        identify: Any = Rejects(batch)
    else:
        identify = KlLucb(settings.epsilon, settings.delta, batch, min(batch, FIRST))
    return BeamSearch(
        propose=extend,
        cover=cover_of(game),
        identify=identify,
        validate=Validation(settings.threshold, settings.stop_epsilon, batch),
        width=width,
        levels=settings.max_size,
        delta=settings.delta,
    )


def by_draws(game: Any, beam: BeamSearch, report: Report = lambda done: None) -> SearchResult:
    """Makes the draws that the search needs, until every instance is done."""
    result = SearchResult.empty(game.N, game.F)
    state = beam.init(np.arange(game.N), game.allowed())
    while True:
        wanted = beam.step(state)
        done = state.phase == DONE
        if done.any():
            _write(result, beam, state.take(done))
            report(int(done.sum()))
            # Finished instances are removed; the others get new positions.
            place = np.cumsum(~done) - 1
            state = state.take(~done)
            wanted = replace(wanted, place=place[wanted.place])
        if not len(state.row):
            return result
        who = state.row[wanted.place]
        beam.add(state, wanted, game.hits(who, wanted.rules, wanted.first, wanted.draws))
        result.rounds += 1


def _write(result: SearchResult, beam: BeamSearch, state: Any) -> None:
    n, draws = state.row, np.maximum(state.best_draws, 1)
    result.rules[n] = state.best
    p = state.best_hits / draws
    rate = beam.rate(state.best.sum(axis=1), state.best.shape[1])
    result.precision[n], result.lower[n] = p, lower(p, rate / draws)
    result.error[n] = np.sqrt(p * (1 - p) / draws)
    result.cover[n], result.accepted[n] = state.best_cover, state.accepted
    result.samples[n] = state.spent


def by_lists(game: Any, settings: SearchSettings, seed: int, report: Report) -> SearchResult:
    """Searches by known precisions; with `confirm` on a share of the data, then tests on the
    rest.
    """
    kind, space = settings.search, game.space
    D = len(space.listed(kind)[1])
    shares = np.ones((D, 1), bool)
    if settings.confirm is not None:
        held = held_out(space.B, settings.confirm, seed)
        shares = space.shares(kind, np.stack([~held, held], axis=1))
    result = SearchResult.empty(game.N, game.F)

    def precision(who: np.ndarray, rules: np.ndarray, share: int) -> tuple[np.ndarray, np.ndarray]:
        result.rounds += 1
        result.samples[:] += np.bincount(who, minlength=game.N) * np.count_nonzero(shares[:, share])
        means, sizes = game.precisions(who, rules, kind, shares[:, share, None])
        return means[:, 0], sizes[:, 0]

    ranked = _ranked(game, settings, precision, report)
    rules, cover, precisions, lead, lead_cover, lead_own = ranked
    if settings.confirm is not None:
        _confirm(result, ranked, settings, precision)
        return result
    holds = cover[:, 0] >= 0
    result.accepted = holds
    result.rules = np.where(holds[:, None], rules[:, 0], lead)
    result.precision = np.where(holds, precisions[:, 0], lead_own)
    result.cover = np.where(holds, cover[:, 0], lead_cover)
    if kind == "table":
        result.lower, result.error = bounds_of(result.precision, settings.delta, D)
    return result


Ranked = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _ranked(game: Any, settings: SearchSettings, precision: Any, report: Report) -> Ranked:
    """The accepted rules [N, T], the best first, and the most precise of all rules.

    With a confirmation T is the width of the beam, else 1. Without a beam it is the optimum.
    """
    N, F, width = game.N, game.F, settings.beam_size
    limits = cover_of(game), settings.reaching
    if width is None:
        T, kind = 1, "best"
        exact: Any = BestFirst(*limits, settings.max_size, F)
    else:
        T, kind = 1 if settings.confirm is None else width, "found"
        exact = ExactBeam(extend, *limits, width, settings.max_size, T)
    names = kind, f"{kind}_cover", f"{kind}_precision", "lead", "lead_cover", "lead_precision"
    state = exact.init(np.arange(N), game.allowed())
    accepted = np.zeros((N, T, F), bool), *np.full((2, N, T), -1.0)
    ranked: Any = (*accepted, np.zeros((N, F), bool), np.zeros(N), np.zeros(N))
    while len(state.row):
        rules = state.asked_rules if width is None else state.rules
        valid = state.asked_cover >= 0 if width is None else state.valid
        n, a = np.nonzero(valid)
        values = np.zeros(valid.shape)
        values[n, a] = precision(state.row[n], rules[n, a], 0)[0]
        exact.step(state, values)
        if width is None and state.waits.shape[1] > MOST_WAITING:
            raise EnumerationLimitError(
                f"beam_size=None: more than {MOST_WAITING:,} rules of one instance wait to be "
                f"looked at, of {F} columns. Say max_size=, a beam_size, or coarser bins."
            )
        over = state.take(state.done)
        for out, name in zip(ranked, names, strict=True):
            out[over.row] = getattr(over, name).reshape(-1, *out.shape[1:])
        report(len(over.row))
        state = state.take(~state.done)
    return ranked


def _confirm(
    result: SearchResult, ranked: Ranked, settings: SearchSettings, precision: Any
) -> None:
    """Tests the rules that held on the held-out rows; delta is split over the tested rules."""
    rules, cover, _, lead, lead_cover, _ = ranked
    tried = cover >= 0
    none = ~tried.any(axis=1)
    rules, cover = rules.copy(), cover.copy()
    rules[none, 0], cover[none, 0] = lead[none], lead_cover[none]
    tested = tried | (none[:, None] & (np.arange(cover.shape[1]) == 0))
    n, t = np.nonzero(tested)
    precisions, floor = np.zeros(cover.shape), np.zeros(cover.shape)
    means, sizes = precision(n, rules[n, t], 1)
    precisions[n, t] = means
    count = tested.sum(axis=1)[n]
    known = sizes > 0
    level = np.log(count / settings.delta) / np.where(known, sizes, 1)
    floor[n, t] = np.where(known, lower(means, level), 0.0)
    goal = settings.threshold - settings.stop_epsilon
    holds = tried & (precisions >= settings.reaching) & (floor > goal)
    # They are in the order of their coverage: the first that holds, else the one of highest bound.
    best = np.where(tested, floor, -1.0).argmax(axis=1)
    chosen = np.where(holds.any(axis=1), holds.argmax(axis=1), best)
    at = np.arange(len(cover))
    result.rules, result.cover = rules[at, chosen], cover[at, chosen]
    result.precision, result.lower = precisions[at, chosen], floor[at, chosen]
    result.accepted = holds[at, chosen]
    size = np.zeros(cover.shape)
    size[n, t] = sizes
    p = result.precision
    result.error = np.sqrt(p * (1 - p) / np.maximum(size[at, chosen], 1))


def held_out(B: int, share: float, seed: int) -> np.ndarray:
    """Whether each data row is held out, bool [B]: the nearest number to the share, at random."""
    count = min(max(round(B * share), 1), B - 1)
    held = np.zeros(B, bool)
    held[np.argsort(words(seed, (HELD_OUT, B), B), kind="stable")[:count]] = True
    return held


def explained(
    problem: AnchorProblem,
    settings: SearchSettings,
    rows: Any,
    progress: Progress,
    target: str | None,
    reason: str,
) -> Rules:
    """The rules of the rows, as read; target: what is predicted; reason: why this search."""
    started, before = time.perf_counter(), problem.evaluator.start()
    rules: list[Rule] = []
    rounds = model_rows = widened = 0
    path = "tiled"
    with progress_bar(progress, len(rows_of(rows)), "instances") as bar:
        row_count = asked_of_search(problem.space, settings, problem.F)
        beam = settings.beam_size or 1
        for _, game in problem.games(rows, row_count, settings.coverage_samples, beam):
            problem.refuse_answers(game.own)
            if not rules:
                warn_long_search(problem, game, settings, len(rows_of(rows)))
            refuse_unsupported(problem, game, len(rules))
            result = search(game, settings, problem.seed, bar.update)
            rules += found_rules(problem, game, result, settings.search, target)
            rounds += result.rounds
            widened += result.widened
            path = path_of(game.questions)
            model_rows += game.rows_asked + game.questions.count.distinct
    evaluator, seconds = problem.evaluator, time.perf_counter() - started
    clock = evaluator.clock
    model_rows -= clock.spared_rows - before.spared_rows
    evaluator.finish()
    stats = {
        "search": settings.search,
        "reason": reason,
        "rounds": rounds,
        "widened": widened,
        "model_rows": model_rows,
        "path": path,
        "padded_rows": clock.padded_rows - before.padded_rows,
        **cost(evaluator.engine, clock, before, seconds),
        "devices": tuple(map(str, evaluator.engine.devices)),
        "seed": problem.seed,
    }
    provenance = {
        "method": "AnchorExplainer",
        "threshold": settings.threshold,
        "perturbation": problem.space_name,
        "beam_size": settings.beam_size,
        "max_size": settings.max_size,
        "delta": settings.delta,
        "confirm": settings.confirm,
        "widen": settings.widen,
        "data_rows": problem.B,
        "instances": len(rules),
        "versions": VERSIONS,
    }
    return Rules(tuple(rules), problem.names, stats, provenance)


def found_rules(
    problem: AnchorProblem, game: Any, result: SearchResult, search: str, target: str | None
) -> list[Rule]:
    """The Rule of each instance of the game; target: what is predicted, for the sentences."""
    rows = game.rows
    single = getattr(rows, "dtype", None) == np.float32
    if single and game.read_bins is not None:  # for `applies`, data have more digits
        single = all(column.single for column in game.read_bins.columns)
    # Columns with bins that a rule keeps at the instance's own value.
    own_values = np.zeros(problem.F, bool)
    if problem.space is not None and problem.space.KEEPS_OWN:
        own_values = game.space.binned
    predictions = problem.predictions(game.own)
    if game.read_bins is None:  # players without bins are kept as they are in x
        names = problem.players.names
        rules = [np.flatnonzero(rule).tolist() for rule in result.rules]
        said = [([(j, AS_IT_IS) for j in r], [f"{names[j]} as it is" for j in r]) for r in rules]
    else:
        said = game.read_bins.said(rows, result.rules, game.low, game.high)
    made = []
    for n, (predicates, texts) in enumerate(said):
        low, error = float(result.lower[n]), float(result.error[n])
        made.append(
            Rule(
                rule=texts,
                predicates=predicates,
                prediction=predictions[n],
                precision=float(result.precision[n]),
                precision_lower=None if np.isnan(low) else low,
                coverage=float(result.cover[n]) if game.cover is not None else None,
                accepted=bool(result.accepted[n]),
                samples=int(result.samples[n]),
                search=search,
                std_error=None if np.isnan(error) else error,
                target=target,
                tolerance=problem.tolerance,
                note=OWN_VALUES if own_values[result.rules[n]].any() else "",
                names=problem.names,
                single=single,
            )
        )
    return made
