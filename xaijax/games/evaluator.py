"""`Evaluator`: a model, what replaces, who plays and the limits; made ready at the first question.

It holds what every game of one explainer shares: the probe's findings and the loop that runs the
model. Nothing here calls the model before `ready` is asked for.

Letters: B donors, C code columns, P players, K outputs, R rows.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from xaijax import _checks
from xaijax._errors import InputError, InputTypeError, MemoryPlanError
from xaijax._players import Players
from xaijax._table import Table
from xaijax.games._clock import Clock
from xaijax.games._device import DeviceBackend, instances_at_a_time, make_mesh, plan_sizes
from xaijax.games._host import ROWS_PER_CALL, HostBackend
from xaijax.games.evaluate import Backend
from xaijax.games.replacement import Replacement
from xaijax_kernels.memory import memory_limit
from xaijax_kernels.tiles import SMALLEST_TILE, TILES_PER_DISPATCH, widest_layer

PROBE_ROWS = 32
LARGEST_PAIR = 24  # players that differ; 2^24 corners are the most that a pair is cut into


class Evaluator:
    """What the games of one explainer share."""

    def __init__(
        self,
        model: Any,
        replacement: Replacement,
        players: Players,
        *,
        batch_size: Any = "auto",
        max_memory: Any = None,
        devices: Any = None,
        tile: Any = None,
    ) -> None:
        self.model, self.replacement, self.players = model, replacement, players
        auto = isinstance(batch_size, str) and batch_size == "auto"
        self._batch_rows = None if auto else _checks.whole_number(batch_size, "batch_size")
        self._tile = None if tile is None else _tile(tile)
        self.devices = _devices(devices)  # that tiles are split over
        self._max_memory = (
            None if max_memory is None else _checks.whole_number(max_memory, "max_memory")
        )
        self.findings: Any = None  # what the probe found; see `Model.probe`
        self.clock = Clock()
        self._kept: DeviceBackend | None = None
        per_column = replacement.table.codes_per_column
        columns = np.repeat(players.of_column, per_column).astype(np.int32)
        plain = players.single and per_column == 1
        self._players_of_codes = None if plain else columns
        self.code_players = columns

    @property
    def max_memory(self) -> int:
        """Bytes the run may plan with."""
        if self._max_memory is not None:
            return self._max_memory
        try:
            return memory_limit(self.devices[0])
        except ValueError as error:
            raise InputError(
                f"max_memory: XAIJAX_MEMORY_LIMIT must be a whole number of bytes; {error}."
            ) from None

    @property
    def instances_at_a_time(self) -> int:
        """Instances planned together; a function of background and memory only."""
        codes = self.replacement.codes
        return instances_at_a_time(len(codes), codes.shape[1] * codes.itemsize, self.max_memory)

    def refuse_overflow(self, N: int) -> None:
        """Raise MemoryPlanError where the rows of all pairs cannot even be counted in 64 bits."""
        B, P = len(self.replacement.codes), self.players.count
        rows = N * B << min(P, LARGEST_PAIR)
        if rows >= 1 << 63:
            raise MemoryPlanError(
                f"X has {N:,} rows; with {B:,} background rows and {P} players that is up to "
                f"{rows:,} model rows, more than can be counted. Explain fewer rows at a time."
            )

    def refuse_too_little_memory(self) -> None:
        """Raise MemoryPlanError where even the smallest tile cannot fit; asks the model nothing."""
        codes = self.replacement.codes
        smallest = 3 * SMALLEST_TILE * codes.shape[1] * codes.itemsize + 2 * codes.nbytes
        if smallest > self.max_memory:
            raise MemoryPlanError(
                f"max_memory={self.max_memory:,} bytes, but the {len(codes)} background rows and "
                f"{SMALLEST_TILE} hybrid rows of {codes.shape[1]} columns need {smallest:,}. Raise "
                "max_memory=, or use fewer background rows."
            )

    def backend(self, table: Table, N: int) -> Backend:
        """The loop that runs the model, planned for N instances; the first call probes the model.

        A JAX model keeps the plan of the first call, so that no later one compiles again.
        """
        most_rows = N * len(self.replacement.codes) << min(self.players.count, LARGEST_PAIR)
        if self.model.backend == "host":
            return self._host_backend(table, most_rows)
        if self._kept is None:
            self._kept = self._device_backend(most_rows)
        return self._kept

    def _device_backend(self, most_rows: int) -> DeviceBackend:
        model, codes = self.model, self.replacement.codes
        probe = self._probe(self.replacement.table)
        devices = self.devices
        sizes = plan_sizes(
            width=widest_layer(probe.jaxpr, probe.rows),
            itemsize=codes.itemsize,
            platform=devices[0].platform,
            shape=self.replacement.table.shape,
            P=self.players.count,
            outputs=probe.outputs,
            dtype=codes.dtype.name,
            donors=len(codes),
            columns=codes.shape[1],
            devices=len(devices),
            tile=self._tile,
            batch_rows=self._batch_rows,
            most_rows=most_rows,
            default_tiles=TILES_PER_DISPATCH,
            max_memory=self.max_memory,
        )
        return DeviceBackend(
            _columns(model.apply),
            model.params,
            model.compiled,
            sizes,
            self._players_of_codes,
            codes,
            make_mesh(devices),
            self.max_memory,
            self.clock,
        )

    def _probe(self, table: Table) -> Any:
        if self.findings is None:
            self.findings = self.model.probe(table.decode(self.replacement.codes[:PROBE_ROWS]))
            self.clock.compile_seconds += self.findings.compile_seconds
        return self.findings

    def _host_backend(self, table: Table, most_rows: int) -> HostBackend:
        model, codes = self.model, self.replacement.codes
        self._probe(table)
        K = self.findings.outputs

        def answer(code_rows: np.ndarray, first: int) -> np.ndarray:
            return model.answer(table.decode(code_rows), first, K)

        return HostBackend(
            answer,
            self.players.count,
            self._players_of_codes,
            codes,
            self._rows_per_call(most_rows),
            self.instances_at_a_time,
            model.compiled,
            self.devices[0],
            self.clock,
        )

    def _rows_per_call(self, most_rows: int) -> int:
        """Rows of one host call, a power of two: tile=, batch_size=, or what memory allows."""
        wanted = self._tile or min(self._batch_rows or ROWS_PER_CALL, max(ROWS_PER_CALL, most_rows))
        rows = max(SMALLEST_TILE, 1 << (wanted - 1).bit_length())
        # codes, their decoded rows and the model's own copies
        per_row = 8 * self.replacement.codes.shape[1] * self.replacement.codes.itemsize
        while self._tile is None and rows > SMALLEST_TILE and rows * per_row * 4 > self.max_memory:
            rows //= 2
        if self.model.max_rows is not None:
            rows = min(rows, 1 << (self.model.max_rows.bit_length() - 1))
        return rows


def _columns(apply: Any) -> Any:
    """The model with [R] made [R, 1]."""

    def columns(params: Any, rows: Any) -> Any:
        out = apply(params, rows)
        return out[:, None] if out.ndim == 1 else out

    return columns


def _tile(tile: Any) -> int:
    rows = _checks.whole_number(tile, "tile", least=SMALLEST_TILE)
    if rows & (rows - 1):
        raise InputError(
            f"tile must be a power of two from {SMALLEST_TILE} (so that no pair straddles a tile), "
            f"got {tile}; {1 << rows.bit_length()} is the next."
        )
    return rows


def _devices(given: Any) -> list[Any]:
    local = jax.local_devices()
    if given is None:
        return local
    if isinstance(given, list | tuple) and given:
        if not all(isinstance(d, jax.Device) for d in given):
            raise InputTypeError(f"devices must hold jax devices, got {list(given)!r}.")
        if len(set(given)) < len(given):
            raise InputError(f"devices must hold each device once, got {list(given)!r}.")
        return list(given)
    count = _checks.whole_number(given, "devices", remedy=" Or a list of jax devices, or None.")
    if count > len(local):
        raise InputError(f"devices={count}, but there are {len(local)}: {local}.")
    return local[:count]
