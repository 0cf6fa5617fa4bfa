"""`python -m bench --compilers`: compiles all jobs for all targets, and writes `ACCELERATORS.md`.

Each target has a process in the environment of its compiler; two run at a time. The page has a
section for each target, which a run of that target replaces.
"""

from __future__ import annotations

import datetime
import re
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from bench import report
from bench.compiler_jobs import JOBS
from bench.compilers import (
    TARGETS,
    CompilationError,
    Compiler,
    Program,
    Target,
    target_of,
)
from bench.frame import NotRun

PAGE = report.HERE / "ACCELERATORS.md"
TOGETHER = 2  # processes
COLUMNS = (
    "problem",
    "program",
    "commit",
    "runs",
    "kernels a run",
    "kernels per million hybrids",
    "turns of loops",
    "rows of the smallest product",
    "products in",
    "bytes a hybrid",
    "operations a hybrid",
    "cycles / plain",
    "arguments, MB",
    "temporaries, MB",
    "code, MB",
    "seconds to compile",
    "collectives",
    "host",
    "float64",
)
COMMIT = COLUMNS.index("commit")
LAST = "Last run: "
T41 = "T1", "T1, plain", "T3"
LINKED = "(ACCELERATORS.md)"  # ends a verdict of bench/README.md that is this page's
MOST_KERNELS, MOST_CYCLES, LEAST_ROWS, MOST_SECONDS = 100, 1.5, {False: 1 << 12, True: 1 << 16}, 20


