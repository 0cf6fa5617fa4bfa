"""Host models: the same pulls, drawn on the device as codes and answered in the host loop.

Letters: G pulls of one call, p draws of a pull, M pulls, R rows, C code columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.games.engine.compiled import ProgramRecipe
from xaijax.games.engine.host import HostBackend, named_rows
from xaijax.games.measure.score import Score
from xaijax.games.rules.pulls import Pulls, packed
from xaijax_kernels.engine.turns import counted
from xaijax_kernels.rules.perturbed_rows import PerturbationSpace, Pool, Subjects, perturbed


@dataclass(frozen=True)
class PullChunk:
    """The pulls of one call, as the host loop takes a piece."""

    first_row: int
    rows: int
    pulls: np.ndarray  # int32 [at most G, 4 + L]

    @property
    def slots(self) -> np.ndarray:
        """The pull of each row, int32 [rows, 4 + L]."""
        return np.repeat(self.pulls, self.rows // len(self.pulls), axis=0)


class RuleHost:
    """Runs pulls through a host model."""

    def __init__(self, backend: HostBackend, score: Score) -> None:
        self._backend, self._score = backend, score
        self.first = 0  # which row of X instance 0 is, for messages

    @property
    def rows_per_call(self) -> int:
        """R: the rows of a call."""
        return self._backend.rows_per_call

    def bits(
        self, space: PerturbationSpace, pool: Pool, subjects: Subjects, pulls: Pulls
    ) -> tuple[np.ndarray, int]:
        """(bits uint32 [M, ceil(p / 32)], the first pull with a bad answer or -1)."""
        p, M = pulls.draws, len(pulls.header)
        # Few sizes compile; a call has no more pulls than the round.
        G = max(1, min(self.rows_per_call // p, 1 << (M - 1).bit_length()))
        draw = self._program(space, pool, subjects, G, p, pulls.header.shape[1])
        own = np.asarray(subjects.own, np.float64)

        def drawn(piece: PullChunk) -> jax.Array:
            full = np.repeat(piece.pulls[-1:], G, axis=0)
            full[: len(piece.pulls)] = piece.pulls
            return draw(pool, subjects, full)

        pieces = (
            PullChunk(first * p, len(pulls.header[first : first + G]) * p, pulls.header[first:][:G])
            for first in range(0, M, G)
        )
        parts, bad = [], -1

        def whose(slots: np.ndarray) -> str:
            return f"these are drawn around X {named_rows(slots[:, 0] + self.first)}"

        for piece, answers in self._backend.answered(drawn, pieces, whose):
            who = np.repeat(piece.pulls[:, 0], p)
            scores = np.asarray(self._score(answers, own[who]))[:, 0]
            lost = np.flatnonzero(~np.isfinite(scores))
            if len(lost):
                bad = (piece.first_row + int(lost[0])) // p
            parts.append(packed((scores > 0.5).reshape(-1, p)))
        return np.concatenate(parts), bad

    def _program(
        self, space: PerturbationSpace, pool: Pool, subjects: Subjects, G: int, p: int, L: int
    ) -> Any:
        known = counted(jax.default_backend())  # the arguments are the host's

        def rows(pool: Any, subjects: Any, pulls: Any) -> jax.Array:
            some = perturbed(space, pool, subjects, pulls, p, known)
            return some.reshape(G * p, -1)

        subjects = subjects._replace(own=np.zeros(subjects.own.shape, np.float32))
        arguments = (pool, subjects, jax.ShapeDtypeStruct((G, L), jnp.int32))
        recipe = ProgramRecipe(("draw pulls", space, p), rows, arguments, what="a draw of pulls")
        return partial(_without_own, self._backend.compiled.program(recipe))


def _without_own(program: Any, pool: Pool, subjects: Subjects, pulls: np.ndarray) -> Any:
    """Answers are float64 on the host; the program that draws rows does not read them."""
    return program(pool, subjects._replace(own=np.zeros(subjects.own.shape, np.float32)), pulls)
