"""What a game refuses: too many coalitions or too little memory before it asks, bad answers after.

Letters: N instances, B donors, P players, K scores.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import EnumerationLimitError, InputError, MemoryPlanError, ModelOutputError
from xaijax.games.engine.evaluator import LARGEST_PAIR, Setting
from xaijax.games.engine.loop import Backend, Check, Stream
from xaijax.games.measure.replacement import agreement_codes
from xaijax.games.measure.score import Score
from xaijax_kernels.engine.lattice import differing

if TYPE_CHECKING:
    from xaijax.games.game import Game

LARGEST_TABLE = 20  # players of a full table

# Model rows of one stretch of tables: 32 MB of answers of one output, which the allocator keeps for
# the next stretch; beyond it every stretch pays for its pages anew, an eighth of the time.
LARGEST_STRETCH = 1 << 23


def refuse_lost_sums(setting: Setting, *found: np.ndarray) -> None:
    """Raise ModelOutputError where a result is not finite, of a model whose answers all were."""
    model = setting.model
    if model.nonfinite == "propagate" or all(np.isfinite(one).all() for one in found):
        return
    way = "" if model.precision == "float64" else ", or say precision='float64' in as_model"
    raise ModelOutputError(
        f"all answers of {model.name} are finite, but sums of them are not: they are too large for "
        f"{model.precision}. Divide the answers by a constant{way}."
    )


def refuse_too_many(game: Game, largest: np.ndarray) -> None:
    """Raise EnumerationLimitError for what cannot be enumerated; largest [N] as of `Survey`."""
    if not game.quantity.linear:
        refuse_wide_table(game)
    k = int(largest.max())
    if k > LARGEST_PAIR:
        n = int(largest.argmax())
        setting = game.setting
        x, donors = game.ask.codes[n : n + 1], setting.replacement.codes
        own = differing(agreement_codes(x), agreement_codes(donors), setting.code_players, game.P)
        b = int(setting.replacement.row[own[0].sum(axis=1).argmax()])
        raise EnumerationLimitError(
            f"X row {n} and background row {b} differ in {k} players, which is 2^{k} "
            f"coalitions; exact values go up to {LARGEST_PAIR} players that differ. Group "
            "columns with players=, or use fewer or coarser features."
        )
    refuse_large_tables(game)


def refuse_wide_table(game: Game) -> None:
    """Raise EnumerationLimitError where a full table has too many players."""
    if game.P > LARGEST_TABLE:
        quantity = game.quantity
        raise EnumerationLimitError(
            f"{quantity.argument}={quantity.name!r} acts on the mean, so the full table of "
            f"2^{game.P} coalitions is needed; at most {LARGEST_TABLE} players can be enumerated. "
            f"Group columns with players=. {quantity.remedy}"
        )


def refuse_biased_link(game: Game) -> None:
    """Raise InputError for an outer function of a random model's answers."""
    quantity = game.quantity
    if not quantity.linear and not game.setting.model.deterministic:
        raise InputError(
            f"{quantity.argument}={quantity.name!r} of a random model's mean answer is biased by "
            'its noise. Use link="identity" with deterministic=False.'
        )


def refuse_large_tables(game: Game) -> None:
    """Raise MemoryPlanError where full tables are needed and one does not fit the memory."""
    if not game.quantity.linear:
        table_limits(game, 1)  # the model's outputs are not known yet; one at least


def table_limits(game: Game, K: int) -> tuple[int, int]:
    """(model rows, instances) of one stretch of tables."""
    memory = game.setting.memory
    table = 24 * K << game.P
    values, tables = memory.fits("answers", 16 * K), memory.fits("results", table)
    if not values >> game.P or not tables:
        least = memory.needed("results", table)
        raise MemoryPlanError(
            f"max_memory={memory.whole:,} bytes, but one table of 2^{game.P} coalitions and {K} "
            f"outputs needs {least:,}. Raise max_memory=."
        )
    return min(values, LARGEST_STRETCH), tables


