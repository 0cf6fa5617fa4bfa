"""`xaijax sweep`, asked in this process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sweeping import X, explainer

import xaijax as xj
from xaijax.commands.cli import main

JOBS = """
import functools
from sweeping import explainer as make, raises_on
ready = make()
def made():
    return make()
wrong = make(functools.partial(raises_on, 99))
"""


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN"):
        monkeypatch.delenv(name, raising=False)
    Path("jobs.py").write_text(JOBS)
    np.save("rows.npy", X)
    rows = X.copy()
    rows[12, 3] = 99
    np.save("spoiled.npy", rows)
    return tmp_path


def swept(*arguments: str) -> int:
    return main(["sweep", *arguments, "--rows-per-part", "10", "--quiet"])


@pytest.mark.parametrize("name", ["jobs.py:ready", "jobs:made"])
def test_a_whole_run(name, jobs, capsys) -> None:
    assert swept(name, "rows.npy", "out") == 0
    assert "complete" in capsys.readouterr().out
    np.testing.assert_array_equal(xj.open_run("out").explanation().values, explainer()(X).values)


def test_shards_and_slurm(jobs, monkeypatch) -> None:
    assert swept("jobs.py:ready", "rows.npy", "out", "--shard", "1/2") == 0
    assert xj.open_run("out").missing == (0, 2)
    for name, value in (("ID", "0"), ("MIN", "0"), ("COUNT", "2")):
        monkeypatch.setenv(f"SLURM_ARRAY_TASK_{name}", value)
    assert swept("jobs.py:ready", "rows.npy", "out") == 0
    assert not xj.open_run("out").missing


@pytest.mark.filterwarnings("ignore:The model raised")  # for rows spread over X
@pytest.mark.slow
@pytest.mark.parametrize("how", [("--processes", "1"), ()], ids=["spawned", "here"])
def test_an_incomplete_run_is_status_2(how, jobs, capsys) -> None:
    assert swept("jobs.py:wrong", "spoiled.npy", "out", *how, "--retries", "0") == 2
    told = capsys.readouterr().err
    assert f"{1 if how else 2} of 3 parts" in told and "a row holds 99" in told
    assert xj.open_run("out").missing == ((1,) if how else (1, 2))


@pytest.mark.filterwarnings("ignore:The model raised")
def test_rows_that_are_refused_in_a_part_leave_an_incomplete_run(jobs, capsys) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    table = pytest.importorskip("pyarrow").table
    rows = X.copy()
    rows[12, 1] = np.nan
    parquet.write_table(table({f"x{j}": rows[:, j] for j in range(X.shape[1])}), "nan.parquet")
    assert swept("jobs.py:ready", "nan.parquet", "out") == 2
    told = capsys.readouterr().err
    assert "2 of 3 parts are missing" in told and "part 1, rows 10 to 19" in told


def test_what_is_wrong_with_a_complete_run_is_no_missing_part(jobs, capsys) -> None:
    assert swept("jobs.py:ready", "rows.npy", "out") == 0
    assert swept("jobs.py:ready", "none.npy", "out") == 1
    told = capsys.readouterr().err
    assert "none.npy" in told and "missing" not in told


@pytest.mark.filterwarnings("ignore:The model raised")
def test_another_question_into_an_incomplete_run_is_status_1(jobs, capsys) -> None:
    assert swept("jobs.py:wrong", "spoiled.npy", "out") == 2
    assert swept("jobs.py:ready", "rows.npy", "out") == 1
    assert "another question" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jobs.py", "rows.npy", "out"], "module:name or file.py:name"),
        (["jobs.py:none", "rows.npy", "out"], "is not there"),
        (["nojobs:none", "rows.npy", "out"], "is not there"),
        (["jobs.py:ready", "none.npy", "out"], "none.npy"),
        (["jobs.py:ready", "rows.npy", "out", "--shard", "3"], "--shard must be K/N"),
        (["jobs.py:ready", "rows.npy", "out", "--option", "x"], "--option must be NAME=JSON"),
        (["jobs.py:ready", "rows.npy", "out", "--option", "x=1"], "takes for the rows: outputs"),
    ],
)
def test_what_is_not_accepted_is_status_1(arguments, said, jobs, capsys) -> None:
    assert swept(*arguments) == 1
    assert said in capsys.readouterr().err
