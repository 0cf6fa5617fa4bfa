"""What a spawned process sees of the machine: a GPU of its own, cores of its own."""

from __future__ import annotations

import os
import types

import jax
import pytest

from xaijax.sweeps.engines import processes
from xaijax.sweeps.engines.worker import THREADS

GPUS = [types.SimpleNamespace(platform="gpu", local_hardware_id=n) for n in range(2)]
CPU = types.SimpleNamespace(platform="cpu", local_hardware_id=0)


@pytest.fixture
def started(monkeypatch):
    """The environments of processes that would be started, on a machine with two GPUs."""
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(
        processes.subprocess, "Popen", lambda *_, env, **__: seen.append(env) or object()
    )
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv(processes.PREALLOCATE, raising=False)

    def start(count: int, devices: list[object] | None = None) -> list[dict[str, str]]:
        engine = processes.Processes(count, GPUS if devices is None else devices)
        for worker in engine._workers:
            worker._started()
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


def test_of_the_gpus_of_the_run(started, monkeypatch):
    """The broken version dealt out all that JAX prefers, whatever devices= named."""
    assert [one["CUDA_VISIBLE_DEVICES"] for one in started(2, GPUS[1:])] == ["1", "1"]


def test_a_run_on_the_cpu_says_nothing_of_gpus(started, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "CUDA_VISIBLE_DEVICES" not in started(1, [CPU])[0]


@pytest.mark.parametrize(
    ("count", "cores"), [(1, [[0, 1, 2, 5]]), (2, [[0, 1], [2, 5]]), (3, [[0], [1], [2]])]
)
def test_cores_are_dealt_out_and_threads_are_as_many(started, monkeypatch, count, cores):
    """On a machine of which this process may use four cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {5, 0, 1, 2}, raising=False)
    assert [processes._cores(number, count) for number in range(count)] == cores
    for one in started(count):
        assert {one[name] for name in THREADS} == {str(len(cores[0]))}


def test_where_a_process_cannot_be_kept_to_some_cores_it_sets_no_threads(started, monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    assert not set(THREADS) & set(started(2)[1])
