"""v(S) of a few coalitions by the model's structure: instances crossed with distinct donors.

If each coalition replaces one player, instances are crossed with the player's values.

Letters: N instances, E entries (coalition, distinct donor), C coalitions, P players, K scores,
D donors of a block, or values of one; G blocks of a step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import MemoryPlanError
from xaijax.games.engine.compiled import ProgramRecipe
from xaijax.games.engine.dispatch import THREADS, beside
from xaijax.games.engine.evaluator import Engine
from xaijax.games.engine.player_values import Values, head_of, values_of
from xaijax.games.run import GameRun
from xaijax_kernels.structures.crossed import DONORS, INSTANCES, crossed_means
from xaijax_kernels.structures.singles import NUMBERS, single_means

MOST_INSTANCES = 1 << 11  # in one call; two calls run at the same time
# Values of a player that are taken together. A tree's thresholds leave a player few, and with most
# models a block of 16 has fewer that only fill it up: with 8 in place of 32, trees and forests take
# 0.5 to 0.8 of the time, a kernel machine and logistic regression with 16 in place of 32 0.8 to
# 0.95.
FEW, VALUES = 8, 16
HYBRIDS = 1 << 14  # that the head takes at a time


def crossed(
    ask: GameRun, masks: np.ndarray, entries: Any, here: np.ndarray, K: int
) -> np.ndarray | None:
    """Means over donors, float64 [n, C, K], of masks bool [C, P]; None: a score is bad, or the
    table of values does not fit.

    entries: the donors that each coalition is asked with, see `distinct_donors`.
    """
    values = values_of(ask.engine, ask.codes)
    if values is None:
        return None
    C, replaced = len(masks), (~masks).sum(axis=1)
    if masks.all():
        answers = ask.ends.rows_by_values
        if answers is None:
            return None
        own = answers[here]
        score = ask.engine.score
        scores = own if score is None else np.asarray(score(own, own))
        kept = np.isfinite(scores) if score is None else score.kept(scores)
        ask.answered(len(here))
        return np.repeat(scores[:, None], C, axis=1).astype(np.float64) if kept.all() else None
    step = _coalitions_at_a_time(ask.engine, values)
    if replaced.max() == 1 and step >= ask.P:
        try:
            found = _one_at_a_time(ask, values, masks, entries, here, K)
        except MemoryPlanError:  # the list below is cut to fit
            pass
        else:
            if found is not None:
                ask.answered(len(here))
            return found
    parts = []
    for c in range(0, C, step):
        found = _of_list(
            ask, values, masks[c : c + step], _blocks(entries, values, c, step), here, K
        )
        if found is None:
            return None
        parts.append(found)
    ask.answered(len(here))
    return np.concatenate(parts, axis=1)


def _coalitions_at_a_time(engine: Engine, values: Values) -> int:
    # A block holds its parts twice or three times while they are made.
    per_coalition = 3 * INSTANCES * values.table.shape[1] * values.table.dtype.itemsize
    return max(1, engine.memory.fits("results", per_coalition))


def _blocks(entries: Any, values: Values, first: int, step: int) -> tuple[np.ndarray, ...]:
    """(coalition [blocks], whether it begins there, donors [blocks, D, P], weights [blocks, D])."""
    ends = [*entries.start[1:], len(entries)]
    coalition, begins, donors, weights = [], [], [], []
    for c in range(first, min(first + step, len(ends))):
        own = np.arange(entries.start[c], ends[c])
        blocks = -(-len(own) // DONORS)
        weight = np.pad(entries.weight[own], (0, blocks * DONORS - len(own)))
        own = np.pad(own, (0, blocks * DONORS - len(own)), mode="edge")
        coalition.append(np.full(blocks, c - first, np.int32))
        begins.append(np.arange(blocks) == 0)
        donors.append(values.of_donors[entries.donor[own]].reshape(blocks, DONORS, -1))
        weights.append(weight.reshape(blocks, DONORS))
    joined = [np.concatenate(part) for part in (coalition, begins, donors, weights)]
    return joined[0], joined[1], joined[2], joined[3].astype(values.table.dtype)


def _of_list(
    ask: GameRun,
    values: Values,
    masks: np.ndarray,
    blocks: tuple[np.ndarray, ...],
    here: np.ndarray,
    K: int,
) -> np.ndarray | None:
    """The means of some coalitions."""
    out = np.empty((len(here), len(masks), K))
    run = _run(crossed_means, ask.engine, values, DONORS, K)
    for place, (means, bad) in _asked(ask, values, here, "crossed", K, run, (masks, *blocks)):
        if bad:
            return None
        out[place] = np.asarray(means)[: len(out[place])]
    return out


def _one_at_a_time(
    ask: GameRun, values: Values, masks: np.ndarray, entries: Any, here: np.ndarray, K: int
) -> np.ndarray | None:
    """The means of coalitions that replace one player, or none."""
    replaced = ~masks
    blocks = _values(entries, values, replaced, ask.engine.known.width)
    run = _run(single_means, ask.engine, values, blocks[1][0].size, K)
    out = np.empty((len(here), len(masks), K))
    for place, (own, means, bad) in _asked(ask, values, here, "singles", K, run, blocks):
        if bad:
            return None
        n = len(out[place])
        of_players = np.asarray(means)[:n, replaced.argmax(axis=1)]
        whole = ~replaced.any(axis=1)[:, None]
        out[place] = np.where(whole, np.asarray(own)[:n, None], of_players)
    return out


def _values(
    entries: Any, values: Values, replaced: np.ndarray, width: int
) -> tuple[np.ndarray, ...]:
    """(player [steps, G], values [steps, G, D], weights [steps, G, D]) of coalitions that replace
    one player: a player's values of all donors, in blocks.
    """
    ends = [*entries.start[1:], len(entries)]
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for c, p in zip(*np.nonzero(replaced), strict=True):
        if p not in found:
            own = slice(entries.start[c], ends[c])
            # Values that multiply alike have one number, see `player_values`.
            numbers, place = np.unique(values.of_donors[entries.donor[own], p], return_inverse=True)
            found[p] = numbers, np.bincount(place, entries.weight[own])
    D = FEW if np.mean([len(numbers) for numbers, _ in found.values()]) <= FEW else VALUES
    player, number, weights = [], [], []
    for p, (numbers, weight) in found.items():
        filled = 0, -len(numbers) % D
        number.append(np.pad(numbers, filled, mode="edge"))
        weights.append(np.pad(weight, filled))
        player.append(np.full(len(number[-1]) // D, p, np.int32))
    blocks = sum(map(len, player))
    steps = -(-blocks // max(1, min(NUMBERS // width, HYBRIDS) // (INSTANCES * D)))
    together = -(-blocks // steps)
    filled = steps * together - blocks
    place = np.pad(np.concatenate(player), (0, filled), mode="edge").reshape(steps, together)
    dims = steps, together, D
    numbers = np.pad(np.concatenate(number), (0, filled * D), mode="edge").reshape(dims)
    of_values = np.pad(np.concatenate(weights), (0, filled * D)).reshape(dims)
    return place, numbers, of_values.astype(values.table.dtype)


def _asked(
    ask: GameRun,
    values: Values,
    here: np.ndarray,
    key: str,
    K: int,
    run: Any,
    blocks: tuple[Any, ...],
) -> Iterator[tuple[slice, Any]]:
    """(places, what a program finds) of the instances `here`, some at a time; two calls at the same
    time, if the memory holds both.
    """
    engine, N = ask.engine, len(here)
    size = min(MOST_INSTANCES, INSTANCES << (-(-N // (2 * INSTANCES)) - 1).bit_length())

    def arguments(first: int) -> tuple[Any, ...]:
        rows = values.of_rows[here[first : first + size]]
        if len(rows) < size:
            rows = np.pad(rows, ((0, size - len(rows)), (0, 0)), mode="edge")
        return engine.model.params, values.table, rows, *blocks

    name, what = (key, engine.structure, engine.score, K), "instances crossed with donors"
    own, ahead = ProgramRecipe(name, run, arguments(0), what=what, ahead=THREADS), THREADS
    try:
        program = engine.compiled.program(own)
    except MemoryPlanError:
        ahead = 0
        program = engine.compiled.program(replace(own, ahead=0))
    waiting: deque[tuple[slice, Any]] = deque()
    for first in range(0, N, size):  # arguments of one shape: the program is looked up once
        found = beside(program, arguments(first))
        waiting.append((slice(first, min(first + size, N)), found))
        if len(waiting) > ahead:
            place, found = waiting.popleft()
            yield place, found.result()
    for place, found in waiting:
        yield place, found.result()


def _run(kernel: Any, engine: Engine, values: Values, donors: int, K: int) -> Any:
    """What a program is compiled of; donors: those that a call of the head has for each
    instance.
    """
    score, dtype = engine.score, values.table.dtype
    return partial(
        kernel,
        engine.structure.of,
        head_of(engine, INSTANCES * donors, dtype),
        head_of(engine, INSTANCES, dtype),
        (lambda answers, own: answers) if score is None else score,
        jnp.isfinite if score is None else score.kept,
        K,
    )
