"""Which rows of the table are older than the code that they measure, told by their commits."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from bench import report
from bench.frame import Case

UNKNOWN = "unknown"
# What no row of a model measures: results, files, data, and methods that ask no model.
APART = ("methods/aec", "federated", "privacy", "results", "datasets", "demo", "cli.py")
ENGINE = ("xaijax", "kernels", *(f":(exclude)xaijax/{path}" for path in APART))
OF_CASE = {  # of those that measure something else
    "T17": ("xaijax/methods/aec", "xaijax/methods/movement.py", "kernels"),
    "stream": ("xaijax/methods/aec", "kernels"),
    "wire": ("xaijax/federated", *ENGINE),
}


def older(commit: str, case: str, root: Path) -> bool:
    """Whether the case's code changed after this commit; one that is not known is older."""
    name = commit.rstrip("+").removesuffix("-dirty")
    paths = OF_CASE.get(case, ENGINE)
    command = ["git", "-C", str(root), "rev-list", "--count", f"{name}..HEAD", "--", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode != 0 or int(done.stdout) > 0


def stale(lines: Sequence[Sequence[str]], cases: Sequence[Case], root: Path) -> list[str]:
    """Names of the cases with a row of the table (cells as in `report.COLUMNS`) that is older."""
    known = {case.name for case in cases}
    commit, verdict = report.COLUMNS.index("commit"), report.COLUMNS.index("verdict")
    found: list[str] = []
    for line in lines:
        if line[0] in known and line[0] not in found and line[verdict] != "not run":
            if older(line[commit] or UNKNOWN, line[0], root):
                found.append(line[0])
    return found


def told(names: Sequence[str]) -> str:
    """What is said of them, with the command that measures them anew."""
    if not names:
        return "No row of the table is older than the code that it measures."
    return (
        f"Rows older than the code that they measure: {', '.join(names)}. Measure them anew on a "
        f"quiet machine: make bench CASE={','.join(names)}"
    )
