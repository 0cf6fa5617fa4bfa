"""shapiq's interactions of two players, exact and sampled; all of them ask a game of one instance.

Letters: P players, C coalitions, M pairs.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from bench.peers.installed import installed

EXACT = "shapiq ExactComputer"
OneGame = Callable[[np.ndarray], np.ndarray]  # coalitions bool [C, P] -> float64 [C]


def sets(P: int) -> list[tuple[int, ...]]:
    """Players, then pairs of them, in order."""
    return [S for s in (1, 2) for S in itertools.combinations(range(P), s)]


def exact(game: OneGame, P: int) -> np.ndarray:
    """SII of all sets of one and two players, by their computer; [P + M]."""
    computer = installed("shapiq.game_theory").ExactComputer(game, P)
    found = computer("SII", 2)
    return np.array([found[S] for S in sets(P)])


def _made(name: str, **more: Any) -> Callable[[OneGame, int, int, int], np.ndarray]:
    def estimate(game: OneGame, P: int, budget: int, seed: int) -> np.ndarray:
        kind = getattr(installed("shapiq.approximator"), name)
        made = kind(P, 2, "SII", random_state=seed, **more)

        def asked(masks: np.ndarray) -> np.ndarray:
            return game(np.atleast_2d(np.asarray(masks, bool)))

        with warnings.catch_warnings(), threadpool_limits(1, "blas"):
            warnings.simplefilter("ignore")
            found = made.approximate(budget + 2, asked)
        return np.array([found[S] for S in sets(P)])

    return estimate


SAMPLED = {
    "shapiq KernelSHAPIQ": _made("KernelSHAPIQ"),
    "shapiq KernelSHAPIQ, paired": _made("KernelSHAPIQ", pairing_trick=True),
    "shapiq SVARMIQ": _made("SVARMIQ"),
    "shapiq SVARMIQ, paired": _made("SVARMIQ", pairing_trick=True),
    "shapiq SHAPIQ": _made("SHAPIQ"),
    "shapiq SHAPIQ, paired": _made("SHAPIQ", pairing_trick=True),
    "shapiq PermutationSamplingSII": _made("PermutationSamplingSII"),
}
