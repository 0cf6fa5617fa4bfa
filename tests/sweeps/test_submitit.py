"""Jobs of submitit, on this machine: what it hands to SLURM is run by its local executor here."""

from __future__ import annotations

import functools
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import sweeping
from sweeping import EACH, X, explainer, product

import xaijax as xj

pytestmark = [pytest.mark.engine, pytest.mark.slow]


def dies_once(folder, rows):
    """`product`, but the first process that is asked a row of 99 ends without a word."""
    rows = np.asarray(rows)
    if (rows == 99).any() and not (Path(folder) / "died").exists():
        (Path(folder) / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return product(rows)


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch):
    submitit = pytest.importorskip("submitit", reason="`make test-engines` installs it")
    own = (str(Path(sweeping.__file__).parent), str(Path(__file__).parent))  # of the models
    paths = (*own, *filter(None, [os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    executor = submitit.LocalExecutor(folder=tmp_path / "jobs")
    executor.update_parameters(timeout_min=10)
    return executor


def test_jobs_answer_as_one_call(jobs, tmp_path: Path) -> None:
    run = xj.sweep(explainer(), X, tmp_path / "run", executor=jobs, rows_per_part=EACH)
    assert run.explanation().values.tobytes() == explainer()(X).values.tobytes()


def test_a_job_that_is_killed_is_submitted_again(jobs, tmp_path: Path) -> None:
    rows = X.copy()
    rows[12, 3] = 99
    made = explainer(functools.partial(dies_once, str(tmp_path)))
    run = xj.sweep(made, rows, tmp_path / "run", executor=jobs, rows_per_part=EACH)
    assert (tmp_path / "died").exists() and not run.failed
    assert run.explanation().values.tobytes() == explainer()(rows).values.tobytes()