def coalition_text(names: tuple[str, ...], kept: np.ndarray) -> str:
    """ "the players [...] kept from X (coalition 0b...)" of kept bool [P]."""
    own = [names[p] for p in np.flatnonzero(kept)]
    named = f"{own[:10]} and {len(own) - 10} more" if len(own) > 12 else f"{own}"
    bits = sum(1 << int(p) for p in np.flatnonzero(kept))
    which = f" (coalition {bits:#b})" if len(kept) <= 64 else ""
    return f"the players {named} kept from X{which}"


def refuse_bad_answers(
    setting: Setting,
    rows: np.ndarray,
    backend: Backend,
    masks: np.ndarray | None = None,
    scored: bool = True,
) -> Check:
    """Refuse answers that are not finite, scores out of bounds, and say for which coalition; warn
    where scores were cut to their bounds.

    rows: the game's instances that the stream numbers from 0; masks: the list it names; scored:
    False where the answers are the model's own.
    """
    score = setting.score if scored else None
    limited = score is not None and score.bounds is not None
    own = score is not None and limited and not score.cuts
    passed_on = setting.model.nonfinite == "propagate"

    def check(stream: Stream, answers: Any) -> None:
        if (passed_on and not limited) or not backend.any_bad(answers):
            return
        values = backend.values(answers)

        def where(row: int) -> str:
            instance, donor, mask = stream.locate(answers.piece.first_row + row, masks)
            return (
                f"X row {rows[instance]} with background row "
                f"{int(setting.replacement.row[donor])} and "
                f"{coalition_text(setting.players.names, mask)}"
            )

        if score is not None and limited:
            bad = _out_of_bounds(score, values.astype(answers.values.dtype))
            if len(bad) and score.cuts:
                _tell_cut(score)
            elif len(bad):
                raise ModelOutputError(score.complaint(values[bad[0]], where(int(bad[0]))))
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if passed_on or not len(bad):
            return  # only the padding
        raise ModelOutputError(
            f"the model returned {values[bad[0]][~np.isfinite(values[bad[0]])][0]} for "
            f"{where(int(bad[0]))}. Mend the model{' or the score of quantity=' * own}, or say "
            'nonfinite="propagate" in as_model.'
        )

    return check


def refuse_bad_scores(setting: Setting, scores: np.ndarray, donors: np.ndarray) -> None:
    """The same for scores [R, K] of the donors themselves, int [R]."""
    score = setting.score
    if score is None or score.bounds is None:
        return
    bad = _out_of_bounds(score, scores)
    if len(bad) and score.cuts:
        _tell_cut(score)
    elif len(bad):
        donor = int(setting.replacement.row[donors[bad[0]]])
        where = f"background row {donor}, with everything replaced"
        raise ModelOutputError(score.complaint(scores[bad[0]], where))


_told_cut = ContextVar("_told_cut", default=False)  # whether this call has warned of a cut


def tell_cuts_again() -> None:
    """Let the next cut score warn: a new call begins, which warns once."""
    _told_cut.set(False)


def _tell_cut(score: Score) -> None:
    """Warn of scores that were cut, once a call. No number of a row is told: bounds of private
    releases must not be made of the data.
    """
    assert score.bounds is not None
    if _told_cut.get():
        return
    _told_cut.set(True)
    low, high = score.bounds
    checks.warn(
        f"scores of outcome='score' lie outside of bounds=({low:g}, {high:g}) and were cut to "
        "them, so the values are those of the cut scores. Say bounds=(low, high) that hold every "
        "score, or make the model with output='proba'."
    )


def _out_of_bounds(score: Score, values: np.ndarray) -> np.ndarray:
    """The rows whose scores are numbers and out of bounds."""
    return np.flatnonzero(~score.kept(values).all(axis=1) & ~np.isnan(values).any(axis=1))
