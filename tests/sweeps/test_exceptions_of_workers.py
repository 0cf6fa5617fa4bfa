"""What a model raises on a worker comes back, or what it was: no driver waits for ever."""

from __future__ import annotations

import contextlib
import errno
import functools
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sweeping import EACH, X, explainer, product

import xaijax as xj
from xaijax.sweeps.engines.worker import sendable, text_of

ROWS = X.copy()
ROWS[12, 3] = 99


class TwoArguments(Exception):
    """Pickled by its one text, which its class does not take: it is not opened."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")


class OpenedElsewhere(Exception):
    """Opened in each process but one."""

    def __init__(self, but):
        super().__init__(but)
        self.but = but

    def __reduce__(self):
        return opened_but_in, (self.but,)


def opened_but_in(process):
    if os.getpid() == process:
        raise ValueError("not here")
    return OpenedElsewhere(process)


class NoText(Exception):
    def __str__(self):
        raise KeyError("text")

    def __reduce__(self):
        return "no such name"


def raises(make, rows):
    if (np.asarray(rows) == 99).any():
        raise make()
    return product(rows)


two_arguments = functools.partial(TwoArguments, 3, "boom")


def swept(out: Path, executor, make, retries: int = 0) -> None:
    model = explainer(functools.partial(raises, make))
    xj.sweep(model, ROWS, out, executor, rows_per_part=EACH, retries=retries)


@pytest.mark.slow
def test_one_that_is_not_opened_is_told_by_a_process(tmp_path: Path) -> None:
    with pytest.raises(xj.SweepIncompleteError, match="TwoArguments: 3: boom") as raised:
        swept(tmp_path, 1, two_arguments)
    assert any("rows 10 to 19" in note for note in raised.value.__cause__.__notes__)
    assert xj.open_run(tmp_path).missing == (1,)


@pytest.mark.slow
def test_one_that_is_opened_in_the_worker_alone(tmp_path: Path) -> None:
    with pytest.raises(xj.SweepIncompleteError, match="cannot be opened here: ValueError: not he"):
        swept(tmp_path, 1, functools.partial(OpenedElsewhere, os.getpid()))
    assert xj.open_run(tmp_path).missing == (1,)


@pytest.mark.slow
def test_one_that_is_not_opened_breaks_no_pool(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(xj.SweepIncompleteError, match="TwoArguments: 3: boom"):
            swept(tmp_path, pool, two_arguments)
    assert xj.open_run(tmp_path).missing == (1,)


@pytest.mark.slow
def test_one_that_is_not_opened_is_told_by_dask(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="needs the extra [scale]")
    with distributed.LocalCluster(1, threads_per_worker=1, dashboard_address=":0") as cluster:
        with distributed.Client(cluster) as client:
            with pytest.raises(xj.SweepIncompleteError, match="TwoArguments: 3: boom"):
                swept(tmp_path, client, two_arguments)
    assert xj.open_run(tmp_path).missing == (1,)


def test_what_travels_stays_what_it_is() -> None:
    error = ArithmeticError("a row")
    assert sendable(error) is error
    refused = xj.InputError("X has NaN")
    assert sendable(refused) is refused
    told = sendable(NoText())
    assert type(told) is RuntimeError and "its text raises KeyError" in str(told)
    assert text_of(error) == "a row"


def no_access():
    return PermissionError(errno.EACCES, "the model's own file", "/secret")


def test_access_that_the_model_lacks_is_no_full_disk(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(xj.SweepIncompleteError, match=r"1 of 3 parts.*model's own file"):
            swept(tmp_path, pool, no_access, retries=1)
    assert xj.open_run(tmp_path).missing == (1,)


def full(*_) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_ends_the_sweep_at_once(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("xaijax.results.explanation.Explanation.save", full)
    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(OSError, match="No space left") as raised:
            swept(tmp_path, pool, two_arguments, retries=10**6)
    again = pickle.loads(pickle.dumps(raised.value))  # as a pool of processes has it
    assert again.of_writing and again.errno == errno.ENOSPC


@pytest.mark.filterwarnings("ignore:The model raised")
@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor])
def test_a_disk_that_takes_no_reasons_hides_none(executor, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("xaijax.sweeps.directory.RunDirectory.write_failed", full)
    with contextlib.nullcontext() if executor is None else executor(1) as pool:
        wanted = ArithmeticError if executor is None else xj.SweepIncompleteError
        with pytest.raises(wanted, match="a row holds 99") as raised:
            swept(tmp_path, pool, functools.partial(ArithmeticError, "a row holds 99"))
    assert any("why parts failed could not be written" in one for one in raised.value.__notes__)
    assert xj.open_run(tmp_path).missing
