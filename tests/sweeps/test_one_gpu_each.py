"""What a spawned process sees of the machine: a GPU of its own, cores of its own."""

from __future__ import annotations

import os
import queue
import types

import jax
import pytest

from xaijax.sweeps.engines import processes
from xaijax.sweeps.engines.worker import THREADS


@pytest.fixture
def started(monkeypatch):
    """The environments of processes that would be started, on a machine with two GPUs."""
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(
        jax, "local_devices", lambda: [types.SimpleNamespace(id=n) for n in range(2)]
    )
    monkeypatch.setattr(
        processes.subprocess, "Popen", lambda *_, env, **__: seen.append(env) or object()
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv(processes.PREALLOCATE, raising=False)

    def start(count: int) -> list[dict[str, str]]:
        for number in range(count):
            processes._Worker(queue.Queue(), number, count)._started()
        return seen

    return start


def test_each_process_sees_one_gpu(started):
    found = started(3)
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["0", "1", "0"]
    assert {one[processes.PREALLOCATE] for one in found} == {"false"}


def test_of_the_gpus_that_the_driver_may_see(started, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-8932f937")
    monkeypatch.setenv(processes.PREALLOCATE, "true")
    found = started(2)
    assert [one["CUDA_VISIBLE_DEVICES"] for one in found] == ["5", "GPU-8932f937"]
    assert {one[processes.PREALLOCATE] for one in found} == {"true"}


def test_without_a_gpu_nothing_is_said_of_them(started, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "cpu")
    assert "CUDA_VISIBLE_DEVICES" not in started(1)[0]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no cores of one's own here")
def test_threads_are_as_many_as_cores(started):
    cores = len(os.sched_getaffinity(0))
    for count in (1, 2):
        threads = {started(count)[-1][name] for name in THREADS}
        assert threads == {str(max(1, cores // count))}
