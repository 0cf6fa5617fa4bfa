"""What a run leaves behind: `bench/results.json`, from which all pages get their figures.

`results.json` is the one place that keeps figures. The table of `bench/README.md` is made from it,
and so is each number of a page that a mark follows: `<!-- T3: shap Exact / ours -->`, or with the
job `<!-- T8: shap TreeExplainer / ours (forest) -->`. A folder `bench/out` that is not committed
has every turn of the last run of each case.
"""

from __future__ import annotations

import dataclasses
import datetime
import importlib.metadata
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
RESULTS = "results.json"  # in the folder of the bench
PAGES = ("README.md", "docs/**/*.md")  # whose marked numbers are the bench's
# A number of a page, its unit, and the mark that names its case and figure.
MARKED = re.compile(
    r"(?P<number>[\d,.]+\d|\d)(?P<unit>[^\s\d<]| [^\s\d<]+)?<!-- (?P<key>[^>]+?) -->"
)
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
        "figures": [
            dataclasses.asdict(figure) | {"verdict": figure.verdict} for figure in outcome.figures
        ],
        "timings": [
            dataclasses.asdict(timing) | {"best": timing.best, "median": timing.median}
            for timing in outcome.timings
        ],
        "agreements": [
            dataclasses.asdict(agreement) | {"holds": agreement.holds}
            for agreement in outcome.agreements
        ],
        "notes": outcome.notes,
        "details": outcome.details,
        "machine": where,
    }
    path.write_text(json.dumps(content, indent=1, default=float) + "\n")
    return path


@dataclass(frozen=True)
class Row:
    """What is kept of one case on one device, and shown as a line of the table."""

    case: str
    verdict: str  # "stretch", "met", "missed", NOT_RUN, NOT_YET; or a link to another page
    reason: str = ""
    measures: str = ""  # what is measured, where there are no figures with a goal
    figures: tuple[Figure, ...] = ()
    machine: Mapping[str, Any] = field(default_factory=dict)  # empty: not measured yet

    @property
    def on(self) -> str:
        """The kind of the device: "cpu", or a GPU's name; empty where none measures."""
        platform = self.machine.get("platform", "")
        return self.machine["device"] if platform not in ("", "cpu") else platform

    @property
    def commit(self) -> str:
        """The commit that was measured; empty where none was."""
        return self.machine.get("commit", "")

    @property
    def cells(self) -> list[str]:
        """The line of the table: figures with a goal, those of one goal together.

        Figures of several jobs are "job: what is measured"; missed ones are bold.
        """
        shown: dict[str, list[str]] = {}
        for figure in self.figures:
            if figure.target is not None:
                job, label = _job(figure)
                value = number(figure.value) + figure.unit
                value = f"**{value}**" if figure.verdict == "missed" else value
                shown.setdefault(f"{label} {_goal(figure)}", []).append(value + job)
        measured = "; ".join(f"{target}: {', '.join(values)}" for target, values in shown.items())
        day = self.machine.get("date", "")[:10]
        start = [self.case, self.on, self.commit, day]
        return [*start, measured or self.measures, self.verdict, self.reason]

    def value_of(self, key: str) -> float:
        """The value of the figure that a mark names, as the table does: "label (job)"."""
        values = [figure.value for figure in self.figures if "".join(reversed(_job(figure))) == key]
        if len(values) != 1:
            known = ", ".join("".join(reversed(_job(figure))) for figure in self.figures)
            raise KeyError(f"{self.case} has no figure {key!r}; it has {known or 'none'}.")
        return values[0]


def row(case: Case, outcome: Outcome, where: dict[str, Any]) -> Row:
    """What is kept of an outcome: all its figures, also those without a goal."""
    if outcome.not_run:
        return Row(case.name, NOT_RUN, outcome.not_run, case.measures, (), where)
    verdicts = {figure.verdict for figure in outcome.figures}
    worst = next((v for v in ("missed", "met", "stretch") if v in verdicts), "")
    verdict = worst if outcome.agrees else "FAILED: results disagree"
    reasons = [case.missed] if worst == "missed" else []
    reasons += [note for note in outcome.notes if NOT_RUN in note]  # peers that are missing
    return Row(case.name, verdict, " ".join(reasons), "", outcome.figures, where)


def read(folder: Path | None = None) -> list[Row]:
    """All rows that `results.json` keeps."""
    content = json.loads(((folder or HERE) / RESULTS).read_text())
    return [
        Row(**line | {"figures": tuple(Figure(**f) for f in line["figures"])}) for line in content
    ]


