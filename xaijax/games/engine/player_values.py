"""The distinct values of each player, and their terms in the layer of a model.

A player is a few columns; its values are their contents in the rows of the donors and instances. If
these are few (codes, counts, integers), a table of their terms in the first layer replaces all
rows.

Letters: N instances, B donors, P players, V values of all players, F columns, H numbers of a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.games.engine.dispatch import ProgramRecipe
from xaijax.games.engine.evaluator import Engine, once
from xaijax.games.measure.replacement.base import agreement_codes
from xaijax_kernels.sizes import INSTANCES_OF_CROSSING as INSTANCES
from xaijax_kernels.sizes import WHOLE_ROWS
from xaijax_kernels.structures.crossed import value_table, whole_answers

TOGETHER = 1 << 12  # full rows in one call


@dataclass(frozen=True)
class Values:
    """Numbered values: a number determines the player too."""

    of_rows: np.ndarray  # int32 [N, P]
    of_donors: np.ndarray  # int32 [B, P]
    table: jax.Array  # [V.., H], indexed by the numbers

    @cached_property
    def parts(self) -> tuple[jax.Array, jax.Array]:
        """Terms of the players of the instances and of the donors; [N, P, H] and [B, P, H]."""
        donors = self.table[self.of_donors]
        return donors if self.of_rows is self.of_donors else self.table[self.of_rows], donors


def distinct(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the first row of each value [V], its number in every row [R]) of codes int [R, c]."""
    whole = np.ascontiguousarray(codes)
    if whole.shape[1] > 1:
        whole = whole.view(f"V{whole.shape[1] * whole.itemsize}")
    _, first, number = np.unique(whole.ravel(), return_index=True, return_inverse=True)
    return first, number.ravel()


def values_of(engine: Engine, codes: np.ndarray) -> Values | None:
    """The values of instances [N, F] and of the donors; None if a table would be too large.

    Cached for the next game on the same rows.
    """
    last = _last(engine)
    cached = last[0] if last else None
    if cached is None or not _equal(cached[0], codes):
        cached = codes, _made(engine, codes)
        last[:] = [cached]
    return cached[1]


@once
def _last(engine: Engine) -> list[tuple[np.ndarray, Values | None]]:
    """The cache of the last codes; tables are too large to keep several."""
    return []


def _equal(codes: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(agreement_codes(codes), agreement_codes(other))


def _made(engine: Engine, codes: np.ndarray) -> Values | None:
    donors, params = engine.replacement.for_loops, engine.model.params
    same = _equal(codes, donors)  # QII's pool is usually its data
    rows = donors if same else np.concatenate([donors, codes])
    whole = agreement_codes(rows)
    structure, players = engine.structure, engine.code_players
    width = engine.known.parts
    most = engine.memory.fits("parts", width * rows.itemsize)
    firsts, numbers, V = [], [], 0
    for p in range(engine.players.count):
        first, number = distinct(whole[:, players == p])
        numbers.append(number + V)
        firsts.append(first)
        V += len(first)
        if V > most:
            return None
    number = np.stack(numbers, axis=1).astype(np.int32)
    player = np.repeat(np.arange(len(firsts)), list(map(len, firsts)))
    filled = ((0, -V % WHOLE_ROWS), (0, 0))
    codes_of = np.pad(rows[np.concatenate(firsts)], filled, mode="edge")
    columns = np.pad(player[:, None] == players, filled)
    arguments = (params, codes_of, columns)
    recipe = ProgramRecipe(
        ("value table", structure),
        partial(value_table, structure.of),
        arguments,
        what=f"a table of the {V:,} values of players",
    )
    table = engine.compiled.run(recipe)
    if not engine.known.adds:
        number = _alike(np.asarray(table)[:V], player)[number]
    of_donors = number[: len(donors)]
    return Values(of_donors if same else number[len(donors) :], of_donors, table)


def _alike(table: np.ndarray, player: np.ndarray) -> np.ndarray:
    """A common number for values of a player with equal factors, int32 [V]: values between the
    same thresholds of trees, and all values of a player without influence. table [V, L], player
    int [V].
    """
    number = np.arange(len(table), dtype=np.int32)
    for p in np.unique(player):
        members = np.flatnonzero(player == p)
        first, place = distinct(table[members])
        number[members] = members[first[place]]
    return number


def whole(engine: Engine, values: Values, numbers: np.ndarray) -> np.ndarray:
    """The model's outputs [n, A] of full rows, given the numbers int32 [n, P] of their values."""
    structure, params = engine.structure, engine.model.params
    head = head_of(engine, INSTANCES, values.table.dtype)
    size = min(
        TOGETHER,
        INSTANCES << (-(-len(numbers) // INSTANCES) - 1).bit_length(),
    )

    def arguments(first: int) -> tuple[Any, ...]:
        rows = np.minimum(np.arange(first, first + size), len(numbers) - 1)
        return params, values.table, numbers[rows]

    run, what = partial(whole_answers, structure.of, head), f"the answers to {size:,} full rows"
    recipe = ProgramRecipe(("whole", structure), run, arguments(0), what=what, ahead=1)
    program = engine.compiled.program(recipe)
    parts: list[Any] = []
    for first in range(0, len(numbers), size):  # read while the next one runs
        parts.append(program(*arguments(first)))
        if first:
            parts[-2] = np.asarray(parts[-2])
    return np.concatenate([np.asarray(part) for part in parts])[: len(numbers)]


def head_of(engine: Engine, rows: int, dtype: Any) -> Any:
    """The head after the structure, for `rows` rows at a time."""
    return engine.compiled.head(engine.structure, engine.model.params, rows, dtype)


def kernel_of(
    kernel: Any, engine: Engine, rows: int, own_rows: int, values: Values, *more: Any
) -> Any:
    """The recipe of a program; rows, own_rows: number of hybrids, and of instances, in a call of
    the head.
    """
    score, dtype = engine.score, values.table.dtype
    return partial(
        kernel,
        engine.structure.of,
        head_of(engine, rows, dtype),
        head_of(engine, own_rows, dtype),
        (lambda answers, reference: answers) if score is None else score,
        jnp.isfinite if score is None else score.kept,
        *more,
    )
