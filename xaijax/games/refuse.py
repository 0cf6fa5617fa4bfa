"""Raises for too many coalitions before a run and for invalid outputs after; warns of long runs.

Letters: N instances, B donors, P players, K scores, R rows, C code columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.checks import MINUTE_OF_A_CORE, warn_slow
from xaijax.core.errors import EnumerationLimitError, InputError, MemoryPlanError, ModelOutputError
from xaijax.core.process import cores
from xaijax.games.engine.evaluator import LARGEST_PAIR, Engine, once
from xaijax.games.engine.loop import Backend, Check, Stream
from xaijax.games.measure.replacement.base import differing
from xaijax.games.measure.score import Score
from xaijax_kernels.engine.steps import operations
from xaijax_kernels.sizes import WHOLE_ROWS

if TYPE_CHECKING:
    from xaijax.games.run import GameRun

LARGEST_TABLE = 20  # players of a full table
CLOSED_FORMS = "additive models, sums of trees and of Gaussian kernels"

# Model rows of one chunk of tables: 32 MB for one output, which the allocator keeps for the next
# chunk; larger chunks allocate new pages each time, an eighth of the time.
LARGEST_STRETCH = 1 << 23


def refuse_lost_sums(engine: Engine, *sums: np.ndarray) -> None:
    """Raises ModelOutputError if a result is not finite although all outputs were."""
    model = engine.model
    if model.nonfinite == "propagate" or all(np.isfinite(array).all() for array in sums):
        return
    way = "" if model.precision == "float64" else ", or say precision='float64' in as_model"
    raise ModelOutputError(
        f"all answers of {model.name} are finite, but sums of them are not: they are too large for "
        f"{model.precision}. Divide the answers by a constant{way}."
    )


def refuse_too_many(game: GameRun, largest: np.ndarray) -> None:
    """Raises EnumerationLimitError if a pair cannot be enumerated; largest [N] as in
    `ExactCost`."""
    if not game.quantity.linear:
        refuse_wide_table(game)
    k = int(largest.max())
    if k > LARGEST_PAIR:
        n = int(largest.argmax())
        engine = game.engine
        x, donors = game.codes[n : n + 1], engine.replacement.bits
        differs = differing(x, donors, engine.code_players, game.P)
        b = int(engine.replacement.row[differs[0].sum(axis=1).argmax()])
        closed = f", and to any number where estimator='auto' finds a closed form ({CLOSED_FORMS})"
        raise EnumerationLimitError(
            f"X row {n} and background row {b} differ in {k} players, which is 2^{k} "
            f"coalitions; exact values go up to {LARGEST_PAIR} players that differ"
            f"{'' if engine.score else closed}. Group columns with players=, or use fewer or "
            "coarser features."
        )
    refuse_large_tables(game)


def refuse_wide_table(game: GameRun) -> None:
    """Raises EnumerationLimitError if a full table has too many players."""
    if game.P > LARGEST_TABLE:
        quantity = game.quantity
        raise EnumerationLimitError(
            f"{quantity.argument}={quantity.name!r} acts on the mean, so the full table of "
            f"2^{game.P} coalitions is needed; at most {LARGEST_TABLE} players can be enumerated. "
            f"Group columns with players=. {quantity.remedy}"
        )


def refuse_biased_link(game: GameRun) -> None:
    """Raises InputError for an outer function of a random model's outputs."""
    quantity = game.quantity
    if not quantity.linear and not game.engine.model.deterministic:
        raise InputError(
            f"{quantity.argument}={quantity.name!r} of a random model's mean answer is biased by "
            'its noise. Use link="identity" with deterministic=False.'
        )


def refuse_large_tables(game: GameRun) -> None:
    """Raises MemoryPlanError if full tables are needed and one does not fit the memory."""
    if not game.quantity.linear:
        table_limits(game, 1)  # the number of outputs is not known yet; at least one


