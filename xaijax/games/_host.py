"""Host models: hybrids drawn on the device as codes, answered by the model, reduced in float64.

The same questions as `_device.DeviceBackend` takes (`evaluate.Backend`), answered in NumPy.

Letters: R rows in a model call, C code columns, K outputs, S slots.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import numpy as np

from xaijax.games._clock import Clock
from xaijax_kernels.host_loop import Answered, run_on_host
from xaijax_kernels.hybrids import hybrid_rows
from xaijax_kernels.lattice import Dispatch, Pairs, dispatches
from xaijax_kernels.tables import host_tables

ROWS_PER_CALL = 1 << 15
# One row a slot: a host model's row is dear, so none is asked for as padding.
SLOT_BITS = 0


class HostBackend:
    """Runs the pieces of a stream through a host model."""

    def __init__(
        self,
        answer: Callable[[np.ndarray, int], np.ndarray],
        P: int,
        players: np.ndarray | None,
        donors: np.ndarray,
        *,
        rows_per_call: int,
        rows_per_block: int,
        instances: int,
        cache: dict[Any, Any],
        device: Any,
        clock: Clock,
    ) -> None:
        """answer(codes [rows, C], first row) -> float64 [rows, K].

        The sums are taken in blocks whose size does not depend on the size of a call, so that
        batch_size= changes no bit of them.
        """
        self.clock = clock
        clock.tile = rows_per_call
        self._answer, self._P = answer, P
        self._call, self._block = rows_per_call, rows_per_block
        self._instances = instances
        self._device = device
        self._donors = jax.device_put(donors, device)
        self._players = None if players is None else jax.device_put(players, device)
        self._cache = cache

    @property
    def slot_bits(self) -> int:
        """A pair takes at least 2^slot_bits rows."""
        return SLOT_BITS

    @property
    def rows_per_block(self) -> int:
        """Rows within which a pair is reduced in one go."""
        return self._block

    def answers(self, pairs: Pairs, x: np.ndarray) -> Iterator[Answered]:
        """Evaluate all rows of `pairs`; x [N, C]."""
        pieces = dispatches(pairs, self._rows)
        yield from run_on_host(self._drawer(x), self._answer_piece, pieces)

    @property
    def _rows(self) -> int:
        """Rows of one piece: whole blocks, and whole calls."""
        return max(self._call, self._block)

    def _answer_piece(self, codes: np.ndarray, piece: Dispatch) -> np.ndarray:
        parts = []
        for first in range(0, len(codes), self._call):
            self.clock.model_calls += 1
            parts.append(self._answer(codes[first : first + self._call], piece.first_row + first))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def pair_sums(self, answers: Answered, k: int, matrix: np.ndarray) -> Callable[[], np.ndarray]:
        """As on the device, of whole blocks only; float64 [blocks, K, k + 3]."""
        values = answers.values
        blocks = len(values) // len(matrix)
        v = values[: blocks * len(matrix)].reshape(blocks, len(matrix), -1).swapaxes(1, 2)
        empty, full = v[:, :, :1], v[:, :, (1 << k) - 1 :][:, :, :1]
        change = v - empty
        span = np.abs(change).max(axis=2, keepdims=True)
        sums = np.concatenate([change @ matrix, empty, full, span], axis=2)
        return lambda: sums

    def piece_sums(
        self, answers: Answered, matrices: np.ndarray, high_bits: np.ndarray
    ) -> Callable[[], np.ndarray]:
        """As on the device, of whole blocks only; float64 [blocks, K, log2(R) + 5]."""
        R = self._block
        blocks = len(answers.values) // R
        v = answers.values[: blocks * R].reshape(blocks, R, -1).swapaxes(1, 2)
        first, last = v[:, :, :1], v[:, :, -1:]
        change = v - first
        span = np.abs(change).max(axis=2, keepdims=True)
        sums = [part @ matrices[h] for part, h in zip(change, high_bits[:blocks], strict=True)]
        stacked = np.stack(sums) if sums else change[:, :, : matrices.shape[2]]
        return lambda: np.concatenate([stacked, first, last, span], axis=2)

    def tables(
        self,
        pairs: Pairs,
        x: np.ndarray,
        donor_weights: np.ndarray,
        start: np.ndarray,
        rank: np.ndarray,
        check: Callable[[Pairs, Any], None],
        done: Callable[[int], None],
    ) -> np.ndarray:
        """v(S) of N instances over B donors: float64 [N, 2^P, K]; start [N, B], rank [N, B, P]."""
        parts = []
        for answers in self.answers(pairs, x):
            check(pairs, answers)
            parts.append(answers.values)
            done(answers.piece.rows)
        return host_tables(np.concatenate(parts), start, rank, donor_weights)

    def values(self, answers: Answered) -> np.ndarray:
        """The answers themselves, float64 [rows, K]."""
        return answers.values

    def any_bad(self, answers: Answered) -> bool:
        """Whether an answer is not finite."""
        return not np.isfinite(answers.values).all()

    def _drawer(self, x: np.ndarray) -> Callable[[Dispatch], jax.Array]:
        padded = np.zeros((self._instances, x.shape[1]), x.dtype)
        padded[: len(x)] = x
        on_device = jax.device_put(padded, self._device)
        slots = self._rows >> SLOT_BITS
        words = -(-self._P // 32)
        plain, donors = self._players is None, self._donors.shape
        key = ("draw", self._P, padded.shape, padded.dtype.name, plain, donors, slots, self._device)
        if key not in self._cache:
            started = time.perf_counter()
            shape = jax.ShapeDtypeStruct((slots, 3 + words), np.int32)
            self._cache[key] = (
                jax.jit(partial(hybrid_rows, P=self._P, slot_bits=SLOT_BITS))
                .lower(on_device, self._donors, self._players, slots=shape)
                .compile()
            )
            self.clock.compile_seconds += time.perf_counter() - started
        program = self._cache[key]

        def draw(piece: Dispatch) -> jax.Array:
            full = np.zeros((slots, 3 + words), np.int32)
            full[: len(piece.slots)] = piece.slots
            return program(on_device, self._donors, self._players, slots=full)

        return draw
