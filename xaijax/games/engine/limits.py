"""What a run may use, as given: the memory limit, the tile, the devices."""

from __future__ import annotations

import os
from typing import Any

import jax

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax_kernels.engine.tiles import SMALLEST_TILE


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
    rows = checks.whole_number(tile, "tile", least=SMALLEST_TILE)
    if rows & (rows - 1):
        raise InputError(
            f"tile must be a power of two from {SMALLEST_TILE} (so that no pair straddles a tile), "
            f"got {tile}; {1 << rows.bit_length()} is the next."
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
