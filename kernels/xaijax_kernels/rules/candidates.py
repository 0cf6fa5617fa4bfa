"""Candidate generation: kept rules with one more predicate, each set once.

Letters: N instances, W kept rules, F columns, A = W F candidates.
"""

from __future__ import annotations

import numpy as np

from xaijax_kernels.games.sampling import player_keys


def extend(kept: np.ndarray, has: np.ndarray, allowed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Candidate w F + f is rule w with column f: (rules bool [N, A, F], valid bool [N, A]).

    kept: bool [N, W, F]; has: bool [N, W], which of them there are; allowed: bool [N, F].
    """
    N, W, F = kept.shape
    rules = kept[:, :, None, :] | np.eye(F, dtype=bool)
    valid = has[:, :, None] & ~kept & allowed[:, None, :]
    rules, valid = rules.reshape(N, W * F, F), valid.reshape(N, W * F)
    return rules, valid & first_of_its_kind(rules, valid)


def rule_keys(rules: np.ndarray) -> np.ndarray:
    """128 bits that tell sets of columns apart, uint64 [..., 2]; exact up to 128 columns."""
    F = rules.shape[-1]
    words = player_keys(0, F)
    chosen = np.where(rules[..., None], words, np.uint64(0))
    return np.bitwise_xor.reduce(chosen, axis=-2)


def first_of_its_kind(rules: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Whether no valid rule before it is the same set; bool [N, A] of rules bool [N, A, F]."""
    if rules.shape[1] <= rules.shape[2]:
        return np.ones(valid.shape, bool)  # one kept rule: all its children differ
    keys = rule_keys(rules)
    place = np.broadcast_to(np.arange(valid.shape[1]), valid.shape)
    # Valid ones first among equals, in the order they came in.
    order = np.lexsort((place, ~valid, keys[..., 0], keys[..., 1]), axis=1)
    sorted_ = np.take_along_axis(keys, order[..., None], axis=1)
    new = np.ones(valid.shape, bool)
    new[:, 1:] = (sorted_[:, 1:] != sorted_[:, :-1]).any(axis=2)
    first = np.empty_like(new)
    np.put_along_axis(first, order, new, axis=1)
    return first
