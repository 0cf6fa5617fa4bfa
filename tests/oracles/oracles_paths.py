"""Path-dependent values by their definition: absent players follow both children of a split."""

from __future__ import annotations

import itertools

import numpy as np


def goes_left(nodes, node, z):
    """Whether the number z goes left at a node."""
    if np.isnan(z):
        return bool(nodes["missing_left"][node])
    split = nodes["category_split"][node] if "category_split" in nodes else -1
    if split < 0:
        return bool(z <= nodes["threshold"][node])
    table = nodes["goes_left"][split]
    return bool(table[int(z)] if 0 <= z < len(table) - 1 else table[-1])


def followed(nodes, node, x, known):
    """v of a subtree: the mean of its leaves [K] with the columns `kept` known.

    A leaf is its own left child; without "right" the right child comes after the left one.
    """
    left = int(nodes["left"][node])
    if left == node:
        return np.asarray(nodes["value"][node], np.float64)
    column, right = int(nodes["feature"][node]), left + 1
    if "right" in nodes:
        right = int(nodes["right"][node])
    if column in known:
        return followed(nodes, left if goes_left(nodes, node, x[column]) else right, x, known)
    parts = [followed(nodes, child, x, known) for child in (left, right)]
    a, b = (float(nodes["cover"][child]) for child in (left, right))
    if a + b == 0:  # where no training row came, both children weigh alike
        a = b = 1.0
    return (a * parts[0] + b * parts[1]) / (a + b)


def coalition_values(nodes, x, groups):
    """v(S) of all sets of players of one row; {frozenset: [K]}."""
    values = {}
    for size in range(len(groups) + 1):
        for S in itertools.combinations(range(len(groups)), size):
            known = {column for player in S for column in groups[player]}
            values[frozenset(S)] = sum(followed(nodes, r, x, known) for r in nodes["roots"])
    return values