def keep(new: Row) -> None:
    """Replace the row of a case in `results.json`, and write what is made from that file.

    Rows of another device are others. A row without a device is one that was not measured yet.
    """
    replaced = (new.on, "")
    rows = [row for row in read() if row.case != new.case or row.on not in replaced]
    write(sorted([*rows, new], key=_order))


def write(rows: Sequence[Row]) -> None:
    """Write `results.json`, a row a line, the table of `bench/README.md`, and marked numbers."""
    lines = [json.dumps(dataclasses.asdict(row), ensure_ascii=False, default=float) for row in rows]
    (HERE / RESULTS).write_text("[\n" + ",\n".join(lines) + "\n]\n")
    page = HERE / "README.md"
    page.write_text(with_table(page.read_text(), rows))
    for page in pages():
        old = page.read_text()
        if (text := with_figures(old, rows)) != old:
            page.write_text(text)


def pages(root: Path | None = None) -> Iterator[Path]:
    """The pages whose numbers may be the bench's."""
    for pattern in PAGES:
        yield from sorted((root or ROOT).glob(pattern))


def with_table(text: str, rows: Sequence[Row]) -> str:
    """A page with the table of the rows, under a line for each device about its last run."""
    head, _, tail = _parts(text)
    latest: dict[str, Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row.machine.get("date", "")):
        if "gflops" in row.machine:
            latest[row.on] = row.machine
    above = [line for on in sorted(latest, key="cpu".__ne__) for line in (_last(latest[on]), "")]
    table = markdown([COLUMNS, *(row.cells for row in rows)])
    return "\n".join([head + BEGIN, *above, *table, END]) + tail


def with_figures(text: str, rows: Sequence[Row]) -> str:
    """A page whose marked numbers are those of the rows, with as many digits as they had.

    Raises KeyError where a mark names no figure.
    """
    measured = {row.case: row for row in rows if row.on == "cpu"}

    def now(match: re.Match[str]) -> str:
        case, _, key = match["key"].partition(": ")
        if case not in measured:  # another comment
            return match[0]
        value = measured[case].value_of(key)
        digits = len(re.sub(r"[,.]", "", match["number"]).lstrip("0"))
        return f"{rounded(value, max(digits, 1))}{match['unit'] or ''}<!-- {match['key']} -->"

    return MARKED.sub(now, text)


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


def _job(figure: Figure) -> tuple[str, str]:
    """Whose figure it is, in brackets, and its label."""
    job, _, label = figure.label.rpartition(": ")
    return (f" ({job.replace(': ', ', ')})" if job else ""), label


def _place(name: str) -> tuple[float, str]:
    """T2 before T10, and names without a number last."""
    match = re.match(r"T(\d+)", name)
    return (float(match[1]) if match else float("inf")), name


def _order(row: Row) -> tuple[bool, str, tuple[float, str]]:
    """Rows of a CPU, and those not measured yet, before those of other devices."""
    device = row.on if row.on != "cpu" else ""
    return bool(device), device, _place(row.case)


def _last(where: Mapping[str, Any]) -> str:
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


def number(value: float) -> str:
    """As the table shows it: with three digits, from 1,000 on as a whole number."""
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def rounded(value: float, digits: int) -> str:
    """As a page shows it: with this number of digits, and whole numbers never rounded further."""
    if abs(value) >= 10**digits or value == 0:
        return f"{value:,.0f}"
    value = float(f"{value:.{digits - 1}e}")
    return f"{value:,.{max(digits - 1 - math.floor(math.log10(abs(value))), 0)}f}"


def _goal(figure: Figure) -> str:
    assert figure.target is not None
    if figure.better == "near":
        return f"1 ± {number(figure.target)}"
    return f"{'<=' if figure.better == 'less' else '>='} {number(figure.target)}{figure.unit}"


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


def _processor() -> str:
    try:
        match = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        match = None
    return match[1].strip() if match else platform.processor() or platform.machine()


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


def stale(rows: Sequence[Row], root: Path = ROOT) -> list[Stale]:
    """Rows that are older than the code; what was not run is not stale."""
    reasons: dict[tuple[str, str, str], str] = {}
    for row in rows:
        if row.verdict in (NOT_RUN, NOT_YET) or row.verdict.startswith("["):  # another page's
            continue
        key = (row.case, row.on, row.commit)
        if key not in reasons:
            reasons[key] = why_stale(row.commit, root, CODE)
    return [Stale(*key, why) for key, why in reasons.items() if why]


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
