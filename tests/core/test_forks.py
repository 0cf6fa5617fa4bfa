"""A process that forks after JAX was used would wait for ever in the child: refused at once."""

import functools
import os
import subprocess
import sys

import pytest
from repository import CASES

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@functools.cache
def said():
    """What each child said, by the name of its question."""
    script = CASES / "forks.py"
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=600, check=True
    )
    return dict(line.split(" | ", 1) for line in done.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    "what",
    ["host", "traced", "federated", "new", "QII", "Anchors", "predict", "as_jax", "AEC"],
)
def test_row_68_a_fork_after_use_is_refused(what):
    assert said()[what].startswith("ForkedProcessError: this process"), said()[what]
    assert "spawn" in said()[what]


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["before", "predict before", "predict on the host", "results", "parent"]
)
def test_what_needs_no_jax_of_the_parent_goes_on(what):
    assert said()[what] == "answered"
