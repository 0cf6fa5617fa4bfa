"""How much memory a run may take, and how much a compiled program takes."""

from __future__ import annotations

import os
from typing import Any


def free_memory(device: Any) -> int:
    """Bytes that the device has free; for the CPU, what the machine has available."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
    return available_host_memory()


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
    """Bytes that a compiled program needs in addition to its arguments: temporaries and results."""
    analysis = compiled.memory_analysis()
    if analysis is None:
        return 0
    return int(analysis.temp_size_in_bytes + analysis.output_size_in_bytes)
