"""The parts of a sweep on workers: whatever happens to these, no part is lost or changed."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sweeping import EACH, N, X, explainer, hangs, parts, product, raises_on

import xaijax as xj
from xaijax.sweeps.engines import futures
from xaijax.sweeps.engines.choose import of_slurm
from xaijax.sweeps.engines.processes import Processes
from xaijax.sweeps.inputs import source_of
from xaijax.sweeps.task import Receipt, Task

WANTED = explainer()(X)


def swept(out, executor, made=None, rows=X, **options) -> xj.Run:
    options = {"rows_per_part": EACH, **options}
    return xj.sweep(made or explainer(), rows, out, executor, **options)


def spoiled(row: int) -> np.ndarray:
    rows = X.copy()
    rows[row, 3] = 99
    return rows


# What a worker may do with the row that holds 99. Importable, so that they travel by name.
def kills_once(folder, rows):
    if (np.asarray(rows) == 99).any() and len(os.listdir(folder)) < 1:
        Path(folder, str(time.time_ns())).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return product(rows)


def kills(rows):
    if (np.asarray(rows) == 99).any():
        os.kill(os.getpid(), signal.SIGKILL)
    return product(rows)


def prints(rows):
    print("a model that prints")
    return product(rows)


def fails_once(folder, rows):
    if (np.asarray(rows) == 99).any() and len(os.listdir(folder)) < 2:
        Path(folder, str(time.time_ns())).touch()
        raise ConnectionError("not there")
    return product(rows)


@pytest.mark.slow
def test_spawned_processes_give_the_same_bits(tmp_path: Path) -> None:
    run = swept(tmp_path, 2, explainer(prints))
    assert run.explanation().values.tobytes() == WANTED.values.tobytes()
    assert not (tmp_path / "failed.json").exists()


@pytest.mark.slow
def test_a_process_that_is_killed_costs_its_part_only(tmp_path: Path) -> None:
    (tmp_path / "killed").mkdir()
    made = explainer(functools.partial(kills_once, str(tmp_path / "killed")))
    run = swept(tmp_path / "run", 2, made, spoiled(12))
    assert not run.missing and len(os.listdir(tmp_path / "killed")) == 1


@pytest.mark.slow
def test_a_part_that_kills_its_process_is_given_up_and_the_rest_goes_on(tmp_path: Path) -> None:
    with pytest.raises(xj.SweepIncompleteError, match=r"1 of 3 parts.*SIGKILL") as raised:
        swept(tmp_path, 1, explainer(kills), spoiled(12))
    assert "part 1, rows 10 to 19" in str(raised.value)
    run = xj.open_run(tmp_path)
    assert run.missing == (1,) and list(run.failed) == [1]
    assert "ended by SIGKILL" in run.failed[1]
    with pytest.raises(xj.SweepIncompleteError, match="1 of them failed: part 1"):
        run.explanation()


@pytest.mark.slow
def test_a_part_that_hangs_is_ended(tmp_path: Path) -> None:
    with pytest.raises(xj.SweepIncompleteError, match="took more than timeout=4"):
        swept(tmp_path, 1, explainer(hangs), spoiled(12), timeout=4, retries=0)
    assert xj.open_run(tmp_path).missing == (1,)


def test_the_end_of_a_process_is_not_that_of_the_next_try(tmp_path: Path, monkeypatch) -> None:
    marks = [str(tmp_path / f".begun-000000-{n}") for n in (1, 2)]
    program = f"import time; [open(one, 'w').close() for one in {marks}]; time.sleep(100)"
    monkeypatch.setattr("xaijax.sweeps.engines.processes.boot", lambda *_: program)
    task = Task(0, 0, EACH, "X", source_of(X, None).part(0, EACH), str(tmp_path), None, None)
    engine = Processes(1, [])
    last = time.monotonic() + 30  # if neither ever begins
    engine.submit(task)
    while not engine.cancel(0, 0.0):
        assert time.monotonic() < last
        time.sleep(0.01)
    engine.submit(task)
    while not engine.cancel(0, 0.1):
        assert engine.finished(0.01) == [], "the second one runs"
        assert time.monotonic() < last
    engine.close()


def test_what_passes_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "tries").mkdir()
    made = explainer(functools.partial(fails_once, str(tmp_path / "tries")))
    with ThreadPoolExecutor(2) as pool:
        run = swept(tmp_path / "run", pool, made, spoiled(12))
    assert not run.missing and len(os.listdir(tmp_path / "tries")) == 2


def test_what_stays_wrong_is_listed_with_its_rows(tmp_path: Path) -> None:
    made = explainer(functools.partial(raises_on, 99))
    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(xj.SweepIncompleteError, match="a row holds 99") as raised:
            swept(tmp_path, pool, made, spoiled(12), retries=1)
    assert isinstance(raised.value.__cause__, ArithmeticError)
    assert any("rows 10 to 19 of X" in note for note in raised.value.__cause__.__notes__)
    run = xj.open_run(tmp_path)
    assert (run.missing, list(run.failed)) == ((1,), [1])
    with ThreadPoolExecutor(2) as pool:  # another try of the same
        with pytest.raises(xj.SweepIncompleteError):
            swept(tmp_path, pool, made, spoiled(12), retries=0)


def test_what_the_library_refuses_is_not_tried_again(tmp_path: Path) -> None:
    """Answers that are missing, say, in one row that the probe did not see."""
    rows, asked = X.copy(), 0
    rows[12, 3] = 99

    def missing(rows):
        nonlocal asked
        asked += bool((rows == 99).any())
        return np.where((rows == 99).any(axis=1), np.nan, product(rows))

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(xj.SweepIncompleteError, match="ModelOutputError"):
            swept(tmp_path, pool, made=explainer(missing), rows=rows)
        once = asked
        with pytest.raises(xj.SweepIncompleteError, match="ModelOutputError"):
            swept(tmp_path, pool, made=explainer(missing), rows=rows, retries=0)
    assert asked == 2 * once


class Polled:
    """An executor whose futures can only be asked whether they are done, as submitit's jobs."""

    def submit(self, function, task):
        return Job(function, task)


