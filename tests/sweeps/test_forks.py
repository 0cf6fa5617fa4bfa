"""What a model forks holds neither the driver of a sweep nor its lock."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sweeping import EACH, X, explainer, product

import xaijax as xj
from xaijax.sweeps import driver
from xaijax.sweeps.directory import RunDirectory

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
SLEEP = 120.0  # seconds for which children of a worker live, unless somebody ends them


def forked(does: Callable[[], object]) -> int:
    """The number of a child that does this alone, with all that this process has open."""
    child = os.fork()
    if child == 0:
        try:
            does()
        finally:
            os._exit(0)
    return child


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("whose", ["", "-0-of-2"])
def test_the_lock_ends_with_its_driver_and_not_with_a_child_of_it(tmp_path: Path, whose) -> None:
    directory = RunDirectory.made(tmp_path)
    with directory.driven(whose):
        child = forked(signal.pause)
        with pytest.raises(xj.InputError, match="another driver"), directory.driven(whose):
            pass
    try:
        with directory.driven(whose):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_a_child_that_leaves_the_sweep_leaves_the_lock(tmp_path: Path) -> None:
    directory = RunDirectory.made(tmp_path)
    with contextlib.ExitStack() as held:
        held.enter_context(directory.driven())
        os.waitpid(forked(held.close), 0)
        with pytest.raises(xj.InputError, match="another driver"), directory.driven():
            pass


def forks(folder, then, rows):
    """A model that forks two children at rows that hold 99, which outlive it by minutes."""
    if (np.asarray(rows) == 99).any():
        with warnings.catch_warnings(action="ignore"):  # JAX and Python: of threads
            forked(functools.partial(sleeps, Path(folder, "same")))
            forked(functools.partial(sleeps, Path(folder, "apart")))
        last = time.monotonic() + 30
        while not all(Path(folder, one).exists() for one in ("same", "apart")):
            assert time.monotonic() < last, "the children were not forked"
            time.sleep(0.01)
        then()
    return product(rows)


def sleeps(path: Path) -> None:
    if path.name == "apart":
        os.setsid()
    path.with_suffix(".new").write_text(str(os.getpid()))
    path.with_suffix(".new").rename(path)
    time.sleep(SLEEP)


def hangs() -> None:
    threading.Event().wait()


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def lives(process: int) -> bool:
    """Whether it does; one that has ended and that nobody has asked for does not."""
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at /proc")
@pytest.mark.parametrize(
    ("then", "timeout", "said"), [(hangs, 3, "timeout=3"), (dies, None, "ended by SIGKILL")]
)
def test_children_of_a_worker_hold_nobody(then, timeout, said, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(driver, "DEATHS", 1)
    rows = X.copy()
    rows[22, 3] = 99  # of the last part
    made = explainer(functools.partial(forks, str(tmp_path), then))
    before = time.monotonic()
    with pytest.raises(xj.SweepIncompleteError, match=f"1 of 3 parts.*{said}"):
        xj.sweep(made, rows, tmp_path / "run", 1, EACH, retries=0, timeout=timeout)
    assert time.monotonic() - before < SLEEP, "nobody waited for them"
    same, apart = (int((tmp_path / one).read_text()) for one in ("same", "apart"))
    assert lives(apart), "nobody but the model knows of it"
    os.kill(apart, signal.SIGKILL)
    while lives(same):
        time.sleep(0.01)
    assert time.monotonic() - before < SLEEP, "it was ended with its worker"
