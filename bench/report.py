"""What a run leaves behind: a JSON file a case, and the table in `bench/README.md`; stale lines."""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from bench.frame import Case, Figure, Outcome, Size, timed

HERE = Path(__file__).parent
ROOT = HERE.parent
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
LAST = "Last run: "
COLUMNS = ("case", "on", "commit", "date", "target: measured", "verdict", "reason")
CASE, ON, COMMIT, _, _, VERDICT, _ = range(len(COLUMNS))
NOT_RUN, NOT_YET = "not run", "not measured yet"
CODE = ("xaijax", "kernels")  # what every case measures
# A line by which a commit says that what runs is as before: files moved, words of a docstring.
SAME = "^Bench: same code$"


def machine() -> dict[str, Any]:
    """What the numbers depend on: device, versions, processors, commit, date."""
    device = jax.devices()[0]
    versions = {}
    for name in ("jax", "jaxlib", "numpy", "scikit-learn", "shap", "shapiq", "pandas"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    return {
        "platform": device.platform,
        "device": device.device_kind,
        "processor": _processor(),
        "cpus": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "gflops": _products(),
        "python": platform.python_version(),
        "versions": versions,
        "commit": commit(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _products(side: int = 2048) -> float:
    """1e9 float32 operations a second in a large product: what bounds most models here.

    The trials that the targets were taken from had 417 on their two processors.
    """
    square = jnp.ones((side, side), jnp.float32)
    product = jax.jit(jnp.dot)

    def run() -> None:
        product(square, square).block_until_ready()

    run()
    return 2 * side**3 / min(timed(run)[0] for _ in range(5)) / 1e9


def write_json(
    folder: Path, case: Case, size: Size, outcome: Outcome, where: dict[str, Any]
) -> Path:
    """Write everything about one case's run into `folder/NAME.json` (a GPU's has its own name)."""
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "" if where["platform"] == "cpu" else f"-{where['platform']}"
    path = folder / f"{case.name}{suffix}.json"
    content = {
        "case": case.name,
        "measures": case.measures,
        "size": size,
        "agrees": outcome.agrees,
        "not_run": outcome.not_run,
        "figures": [dataclasses.asdict(one) | {"verdict": one.verdict} for one in outcome.figures],
        "timings": [
            dataclasses.asdict(one) | {"best": one.best, "median": one.median}
            for one in outcome.timings
        ],
        "agreements": [
            dataclasses.asdict(one) | {"holds": one.holds} for one in outcome.agreements
        ],
        "notes": outcome.notes,
        "details": outcome.details,
        "machine": where,
    }
    path.write_text(json.dumps(content, indent=1, default=float) + "\n")
    return path


def row(case: Case, outcome: Outcome, where: dict[str, Any]) -> list[str]:
    """The line of the table for one case: figures with a goal, those of one goal together.

    Figures of several jobs are "job: what is measured"; missed ones are bold.
    """
    on = "cpu" if where["platform"] == "cpu" else where["device"]
    start = [case.name, on, where["commit"], where["date"][:10]]
    if outcome.not_run:
        return [*start, case.measures, NOT_RUN, outcome.not_run]
    aimed = [one for one in outcome.figures if one.target is not None]
    shown: dict[str, list[str]] = {}
    for one in aimed:
        job, _, label = one.label.rpartition(": ")
        value = _number(one.value) + one.unit
        value = f"**{value}**" if one.verdict == "missed" else value
        whose = f" ({job.replace(': ', ', ')})" if job else ""
        shown.setdefault(f"{label} {_goal(one)}", []).append(value + whose)
    measured = "; ".join(f"{target}: {', '.join(values)}" for target, values in shown.items())
    worst = next((v for v in ("missed", "met", "stretch") if v in {a.verdict for a in aimed}), "")
    verdict = worst if outcome.agrees else "FAILED: results disagree"
    reasons = [case.missed] if worst == "missed" else []
    reasons += [note for note in outcome.notes if NOT_RUN in note]  # peers that are missing
    return [*start, measured, verdict, " ".join(reasons)]


def update_table(path: Path, new: list[str], where: dict[str, Any]) -> None:
    """Replace the line of a case that was run in the table of a Markdown file, keep others.

    Lines of another device are others, and so is what stands above the table about its last run.
    """
    text = path.read_text()
    head, old, tail = _parts(text)
    kept = _lines(old)
    replaced = (new[ON], "")  # without a device: not measured yet
    merged = [line for line in kept if line[CASE] != new[CASE] or line[ON] not in replaced]
    merged = sorted([*merged, new], key=_order)
    shown = markdown([COLUMNS, *merged])
    here = f"device {where['device']}, "
    last = [line for line in old.splitlines() if line.startswith(LAST) and here not in line]
    last = sorted([*last, _last(where)], key=lambda line: "device cpu, " not in line)
    above = [line for one in last for line in (one, "")]
    path.write_text("\n".join([head + BEGIN, *above, *shown, END]) + tail)


def table(path: Path) -> list[list[str]]:
    """The lines of the table of a Markdown file, without its headings."""
    return _lines(_parts(path.read_text())[1])


def write_page(path: Path, outcome: Outcome, where: dict[str, Any]) -> None:
    """Replace the table of a case's own page by the outcome's, its notes below it."""
    head, _, tail = _parts(path.read_text())
    notes = [f"- {note}" for note in outcome.notes]
    lines = [_last(where), "", *markdown(outcome.table), "", *notes]
    path.write_text("\n".join([head + BEGIN, *lines, END]) + tail)


def _parts(text: str) -> tuple[str, str, str]:
    """What stands before, between and after the marks."""
    head, rest = text.split(BEGIN, 1)
    old, tail = rest.split(END, 1)
    return head, old, tail


def _lines(text: str) -> list[list[str]]:
    lines = [_cells(line) for line in text.splitlines() if line.startswith("| ")]
    return [line for line in lines if line[0] not in (COLUMNS[0], "---")]


def _place(name: str) -> tuple[float, str]:
    """T2 before T10, and names without a number last."""
    found = re.match(r"T(\d+)", name)
    return (float(found[1]) if found else float("inf")), name


def _order(line: list[str]) -> tuple[bool, str, tuple[float, str]]:
    """Lines of a CPU, and those not measured yet, before those of other devices."""
    device = line[ON] if line[ON] != "cpu" else ""
    return bool(device), device, _place(line[CASE])


def _last(where: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in where["versions"].items() if value)
    return (
        f"{LAST}{where['date'][:10]}, commit {where['commit']}, {where['cpus']} processors "
        f"({where['processor']}), {where['gflops']:.0f} GFLOP/s in float32 products, device "
        f"{where['device']}, Python {where['python']}, {versions}."
    )


def markdown(lines: Sequence[Sequence[str]]) -> list[str]:
    """A table; the first line has the headings."""
    shown = [f"| {' | '.join(_escaped(cell) for cell in line)} |" for line in lines]
    return [shown[0], "|" + " --- |" * len(lines[0]), *shown[1:]]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _goal(figure: Figure) -> str:
    assert figure.target is not None
    if figure.better == "near":
        return f"1 ± {_number(figure.target)}"
    return f"{'<=' if figure.better == 'less' else '>='} {_number(figure.target)}{figure.unit}"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _cells(line: str) -> list[str]:
    parts = re.split(r"(?<!\\)\|", line.strip())[1:-1]
    return [part.strip().replace("\\|", "|") for part in parts]


def _processor() -> str:
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()


def git(*arguments: str, root: Path = ROOT) -> str:
    """What git says of the repository; raises OSError or CalledProcessError where it is silent."""
    command = ["git", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def commit() -> str:
    """The commit, with a "+" where code stands in the tree that is in no commit.

    Pages do not count: a run writes its own table.
    """
    try:
        head = git("rev-parse", "--short=10", "HEAD")
        changed = git("status", "--porcelain", "--", "xaijax", "kernels", "bench", ":!*.md")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}+" if changed else head


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
    """Lines of the table that are older than the code; what was not run is not stale."""
    found: dict[tuple[str, str, str], str] = {}
    for line in lines:
        if line[VERDICT] in (NOT_RUN, NOT_YET):
            continue
        one = (line[CASE], line[ON], line[COMMIT])
        if one not in found:
            found[one] = why_stale(line[COMMIT], root, CODE)
    return [Stale(*one, why) for one, why in found.items() if why]


def why_stale(commit: str, root: Path, code: Sequence[str]) -> str:
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
