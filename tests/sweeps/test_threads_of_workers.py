"""Workers of somebody else's engine: as many threads of XLA as the engine gives one of them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Executor, Future

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from xaijax.sweeps.engines.futures import of_executor
from xaijax.sweeps.engines.worker import THREADS, XLA_THREADS, in_pool, in_threads

COUNT = """
import pathlib
from xaijax.sweeps.engines.worker import in_threads

def threads_of_xla():
    import jax
    jax.block_until_ready(jax.jit(lambda x: x @ x)(jax.numpy.ones((8, 8))))
    names = [(one / "comm").read_text() for one in pathlib.Path("/proc/self/task").iterdir()]
    return sum("XLAEigen" in name for name in names)

print(in_threads({count}, threads_of_xla))
"""


def _threads(count: int, **environment: str) -> int:
    env = {k: v for k, v in os.environ.items() if k != XLA_THREADS} | environment
    done = subprocess.run(
        [sys.executable, "-c", COUNT.format(count=count)],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_xla_begins_with_as_many_threads_as_the_worker_has():
    assert _threads(1) == 1
    assert _threads(5) == 5


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_what_the_person_has_set_stays():
    assert _threads(1, **{XLA_THREADS: "3"}) == 3


def test_the_result_is_that_of_the_function(monkeypatch):
    monkeypatch.setenv(XLA_THREADS, "")  # so that it is undone
    monkeypatch.delenv(XLA_THREADS)
    assert in_threads(2, lambda x, y: x - y, 5, 3) == 2
    assert os.environ[XLA_THREADS] == "2"


def _least(api: str) -> int:
    return min(one["num_threads"] for one in threadpool_info() if one["user_api"] == api)


def test_a_process_of_a_pool_has_its_share_of_threads_of_linear_algebra(monkeypatch):
    for name in (XLA_THREADS, *THREADS):
        monkeypatch.setenv(name, "")  # so that it is undone
        monkeypatch.delenv(name)
    for before, count, during in ((4, 2, 2), (1, 2, 1)):  # fewer, and never more than were set
        with threadpool_limits(before):
            assert in_pool(os.getpid(), count, _least, "blas") == before  # a thread of the driver
            assert not set(THREADS) & set(os.environ)
            assert in_pool(-1, count, _least, "blas") == during
            assert [os.environ.pop(name) for name in THREADS] == [str(count)] * len(THREADS)


def test_processes_of_a_pool_share_the_cores(monkeypatch):
    class Pool(Executor):
        _max_workers = 3

        def submit(self, function, /, *args, **kwargs):
            sent.append((function, args[:2]))
            return Future()

    sent = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(7)), raising=False)
    of_executor(Pool())._submit(len, "task")
    assert sent == [(in_pool, (os.getpid(), 2))]
