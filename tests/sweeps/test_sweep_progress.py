"""How far a sweep is: a bar, or lines where there is no terminal."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sweeping import X, explainer

import xaijax as xj
from xaijax.sweeps import sweep as progress


@pytest.fixture(autouse=True)
def no_notebook(monkeypatch) -> None:
    """Other tests of this process may have run a notebook's kernel, where bars are drawn."""
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)


def test_a_line_says_rows_rate_and_time_left(monkeypatch, capsys) -> None:
    clock = iter([0.0, 30.0, 61.0, 62.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.Progress(None, 1000, 100) as shown:
        shown.done(200)  # after half a minute
        assert "xaijax" not in capsys.readouterr().err
        shown.done(100)
        told = "xaijax: 400 of 1,000 rows (40%), 5 rows a second, 0:02:02 left\n"
        assert told in capsys.readouterr().err
        shown.done(100)
        assert "xaijax" not in capsys.readouterr().err


def test_a_sweep_counts_rows_and_what_is_kept(tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(progress, "EVERY", 0.0)
    xj.sweep(explainer(), X, tmp_path, rows_per_part=10)
    assert [line.split(" rows")[0] for line in capsys.readouterr().err.splitlines()] == [
        f"xaijax: {done} of 25" for done in (10, 20, 25)
    ]
    (tmp_path / "part-000001.npz").unlink()
    (tmp_path / "part-000002.npz").unlink()
    xj.sweep(explainer(), X, tmp_path, xj.engines.shard(1, 3), rows_per_part=10)
    assert "10 of 10 rows (100%)" in capsys.readouterr().err  # of its own share
    xj.sweep(explainer(), X, tmp_path, rows_per_part=10)
    assert "25 of 25 rows (100%)" in capsys.readouterr().err
    (tmp_path / "part-000001.npz").unlink()
    xj.sweep(explainer(), X, tmp_path, rows_per_part=10, progress=False)
    assert capsys.readouterr().err == ""
    (tmp_path / "part-000001.npz").unlink()
    xj.sweep(explainer(), X, tmp_path, rows_per_part=10, progress=True)
    assert "25.0/25.0" in capsys.readouterr().err
