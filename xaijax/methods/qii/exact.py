"""Exact answers of QII: the index that is asked for, what is too large, and the values.

A game of influence counts players that are REPLACED: v(S) = d(Q(nothing replaced), Q(S replaced)),
v(empty) = 0. The engine counts players that are kept. `of_replaced` and `kept_weights` turn the one
into the other, here and nowhere else. `table_rounding` bounds the rounding of a table's entries, by
which an entry may tie with a threshold.

Letters: N games, B donors, D data rows, P players, C coalitions, K scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError, InputTypeError, MemoryPlanError
from xaijax.games import queries
from xaijax.games.measure.quantity import Quantity
from xaijax.games.measure.score import Agrees, ClassProbabilities, IsClass
from xaijax.games.refuse import LARGEST_TABLE, refuse_too_many, warn_long_run, why_long
from xaijax.games.run import GameRun
from xaijax.games.strategies.distinct_donors import rows_of_list
from xaijax.games.strategies.totals import Weights
from xaijax.players.index import SizeLimited, index_weights, named, quoted
from xaijax.players.sets import all_masks, chances
from xaijax.results.coalition_table import CoalitionTable
from xaijax_kernels.games.semivalues import expected_marginals, semivalue

MOST_ROWS = 1 << 36  # model rows of one exact answer: hours at some million a second
FEWER_ROWS = "samples=, which draws, fewer data or pool rows, or columns united to fewer players"
NO_TABLE = "unary(), influence(S) or marginal(i, S), which need no table"
UNIT = 2.0**-53  # of one float64 rounding
BESIDE = 16  # roundings besides the sums: weights normalised to 1, products, the difference of two


@dataclass(frozen=True)
class QiiIndex:
    """An index as read: exactly one of weights, chance and simple is set."""

    name: str
    weights: np.ndarray | None = None  # [P], by the number of players replaced before
    chance: np.ndarray | None = None  # [2^P]
    simple: bool = False
    threshold: float | None = None
    absolute: bool = False


def qii_index(index: Any, P: int, threshold: Any, absolute: Any, otherwise: str = "") -> QiiIndex:
    """Reads index=, threshold= and absolute=; raises InputError and InputTypeError.

    otherwise: what the user can do instead if there are too many players.
    """
    checks.yes_or_no(absolute, "absolute")
    if isinstance(index, str) and named(index).simple:
        _small(P, f"index={index!r}", otherwise)
        bound = None if threshold is None else checks.positive(threshold, "threshold")
        return QiiIndex(named(index).name, simple=True, threshold=bound, absolute=absolute)
    simple, semivalues = ", ".join(quoted("simple")), ", ".join(quoted("weights"))
    if threshold is not None or absolute:
        raise InputError(f"threshold= and absolute= go with index={simple}. Leave them out.")
    accepted = f"{semivalues}, {simple}, SizeLimited(k), or Pr[S] [2^P] or callable"
    if isinstance(index, str | SizeLimited):
        if isinstance(index, str) and named(index).weights is None:
            raise InputError(f"index must be {accepted}, got {index!r}.")
        weights, name = index_weights(index, P)
        return QiiIndex(name, weights=weights)
    if not callable(index) and not isinstance(index, np.ndarray | list | tuple):
        raise InputTypeError(f"index must be {accepted}, got {type(index).__name__}.")
    _small(P, "an index of chances Pr[S]", otherwise)
    return QiiIndex("Pr[S]", chance=chances(index, P))


def _small(P: int, what: str, otherwise: str) -> None:
    if P > LARGEST_TABLE:
        raise EnumerationLimitError(
            f"players: {what} needs the table of all 2^{P} sets; at most {LARGEST_TABLE} players "
            f"can be enumerated. Group columns with players=. {otherwise}".rstrip()
        )


@dataclass
class Influences:
    """The results, float64."""

    values: np.ndarray  # [N, P, K]
    base: np.ndarray  # [N, K], Q(all replaced); 0 for distances
    full: np.ndarray  # [N, K], Q(nothing replaced)
    std_errors: np.ndarray | None = None  # [N, P, K]
    span: np.ndarray | None = None  # [N], largest change of a score; exact only
    stats: dict[str, Any] | None = None


def noise_errors(game: GameRun, squares: np.ndarray) -> np.ndarray | None:
    """Standard errors from a random model's own noise, [N, V, K]; None without noise.

    squares [V]: the sum of squared factors of the Q(S) that make up each value. Each Q(S) is a mean
    of independent answers, weighted by the donors' weights and those of the data rows.
    """
    noise = game.engine.findings.noise
    if noise is None:
        return None
    quantity, K = game.quantity, game.probe().outputs
    sigma = noise if len(noise) == K else np.full(K, noise.max())
    variance = float((game.engine.replacement.weights**2).sum())
    N = game.N
    if quantity.groups is not None:
        assert isinstance(quantity.combine, np.ndarray)
        variance *= float((quantity.combine**2) @ (quantity.groups**2).sum(axis=1))
        N = 1
    errors = np.sqrt(variance * squares)[:, None] * sigma
    return np.broadcast_to(errors, (N, *errors.shape)).copy()


def _squares(index: QiiIndex, P: int) -> np.ndarray:
    """Sum of squared factors for an index, [P]: each set without i counts twice, with i and
    without.
    """
    if index.weights is not None:
        total = 2 * math.fsum(math.comb(P - 1, s) * index.weights[s] ** 2 for s in range(P))
        return np.full(P, total)
    assert index.chance is not None
    return 2 * ((index.chance**2)[:, None] * ~all_masks(P)).sum(axis=0)


def list_of(game: GameRun, replaced: np.ndarray, subtract: bool) -> np.ndarray:
    """v(S) of sets replaced bool [C, P]; float64 [N, C, K]."""
    if not subtract:
        return values_of(game, replaced)
    Q = values_of(game, np.concatenate([np.zeros((1, game.P), bool), replaced]))
    return Q[:, :1] - Q[:, 1:]


def values_of(game: GameRun, replaced: np.ndarray) -> np.ndarray:
    """The measured quantity of sets replaced bool [C, P]; float64 [N, C, K]."""
    with naming_samples(game.quantity, "sets"):
        return queries.values(game, ~replaced, distinct=True)


def empty_and_full(game: GameRun) -> tuple[np.ndarray, np.ndarray]:
    """(Q(all replaced), Q(nothing replaced)); [N, K] each."""
    Q = queries.values(game, np.repeat([[False], [True]], game.P, axis=1), distinct=True)
    return one_base(game, Q[:, 0]), Q[:, 1]


def one_base(game: GameRun, empty: np.ndarray) -> np.ndarray:
    """The common value of Q(all replaced) from `queries.base`, or `empty` [N, K] itself."""
    base = queries.base(game)
    return empty if base is None else np.broadcast_to(base, empty.shape).copy()


def tables(game: GameRun, subtract: bool) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(v [n, 2^P, K], Q(all replaced) [n, K], Q(nothing replaced) [n, K]), some games at a time."""
    for table in queries.tables(game):
        base = table[:, 0] if subtract else np.zeros_like(table[:, 0])
        yield of_replaced(table, subtract), base, table[:, -1]


