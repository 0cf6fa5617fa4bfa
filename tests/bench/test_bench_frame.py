"""The bench's frame, with tiny cases that have known answers."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from bench import __main__ as command
from bench import accelerators, environments, report
from bench.frame import (
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    NotRun,
    Outcome,
    Several,
    ratio,
)
from bench.report import stale

WHERE: dict[str, Any] = {
    "platform": "cpu",
    "gflops": 200.0,
    "device": "cpu",
    "processor": "none",
    "cpus": 2,
    "python": "3",
    "versions": {"jax": "1", "shap": None},
    "commit": "c",
    "date": "2026-01-02T03:04:05",
}


def duel(*, difference: float = 0.0) -> Duel:
    return Duel(
        contenders=[
            Contender("ours", lambda count: np.zeros(count), 3),
            Contender("peer", lambda count: np.full(count, difference), 3),
        ],
        check=lambda results: [
            Agreement("ours and peer", abs(results["ours"] - results["peer"]).max(), 0.1, "fake")
        ],
        figures=lambda timings, results: [Figure("peer / ours", ratio(timings, "peer", "ours"), 0)],
        rounds=2,
    )


def case(name: str, **keywords: float) -> Case:
    def setup(size: str) -> Duel:
        """Measures a fake.

        Missed: It is one. There is more.
        """
        return duel(**keywords)

    return Case(name, setup)


@pytest.mark.parametrize(
    ("better", "value", "verdict"),
    [
        ("less", 0.5, "stretch"),
        ("less", 1.2, "met"),
        ("less", 1.3, "missed"),
        ("more", 1.3, "met"),
        ("more", 0.1, "missed"),
        ("near", 2.1, "met"),
        ("near", -0.5, "missed"),
        ("less", float("nan"), "missed"),
    ],
)
def test_verdicts(better: Any, value: float, verdict: str) -> None:
    stretch = 0.9 if better == "less" else None
    assert Figure("f", value, 1.25, stretch, better).verdict == verdict


def test_a_difference_that_is_no_number_never_agrees() -> None:
    assert not Agreement("a and b", float("nan"), 1.0, "").holds
    assert not Outcome(agreements=(Agreement("a and b", 2.0, 1.0, ""),)).agrees


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bench folder whose results have a row of another case already."""
    monkeypatch.setattr(report, "HERE", tmp_path)
    monkeypatch.setattr(report, "ROOT", tmp_path / "root")
    monkeypatch.setattr(report, "machine", lambda: WHERE)
    (tmp_path / "README.md").write_text(f"before\n{report.BEGIN}\n{report.END}\nafter\n")
    old = {"platform": "cpu", "device": "cpu", "commit": "c9", "date": "2026-11-01"}
    report.write([report.Row("T9", "met", measures="kept | as it is", machine=old)])
    return tmp_path


def run(folder: Path, monkeypatch: pytest.MonkeyPatch, *cases: Case) -> tuple[int, str]:
    monkeypatch.setattr(command, "CASES", {one.name: one for one in cases})
    status = command.main(["--out", str(folder / "out")])
    return status, (folder / "README.md").read_text()


