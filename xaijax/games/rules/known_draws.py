"""The agreement quotient of rules: draws whose hybrid is that of a rule asked before.

Where the donor agrees with x in column j (bit for bit, or is in x's bin and stays there), keeping j
as well changes nothing: the hybrid of rule A + j is that of A. Rules of one size are asked after
those of the size before, whose answers are kept here, a bit a draw. A rule has several parents:
the kept rule that it extends, and the same extension of what that rule was made of.

Letters: Q questions (an instance and a rule), F columns, D listed draws.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from xaijax_kernels.rules.candidates import rule_keys

MOST_BITS = 1 << 31  # of answers that are kept
_MIX = np.uint64(0x9E3779B97F4A7C15)


class KnownDraws:
    """The answers of the last round."""

    def __init__(self, F: int) -> None:
        self._columns = _folded(rule_keys(np.eye(F, dtype=bool)))  # uint64 [F]
        self._keys = np.zeros(0, np.uint64)
        self._order = np.zeros(0, np.int64)
        self._who = np.zeros(0, np.int64)
        self._rules = np.zeros((0, F), bool)
        self._bits = np.zeros((0, 0), np.uint8)
        self._asked = np.zeros(0, bool)

    def parents(
        self, who: np.ndarray, rules: np.ndarray, asked: np.ndarray
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
        """(a column f, questions int [q] whose rule without f is known, its places int [q]), by f.

        who int [Q], rules bool [Q, F]; asked: bool [D], the draws that are wanted, of which all
        must be known.
        """
        if not len(self._keys) or (asked & ~self._asked).any():
            return
        keys = _folded(rule_keys(rules)) ^ _of_instance(who)
        for f in range(rules.shape[1]):
            q = np.flatnonzero(rules[:, f])
            at = np.searchsorted(self._keys, keys[q] ^ self._columns[f])
            found = self._order[np.minimum(at, len(self._keys) - 1)]
            # Keys may collide: what counts is the rule itself.
            own = rules[q].copy()
            own[:, f] = False
            same = (self._who[found] == who[q]) & (self._rules[found] == own).all(axis=1)
            if same.any():
                yield f, q[same], found[same]

    def flags(self, places: np.ndarray, D: int) -> np.ndarray:
        """The answers at these places; bool [n, D]."""
        return np.unpackbits(self._bits[places], axis=1, count=D).astype(bool)

    def keep(self, who: np.ndarray, rules: np.ndarray, bits: np.ndarray, asked: np.ndarray) -> None:
        """Keep a round's answers to the draws asked; bits uint8 [Q, D / 8] of `numpy.packbits`."""
        self._asked = asked
        keys = _folded(rule_keys(rules)) ^ _of_instance(who)
        self._order = np.argsort(keys, kind="stable")
        self._keys, self._who, self._rules = keys[self._order], who, rules
        self._bits = bits


def _folded(keys: np.ndarray) -> np.ndarray:
    """64 bits of keys uint64 [..., 2], linear in them: a rule's is the XOR of its columns'."""
    return keys[..., 0] ^ (keys[..., 1] << np.uint64(17)) ^ (keys[..., 1] >> np.uint64(47))


def _of_instance(who: np.ndarray) -> np.ndarray:
    word = (who.astype(np.uint64) + np.uint64(1)) * _MIX
    return word ^ (word >> np.uint64(31))
