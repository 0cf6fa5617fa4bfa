"""v(S) of a few coalitions by the model's structure: instances crossed with distinct donors.

Letters: N instances, E entries (coalition, distinct donor), C coalitions, F code columns, K scores.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.games._programs import columns
from xaijax.games._questions import Questions
from xaijax_kernels.structures.crossed import DONORS, INSTANCES, crossed_means
from xaijax_kernels.tiles import traced_once

MOST_INSTANCES = 1 << 12  # in one call


def crossed(
    ask: Questions, masks: np.ndarray, entries: Any, here: np.ndarray, K: int
) -> np.ndarray | None:
    """Means over donors, float64 [n, C, K], of masks bool [C, P]; None: a score is bad.

    entries: the donors that each coalition is asked with, see `_distinct`.
    """
    evaluator = ask.evaluator
    codes, donors = ask.codes[here], evaluator.replacement.codes
    out = np.empty((len(here), len(masks), K))
    ends = [*entries.start[1:], len(entries)]
    for c, (first, last) in enumerate(zip(entries.start, ends, strict=True)):
        own = donors[entries.donor[first:last]]
        weights = entries.weight[first:last].astype(donors.dtype)
        missing = (DONORS << (-(-len(own) // DONORS) - 1).bit_length()) - len(own)
        own = np.pad(own, ((0, missing), (0, 0)), mode="edge")
        weights = np.pad(weights, (0, missing))
        kept = masks[c][evaluator.code_players]
        for n in range(0, len(codes), MOST_INSTANCES):
            some = codes[n : n + MOST_INSTANCES]
            filled = INSTANCES << (-(-len(some) // INSTANCES) - 1).bit_length()
            rows = np.pad(some, ((0, filled - len(some)), (0, 0)), mode="edge")
            means, bad = _program(evaluator, len(rows), len(own))(
                evaluator.model.params, rows, own, weights, kept
            )
            if bad:
                return None
            out[n : n + len(some), c] = np.asarray(means)[: len(some)]
    ask.answered(len(here))
    return out


def _program(evaluator: Any, N: int, B: int) -> Any:
    structure, score, cache = evaluator.structure, evaluator.score, evaluator.model.compiled
    dtype = evaluator.replacement.codes.dtype
    key = ("crossed", structure, score, N, B, dtype.name)
    if key not in cache:
        params = evaluator.model.params
        width = jax.eval_shape(structure.of, params).width
        shape = jax.ShapeDtypeStruct((INSTANCES * DONORS, width), dtype)
        head = traced_once(columns(structure.head), params, shape)
        run = partial(
            crossed_means,
            structure.of,
            head,
            (lambda answers, own: answers) if score is None else score,
            jnp.isfinite if score is None else score.kept,
        )
        cache[key] = jax.jit(run)
    return cache[key]