def table_limits(game: GameRun, K: int) -> tuple[int, int]:
    """(model rows, instances) of one chunk of tables."""
    memory = game.engine.memory
    table = 24 * K << game.P
    values, tables = memory.fits("answers", 16 * K), memory.fits("results", table)
    if not values >> game.P or not tables:
        least = memory.needed("results", table)
        raise MemoryPlanError(
            f"max_memory={memory.whole:,} bytes, but one table of 2^{game.P} coalitions and {K} "
            f"outputs needs {least:,}. Raise max_memory=."
        )
    return min(values, LARGEST_STRETCH), tables


def coalition_text(names: tuple[str, ...], coalition: np.ndarray) -> str:
    """ "the players [...] kept from X (coalition 0b...)" for a coalition bool [P]."""
    members = [names[p] for p in np.flatnonzero(coalition)]
    named = f"{members[:10]} and {len(members) - 10} more" if len(members) > 12 else f"{members}"
    bits = sum(1 << int(p) for p in np.flatnonzero(coalition))
    which = f" (coalition {bits:#b})" if len(coalition) <= 64 else ""
    return f"the players {named} kept from X{which}"


def refuse_bad_answers(
    engine: Engine,
    rows: np.ndarray,
    backend: Backend,
    masks: np.ndarray | None = None,
    scored: bool = True,
) -> Check:
    """Returns a check that raises for outputs that are not finite and scores out of bounds, naming
    the coalition; it warns if scores were cut to their bounds.

    rows: the game's instances that the stream numbers from 0; masks: its list; scored: False if
    these are the model's outputs.
    """
    score = engine.score if scored else None
    limited = score is not None and score.bounds is not None
    of_score = score is not None and limited and not score.cuts
    passed_on = engine.model.nonfinite == "propagate"

    def check(stream: Stream, answers: Any) -> None:
        if (passed_on and not limited) or not backend.any_bad(answers):
            return
        values = backend.values(answers)

        def where(row: int) -> str:
            instance, donor, mask = stream.locate(answers.piece.first_row + row, masks)
            return (
                f"X row {rows[instance]} with background row "
                f"{int(engine.replacement.row[donor])} and "
                f"{coalition_text(engine.players.names, mask)}"
            )

        if score is not None and limited:
            bad = _out_of_bounds(score, values.astype(answers.values.dtype))
            if len(bad) and score.cuts:
                _warn_of_cut(score)
            elif len(bad):
                raise ModelOutputError(score.complaint(values[bad[0]], where(int(bad[0]))))
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if passed_on or not len(bad):
            return  # only the padding
        raise ModelOutputError(
            f"the model returned {values[bad[0]][~np.isfinite(values[bad[0]])][0]} for "
            f"{where(int(bad[0]))}. Fix the model{' or the score of quantity=' * of_score}, or say "
            'nonfinite="propagate" in as_model.'
        )

    return check


def refuse_bad_scores(engine: Engine, scores: np.ndarray, donors: np.ndarray) -> None:
    """`refuse_bad_answers` for scores [R, K] of the donors themselves, int [R]."""
    score = engine.score
    if score is None or score.bounds is None:
        return
    bad = _out_of_bounds(score, scores)
    if len(bad) and score.cuts:
        _warn_of_cut(score)
    elif len(bad):
        donor = int(engine.replacement.row[donors[bad[0]]])
        where = f"background row {donor}, with everything replaced"
        raise ModelOutputError(score.complaint(scores[bad[0]], where))


_warned_of_cut = ContextVar("_warned_of_cut", default=False)  # whether this call has


def warn_repeated_cuts() -> None:
    """Begins a new call, which warns once of cut scores."""
    _warned_of_cut.set(False)


def _warn_of_cut(score: Score) -> None:
    """Warns of scores that were cut, once per call. The warning names no row, because bounds of
    private releases must not depend on the data.
    """
    assert score.bounds is not None
    if _warned_of_cut.get():
        return
    _warned_of_cut.set(True)
    low, high = score.bounds
    checks.warn(
        f"scores of outcome='score' lie outside of bounds=({low:g}, {high:g}) and were cut to "
        "them, so the values are those of the cut scores. Say bounds=(low, high) that hold every "
        "score, or make the model with output='proba'."
    )


