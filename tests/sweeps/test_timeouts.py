"""`timeout=` with engines of futures: it is the time that a part runs, and not that it waits."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sweeping import EACH, X, explainer, hangs, parts, product

import xaijax as xj
from xaijax.sweeps.engines.worker import BegunFile
from xaijax.sweeps.inputs import source_of
from xaijax.sweeps.task import Task

ROWS = X.copy()
ROWS[12, 3] = 99
RELEASE = threading.Event()


def slow(rows):
    time.sleep(0.3)  # asked three times for a part
    return product(rows)


def waits(rows):
    if (np.asarray(rows) == 99).any():
        RELEASE.wait(60)
    return product(rows)


def swept(out: Path, executor, function=hangs, rows=ROWS, **options) -> xj.Run:
    options = {"rows_per_part": EACH, "retries": 0, **options}
    return xj.sweep(explainer(function), rows, out, executor, **options)


def marks(out: Path) -> list[str]:
    return [one.name for one in out.iterdir() if one.name.startswith(".begun")]


@pytest.fixture
def released():
    RELEASE.clear()
    yield
    RELEASE.set()  # so that pools end


class OneAfterTheOther:
    """An executor of one thread that does not say so: all parts are out, and most of them wait."""

    def __init__(self, pool):
        self.submit = pool.submit


@pytest.mark.slow
def test_parts_that_wait_are_not_given_up(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 25)
    with ThreadPoolExecutor(1) as pool:
        found = swept(tmp_path, OneAfterTheOther(pool), slow, X, rows_per_part=5, timeout=4)
    assert not found.missing and not marks(tmp_path)


def test_a_pool_of_one_thread_that_hangs_is_told(tmp_path: Path, released) -> None:
    with ThreadPoolExecutor(1) as pool:
        told = "no worker left of 1: .*part 1, rows 10 to 19.*executor=2 starts processes"
        with pytest.raises(xj.SweepIncompleteError, match=told):
            swept(tmp_path, pool, waits, timeout=1)
        run = xj.open_run(tmp_path)
        assert run.missing == (1, 2) and list(run.failed) == [1]
        assert not marks(tmp_path)
        RELEASE.set()


def test_the_other_threads_of_a_pool_go_on(tmp_path: Path, released) -> None:
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(xj.SweepIncompleteError, match="1 of 3 parts.*timeout=1"):
            swept(tmp_path, pool, waits, timeout=1)
        assert xj.open_run(tmp_path).missing == (1,)
        RELEASE.set()


@pytest.mark.slow
def test_an_executor_that_stands_still_is_told(tmp_path: Path, monkeypatch, released) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)  # which is taken for its threads
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(xj.SweepIncompleteError, match="begun none of the 1 parts that wait"):
            swept(tmp_path, OneAfterTheOther(pool), waits, timeout=1)
        RELEASE.set()


def test_a_file_says_when_a_part_begins(tmp_path: Path) -> None:
    piece = source_of(X, None).part(0, 10)
    task = Task(0, 0, 10, "X", piece, str(tmp_path), None, None)
    (tmp_path / ".begun-000000-1").touch()  # of a driver that was killed
    file = BegunFile(task, 1)
    assert file.seconds() is None
    file.path.touch()
    assert file.seconds() < 1
    file.stopped()
    assert file.seconds() is None
    os.utime(file.path, ns=(1, 1))  # its engine runs it again
    assert file.seconds() < 1
    file.forget()
    assert not marks(tmp_path)
    assert xj.sweep(explainer(), X, tmp_path).rows == len(X)  # marks are no files of others


class Elsewhere:
    """An executor whose workers have another file system."""

    def __init__(self, pool):
        self._pool = pool

    def submit(self, function, task):
        return self._pool.submit(functools.partial(function.func, "/no/such/mark"), task)


def test_a_directory_that_a_worker_does_not_see(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(xj.SweepIncompleteError, match="out: /no/such is no directory on"):
            swept(tmp_path, Elsewhere(pool), product, X)


@pytest.mark.slow
@pytest.mark.parametrize("processes", [True, False])
def test_dask_restarts_a_worker_that_hangs(tmp_path: Path, processes, released) -> None:
    # A worker in this process has no nanny that could restart it.
    distributed = pytest.importorskip("distributed", reason="needs the extra [scale]")
    with distributed.LocalCluster(
        1, threads_per_worker=1, dashboard_address=":0", processes=processes
    ) as cluster:
        with distributed.Client(cluster) as client:
            # The last part waits behind the one that hangs for longer than it may take.
            told = "1 of 3 parts.*timeout=3" if processes else "no worker left|begun none"
            with pytest.raises(xj.SweepIncompleteError, match=told):
                swept(tmp_path, client, hangs if processes else waits, timeout=3)
            found = xj.open_run(tmp_path)
            assert found.missing == ((1,) if processes else (1, 2)) and list(found.failed) == [1]
            RELEASE.set()
    assert not marks(tmp_path)


@pytest.fixture
def ray_of_one():
    ray = pytest.importorskip("ray", reason="needs the extra [scale]")
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ray.init(
        num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": paths}
    )
    yield
    ray.shutdown()


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray forks to start its own programs, and leaves pipes open
def test_ray_ends_a_part_that_hangs(tmp_path: Path, ray_of_one) -> None:
    with pytest.raises(xj.InputError, match=r"num_cpus=4.*fits on no node.*are 1 and 0"):
        swept(tmp_path, xj.engines.ray(num_cpus=4))
    with pytest.raises(xj.SweepIncompleteError, match="1 of 3 parts.*timeout=4"):
        swept(tmp_path, xj.engines.ray(), timeout=4)
    assert xj.open_run(tmp_path).missing == (1,) and parts(tmp_path)[-1] == "part-000002.npz"
    assert not marks(tmp_path)