@dataclass
class Run:
    """What was compiled for one target."""

    target: Target
    versions: dict[str, str] = field(default_factory=dict)
    problems: dict[str, list[Program]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def main(targets: Sequence[str], names: Sequence[str], write: bool) -> int:
    """Compiles the jobs of these names, all if there are none, for these targets, all of TARGETS if
    there are none. The page is written where all jobs of a target were compiled.

    Returns:
        0; 1 if a program was not compiled; 2 for a wrong name or a missing environment.
    """
    unknown = [name for name in names if name not in JOBS]
    if unknown:
        print(f"No job {unknown[0]!r}; there are {'; '.join(JOBS)}.", file=sys.stderr)
        return 2
    wanted = [target_of(name) for name in targets or TARGETS]
    try:
        processes = [Compiler(target) for target in wanted]
        runs = [
            Run(process.target, process.versions()) for process in processes
        ]  # which knows its target
    except NotRun as error:
        print(f"Nothing was compiled: {error}", file=sys.stderr)
        return 2
    commit = report.commit()
    try:
        with ThreadPoolExecutor(TOGETHER) as pool:
            list(pool.map(partial(_compile, names or list(JOBS)), processes, runs))
    finally:
        for process in processes:
            process.close()
    for run in runs:
        if write and not names and run.target.name in TARGETS:
            write_page(PAGE, run, commit)
            link_targets()
        for name, why in run.failed.items():
            print(f"FAILED: {name} for {run.target.name}: {why}", file=sys.stderr)
    return 1 if any(run.failed for run in runs) else 0


def _compile(names: Sequence[str], process: Compiler, run: Run) -> None:
    for name in names:
        try:
            run.problems[name] = process.job(name)
        except CompilationError as error:
            run.failed[name] = str(error)
            continue
        for line in rows(name, run.problems[name], ""):
            shown = zip(COLUMNS[4:], line[4:], strict=True)
            figures = ", ".join(f"{column} {cell}" for column, cell in shown if cell)
            print(f"{run.target.name} | {name} | {line[1]} | {figures}", flush=True)


def rows(name: str, programs: Sequence[Program], commit: str) -> list[list[str]]:
    """Lines of the table: each program of a problem, and all together if there are several."""
    lines = []
    for program in programs:
        f = program.figures
        arithmetic = sorted(f["arithmetic"], key=f["arithmetic"].get, reverse=True)
        lines.append(
            [name, program.program, commit, f"{program.runs:,}", f"{f['kernels']:,}"]
            + [_number(program.for_each("kernels") * 1e6), ", ".join(f["loops"])]
            + ["" if f["smallest"] is None else f"{f['smallest']:,}", ", ".join(arithmetic)]
            + [_number(program.for_each("bytes")), _number(program.for_each("operations"))]
            + [_number(program.for_each("cycles") / program.plain) if program.plain else ""]
            + [
                _number(size / 1e6)
                for size in (program.arguments, program.temporaries, program.code)
            ]
            + [f"{program.seconds:.1f}", f"{f['collectives']:,}", f"{f['host']:,}"]
            + ["yes" if f["float64"] else "no"]
        )
    if len(programs) > 1:
        whole = [""] * len(COLUMNS)
        whole[0], whole[1], whole[COMMIT] = name, "all", commit
        whole[5] = _number(kernels(programs))
        for column, figure in ((9, "bytes"), (10, "operations")):
            whole[column] = _number(sum(program.for_each(figure) for program in programs))
        whole[11] = _number(cycles(programs)) if programs[0].plain else ""
        whole[15] = f"{sum(program.seconds for program in programs):.1f}"
        lines.append(whole)
    return lines


def kernels(programs: Sequence[Program]) -> float:
    """Kernels per million hybrids."""
    return sum(program.for_each("kernels") for program in programs) * 1e6


def cycles(programs: Sequence[Program]) -> float:
    """Estimated cycles over those of the plain forward pass of the same rows."""
    return sum(program.for_each("cycles") / program.plain for program in programs)


def smallest(programs: Sequence[Program]) -> int | None:
    """Rows of the smallest product of the programs that hold the model: the dispatches, or all
    where a job has none.
    """
    dispatches = [one for one in programs if one.program.startswith("a dispatch")]
    held = [one.figures["smallest"] for one in dispatches or programs]
    return min((rows for rows in held if rows is not None), default=None)


def goals(run: Run) -> list[list[str]]:
    """Lines of the table of T40 to T45: number, problem, goal, figure, verdict. All problems have
    the limits of T40 and T42, which name six each.
    """
    lines = []

    def line(number: str, name: str, goal: str, figure: float | None, met: bool) -> None:
        shown = "none" if figure is None else _number(figure)
        lines.append([number, name, goal, shown, "met" if met else "missed"])

    gpu, least = run.target.gpu, LEAST_ROWS[run.target.gpu]
    for name, programs in run.problems.items():
        count, few = kernels(programs), smallest(programs)
        if gpu:
            line(
                "T40", name, f"kernels per million <= {MOST_KERNELS}", count, count <= MOST_KERNELS
            )
        if programs[0].plain and name in T41:
            ratio = cycles(programs)
            line("T41", name, f"cycles / plain <= {MOST_CYCLES}", ratio, ratio <= MOST_CYCLES)
        if few is not None:
            line("T42", name, f"rows of the smallest product >= {least:,}", few, few >= least)
        if name == "T1" and not gpu:
            spent = sum(program.seconds for program in programs)
            line("T45", name, f"seconds to compile <= {MOST_SECONDS}", spent, spent <= MOST_SECONDS)
    if run.target.name == "v5e:2x2":
        count = sum(
            program.figures["collectives"] for all in run.problems.values() for program in all
        )
        line("T45", "all", "collectives: none", count, count == 0)
    return sorted(lines, key=lambda line: line[0])


def write_page(path: Path, run: Run, commit: str) -> None:
    """Replaces the section of the run's target."""
    text = path.read_text()
    begin, end = _marks(run.target.name)
    head, rest = text.split(begin, 1)
    _, tail = rest.split(end, 1)
    seconds = sum(program.seconds for all in run.problems.values() for program in all)
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    last = f"{LAST}{day}, commit {commit}, {versions}, {seconds:.0f} processor seconds to compile."
    failed = [f"- not compiled: {name}: {why}" for name, why in run.failed.items()]
    lines = [line for name, all in run.problems.items() for line in rows(name, all, commit)]
    first = ["#", "problem", "goal", "figure", "verdict"]
    shown = [last, "", *report.markdown([first, *goals(run)]), "", *failed, *[""] * bool(failed)]
    path.write_text(
        "\n".join([head + begin, *shown, *report.markdown([COLUMNS, *lines]), end]) + tail
    )


def link_targets(page: Path = PAGE) -> None:
    """Replaces the verdicts of the targets that the page judges by how many of their figures are
    missed, with a link to the page. A target of several sections has the commit of the oldest.
    """
    judged_by: dict[str, list[tuple[str, str, str]]] = {}
    day = commit = ""
    for line in page.read_text().splitlines():
        if last := re.match(rf"{LAST}(\S+), commit (\w+\+?),", line):
            day, commit = last.groups()
        elif judged := re.fullmatch(r"\| (T\d+) \|.*\| (met|missed) \|", line):
            judged_by.setdefault(judged[1], []).append((day, commit, judged[2]))
    measures = {row.case: row.measures for row in report.read()}
    for case, figures in judged_by.items():
        missed = sum(verdict == "missed" for *_, verdict in figures)
        verdict = f"[{missed} of {len(figures)} missed]{LINKED}"
        day, commit, _ = min(figures, key=lambda figure: figure[0])
        machine = {"platform": "", "commit": commit, "date": day}
        report.keep(report.Row(case, verdict, measures=measures[case], machine=machine))


def _marks(target: str) -> tuple[str, str]:
    return f"<!-- {target}: begin -->", f"<!-- {target}: end -->"


def stale(path: Path = PAGE, root: Path = report.ROOT) -> list[report.Stale]:
    """Targets whose sections are older than the code."""
    rows = []
    for target in TARGETS:
        begin, end = _marks(target)
        section = path.read_text().split(begin, 1)[1].split(end, 1)[0]
        commits = re.findall(rf"^{LAST}.*?, commit (\S+),", section, re.MULTILINE)
        why = report.why_stale(commits[0], root, report.CODE) if commits else "not compiled yet"
        if why:
            rows.append(report.Stale("compilers", target, "".join(commits), why))
    return rows


def _number(value: float) -> str:
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
