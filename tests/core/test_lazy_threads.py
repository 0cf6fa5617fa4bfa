"""Threads that load names of `xaijax` at the same time; in a process of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
from concurrent.futures import ThreadPoolExecutor
import xaijax as xj
names = xj.__all__
with ThreadPoolExecutor(len(names)) as pool:
    for name, found in zip(names, pool.map(lambda name: getattr(xj, name), names)):
        assert found is getattr(xj, name), name
"""


@pytest.mark.slow
def test_threads_that_load_names_wait_for_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
