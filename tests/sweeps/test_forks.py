"""What a model forks holds neither a sweep's lock nor its driver."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import xaijax as xj
from xaijax.sweeps.directory import RunDirectory

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


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