class Job:
    def __init__(self, function, task):
        self._outcome = function(pickle.loads(pickle.dumps(task)))
        self._asked = 0

    def done(self):
        self._asked += 1
        return self._asked > 1

    def result(self):
        return self._outcome

    def cancel(self):
        return True


def test_futures_that_call_nobody_back(tmp_path: Path) -> None:
    assert swept(tmp_path, Polled()).explanation().values.tobytes() == WANTED.values.tobytes()


class Lies:
    """An executor that says that parts are done, and has done nothing."""

    def submit(self, function, task):
        return Lie(task)


class Lie(Job):
    def __init__(self, task):
        self._outcome, self._asked = Receipt(task.part, task.last - task.first, 0.0, 0, "x"), 0


@pytest.mark.slow
def test_a_receipt_without_a_file_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(xj.SweepIncompleteError, match="no valid file was left"):
        swept(tmp_path, Lies(), retries=1)


def test_an_executor_that_has_ended_leaves_a_run(tmp_path: Path) -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(xj.SweepIncompleteError, match="takes no more parts"):
        swept(tmp_path, pool)
    assert not swept(tmp_path, None).missing


def test_shards_answer_their_own_parts(tmp_path: Path) -> None:
    first = swept(tmp_path, xj.engines.shard(0, 2))
    assert first.missing == (1,) and parts(tmp_path) == ["part-000000.npz", "part-000002.npz"]
    slurm = {"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "5"}
    slurm |= {"SLURM_ARRAY_TASK_STEP": "2", "SLURM_ARRAY_TASK_COUNT": "2"}
    assert of_slurm(slurm) == xj.engines.shard(1, 2)
    run = swept(tmp_path, of_slurm(slurm))
    assert run.explanation().values.tobytes() == WANTED.values.tobytes()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: xj.engines.shard(2, 2), "k must be from 0 to n - 1 = 1, got 2"),
        (lambda: xj.engines.shard(0, 0), "n must be at least 1"),
        (lambda: xj.engines.slurm(), "SLURM_ARRAY_TASK_ID"),
    ],
)
def test_shards_that_are_none_are_refused(make, said, monkeypatch) -> None:
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    monkeypatch.delenv("SLURM_ARRAY_TASK_MIN", raising=False)
    with pytest.raises(xj.InputError, match=said):
        make()