def of_replaced(table: np.ndarray, subtract: bool) -> np.ndarray:
    """v [N, 2^P, K] by REPLACED players, from a table by KEPT ones.

    subtract: the table holds Q, and v(S) = Q(nothing replaced) - Q(S): entry 2^P - 1 minus entry
    2^P - 1 - S. Otherwise it holds the distances already.
    """
    flipped = table[:, ::-1]
    return flipped[:, :1] - flipped if subtract else flipped


def kept_weights(p: np.ndarray) -> np.ndarray:
    """Weights by KEPT players of a semivalue with weights p [P] by replaced ones.

    If a set T without i is replaced, P - 1 - |T| players other than i are kept, and v(T + i) - v(T)
    = Q(kept + i) - Q(kept).
    """
    return p[::-1]


def _affordable(game: GameRun, index: QiiIndex) -> tuple[bool, int]:
    """(whether the index is read off v(S) of all sets, model rows at most); refuses what cannot be
    answered exactly.
    """
    by_table = index.weights is None or not game.quantity.linear
    if index.simple:
        refuse_random_index(game, "index='deegan-packel'")
    return by_table, refuse_unaffordable(game, by_table, "index")


def explained_cost(game: GameRun, index: QiiIndex) -> None:
    """Adds what `explained` asks to the game's cost; refuses what it refuses."""
    by_table, _ = _affordable(game, index)
    chosen = game.quantity.asked(game.N)
    if by_table:
        queries.tables_cost(game, chosen)
    else:
        assert index.weights is not None
        queries.semivalues_cost(game, Weights.semivalue(kept_weights(index.weights)), chosen)


