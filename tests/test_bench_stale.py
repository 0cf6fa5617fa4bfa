"""Rows of the bench that are older than the code that they measure are named."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bench import __main__ as command
from bench import report, stale
from bench.cases import CASES


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *who, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def changed(folder: Path, path: str) -> str:
    """The commit after a change of this file."""
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(file.read_text() + "more\n" if file.exists() else "first\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", path)
    return git(folder, "rev-parse", "--short=10", "HEAD")


def row(case: str, commit: str, verdict: str = "met") -> list[str]:
    cells = dict.fromkeys(report.COLUMNS, "") | {"case": case, "commit": commit, "verdict": verdict}
    return list(cells.values())


def test_a_row_is_older_once_its_code_has_changed(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    cases = [CASES[name] for name in ("T1", "T17")]
    first = changed(tmp_path, "xaijax/games/game.py")
    measured = [row("T1", first), row("T17", first)]
    assert stale.stale(measured, cases, tmp_path) == []
    changed(tmp_path, "docs/page.md")
    assert stale.stale(measured, cases, tmp_path) == []
    changed(tmp_path, "xaijax/methods/aec/rows.py")
    assert stale.stale(measured, cases, tmp_path) == ["T17"]
    last = changed(tmp_path, "kernels/xaijax_kernels/tiles.py")
    assert stale.stale(measured, cases, tmp_path) == ["T1", "T17"]
    assert stale.stale([row("T1", last), row("T17", f"{last}+")], cases, tmp_path) == []


@pytest.mark.parametrize("commit", ["", "unknown", "0123456789"])
def test_a_row_of_a_commit_that_is_not_known_is_older(tmp_path: Path, commit: str) -> None:
    git(tmp_path, "init", "-q")
    changed(tmp_path, "xaijax/games/game.py")
    assert stale.stale([row("T1", commit)], [CASES["T1"]], tmp_path) == ["T1"]
    assert stale.stale([row("T1", commit, "not run")], [CASES["T1"]], tmp_path) == []


def test_every_row_of_the_table_shows_a_commit() -> None:
    place = report.COLUMNS.index("commit")
    lines = report.table(report.HERE / "README.md")
    assert lines and all(len(line) == len(report.COLUMNS) for line in lines)
    assert all(len(line[place].rstrip("+")) >= 7 for line in lines)


def test_the_command_names_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stale, "older", lambda commit, case, root: case == "T4")
    assert command.main(["--stale"]) == 1
    assert "make bench CASE=T4" in capsys.readouterr().out
    monkeypatch.setattr(stale, "older", lambda commit, case, root: False)
    assert command.main(["--stale"]) == 0
