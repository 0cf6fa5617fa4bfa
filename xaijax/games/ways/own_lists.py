"""v(S) for coalitions of which each instance has its own, as many as the others.

One row for each coalition and donor, by the model itself.

Letters: n instances, B donors, C coalitions, P players, K outputs.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from xaijax.games.asking.questions import Questions
from xaijax.games.engine.loop import Backend
from xaijax.games.ways.listed import MOST_ROWS
from xaijax_kernels.engine.listed import ListedStream


def own_list_means(ask: Questions, rows: np.ndarray, masks: np.ndarray, K: int) -> np.ndarray:
    """Means over donors, float64 [n, C, K], of the instances `rows` [n]; masks bool [n, C, P]."""
    run = partial(_means, ask, rows, masks, K)
    return ask.with_offset(ask.with_less_where_memory_is_short(ask.backend(), run)[1])


def _means(
    ask: Questions, rows: np.ndarray, masks: np.ndarray, K: int, backend: Backend
) -> np.ndarray:
    """The same on this backend, so many at a time as the memory holds."""
    n, C, P = masks.shape
    slot, setting = 1 << backend.slot_bits, ask.setting
    B, most = len(setting.replacement.weights), max(1, setting.max_memory // 4 // (16 * K))
    most = min(MOST_ROWS, most)
    step = min(setting.listed, max(slot, most // B // slot * slot))
    out = np.zeros((n, C, K))
    for c in range(0, C, step):
        part = masks[:, c : c + step]
        own = part.shape[1]
        padded = -(-own // slot) * slot
        donors = max(1, min(B, most // padded))
        together = max(1, min(most // (padded * donors), setting.listed // padded))
        together = min(together, setting.instances_at_a_time)
        for i in range(0, n, together):
            some = part[i : i + together]
            last = np.repeat(some[:, -1:], padded - own, axis=1)
            listed = np.concatenate([some, last], axis=1).reshape(-1, P)
            places = np.arange(len(some), dtype=np.int32)
            for b in range(0, B, donors):
                of = np.arange(b, min(b + donors, B), dtype=np.int32)
                stream = ListedStream(places, of, own, P, backend.slot_bits, own=True)
                ask.counted(stream)
                question = ask.question(stream, rows[i : i + together], of, backend, listed)
                found = backend.stream_means(stream, question)
                out[i : i + together, c : c + own] += found[:, :own]
    return out
