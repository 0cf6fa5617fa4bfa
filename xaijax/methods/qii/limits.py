"""What QII refuses before it asks: exact answers that are too large, and what to do instead.

Only means have unbiased draws, so samples= is no way out for a difference of distributions, nor for
an index of a quantity that is made of two means; the advice says so.

Letters: N games, P players, C sets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from xaijax.core.errors import EnumerationLimitError, InputError, MemoryPlanError
from xaijax.games import ask
from xaijax.games.measure.quantity import Quantity
from xaijax.games.refuse import LARGEST_TABLE, refuse_too_many, tell_long_run, why_long
from xaijax.games.run import GameRun
from xaijax.games.ways.distinct_donors import rows_of_list

MOST_ROWS = 1 << 36  # model rows of one exact answer: hours at some million a second
FEWER_ROWS = "samples=, which draws, fewer data or pool rows, or columns united to fewer players"
NO_TABLE = "unary(), influence(S) or marginal(i, S), which need no table"


def linear_form(quantity: Quantity) -> str:
    """What makes a quantity of two means a mean of draws; "" where it is one."""
    if not callable(quantity.combine):
        return ""
    if quantity.measured == "disparity":
        return "signed=True"
    if quantity.measured == "ratio":
        return "quantity='disparity' with signed=True"
    return "combine=(1, -1) or two other factors"


def instead(quantity: Quantity, question: str) -> str:
    """What to do where an exact answer is too large; question: "index", "table" or "sets"."""
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
    """What cannot be enumerated or planned within says what samples= can do about it."""
    try:
        yield
    except (EnumerationLimitError, MemoryPlanError) as error:
        if "samples=" in str(error):
            raise
        text = str(error).replace("background row", "pool row")
        raise type(error)(f"{text} {instead(quantity, question)}") from None


def refuse_unaffordable(game: GameRun, needs_table: bool, question: str) -> int:
    """Raise EnumerationLimitError or MemoryPlanError for too large a question, naming samples=.

    Returns the model rows that are coming at most.
    """
    with naming_samples(game.quantity, question):
        if needs_table and game.P > LARGEST_TABLE:
            raise EnumerationLimitError(
                f"{_why_a_table(game.quantity)} the table of all 2^{game.P} sets; at most "
                f"{LARGEST_TABLE} players can be enumerated. Group columns with players=, or ask "
                f"{NO_TABLE}."
            )
        pairs = len(game.quantity.asked(game.N)) * game.engine.replacement.count
        what = f"every coalition of {pairs:,} pairs of a row and a donor"
        _refuse_rows(pairs, what, game, question)
        survey = ask.exact_cost(game)
        rows = int(survey.corners.astype(float).sum())
        _refuse_rows(rows, what, game, question)
        refuse_too_many(game, survey.largest)
    return rows


def _why_a_table(quantity: Quantity) -> str:
    if quantity.outer is not None:
        return f"an index of difference={quantity.name!r}, which acts on means, needs"
    if callable(quantity.combine):
        return f"an index of quantity={quantity.measured!r}, which is made of two means, needs"
    return "game() is"


def refuse_long_list(game: GameRun, replaced: np.ndarray) -> None:
    """The same for the sets replaced bool [C, P], each asked of every row and distinct donor."""
    N, B = len(game.quantity.asked(game.N)), game.engine.replacement.count
    if N * B * len(replaced) <= MOST_ROWS:
        return
    with naming_samples(game.quantity, "sets"):
        rows = N * rows_of_list(game, ~replaced)
        _refuse_rows(rows, f"{len(replaced)} sets of {N:,} rows with {B:,} donors", game, "sets")


def tell_long_list(game: GameRun, replaced: np.ndarray) -> None:
    """Warn of a long list of sets replaced bool [C, P] before it is asked."""
    N, B = len(game.quantity.asked(game.N)), game.engine.replacement.count
    if why_long(game, N * B * len(replaced)):
        tell_long_run(game, N * rows_of_list(game, ~replaced), FEWER_ROWS)


def _refuse_rows(rows: int, what: str, game: GameRun, question: str) -> None:
    if rows > MOST_ROWS:
        raise EnumerationLimitError(
            f"samples=None asks {what}, {rows:.2g} model rows and more than 2^36. Take fewer rows "
            f"or donors, or group columns with players= (there are {game.P}). "
            + instead(game.quantity, question)
        )


def refuse_random_index(game: GameRun, what: str) -> None:
    """Raise InputError for what cannot tell a random model's noise from influence."""
    if not game.engine.model.deterministic:
        raise InputError(
            f"{what} would hold the noise of a model declared deterministic=False. Say explain() "
            "with index='shapley', 'banzhaf', SizeLimited(k) or Pr[S], whose std_errors tell it."
        )
