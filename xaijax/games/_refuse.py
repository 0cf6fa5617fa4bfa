"""What a game refuses: too many coalitions or too little memory before it asks, bad answers after.

Letters: N instances, B donors, P players, K scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax._errors import EnumerationLimitError, InputError, MemoryPlanError, ModelOutputError
from xaijax.games._loop import Backend, Check, Stream
from xaijax.games.evaluator import LARGEST_PAIR
from xaijax.games.replacement import agreement_codes
from xaijax_kernels.lattice import differing

LARGEST_TABLE = 20  # players of a full table


def refuse_too_many(game: Any, largest: np.ndarray) -> None:
    """Raise EnumerationLimitError for what cannot be enumerated; largest [N] as of `Survey`."""
    if not game.quantity.linear:
        refuse_wide_table(game)
    k = int(largest.max())
    if k > LARGEST_PAIR:
        n = int(largest.argmax())
        evaluator = game.evaluator
        x, donors = game.ask.codes[n : n + 1], evaluator.replacement.codes
        own = differing(agreement_codes(x), agreement_codes(donors), evaluator.code_players, game.P)
        b = int(evaluator.replacement.row[own[0].sum(axis=1).argmax()])
        raise EnumerationLimitError(
            f"X row {n} and background row {b} differ in {k} players, which is 2^{k} "
            f"coalitions; exact values go up to {LARGEST_PAIR} players that differ. Group "
            "columns with players=, or use fewer or coarser features."
        )
    refuse_large_tables(game)


def refuse_wide_table(game: Any) -> None:
    """Raise EnumerationLimitError where a full table has too many players."""
    if game.P > LARGEST_TABLE:
        quantity = game.quantity
        raise EnumerationLimitError(
            f"{quantity.argument}={quantity.name!r} acts on the mean, so the full table of "
            f"2^{game.P} coalitions is needed; at most {LARGEST_TABLE} players can be enumerated. "
            f"Group columns with players=. {quantity.remedy}"
        )


def refuse_biased_link(game: Any) -> None:
    """Raise InputError for an outer function of a random model's answers."""
    quantity = game.quantity
    if not quantity.linear and not game.evaluator.model.deterministic:
        raise InputError(
            f"{quantity.argument}={quantity.name!r} of a random model's mean answer is biased by "
            'its noise. Use link="identity" with deterministic=False.'
        )


def refuse_large_tables(game: Any) -> None:
    """Raise MemoryPlanError where full tables are needed and one does not fit the memory."""
    if not game.quantity.linear:
        table_limits(game, 1)  # the model's outputs are not known yet; one at least


def table_limits(game: Any, K: int) -> tuple[int, int]:
    """(model rows, instances) of one stretch of tables: a quarter of the memory each."""
    memory = game.evaluator.max_memory
    values = memory // 4 // (16 * K)
    tables = memory // 4 // (24 * K << game.P)
    if not values >> game.P or not tables:
        raise MemoryPlanError(
            f"max_memory={memory:,} bytes, but one table of 2^{game.P} coalitions and {K} outputs "
            f"needs {4 * (24 * K << game.P):,}. Raise max_memory=."
        )
    return min(values, 1 << 24), tables


def coalition_text(names: tuple[str, ...], kept: np.ndarray) -> str:
    """ "the players [...] kept from X (coalition 0b...)" of kept bool [P]."""
    own = [names[p] for p in np.flatnonzero(kept)]
    named = f"{own[:10]} and {len(own) - 10} more" if len(own) > 12 else f"{own}"
    bits = sum(1 << int(p) for p in np.flatnonzero(kept))
    which = f" (coalition {bits:#b})" if len(kept) <= 64 else ""
    return f"the players {named} kept from X{which}"


def refuse_bad_answers(
    evaluator: Any, rows: np.ndarray, backend: Backend, masks: np.ndarray | None = None
) -> Check:
    """Refuse answers that are not finite, and say for which coalition.

    rows: the game's instances that the stream numbers from 0; masks: the list it names.
    """

    def check(stream: Stream, answers: Any) -> None:
        if evaluator.model.nonfinite == "propagate" or not backend.any_bad(answers):
            return
        values = backend.values(answers)
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if not len(bad):
            return  # only the padding
        row = answers.piece.first_row + int(bad[0])
        instance, donor, mask = stream.locate(row, masks)
        raise ModelOutputError(
            f"the model returned {values[bad[0]][~np.isfinite(values[bad[0]])][0]} for X row "
            f"{rows[instance]} with background row {int(evaluator.replacement.row[donor])} and "
            f"{coalition_text(evaluator.players.names, mask)}. Mend the model, or say "
            'nonfinite="propagate" in as_model.'
        )

    return check
