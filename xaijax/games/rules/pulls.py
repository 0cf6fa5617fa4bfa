"""Pulls: rules of instances as the rows that a loop takes, and their bits as sums.

And lots: draws of rows that satisfy a rule, by the same hash as on the device.

Letters: Q questions (an instance and a rule), F columns, L columns of a rule at most, p draws of a
pull, D draws of a question; of lots B donors, R draws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax_kernels.rules.perturbed_rows import HEADER, keys_of

NAMED = 32  # draws of a pull that names them: one word of bits
SHORT = 20  # draws of a pull where they are random: half of what a candidate gets first


@dataclass(frozen=True)
class Pulls:
    """Pulls in the order of their questions."""

    header: np.ndarray  # int32 [M, 4 + L], as `perturbed_rows.perturbed` takes them
    question: np.ndarray  # int64 [M]
    used: np.ndarray  # int64 [M], draws of the pull that count
    draws: int  # p


def rule_columns(rules: np.ndarray, longest: int) -> np.ndarray:
    """The columns of rules bool [Q, F]: int32 [Q, longest], -1 where there are no more."""
    order = np.argsort(~rules, axis=1, kind="stable")[:, :longest]
    return np.where(np.take_along_axis(rules, order, axis=1), order, -1).astype(np.int32)


def pulls_of(
    instance: np.ndarray,
    keys: np.ndarray,
    rules: np.ndarray,
    first: np.ndarray,
    draws: np.ndarray,
    p: int,
    longest: int,
) -> Pulls:
    """Pulls of p draws that cover draws first .. first + draws - 1 of each question.

    instance int [Q], keys int32 [Q, 2], rules bool [Q, F], first and draws int [Q].
    """
    pieces = -(-draws // p)
    question = np.repeat(np.arange(len(draws)), pieces)
    before = np.repeat(np.cumsum(pieces) - pieces, pieces)
    offset = (np.arange(len(question)) - before) * p
    header = np.empty((len(question), HEADER + longest), np.int32)
    header[:, 0] = instance[question]
    header[:, 1:3] = keys[question]
    header[:, 3] = first[question] + offset
    header[:, HEADER:] = rule_columns(rules, longest)[question]
    return Pulls(header, question, np.minimum(draws[question] - offset, p), p)


def named_pulls(
    instance: np.ndarray,
    keys: np.ndarray,
    rules: np.ndarray,
    wanted: np.ndarray,
    p: int,
    longest: int,
) -> tuple[Pulls, np.ndarray]:
    """Pulls that name the draws wanted bool [Q, D]; and these draws' places in `wanted`, flat.

    A pull's last draws are repeated where it has fewer than p.
    """
    places, D = np.flatnonzero(wanted), wanted.shape[1]
    each = np.count_nonzero(wanted, axis=1)
    pieces = -(-each // p)
    of_pull = np.repeat(np.arange(len(each)), pieces)
    before = np.repeat(np.cumsum(pieces) - pieces, pieces)
    start = (np.arange(len(of_pull)) - before) * p  # within the question
    first, left = (np.cumsum(each) - each)[of_pull] + start, each[of_pull] - start
    header = np.empty((len(of_pull), HEADER + longest + p), np.int32)
    header[:, 0] = instance[of_pull]
    header[:, 1:3], header[:, 3] = keys[of_pull], 0
    header[:, HEADER : HEADER + longest] = rule_columns(rules, longest)[of_pull]
    at = first[:, None] + np.minimum(np.arange(p), left[:, None] - 1)
    header[:, HEADER + longest :] = places[at] - (of_pull * D)[:, None]
    return Pulls(header, of_pull, np.minimum(left, p), p), places


def counts(pulls: Pulls, bits: np.ndarray, questions: int) -> np.ndarray:
    """Draws that agree, int64 [questions], of bits uint32 [M, ceil(p / 32)]."""
    left = pulls.used[:, None] - 32 * np.arange(bits.shape[1])
    low = (np.uint64(1) << left.clip(0, 32).astype(np.uint64)) - np.uint64(1)
    own = np.bitwise_count(bits & low.astype(np.uint32)).sum(axis=1, dtype=np.int64)
    return np.bincount(pulls.question, own, minlength=questions).astype(np.int64)


def flags(bits: np.ndarray, p: int) -> np.ndarray:
    """Which draws agree, bool [M, p], of bits uint32 [M, ceil(p / 32)]."""
    bytes_ = np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), -1)
    return np.unpackbits(bytes_, axis=1, bitorder="little", count=p).view(bool)


def packed(agrees: np.ndarray) -> np.ndarray:
    """bool [M, p] as uint32 [M, ceil(p / 32)]."""
    M, p = agrees.shape
    padded = np.zeros((M, -(-p // 32) * 32), bool)
    padded[:, :p] = agrees
    return np.packbits(padded, axis=1, bitorder="little").view("<u4").astype(np.uint32)


def satisfying(
    holds: np.ndarray, weights: np.ndarray, keys: np.ndarray, first: np.ndarray, draws: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(question, a donor that satisfies its rule, any donor) of every draw; int64 [R] each.

    holds bool [Q, B], at least one a question; weights [B]; keys int32 [Q, 2]; first, draws [Q].
    """
    question = np.repeat(np.arange(len(draws)), draws)
    before = np.repeat(np.cumsum(draws) - draws, draws)
    draw = (np.arange(len(question)) - before + first[question]).astype(np.uint64)
    key = np.ascontiguousarray(keys.astype("<i4")).view("<u8").ravel()[question]
    both = [_fraction(keys_of(which, key, draw)) for which in (0, 1)]
    ends = np.cumsum(holds * weights, axis=1)
    total = ends[:, -1]
    # One search in all questions: question q's running shares lie in (q, q + 1].
    shares = ends / total[:, None] + np.arange(len(holds))[:, None]
    flat = np.searchsorted(shares.ravel(), question + both[0], side="right")
    last = holds.shape[1] - 1 - holds[:, ::-1].argmax(axis=1)
    kept = np.minimum(flat - question * holds.shape[1], last[question])
    ends = np.cumsum(weights)
    free = np.searchsorted(ends, both[1] * ends[-1], side="right")
    return question, kept, np.minimum(free, np.flatnonzero(weights)[-1])


def _fraction(words: np.ndarray) -> np.ndarray:
    """Uniform numbers in [0, 1) of int32 [R, 2]."""
    whole = np.ascontiguousarray(words.astype("<i4")).view("<u8").ravel()
    return (whole >> np.uint64(11)) * 2.0**-53
