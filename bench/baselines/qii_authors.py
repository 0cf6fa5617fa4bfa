"""The authors' QII in plain NumPy and scikit-learn, written from the paper and its protocol.

Shapley and Banzhaf (V-B): random orders, or sets, each followed with the rows of one fixed pool,
one call of the classifier a step. Average and disparity (II, VI): each input's column is permuted
over a sample of rows, which replaces it by draws from its prior.

Letters: P players, n rows of a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Predict = Callable[[np.ndarray], np.ndarray]  # rows -> bool, whether the outcome is positive
Groups = Sequence[np.ndarray]  # the columns of each player


def shapley(
    predict: Predict, x: np.ndarray, pool: np.ndarray, groups: Groups, orders: int, seed: int
) -> np.ndarray:
    """Marginal influences of every order, [orders, P]; their mean is the estimate."""
    rng = np.random.default_rng(seed)
    found = np.zeros((orders, len(groups)))
    whole = float(predict(x[None])[0])
    for order in found:
        rows = np.repeat(x[None], len(pool), axis=0)
        before = whole
        for i in rng.permutation(len(groups)):
            rows[:, groups[i]] = pool[:, groups[i]]
            after = float(predict(rows).mean())
            order[i] = before - after
            before = after
    return found


def banzhaf(
    predict: Predict, x: np.ndarray, pool: np.ndarray, groups: Groups, sets: int, seed: int
) -> np.ndarray:
    """Marginal influences on random sets, one for each player and set; [sets, P]."""
    rng = np.random.default_rng(seed)
    found = np.zeros((sets, len(groups)))
    for draw in found:
        for i in range(len(groups)):
            rows = np.repeat(x[None], len(pool), axis=0)
            for j in np.flatnonzero(rng.random(len(groups)) < 0.5).tolist():
                if j != i:
                    rows[:, groups[j]] = pool[:, groups[j]]
            before = float(predict(rows).mean())
            rows[:, groups[i]] = pool[:, groups[i]]
            draw[i] = before - float(predict(rows).mean())
    return found


def average(predict: Predict, rows: np.ndarray, players: Groups, seed: int) -> np.ndarray:
    """The share of rows whose outcome changes when an input is permuted, [P]."""
    rng = np.random.default_rng(seed)
    before = predict(rows)
    found = []
    for columns in players:
        changed = rows.copy()
        changed[:, columns] = rows[rng.permutation(len(rows))][:, columns]
        found.append(float((predict(changed) != before).mean()))
    return np.array(found)


def disparity(
    predict: Predict, rows: np.ndarray, members: np.ndarray, players: Groups, seed: int
) -> np.ndarray:
    """What permuting an input takes from the gap between members bool [n] and the rest, [P]."""
    rng = np.random.default_rng(seed)

    def gap(outcomes: np.ndarray) -> float:
        return float(outcomes[members].mean() - outcomes[~members].mean())

    before = abs(gap(predict(rows)))
    found = []
    for columns in players:
        changed = rows.copy()
        changed[:, columns] = rows[rng.permutation(len(rows))][:, columns]
        found.append(before - abs(gap(predict(changed))))
    return np.array(found)
