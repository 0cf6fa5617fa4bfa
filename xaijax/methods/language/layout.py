"""`PromptLayout`: rows of tokens in which a segment has the same columns for all prompts.

A row is

    [ start | gap 0, segment 0 | gap 1, segment 1 | ... | end | target | stand-ins of the segments ]

Segments play, the last one as player 0: the sub-coalitions of a slot differ in the first players,
and then share the prefix before these segments (`structures/prefixes.py`). A prompt with fewer
segments has the last ones. All other columns are always kept. A part that is shorter than its
columns is filled up with NOTHING. The background row has ABSENT in the columns of every segment,
so that an absent segment is replaced by its stand-in: nothing (it is dropped), another token, a
text, or positions that are masked. Rows of one layout go through one compiled program, whatever
their prompts are.

Letters: R rows, P players (segments), F columns, W tokens of a row, T tokens that the model reads,
t tokens of a target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xaijax_kernels.structures.prefixes import Segment

NOTHING, ABSENT, MASKED = -1, -2, -3  # codes that are no token
DONOR = 1 << 23  # added to the tokens of another prompt, which then differ from all others


def bucket(count: int) -> int:
    """A length of at least `count` tokens, of four sizes an octave: few programs serve all."""
    step = max(8, 1 << max(0, count - 1).bit_length()) // 8
    return -(-count // step) * step


@dataclass(frozen=True)
class PromptLayout:
    """The columns of a row; hashable, so that programs are kept under it."""

    players: int  # P
    start: int  # columns of what comes before the first segment
    gap: int  # columns before each segment that belong to none
    segment: int  # columns of a segment
    end: int  # columns between the last segment and the target
    target: int  # t
    stand_ins: bool  # whether absent segments have a stand-in of their own
    length: int  # T

    @property
    def before_target(self) -> int:
        """Columns before the target."""
        return self.start + self.players * (self.gap + self.segment) + self.end

    @cached_property
    def of_column(self) -> np.ndarray:
        """The player of each column, int64 [F]; -1: none."""
        each = np.repeat(np.arange(self.players)[::-1, None], self.segment, axis=1)
        inside = np.pad(each, ((0, 0), (self.gap, 0)), constant_values=-1).reshape(-1)
        behind = self.end + self.target + self.stand_ins * self.players * self.segment
        return np.pad(inside, (self.start, behind), constant_values=-1)

    def rows(
        self,
        starts: Sequence[Sequence[int]],
        gaps: Sequence[Sequence[Sequence[int]]],
        segments: Sequence[Sequence[Sequence[int]]],
        ends: Sequence[Sequence[int]],
        targets: Sequence[Sequence[int]],
        stand_ins: Sequence[Sequence[Sequence[int]]],
    ) -> np.ndarray:
        """Codes of prompts, int [N, F]. A prompt with fewer segments has no token in the others."""
        N = len(starts)
        inside = [_filled(gaps, self.players, self.gap, NOTHING)]
        # A segment that a prompt lacks is as in the background, so that it does not play.
        inside.append(_filled(segments, self.players, self.segment, ABSENT))
        parts = [
            _filled([[one] for one in starts], 1, self.start, NOTHING).reshape(N, -1),
            np.concatenate(inside, axis=2).reshape(N, -1),
            _filled([[one] for one in ends], 1, self.end, NOTHING).reshape(N, -1),
            _filled([[one] for one in targets], 1, self.target, NOTHING).reshape(N, -1),
        ]
        if self.stand_ins:
            filled = _filled(stand_ins, self.players, self.segment, NOTHING)
            parts.append(filled.reshape(N, -1))
        return np.concatenate(parts, axis=1)

    @cached_property
    def absent(self) -> np.ndarray:
        """The background row in which every segment is absent, int [1, F]; with a token where
        something is always kept, so that the model can answer it.
        """
        row = np.where(self.of_column >= 0, ABSENT, NOTHING)
        row[self.before_target] = 0
        if self.start or self.gap:
            row[0] = 0
        elif self.end:
            row[self.before_target - 1] = 0
        else:  # the first stand-in
            row[self.before_target + self.target] = 0
        return row[None]

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, and the gaps between them, in the order of the text."""
        found: list[Segment] = []
        at = self.start
        for _ in range(self.players):
            if self.gap:
                found.append(Segment(at, at + self.gap, plays=False))
            found.append(Segment(at + self.gap, at + self.gap + self.segment))
            at += self.gap + self.segment
        return tuple(found)

    def tokens(self, rows: Any) -> Any:
        """The tokens of hybrid rows [R, F] in the order of the text, int32 [R, W], with NOTHING
        between them; the target's are the last.
        """
        codes, xp = rows.astype(np.int32), rows.__array_namespace__()
        inside = [self.part(codes, one) for one in self.segments]
        last = self.segments[-1].last
        after = codes[:, last : self.before_target + self.target]
        return xp.concat([codes[:, : self.start], *inside, after], axis=1)

    def part(self, rows: Any, segment: Segment) -> Any:
        """The tokens of a segment, or of a gap, of hybrid rows [R, F]; int32 [R, width]."""
        codes, xp = rows.astype(np.int32), rows.__array_namespace__()
        tokens = codes[:, segment.first : segment.last]
        if not segment.plays:
            return tokens
        stand_in: Any = NOTHING
        if self.stand_ins:
            p = (segment.first - self.start) // (self.gap + self.segment)
            first = self.before_target + self.target + p * self.segment
            stand_in = codes[:, first : first + self.segment]
        tokens = xp.where(tokens == ABSENT, stand_in, tokens)
        return xp.where(tokens >= DONOR, tokens - DONOR, tokens)

    def read(self, rows: Any, filler: Any = 0) -> tuple[Any, Any, Any]:
        """(ids int32 [R, T], mask bool [R, T], positions int32 [R, t] whose logits predict the
        target) of hybrid rows [R, F].

        The tokens of a row stand without gaps from the first position on. Where the mask is False
        the id is the filler.
        """
        tokens, xp = self.tokens(rows), rows.__array_namespace__()
        empty = tokens == NOTHING
        order = xp.argsort(empty, axis=1, stable=True)[:, : self.length]
        tokens = xp.take_along_axis(tokens, order, axis=1)
        mask = tokens >= 0
        count = (~empty).sum(axis=1, keepdims=True)
        target = (~empty[:, -self.target :]).sum(axis=1, keepdims=True)
        # The first is predicted by the last token that is seen: a hidden one says nothing.
        seen = mask & (xp.arange(mask.shape[1]) < count - target)
        last = mask.shape[1] - 1 - xp.argmax(seen[:, ::-1], axis=1, keepdims=True)
        others = count - target - 1 + xp.arange(1, self.target)
        places = xp.clip(xp.concat([last, others], axis=1), 0, self.length - 1)
        return xp.where(mask, tokens, filler), mask, places


def _filled(
    parts: Sequence[Sequence[Sequence[int]]], count: int, width: int, lacking: int
) -> np.ndarray:
    """`count` parts of each prompt, filled up to `width` with NOTHING; int [N, count, width].

    A part beyond those that a prompt has is `lacking`.
    """
    out = np.full((len(parts), count, width), lacking)
    for n, own in enumerate(parts):
        for p, tokens in enumerate(own, start=count - len(own)):
            out[n, p] = NOTHING
            out[n, p, : len(tokens)] = tokens
    return out
