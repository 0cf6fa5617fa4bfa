"""Whether so few coalitions were asked that pairs far larger than the others were not looked for.

`process/choice.py` does not look for them where the coalitions drawn may not tell two pairs from
two others (`Process.tells_apart`). A single large pair then has the scale of all others. That is
known from the draw alone, which is the same for all instances, and is told to whoever asked.

Letters: N instances, P players, C coalitions.
"""

from __future__ import annotations

import numpy as np

from xaijax.core import checks
from xaijax.estimators import pairs
from xaijax.estimators.unbiased_pairs import LEAST
from xaijax.players.interaction_index import InteractionIndex

# Coalitions a player, and beside them, from which large pairs are looked for whatever was drawn:
# from half as many at most, for 4 to 1,000 players.
SURELY = 4, 400
STEP = 1.1  # from one budget that is tried to the next


def looked_for(
    index: InteractionIndex, P: int, budget: int, seed: int, coalitions: np.ndarray
) -> np.ndarray:
    """For which instances large pairs are looked for, bool [N].

    coalitions: int [N], what each was asked of the budget; 0: it is exact.
    """
    asked, place = np.unique(coalitions, return_inverse=True)
    sought = [C == 0 or _seen(index, P, budget, seed, C) for C in asked.tolist()]
    return np.array(sought, bool)[place]


def enough(index: InteractionIndex, P: int, seed: int, C: int) -> int:
    """About the smallest budget above C by which they are; all coalitions, if need be."""
    most = (1 << P) - 2
    while C < most and not _seen(index, P, C, seed, C):
        C = max(C + 2, int(C * STEP))
    return min(most, -(-C // 10) * 10)


def tell_not_looked_for(
    index: InteractionIndex, P: int, seed: int, coalitions: np.ndarray, sought: np.ndarray
) -> None:
    """Warn of instances, where there are some, whose large pairs were not looked for."""
    lacking = int((~sought).sum())
    if lacking:
        C = int(coalitions[~sought].max())
        checks.warn(
            f"{lacking:,} of {len(sought):,} instances were asked {C:,} coalitions of {P:,} "
            "players, so few that they may not tell two pairs from two others: no pair that is far "
            "larger than the others was looked for. A single large pair is drawn towards 0, and "
            f"its interval may miss it. Raise budget= to about {enough(index, P, seed, C):,}, or "
            f"say unbiased=True, which needs budget={LEAST * P:,} at least."
        )


def _seen(index: InteractionIndex, P: int, budget: int, seed: int, C: int) -> bool:
    if C >= SURELY[0] * P + SURELY[1]:
        return True
    units = min(C // 2, pairs.units(P, index, budget))
    state, _ = pairs.step(pairs.init(P, index, budget, seed), units)
    return state.process.tells_apart
