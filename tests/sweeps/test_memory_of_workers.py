"""Workers whose engine gives freed memory back at once keep it while a part runs."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from xaijax.sweeps.engines import worker as memory
from xaijax.sweeps.engines.worker import MMAP, TRIM, kept_while_running

# Each array is 256 pages, which come anew where the last one was given back.
FAULTS = """
import resource
import numpy as np
from xaijax.sweeps.engines.worker import in_threads

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        np.ones(1 << 17)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), in_threads(1, faults), in_threads(1, in_threads, 1, faults), faults())
"""
ALL = 100 * 256


def libc():
    """A C library that writes down what it is told: ("mallopt", which, bytes), or ("trim", 0)."""
    told: list[tuple] = []
    return told, SimpleNamespace(
        mallopt=lambda which, size: told.append(("mallopt", which, size.value)),
        malloc_trim=lambda left: told.append(("trim", left.value)),
    )


@pytest.mark.parametrize(("mmap", "given"), [(None, 128 << 10), ("4096", 4096)])
def test_both_settings_come_back_when_the_last_part_ends(monkeypatch, mmap, given):
    """-1 and -3 are M_TRIM_THRESHOLD and M_MMAP_THRESHOLD; a part that raises ends too."""
    told, library = libc()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.setenv(TRIM, "65536")
    monkeypatch.delenv(MMAP, raising=False)
    if mmap is not None:
        monkeypatch.setenv(MMAP, mmap)
    kept = [("mallopt", -1, 2**31 - 1), ("mallopt", -3, 32 << 20)]
    with pytest.raises(KeyError), kept_while_running():
        with kept_while_running():
            assert told == kept
        assert told == kept
        raise KeyError
    assert told == [*kept, ("mallopt", -1, 65536), ("mallopt", -3, given), ("trim", 0)]


@pytest.mark.parametrize("asked", [None, "many"])
def test_nothing_is_set_where_nobody_asked(monkeypatch, asked):
    told, library = libc()
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: library)
    monkeypatch.delenv(TRIM, raising=False)
    if asked is not None:
        monkeypatch.setenv(TRIM, asked)
    with kept_while_running():
        pass
    assert told == []


def test_another_library_of_c_is_left_alone(monkeypatch):
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: SimpleNamespace())
    monkeypatch.setenv(TRIM, "65536")
    with kept_while_running():
        pass
    assert memory._parts == 0


def glibc() -> str:
    """What the C library that runs says of itself: "glibc 2.36"; empty of others."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError):  # no such question here
        return ""


@pytest.mark.slow
@pytest.mark.skipif(not glibc(), reason="pages are counted where the C library is glibc")
def test_freed_memory_stays_while_a_part_runs_and_goes_back_after_it():
    env = {name: value for name, value in os.environ.items() if name not in (TRIM, MMAP)}
    done = subprocess.run(
        [sys.executable, "-c", FAULTS],
        env=env | {TRIM: "65536"},
        capture_output=True,
        text=True,
        check=True,
    )
    before, inside, nested, after = map(int, done.stdout.split())
    assert before >= ALL and after >= ALL
    assert inside < ALL / 10 and nested < ALL / 10