def test_an_explainer_that_cannot_travel_is_refused_before_any_process(tmp_path: Path) -> None:
    lock = threading.Lock()
    made = explainer(lambda rows: product(rows) if lock else None)
    with pytest.raises(xj.InputTypeError, match="f= of as_model cannot be sent"):
        swept(tmp_path, 2, made)


def test_receipts_and_tasks_are_small() -> None:
    receipt = Receipt(10**6, 10**4, 1.5, 10**9, "a-long-name-of-a-machine.somewhere, process 12345")
    assert len(pickle.dumps(receipt)) < 1000


class Grows:
    """A Dask Client whose cluster has no worker when it is first asked, and then one of two."""

    def __init__(self, pool):
        self._pool, self.asked, self.threads, self._all_out = pool, 0, [], threading.Event()
        self.status = "running"

    def nthreads(self):
        self.asked += 1
        return {"tcp://one": 2} if self.asked > 1 else {}

    def submit(self, function, threads, attempt, task, pure):
        self.threads.append(threads)
        if len(self.threads) == 3:
            self._all_out.set()
        return self._pool.submit(self._run, attempt, task)

    def _run(self, attempt, task):
        assert self._all_out.wait(20), "the third is given out while the others run"
        return attempt(task)


def test_workers_of_dask_that_come_later_get_parts(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(futures, "COUNTED", 0.2)
    with ThreadPoolExecutor(3) as pool:
        client, began = Grows(pool), time.monotonic()
        assert not swept(tmp_path, client, retries=0).missing
    assert client.threads == [1, 1, 2]
    assert client.asked <= 1 + (time.monotonic() - began) / 0.2, "no more often than it says"


class Loses(Grows):
    """One that has closed itself, since its scheduler is gone: its futures say nothing any more."""

    def submit(self, function, threads, attempt, task, pure):
        self.status = "closed"
        (Path(task.out) / f".begun-{task.part:06d}-1").touch()  # it runs, when the scheduler goes
        return Waits()


class Waits:
    key = "a part"

    def done(self):
        return False

    def cancel(self, force=False):
        raise RuntimeError("Client is closed. Can't send cancel-keys message.")


def test_a_client_of_dask_that_closes_leaves_a_run(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(futures, "COUNTED", 0.2)
    with pytest.raises(xj.SweepIncompleteError, match="Dask Client is closed"):
        swept(tmp_path, Loses(None))
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".begun")) == []
    assert not swept(tmp_path, None).missing


@pytest.mark.slow
def test_a_dask_client(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra [scale]")
    (tmp_path / "killed").mkdir()
    made = explainer(functools.partial(kills_once, str(tmp_path / "killed")))
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=":0") as cluster:
        with distributed.Client(cluster) as client:
            run = swept(tmp_path / "run", client, made, spoiled(12))
    assert not run.missing and run.rows == N


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray forks to start its own programs, and leaves pipes open
def test_ray_tasks(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="needs the extra [scale]")
    (tmp_path / "killed").mkdir()
    made = explainer(functools.partial(kills_once, str(tmp_path / "killed")))
    paths = {"PYTHONPATH": os.pathsep.join(sys.path)}
    ray.init(
        num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": paths}
    )
    try:
        run = swept(tmp_path / "run", xj.engines.ray(), made, spoiled(12))
    finally:
        ray.shutdown()
    assert not run.missing and len(os.listdir(tmp_path / "killed")) == 1


STOPPED = """
import sys
from sweeping import X, explainer, hangs
import xaijax as xj
X[12, 3] = 99
xj.sweep(explainer(hangs), X, sys.argv[1], executor=1, rows_per_part=10)
"""


@pytest.mark.slow
def test_ctrl_c_ends_the_workers_and_leaves_a_run(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", STOPPED, str(tmp_path / "run")]
    driver = subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True)
    while not parts(tmp_path / "run"):
        time.sleep(0.1)
        assert driver.poll() is None
    driver.send_signal(signal.SIGINT)
    _, told = driver.communicate(timeout=60)
    assert "KeyboardInterrupt" in told and "the same call goes on" in told
    assert xj.open_run(tmp_path / "run").missing
