"""Exact answers of QII, out of a game's semivalues, tables and lists; no loop over rows here.

Everything here counts REPLACED players; games count kept ones. `table_rounding` says how far
rounding may have taken an entry of a table: an entry may tie with a threshold.

Letters: N games, B donors, D data rows, P players, C coalitions, K scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.games import ask
from xaijax.games.measure.score import Agrees, ClassProbabilities, IsClass
from xaijax.games.refuse import tell_long_run
from xaijax.games.run import GameRun
from xaijax.games.ways.totals import Weights
from xaijax.methods.qii.difference import kept_weights, of_replaced
from xaijax.methods.qii.index import QiiIndex
from xaijax.methods.qii.limits import (
    FEWER_ROWS,
    instead,
    naming_samples,
    refuse_random_index,
    refuse_unaffordable,
)
from xaijax.players.sets import all_masks
from xaijax.results.coalition_table import CoalitionTable
from xaijax_kernels.games.semivalues import expected_marginals, semivalue

UNIT = 2.0**-53  # of one float64 rounding
BESIDE = 16  # roundings beside the sums: weights made to sum 1, products, the difference of two


@dataclass
class Influences:
    """What came out, float64."""

    values: np.ndarray  # [N, P, K]
    base: np.ndarray  # [N, K], Q(all replaced); 0 for distances
    full: np.ndarray  # [N, K], Q(nothing replaced)
    std_errors: np.ndarray | None = None  # [N, P, K]
    span: np.ndarray | None = None  # [N], largest change of a score; exact only
    stats: dict[str, Any] | None = None


def noise_errors(game: GameRun, squares: np.ndarray) -> np.ndarray | None:
    """Standard errors that a random model's own noise leaves, [N, V, K]; None without noise.

    squares [V]: the sum of squared factors of the Q(S) that each value is made of. Every Q(S) is a
    mean of independent answers, by the donors' weights and those of the data rows.
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
    """Of an index, [P]: each set without i counts twice, with i and without."""
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
    """What the game measures of sets replaced bool [C, P]; float64 [N, C, K]."""
    with naming_samples(game.quantity, "sets"):
        return ask.values(game, ~replaced, distinct=True)


def ends(game: GameRun) -> tuple[np.ndarray, np.ndarray]:
    """(Q(all replaced), Q(nothing replaced)); [N, K] each."""
    Q = ask.values(game, np.repeat([[False], [True]], game.P, axis=1), distinct=True)
    return one_base(game, Q[:, 0]), Q[:, 1]


def one_base(game: GameRun, found: np.ndarray) -> np.ndarray:
    """Q(all replaced) [N, K] as it was found, or what `ask.base` says of all instances."""
    base = ask.base(game)
    return found if base is None else np.broadcast_to(base, found.shape).copy()


def tables(game: GameRun, subtract: bool) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(v [n, 2^P, K], Q(all replaced) [n, K], Q(nothing replaced) [n, K]) for stretches."""
    for table in ask.tables(game):
        base = table[:, 0] if subtract else np.zeros_like(table[:, 0])
        yield of_replaced(table, subtract), base, table[:, -1]


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
        ask.tables_cost(game, chosen)
    else:
        assert index.weights is not None
        ask.semivalues_cost(game, Weights.semivalue(kept_weights(index.weights)), chosen)


def explained(
    game: GameRun, index: QiiIndex, subtract: bool, ready: Callable[[], None]
) -> Influences:
    """The index of every game, exactly; ready() once nothing is refused any more."""
    by_table, rows = _affordable(game, index)
    ready()
    tell_long_run(game, rows, FEWER_ROWS)
    if not by_table:
        assert index.weights is not None
        totals = ask.semivalues(game, Weights.semivalue(kept_weights(index.weights)))
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
    values, base, full, span, total = (np.concatenate(one) for one in zip(*parts, strict=True))
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
    values = [one.deegan_packel(index.threshold, index.absolute) for one in per_score]
    margin = np.min([one.margin(index.threshold, index.absolute) for one in per_score], axis=0)
    return np.stack(values, axis=2), margin


def whole_table(
    game: GameRun, subtract: bool, ready: Callable[[], None]
) -> tuple[np.ndarray, np.ndarray]:
    """(v of all games at once [N, 2^P, K], its rounding [N]); refused where memory is short."""
    refuse_random_index(game, "game()")
    rows = refuse_unaffordable(game, True, "table")
    N = game.N if game.quantity.groups is None else 1
    needed = 16 * N << game.P
    if needed > game.engine.memory.whole:
        raise MemoryPlanError(
            f"game() keeps {N:,} tables of 2^{game.P} sets, {needed:,} bytes, more than max_memory="
            f"{game.engine.memory.whole:,}. Take fewer rows of X, raise max_memory=, or say "
            f"explain(), which keeps no table. {instead(game.quantity, 'table')}"
        )
    ready()
    tell_long_run(game, rows, FEWER_ROWS)
    with naming_samples(game.quantity, "table"):
        found = [
            (v, table_rounding(game, v, full, subtract)) for v, _, full in tables(game, subtract)
        ]
    v, rounding = (np.concatenate(one) for one in zip(*found, strict=True))
    return v, rounding


def table_rounding(game: GameRun, v: np.ndarray, full: np.ndarray, subtract: bool) -> np.ndarray:
    """How far v [N, 2^P, K] of a full table is from its true value by rounding; float64 [N].

    full [N, K]: Q(nothing replaced). A table is made on the host in float64: sums over B donors,
    and over D data rows where groups are measured. A sum of n terms in any order, weights of sum 1,
    is within n u M of the true one, u = 2^-53 and M the largest score (Higham 2002, 4.2). Each of
    the (at most two) groups' means has this error, v is made of two of them, and a distance adds up
    to K. For a ratio, of sums without a negative term, the errors are relative: M is its own size.

    Near a probability of 0 "kl" and "js" are steeper than this says. What the model itself rounds
    is not in it: scores are taken as they come.
    """
    groups = game.quantity.groups
    donors = game.engine.replacement.count
    terms = donors + BESIDE + (0 if groups is None else groups.shape[1])
    means = 2 * (1 if groups is None else len(groups)) * (1 if subtract else game.probe().outputs)
    return means * terms * UNIT * _largest(game, v, full)


def _largest(game: GameRun, v: np.ndarray, full: np.ndarray) -> np.ndarray:
    """M of each game, [N]."""
    found = np.abs(v).max(axis=(1, 2)) + np.abs(full).max(axis=1)  # at least every |Q(S)|
    found = np.maximum(found, game.subtracted)  # of which Q(S) may be a small difference
    known, combine = _bound(game), game.quantity.combine
    if known is None:
        return found
    if callable(combine):
        return np.maximum(found, known)
    return np.full(len(v), known if combine is None else known * np.abs(combine).max())


def _bound(game: GameRun) -> float | None:
    """The largest |score| of a row; None for a score of the user's own."""
    score = game.engine.score
    if score is not None and score.cuts and score.bounds is not None:
        return max(map(abs, score.bounds))
    function = None if score is None else score.function
    return 1.0 if isinstance(function, IsClass | Agrees | ClassProbabilities) else None