def explained(
    game: GameRun, index: QiiIndex, subtract: bool, ready: Callable[[], None]
) -> Influences:
    """The exact index of every game; calls ready() once nothing can be refused any more."""
    by_table, rows = _affordable(game, index)
    ready()
    warn_long_run(game, rows, FEWER_ROWS)
    if not by_table:
        assert index.weights is not None
        totals = queries.semivalues(game, Weights.semivalue(kept_weights(index.weights)))
        errors = noise_errors(game, _squares(index, game.P))
        base = one_base(game, totals.empty)
        return Influences(totals.phi, base, totals.full, errors, totals.span)
    parts, margins = [], []
    with naming_samples(game.quantity, "index"):
        for v, base, full in tables(game, subtract):
            rounding = table_rounding(game, v, full, subtract)
            values, margin = _of_table(v, index, rounding)
            margins.append(margin)
            parts.append((values, base, full, np.abs(v).max(axis=(1, 2)), v[:, -1]))
    values, base, full, span, total = (np.concatenate(part) for part in zip(*parts, strict=True))
    base = one_base(game, base) if subtract else base
    stats = {"margin": np.concatenate(margins)} if index.simple else {}
    if not subtract:
        stats["total"] = total[:, 0]
    errors = None if index.simple else noise_errors(game, _squares(index, game.P))
    return Influences(values, base, full, errors, span, stats)