def _out_of_bounds(score: Score, values: np.ndarray) -> np.ndarray:
    """The rows whose scores are not NaN and out of bounds."""
    return np.flatnonzero(~score.kept(values).all(axis=1) & ~np.isnan(values).any(axis=1))


# Whether a run is long depends on sizes, never on a clock: model rows times operations per row by
# the model's trace. A host model's operations are unknown; its rows count.

# Operations of about a minute, at 16e12 a second.
MINUTE_OF_AN_ACCELERATOR = 1e15
# Rows of a host model: a minute at 170,000 rows per second, as for a small forest in scikit-learn.
MOST_HOST_ROWS = 10_000_000
OF_A_COLUMN = 4.0  # operations to make a hybrid: its mask, both rows' codes, the selection
TRACED = 32  # rows that a head is traced for
OF_A_PART = 2.0  # operations per number to join two parts
# Also if a block of parts exceeds a core's cache. With a convolution of 16,384 units a hybrid by
# its layer took two thirds of the time of a full row, which has 942,080 operations.
OF_A_FAR_PART, CACHED = 32.0, 1 << 18


def minute(devices: Sequence[Any]) -> float:
    """Number of operations of these devices in about a minute."""
    if devices[0].platform == "cpu":  # several of them share the cores
        return MINUTE_OF_A_CORE * cores()
    return MINUTE_OF_AN_ACCELERATOR * len(devices)


def operations_of_a_row(run: GameRun) -> float:
    """Operations per row of a probed JAX model, including the hybrid; fewer with a structure."""
    engine = run.engine
    hybrid = OF_A_COLUMN * engine.replacement.columns
    whole = hybrid + engine.operations
    if not run.may_structure():
        return whole
    return min(whole, _operations_of(run.engine))


@once
def _operations_of(engine: Engine) -> float:
    """Operations of one hybrid by the structure: joining its parts, and the head."""
    structure, known = engine.structure, engine.known
    params, dtype = engine.model.params, engine.replacement.dtype
    head = operations(engine.compiled.head(structure, params, TRACED, dtype).closed.jaxpr, TRACED)
    far = known.adds and WHOLE_ROWS * known.parts > CACHED
    of_part = OF_A_FAR_PART if far else OF_A_PART
    return of_part * known.parts * (1 if known.adds else known.width) + head


def why_long(run: GameRun, rows: int, beside: float = 0.0, drawn: float = 0.0) -> str:
    """The reason why `rows` model rows are a long run; empty if they are not. Probes the model.

    beside: operations on one core of the host for sampling. drawn: operations per row for sampling
    on the model's devices.
    """
    run.backend()
    engine = run.engine
    said = count = f"up to {rows:,} model rows are coming"
    if engine.uses_host:
        long = rows > MOST_HOST_ROWS
        said = f"{count}, of a model that is called on the host"
    else:
        # Most runs are short for any model; the structure is only checked for others.
        limit = minute(engine.devices)
        hybrid = drawn + OF_A_COLUMN * engine.replacement.columns
        long = rows * (hybrid + engine.operations) > limit
        if long:
            each = drawn + operations_of_a_row(run)
            long = rows * each > limit
            said = f"{count}, of about {each:,.0f} operations each"
    if long:
        return said
    if beside > MINUTE_OF_A_CORE:
        return f"{count}, and what they are made of, or give, is worked out on the host"
    return ""


def warn_long_run(
    run: GameRun, rows: int, remedies: str, beside: float = 0.0, drawn: float = 0.0
) -> None:
    """Warns, before it starts, of a run that takes more than about a minute;
    remedies: ways to shorten it.
    """
    said = why_long(run, rows, beside, drawn)
    if said:
        warn_slow(said, remedies)
