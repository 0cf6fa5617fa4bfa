"""How much memory a run may take, and how much a compiled program takes."""

from __future__ import annotations

import os
from typing import Any


def memory_limit(device: Any) -> int:
    """Bytes a run may plan with: XAIJAX_MEMORY_LIMIT, else half of what the device has free."""
    stated = os.environ.get("XAIJAX_MEMORY_LIMIT")
    if stated is not None:
        return int(stated)
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return (stats["bytes_limit"] - stats.get("bytes_in_use", 0)) // 2
    return available_host_memory() // 2


def available_host_memory() -> int:
    """Bytes of main memory that are free or can be freed."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    names = os.sysconf_names if hasattr(os, "sysconf_names") else {}
    if "SC_PHYS_PAGES" in names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return 4 << 30


def program_bytes(compiled: Any) -> int:
    """Bytes that a compiled program needs beside its arguments: temporaries and results."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return 0
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)