def _of_table(
    v: np.ndarray, index: QiiIndex, rounding: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if index.weights is not None:
        return semivalue(v, index.weights), np.zeros(0)
    if index.chance is not None:
        return expected_marginals(v, index.chance), np.zeros(0)
    per_score = [CoalitionTable(v[:, :, k], rounding=rounding) for k in range(v.shape[2])]
    values = [table.deegan_packel(index.threshold, index.absolute) for table in per_score]
    margin = np.min([table.margin(index.threshold, index.absolute) for table in per_score], axis=0)
    return np.stack(values, axis=2), margin


def whole_table(
    game: GameRun, subtract: bool, ready: Callable[[], None]
) -> tuple[np.ndarray, np.ndarray]:
    """(v of all games at once [N, 2^P, K], its rounding [N]); raises if memory is short."""
    refuse_random_index(game, "game()")
    rows = refuse_unaffordable(game, True, "table")
    N = game.N if game.quantity.groups is None else 1
    needed = 16 * N << game.P
    if needed > game.engine.memory.whole:
        raise MemoryPlanError(
            f"game() keeps {N:,} tables of 2^{game.P} sets, {needed:,} bytes, more than "
            f"max_memory={game.engine.memory.whole:,}. Take fewer rows of X, raise max_memory=, or "
            f"say explain(), which keeps no table. {instead(game.quantity, 'table')}"
        )
    ready()
    warn_long_run(game, rows, FEWER_ROWS)
    with naming_samples(game.quantity, "table"):
        parts = [
            (v, table_rounding(game, v, full, subtract)) for v, _, full in tables(game, subtract)
        ]
    v, rounding = map(np.concatenate, zip(*parts, strict=True))
    return v, rounding


def table_rounding(game: GameRun, v: np.ndarray, full: np.ndarray, subtract: bool) -> np.ndarray:
    """Bound on the rounding error of v [N, 2^P, K] of a full table; float64 [N].

    full [N, K]: Q(nothing replaced). A table is made on the host in float64, from sums over B
    donors, and over D data rows if groups are measured. A sum of n terms in any order, with weights
    of sum 1, is within n u M of the true one, u = 2^-53 and M the largest score (Higham 2002, 4.2).
    Each of the (at most two) groups' means has this error, v is made of two of them, and a distance
    adds up to K. For a ratio of sums without negative terms the errors are relative, and M is its
    own size.

    Near a probability of 0 "kl" and "js" are steeper than this bound assumes. The model's own
    rounding is not included: scores are taken as they are.
    """
    groups = game.quantity.groups
    donors = game.engine.replacement.count
    terms = donors + BESIDE + (0 if groups is None else groups.shape[1])
    means = 2 * (1 if groups is None else len(groups)) * (1 if subtract else game.probe().outputs)
    return means * terms * UNIT * _largest(game, v, full)


def _largest(game: GameRun, v: np.ndarray, full: np.ndarray) -> np.ndarray:
    """M of each game, [N]."""
    largest = np.abs(v).max(axis=(1, 2)) + np.abs(full).max(axis=1)  # at least every |Q(S)|
    largest = np.maximum(largest, game.subtracted)  # Q(S) may be a small difference of these
    known, combine = _bound(game), game.quantity.combine
    if known is None:
        return largest
    if callable(combine):
        return np.maximum(largest, known)
    return np.full(len(v), known if combine is None else known * np.abs(combine).max())


def _bound(game: GameRun) -> float | None:
    """The largest |score| of a row; None for a user-defined score."""
    score = game.engine.score
    if score is not None and score.cuts and score.bounds is not None:
        return max(map(abs, score.bounds))
    function = None if score is None else score.function
    return 1.0 if isinstance(function, IsClass | Agrees | ClassProbabilities) else None


# Only means have unbiased draws, so samples= is no way out for a difference of distributions, nor
# for an index of a quantity that is made of two means. The advice says so.


def linear_form(quantity: Quantity) -> str:
    """The arguments that make a quantity of two means a mean of draws; "" if it is one."""
    if not callable(quantity.combine):
        return ""
    if quantity.measured == "disparity":
        return "signed=True"
    if quantity.measured == "ratio":
        return "quantity='disparity' with signed=True"
    return "combine=(1, -1) or two other factors"


def instead(quantity: Quantity, question: str) -> str:
    """Advice if an exact answer is too large; question: "index", "table" or "sets"."""
    form = linear_form(quantity) if question != "sets" else ""
    if quantity.outer is not None:
        also = f" and {form}" if form else ""
        return (
            f"samples= has no unbiased draws of difference={quantity.name!r}: it goes with "
            f"difference='subtract'{also}."
        )
    if form:
        return (
            f"samples= has no unbiased draws for an index of quantity={quantity.measured!r}: say "
            f"{form}, or ask {NO_TABLE} and which samples= draws."
        )
    if question == "table":
        return "For sampled values make the QII with samples=n and say explain()."
    return "Or say samples=n, for sampled values."


@contextmanager
def naming_samples(quantity: Quantity, question: str) -> Iterator[None]:
    """Adds what samples= can do to the errors of what cannot be enumerated or planned inside."""
    try:
        yield
    except (EnumerationLimitError, MemoryPlanError) as error:
        if "samples=" in str(error):
            raise
        text = str(error).replace("background row", "pool row")
        raise type(error)(f"{text} {instead(quantity, question)}") from None


def refuse_unaffordable(game: GameRun, needs_table: bool, question: str) -> int:
    """Raises EnumerationLimitError or MemoryPlanError, naming samples=, if the question is too
    large.

    It returns the largest number of model rows that the run may take.
    """
    with naming_samples(game.quantity, question):
        if needs_table and game.P > LARGEST_TABLE:
            raise EnumerationLimitError(
                f"{_why_a_table(game.quantity)} the table of all 2^{game.P} sets, at most of "
                f"{LARGEST_TABLE} players. Group columns with players=, or ask {NO_TABLE}."
            )
        pairs = len(game.quantity.asked(game.N)) * game.engine.replacement.count
        what = f"every coalition of {pairs:,} pairs of a row and a donor"
        _refuse_rows(pairs, what, game, question)
        costs = queries.exact_cost(game)
        rows = int(costs.rows.astype(float).sum())
        _refuse_rows(rows, what, game, question)
        refuse_too_many(game, costs.largest)
    return rows


def _why_a_table(quantity: Quantity) -> str:
    if quantity.outer is not None:
        return f"an index of difference={quantity.name!r}, which acts on means, needs"
    if callable(quantity.combine):
        return f"an index of quantity={quantity.measured!r}, which is made of two means, needs"
    return "game() is"


def refuse_long_list(game: GameRun, replaced: np.ndarray) -> None:
    """The same for the sets replaced bool [C, P], each evaluated for every row and distinct
    donor.
    """
    N, B = len(game.quantity.asked(game.N)), game.engine.replacement.count
    if N * B * len(replaced) <= MOST_ROWS:
        return
    with naming_samples(game.quantity, "sets"):
        rows = N * rows_of_list(game, ~replaced)
        _refuse_rows(rows, f"{len(replaced)} sets of {N:,} rows with {B:,} donors", game, "sets")


def warn_long_list(game: GameRun, replaced: np.ndarray) -> None:
    """Warns of a long list of sets replaced bool [C, P] before it is run."""
    N, B = len(game.quantity.asked(game.N)), game.engine.replacement.count
    if why_long(game, N * B * len(replaced)):
        warn_long_run(game, N * rows_of_list(game, ~replaced), FEWER_ROWS)


def _refuse_rows(rows: int, what: str, game: GameRun, question: str) -> None:
    if rows > MOST_ROWS:
        raise EnumerationLimitError(
            f"samples=None needs {what}: {rows:.2g} model rows; at most 2^36 are accepted. Take "
            f"fewer rows or donors, or group columns with players= (there are {game.P}). "
            f"{instead(game.quantity, question)}"
        )


def refuse_random_index(game: GameRun, what: str) -> None:
    """Raises InputError for what cannot separate a random model's noise from influence."""
    if not game.engine.model.deterministic:
        raise InputError(
            f"{what} would contain the noise of a random model (deterministic=False). Say "
            "explain(index='shapley'), 'banzhaf', SizeLimited(k) or Pr[S], whose std_errors "
            "include it."
        )
