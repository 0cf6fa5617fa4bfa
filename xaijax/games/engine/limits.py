"""What a run may use, as given: the memory limit, the tile, the devices."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax_kernels.engine.memory import free_memory
from xaijax_kernels.engine.tiles import SMALLEST_OF_WIDE


@dataclass(frozen=True)
class Limits:
    """What a run may use."""

    devices: tuple[Any, ...]  # that tiles are split over, where the model spans none of its own
    tile: int | None = None
    batch_rows: int | None = None
    memory: int | None = None  # bytes, as given
    shares: bool = True  # whether equal hybrids of several instances are asked once
    named: bool = False  # whether devices= was given

    @cached_property
    def max_memory(self) -> int:
        """Bytes the run may plan with; fixed when first asked for, so that plans stay the same."""
        if self.memory is not None:
            return self.memory
        return stated_limit() or free_memory(self.devices[0]) // 2


def limits_of(
    batch_size: Any = "auto", max_memory: Any = None, devices: Any = None, tile: Any = None
) -> Limits:
    """Read the arguments of these names."""
    auto = isinstance(batch_size, str) and batch_size == "auto"
    batch_rows = None if auto else checks.whole_number(batch_size, "batch_size")
    rows = None if tile is None else tile_of(tile)
    own = tuple(devices_of(devices))
    memory = None if max_memory is None else checks.whole_number(max_memory, "max_memory")
    return Limits(own, rows, batch_rows, memory, named=devices is not None)


def stated_limit() -> int | None:
    """Bytes from the environment variable XAIJAX_MEMORY_LIMIT."""
    stated = os.environ.get("XAIJAX_MEMORY_LIMIT")
    if stated is None:
        return None
    if not stated.isdigit() or int(stated) == 0:
        raise InputError(
            f"XAIJAX_MEMORY_LIMIT must be a whole number of bytes of at least 1, got {stated!r}."
        )
    return int(stated)


def power_below(number: int) -> int:
    """The largest power of two up to `number`."""
    return 1 << (max(1, number).bit_length() - 1)


def tile_of(tile: Any) -> int:
    """Read the `tile=` argument: a power of two."""
    rows = checks.whole_number(tile, "tile", least=SMALLEST_OF_WIDE)
    if rows & (rows - 1):
        raise InputError(
            f"tile must be a power of two from {SMALLEST_OF_WIDE} (so that no pair straddles a "
            f"tile), got {tile}; {1 << rows.bit_length()} is the next."
        )
    return rows


def devices_of(given: Any) -> list[Any]:
    """Read the `devices=` argument: None (all local ones), a number, or a list of devices."""
    local = jax.local_devices()
    if given is None:
        return local
    if isinstance(given, list | tuple) and given:
        if not all(isinstance(d, jax.Device) for d in given):
            raise InputTypeError(f"devices must hold jax devices, got {list(given)!r}.")
        if len(set(given)) < len(given):
            raise InputError(f"devices must hold each device once, got {list(given)!r}.")
        return list(given)
    count = checks.whole_number(given, "devices", remedy=" Or a list of jax devices, or None.")
    if count > len(local):
        raise InputError(f"devices={count}, but there are {len(local)}: {local}.")
    return local[:count]
