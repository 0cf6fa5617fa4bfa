"""v(S) of a few coalitions by the model's structure: instances crossed with distinct donors.

Letters: N instances, E entries (coalition, distinct donor), C coalitions, P players, K scores,
D donors of a block.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.games.asking.questions import Questions
from xaijax.games.engine.compiled import Recipe
from xaijax.games.engine.player_values import Values, head_of, values_of, whole
from xaijax.games.engine.probed import Probed
from xaijax.games.engine.setting import Setting
from xaijax_kernels.structures.crossed import DONORS, INSTANCES, crossed_means

MOST_INSTANCES = 1 << 13  # in one call
SHARE = 8  # of the memory that the parts of a block of instances may take


def crossed(
    ask: Questions, masks: np.ndarray, entries: Any, here: np.ndarray, K: int
) -> np.ndarray | None:
    """Means over donors, float64 [n, C, K], of masks bool [C, P]; None: a score is bad, or the
    table of values does not fit.

    entries: the donors that each coalition is asked with, see `distinct_donors`.
    """
    values = values_of(ask.probed, ask.codes)
    if values is None:
        return None
    C = len(masks)
    if masks.all():
        own = whole(ask.probed, values, values.of_rows[here])
        score = ask.setting.score
        scores = own if score is None else np.asarray(score(own, own))
        kept = np.isfinite(scores) if score is None else score.kept(scores)
        ask.answered(len(here))
        return np.repeat(scores[:, None], C, axis=1).astype(np.float64) if kept.all() else None
    step = _coalitions_at_a_time(ask.setting, values)
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


def _coalitions_at_a_time(setting: Setting, values: Values) -> int:
    # A block holds its parts twice or three times while they are made.
    per_coalition = 3 * INSTANCES * values.table.shape[1] * values.table.dtype.itemsize
    return max(1, setting.max_memory // SHARE // per_coalition)


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
    ask: Questions,
    values: Values,
    masks: np.ndarray,
    blocks: tuple[np.ndarray, ...],
    here: np.ndarray,
    K: int,
) -> np.ndarray | None:
    """The means of some coalitions."""
    probed, setting = ask.probed, ask.setting
    singles = bool(((~masks).sum(axis=1) == 1).all())
    run = _run(probed, values, K, singles)
    out = np.empty((len(here), len(masks), K))
    for n in range(0, len(here), MOST_INSTANCES):
        some = values.of_rows[here[n : n + MOST_INSTANCES]]
        filled = INSTANCES << (-(-len(some) // INSTANCES) - 1).bit_length()
        rows = np.pad(some, ((0, filled - len(some)), (0, 0)), mode="edge")
        arguments = (setting.model.params, values.table, rows, masks, *blocks)
        key = ("crossed", probed.structure, setting.score, K, singles)
        recipe = Recipe(key, run, arguments, what="instances crossed with donors")
        means, bad = probed.compiled.run(recipe)
        if bad:
            return None
        out[n : n + len(some)] = np.asarray(means)[: len(some)]
    return out


def _run(probed: Probed, values: Values, K: int, singles: bool) -> Any:
    """What a program is compiled of."""
    score, dtype = probed.setting.score, values.table.dtype
    return partial(
        crossed_means,
        probed.structure.of,
        head_of(probed, INSTANCES * DONORS, dtype),
        head_of(probed, INSTANCES, dtype),
        (lambda answers, own: answers) if score is None else score,
        jnp.isfinite if score is None else score.kept,
        K,
        singles,
    )