def test_a_run_writes_its_lines_and_keeps_others(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, text = run(written, monkeypatch, case("T10"), case("T2"))
    assert status == 0
    assert text.startswith("before\n") and text.endswith("\nafter\n")
    names = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| T")]
    assert names == ["T2", "T9", "T10"]
    assert "kept \\| as it is" in text
    _, again = run(written, monkeypatch, case("T2"))
    assert again.count("| T2 |") == again.count("| T9 |") == again.count("| T10 |") == 1
    stored = json.loads((written / "out/T2.json").read_text())
    assert stored["agrees"] and stored["machine"]["commit"] == "c"
    assert len(stored["timings"][0]["seconds"]) == 2


def test_every_row_has_the_commit_that_it_was_measured_at(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(size: str) -> Duel:
        raise NotRun("the peer is not here")

    run(written, monkeypatch, case("T2"))
    monkeypatch.setattr(report, "machine", lambda: WHERE | {"commit": "d+"})
    run(written, monkeypatch, case("T10"), Case("T11", absent))
    at = report.COLUMNS.index("commit")
    lines = [one.cells for one in report.read()]
    assert [(line[0], line[at]) for line in lines] == [
        ("T2", "c"),
        ("T9", "c9"),  # a row that was not run keeps its own
        ("T10", "d+"),
        ("T11", "d+"),
    ]
    assert {len(line) for line in lines} == {len(report.COLUMNS)}


def test_rows_older_than_the_code_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def git(*arguments: str) -> str:
        who = ("-c", "user.name=n", "-c", "user.email=e")
        return report.git(*who, *arguments, root=tmp_path)

    def commit(file: str, text: str) -> str:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
        git("add", "--all")
        git("commit", "--quiet", "--message", text)
        return git("rev-parse", "--short=10", "HEAD")

    git("init", "--quiet")
    first = commit("kernels/a.py", "1")
    second = commit("xaijax/a.py", "2")
    third = commit("docs/a.md", "3")
    commit("xaijax/a.py", "4\n\nWhy.\n\nBench: same code\n")
    fifth = commit("xaijax/b.py", "5: it says Bench: same code, and not by itself on a line")
    commit("kernels/a.py", "6\n\nBench: same code\n")

    def row(name: str, where: str, verdict: str = "met") -> report.Row:
        machine = {"platform": "cpu", "commit": where} if where else {}
        return report.Row(name, verdict, machine=machine)

    rows = [
        row("T1", first),
        row("T1", first),
        row("T2", second),
        row("T3", third),
        row("T4", f"{third}+"),
        row("T5", "0123456789"),
        row("T6", first, report.NOT_RUN),
        row("T9", "", report.NOT_YET),
        row("T7", "unknown"),
        row("T8", fifth),
    ]
    found = stale(rows, tmp_path)
    assert [(one.case, one.commit) for one in found] == [
        ("T1", first),
        ("T2", second),
        ("T3", third),
        ("T4", f"{third}+"),
        ("T5", "0123456789"),
        ("T7", "unknown"),
    ]
    assert [one.why.split(" to ")[0] for one in found[:3]] == ["2 commits", "1 commit", "1 commit"]
    assert found[0].why.startswith("2 commits to xaijax and kernels")
    monkeypatch.setattr(report, "stale", lambda lines: found)
    stale_sections = accelerators.stale
    monkeypatch.setattr(accelerators, "stale", lambda: [])
    assert command.main(["--stale"]) == 1
    told = capsys.readouterr().out
    assert f"stale: T1 (cpu) at {first}: 2 commits" in told
    assert told.endswith("on cpu: python -m bench --case T1,T2,T3,T4,T5,T7\n")
    monkeypatch.setattr(report, "stale", lambda lines: [])
    assert command.main(["--stale"]) == 0
    page = tmp_path / "page.md"
    section = "<!-- {0}: begin -->\n{1}\n<!-- {0}: end -->\n"
    last = "Last run: 2026-11-29, commit {}, jax 0.12.0.1, 9 processor seconds to compile."
    commits = {"v5e:1x1": last.format(first), "v5e:2x2": last.format(fifth), "h200": ""}
    page.write_text("".join(section.format(*pair) for pair in commits.items()))
    old = stale_sections(page, tmp_path)
    assert [(one.on, one.commit) for one in old] == [("v5e:1x1", first), ("h200", "")]
    monkeypatch.setattr(accelerators, "stale", lambda: old)
    assert command.main(["--stale"]) == 1
    assert capsys.readouterr().out.endswith("compiled yet\nanywhere: make compilers\n")


def test_verdicts_of_the_compilers_are_linked(written: Path) -> None:
    """The broken versions said "not measured yet" next to a page that had the figures, and gave
    the commit of the page's first section to all.
    """
    last = "Last run: {}, commit {}, jax 1, 9 processor seconds to compile."
    sections = [
        last.format("2026-11-30", "0123456789"),
        "| T40 | a | g | 1 | met |",
        "| T40 | b | g | 200 | missed |",
        "| T42 | a | g | 9 | met |",
        last.format("2026-11-29", "9876543210"),
        "| T42 | a | g | 1 | missed |",
        "| T45 | a | g | 2 | met |",
    ]
    page = written / "ACCELERATORS.md"
    page.write_text("\n".join(sections))
    cases = ("T40", "T42", "T43", "T45")
    report.write([report.Row(case, report.NOT_YET, measures="all") for case in cases])
    accelerators.link_targets(page)
    rows = report.read()
    assert [one.verdict for one in rows] == [
        "[1 of 2 missed](ACCELERATORS.md)",
        "[1 of 2 missed](ACCELERATORS.md)",
        report.NOT_YET,
        "[0 of 1 missed](ACCELERATORS.md)",
    ]
    assert [one.machine.get("commit", "") for one in rows] == [
        "0123456789",
        "9876543210",
        "",
        "9876543210",
    ]
    assert report.stale(rows, written) == []


def test_all_programs_of_a_target_are_judged() -> None:
    text = accelerators.PAGE.read_text().partition("## H200")[2].partition("<!-- h200: end")[0]
    judged = re.findall(r"^\| T40 \| (.+?) \|", text, re.MULTILINE)
    programs = re.findall(r"^\| (.+?) \| .+ \| (?:no|yes) \|$", text, re.MULTILINE)
    assert judged == list(dict.fromkeys(programs))


def test_a_gpu_keeps_the_rows_of_a_cpu(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(written, monkeypatch, case("T1"))
    gpu = WHERE | {"platform": "gpu", "device": "G 100"}
    monkeypatch.setattr(report, "machine", lambda: gpu)
    for _ in range(2):
        _, text = run(written, monkeypatch, case("T1"))
    lines = text.splitlines()
    rows = [line.split(" | ")[:2] for line in lines if line.startswith("| T1")]
    assert rows == [["| T1", "cpu"], ["| T1", "G 100"]]
    last = [line for line in lines if line.startswith(report.LAST)]
    assert ["device cpu, " in line for line in last] == [True, False]
    assert {path.name for path in (written / "out").iterdir()} == {"T1.json", "T1-gpu.json"}


def test_a_long_case_runs_only_by_its_name_and_writes_its_page(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Job:
        def measure(self) -> Outcome:
            table = [("cell", "value"), ("a|b", "1.5")]
            return Outcome((Figure("f", 1.0, 2.0),), notes=("few",), table=table)

    def setup(size: str) -> Job:
        """Measures a fake."""
        return Job()

    (written / "root").mkdir()
    (written / "root" / "page.md").write_text(
        f"above\n{report.BEGIN}\n| old |\n{report.END}\nbelow\n"
    )
    slow = Case("slow", setup, long=True, page="page.md")
    status, text = run(written, monkeypatch, case("T2"), slow)
    assert status == 0 and "| slow |" not in text
    assert "| old |" in (written / "root" / "page.md").read_text()
    assert command.main(["--list"]) == 0
    assert "slow a fake (long: run by --case only)" in capsys.readouterr().out
    for _ in range(2):
        assert command.main(["--case", "slow", "--out", str(written / "out")]) == 0
    page = (written / "root" / "page.md").read_text()
    assert page.startswith("above\n") and page.endswith("\nbelow\n")
    assert page.count("| a\\|b | 1.5 |") == 1 and "- few" in page and "old" not in page
    shown = [line.split(" |")[0] for line in (written / "README.md").read_text().splitlines()]
    assert shown.index("| T9") < shown.index("| slow")


def test_a_row_is_a_target_with_its_figures() -> None:
    outcome = Outcome(
        (
            Figure("a: speed / ours", 9.0, 8, 12, "more", "x"),
            Figure("b: c: speed / ours", 7.0, 8, 12, "more", "x"),
            Figure("exponent", 1.05, 0.1, better="near"),
            Figure("reported", 3.0),
        )
    )
    assert report.row(case("T1"), outcome, WHERE).cells[4:] == [
        "speed / ours >= 8x: 9x (a), **7x** (b, c); exponent 1 ± 0.1: 1.05",
        "missed",
        "It is one.",
    ]
    for few, verdict in ((outcome.figures[:1], "met"), (outcome.figures[3:], "")):
        assert report.row(case("T1"), Outcome(few), WHERE).cells[5:] == [verdict, ""]
    missing = Outcome(outcome.figures[:1], notes=("2 rows", "ray: not run, it is not installed"))
    assert report.row(case("T1"), missing, WHERE).reason == "ray: not run, it is not installed"


def test_a_case_that_is_measured_leaves_the_list_of_those_that_are_not(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report.keep(report.Row("T10", report.NOT_YET, measures="later"))
    _, text = run(written, monkeypatch, case("T2"))
    assert report.NOT_YET in text and text.index("| T2 |") < text.index("| T10 |")
    _, text = run(written, monkeypatch, case("T10"))
    assert report.NOT_YET not in text and text.count("| T10 |") == 1


def test_several_jobs_are_told_apart() -> None:
    found = Several({"a": duel(), "b": duel()}).measure()
    assert [one.label for one in found.figures] == ["a: peer / ours", "b: peer / ours"]
    assert [one.name for one in found.timings] == ["a: ours", "a: peer", "b: ours", "b: peer"]
    assert len(found.agreements) == 2


def test_a_disagreement_fails_the_row_and_the_run(
    written: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    status, text = run(written, monkeypatch, case("T1", difference=0.2), case("T2"))
    assert status == 1
    (row,) = [line for line in text.splitlines() if line.startswith("| T1 |")]
    assert row.count("FAILED") == 1
    assert "FAILED: T1\n" in capsys.readouterr().err


def test_not_run_says_why(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(size: str) -> Duel:
        raise NotRun("the peer is not here")

    def broken(size: str) -> Duel:
        raise KeyError("a mistake")

    cases = [Case("T1", absent), Case("T2", broken)]
    status, text = run(written, monkeypatch, *cases)
    assert status == 1  # for the mistake; a peer that is absent is no failure
    assert "| not run | the peer is not here |" in text
    assert "| not run | KeyError: 'a mistake' |" in text
    status, _ = run(written, monkeypatch, cases[0])
    assert status == 0


@pytest.mark.parametrize(("backend", "precision"), [("cpu", None), ("gpu", "highest")])
def test_products_are_in_float32_on_every_device(
    written: Path, monkeypatch: pytest.MonkeyPatch, backend: str, precision: str | None
) -> None:
    seen: list[str | None] = []

    def setup(size: str) -> Duel:
        seen.append(jax.config.jax_default_matmul_precision)
        return duel()

    monkeypatch.setattr(command.jax, "default_backend", lambda: backend)
    run(written, monkeypatch, Case("T1", setup))
    assert seen == [precision]


def test_an_unknown_case_and_a_missing_gpu_are_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--case", "T0"]) == 2

    def no_device() -> None:
        raise AssertionError

    monkeypatch.setattr(command.jax, "devices", no_device)
    assert command.main(["--gpu"]) == 2
    assert "No GPU that JAX can use" in capsys.readouterr().err


WORKER = """
from serve import serve
import time

def double(options, rows):
    print("this goes to stderr")
    time.sleep(options["sleep"])
    return {"rows": 2 * rows}

serve({"double": double})
"""


def test_a_worker_in_another_process(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    (tmp_path / "serve.py").write_text((environments.HERE / "peers/serve.py").read_text())
    with environments.Worker(Path(sys.executable), script) as worker:
        for rows in (np.arange(3.0), np.ones((2, 2))):
            seconds, answer = worker.call("double", options={"sleep": 0.05}, rows=rows)
            np.testing.assert_array_equal(answer["rows"], 2 * rows)
            assert 0.05 <= seconds < 1
        with pytest.raises(NotRun, match="the peer failed: KeyError"):
            worker.call("absent", rows=np.ones(1))


def test_a_worker_that_dies_is_told(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text("raise SystemExit(3)")
    with (
        environments.Worker(Path(sys.executable), script) as worker,
        pytest.raises(NotRun, match="ended with status 3"),
    ):
        worker.call("double", rows=np.ones(1))


@pytest.mark.slow
def test_environments_are_made_once_and_a_failure_says_why(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# nothing to install\n")
    python = environments.environment("empty", peers=tmp_path, root=tmp_path / "envs")
    made = python.stat().st_ctime_ns
    again = environments.environment("empty", peers=tmp_path, root=tmp_path / "envs")
    assert again == python and python.stat().st_ctime_ns == made
    (tmp_path / "absent.txt").write_text("./no-such-folder\n")
    with pytest.raises(NotRun, match="environment of absent cannot be installed"):
        environments.environment("absent", peers=tmp_path, root=tmp_path / "envs")
    (tmp_path / "old.txt").write_text("# python: 2.99\n")
    with pytest.raises(NotRun, match=r"no Python 2\.99"):
        environments.environment("old", peers=tmp_path, root=tmp_path / "envs")
