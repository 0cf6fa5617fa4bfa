"""Workers whose engine gives freed memory back at once keep it while a part runs."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from xaijax.sweeps.engines.memory import MMAP, TRIM

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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc")
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
