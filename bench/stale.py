"""Rows of the table that are older than the code that they measure: `python -m bench --stale`."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.report import COLUMNS, ROOT, git

CODE = ("xaijax", "kernels")  # what every case measures
OWN = {"coming-from": ("docs/coming_from.md", "bench/cases/coming_from.py")}  # and only this one
# A line by which a commit says that what runs is as before: files moved, words of a docstring.
SAME = "^Bench: same code$"
CASE, ON, COMMIT, VERDICT = map(COLUMNS.index, ("case", "on", "commit", "verdict"))


@dataclass(frozen=True)
class Stale:
    """The rows of one case on one device that were measured on other code than there is now."""

    case: str
    on: str
    commit: str
    why: str

    def __str__(self) -> str:
        return f"{self.case} ({self.on}) at {self.commit or 'no commit'}: {self.why}"


def stale(lines: Sequence[Sequence[str]], root: Path = ROOT) -> list[Stale]:
    """Those among the lines of the table, each case once; what was not run is not stale."""
    found: dict[tuple[str, str, str], str] = {}
    for line in lines:
        if line[VERDICT] == "not run":
            continue
        one = (line[CASE], line[ON], line[COMMIT])
        if one not in found:
            found[one] = _why(line[COMMIT], root, (*CODE, *OWN.get(line[CASE], ())))
    return [Stale(*one, why) for one, why in found.items() if why]


def _why(commit: str, root: Path, code: Sequence[str]) -> str:
    """Why rows measured at this commit, of this code, are stale; empty: they are not."""
    if commit.endswith("+"):
        return "measured with changes that are in no commit"
    try:
        others = ("--invert-grep", f"--grep={SAME}", f"{commit}..HEAD", "--", *code)
        since = git("rev-list", "--count", *others, root=root)
    except (OSError, subprocess.CalledProcessError):
        return "this repository does not know the commit"
    if since == "0":
        return ""
    return f"{since} commit{'s' if since != '1' else ''} to {' and '.join(code)} since"
