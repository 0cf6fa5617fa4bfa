"""Parts of a sweep by time: about as long each, kept by a resume, and nothing of a dead driver."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from progress_bar import Bar
from sweeping import B, Counted, N, X, explainer, parts, product

import xaijax as xj
from xaijax.commands.cli import main
from xaijax.sweeps import directory as cuts
from xaijax.sweeps import sweep, task
from xaijax.sweeps import sweep as progress
from xaijax.sweeps.directory import Cut, RunDirectory
from xaijax.sweeps.inputs import source_of
from xaijax.sweeps.task import OpenedTask, Task


def slowly(rows):
    """A model of 0.1 ms a row."""
    time.sleep(1e-4 * len(rows))
    return product(rows)


def rows_of_parts(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """(first, last + 1) of parts of these sizes, one after the other."""
    ends = np.cumsum((0, *sizes)).tolist()
    return list(zip(ends[:-1], ends[1:], strict=True))


@pytest.mark.parametrize(
    ("seconds", "rows", "wanted"),
    [
        (1.0, 100, [5] * 4 + [8] * 10),  # two parts run at once, so four are first ones
        (1.0, 27, [5] * 5 + [2]),  # no whole larger part would be left
        (100.0, 3, [1, 1, 1]),
        (1e-9, 25_000, [10_000, 10_000, 5_000]),
        (0.05, 90, [90]),
    ],
)
def test_first_parts_are_of_five_seconds_and_later_ones_larger(seconds, rows, wanted) -> None:
    cut = Cut.by_time(seconds, rows, 2)
    sizes = [last - first for first, last in cut.ranges]
    assert sizes == wanted and cut.parts == len(wanted) and cut.largest == max(wanted)
    assert list(cut.ranges) == rows_of_parts(sizes)
    assert Cut.read(json.loads(json.dumps(cut.chunks)), rows) == cut


@pytest.mark.parametrize("given", [[[0, 4, 2]], [[1, 5, 2]], [[0, 2, 2], [3, 5, 1]], [[0, 5, 0]]])
def test_ranges_that_do_not_cover_the_rows_once_are_refused(given) -> None:
    with pytest.raises(ValueError, match="its ranges"):
        Cut.read(given, 5)


@pytest.fixture
def hurried(monkeypatch):
    """Parts of a twentieth of a second."""
    monkeypatch.setattr(cuts, "FIRST", 0.05)
    monkeypatch.setattr(cuts, "LATER", 0.1)
    monkeypatch.setattr(task, "ENOUGH", 0.01)


@pytest.mark.usefixtures("hurried")
def test_parts_follow_from_the_time_of_the_first_rows(tmp_path: Path) -> None:
    made = explainer(slowly)
    started = time.perf_counter()
    made(X)
    whole = time.perf_counter() - started  # 25 rows of 24 hybrids or fewer each
    run = xj.sweep(made, X, tmp_path)
    # A machine that is busy while the first rows are timed sees a multiple of their time.
    assert 0.05 / (2 * whole / N) / 8 < run.sizes[0] <= N
    ranges = json.loads((tmp_path / "manifest.json").read_bytes())["ranges"]
    assert [last for _, last, _ in ranges][-1] == N
    np.testing.assert_array_equal(run.explanation().values, made(X).values)
    seconds = [run._directory.read(n).stats["part"]["seconds"] for n in range(run.parts)]
    assert run.parts == 1 or max(seconds) < 8 * 0.1


def test_a_resume_keeps_the_ranges_whatever_the_time_is_now(tmp_path: Path, monkeypatch) -> None:
    times = iter([(0.5, 1)])  # asked for once
    monkeypatch.setattr(sweep, "time_of", lambda *_: next(times)[0])
    counted = Counted()
    made = explainer(counted)
    run = xj.sweep(made, X, tmp_path)
    assert run.sizes == (10, 10, 5) and run.manifest["ranges"] == [[0, 25, 10]]
    monkeypatch.setattr(cuts, "FIRST", 1.0)
    (tmp_path / "part-000001.npz").unlink()
    again = xj.sweep(made, X, tmp_path)
    assert again.sizes == run.sizes and not again.missing
    assert not xj.sweep(made, X, tmp_path, rows_per_part=10).missing  # the same parts
    with pytest.raises(xj.ResumeMismatchError, match="rows_per_part: 10 in the run, 7 now"):
        xj.sweep(made, X, tmp_path, rows_per_part=7)


def test_parts_of_two_sizes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(sweep, "time_of", lambda *_: 1.0)
    run = xj.sweep(explainer(), X, tmp_path)
    assert run.sizes == (5, 5, 8, 7) and run.rows_per_part == 8
    for lazy in (False, True):
        found = run.explanation(lazy=lazy)
        np.testing.assert_array_equal(found.values, explainer()(X).values)
    with pytest.raises(xj.ResumeMismatchError, match="rows_per_part: 'by time' in the run, 8 now"):
        xj.sweep(explainer(), X, tmp_path, rows_per_part=8)


def test_first_rows_that_raise_are_told_by_their_part(tmp_path: Path) -> None:
    rows = X.copy()
    rows[0, 3] = 99

    def model(some):  # of hybrids alone: the first rows themselves are answered
        if ((some[:, 3] == 99) & (some[:, :3] == B[0, :3]).all(axis=1)).any():
            raise ArithmeticError("a hybrid holds 99")
        return product(some)

    with pytest.raises(ArithmeticError, match="99") as raised:
        xj.sweep(explainer(model), rows, tmp_path)
    assert any("part 0, rows 0 to 24 of X" in note for note in raised.value.__notes__)


def test_the_bar_moves_within_a_part(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(task, "EVERY", 0.0)
    directory, seen = RunDirectory.made(tmp_path), []

    def model(rows):
        seen.append(directory.share(0))
        return product(rows)

    rows = np.random.default_rng(1).normal(size=(200, X.shape[1])).astype(np.float32)
    xj.sweep(explainer(model, tile=256), rows, tmp_path, rows_per_part=200, progress=False)
    moved = sorted({one for one in seen if 0 < one < 1})
    assert len(moved) > 3, "the share that is done was told while the part ran"
    assert seen.index(moved[0]) < seen.index(moved[-1])
    assert not list(tmp_path.glob(".within*"))


def test_the_bar_shows_rows_of_parts_that_run(monkeypatch) -> None:
    bar: Any = Bar()
    bar.disable, bar.close = False, lambda: None
    monkeypatch.setattr(progress, "progress_bar", lambda *_: bar)
    monkeypatch.setattr(progress, "LOOKS", 0.001)
    looks = threading.Semaphore(0)

    def within() -> int:
        looks.release()
        return 40

    with progress.Progress(True, 100, 0) as shown:
        shown.within = within
        assert looks.acquire(timeout=20) and looks.acquire(timeout=20)  # the first one is shown
        assert bar.n == 40
        shown.within = lambda: 0
        shown.done(30)  # the part was smaller than what runs now: the bar does not go back
        assert bar.n == 40
        shown.done(70)
        assert bar.n == 100


def test_a_worker_of_an_earlier_driver_writes_nothing(tmp_path: Path) -> None:
    made = explainer()
    run = xj.sweep(made, X, tmp_path, rows_per_part=10)
    directory, opened = RunDirectory(tmp_path), OpenedTask(made, {})
    piece = source_of(X, None).part(0, 10)
    given = (0, 0, 10, "X", piece, str(tmp_path), run.manifest["id"], None)
    path = tmp_path / "part-000000.npz"
    for before, after in (("", ""), ("", "-0-of-2"), ("-0-of-2", ""), ("-0-of-2", "-0-of-2")):
        path.unlink(missing_ok=True)
        with directory.driven(before) as term:
            pass  # it is killed here, and its worker goes on
        task.run(Task(*given, term), opened)  # nobody else has begun
        assert path.exists()
        path.unlink()
        with directory.driven(after):
            with pytest.raises(xj.InputError, match="another driver"):
                task.run(Task(*given, term), opened)
        assert not path.exists()


DRIVEN = """
import os, sys, time
from pathlib import Path
import numpy as np
import xaijax as xj
from sweeping import X, B, product
from xaijax.sweeps.directory import RunDirectory

OF = os.environ["DRIVER"]
write = RunDirectory.write

def note(line):
    with open("notes", "a") as file:  # short lines are appended whole
        file.write(f"{OF} {line}\\n")

def noted(self, number, *rest):
    if OF == "first" and Path("held").exists():
        note(f"waits {number}")
        while Path("held").exists():
            time.sleep(0.01)
    try:
        write(self, number, *rest)
    except xj.InputError:
        note(f"refused {number}")
        raise
    note(f"written {number}")

RunDirectory.write = noted

def slowly(rows):
    time.sleep(0.01 * len(rows))
    return product(rows)

if __name__ == "__main__":
    import jobs  # so that workers import the function by this name
    made = xj.Explainer(xj.as_model(jobs.slowly, backend="host"), B)
    xj.sweep(made, X, "out", executor=2, rows_per_part=2, progress=False)
"""


def lines_of(path: Path) -> list[list[str]]:
    """What a process noted: by which driver it was started, and what it did."""
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(condition: Any, process: Any = None) -> None:
    """Wait a minute at most until it holds, and while the process lives."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_workers_of_a_killed_driver_write_nothing_under_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(DRIVEN)
    out, notes, held = tmp_path / "out", tmp_path / "notes", tmp_path / "held"

    def driver(name: str) -> Any:
        path = os.pathsep.join([str(tmp_path), *sys.path])
        env = os.environ | {"PYTHONPATH": path, "DRIVER": name}
        return subprocess.Popen([sys.executable, "jobs.py"], env=env, cwd=tmp_path)

    def lock() -> str:
        path = out / "driver.lock"
        return path.read_text() if path.exists() else ""

    first = driver("first")
    wait_for(lambda: parts(out), first)
    held.touch()  # workers of the first driver stop before they write another part
    wait_for(lambda: any(line[1] == "waits" for line in lines_of(notes)), first)
    first.kill()
    first.wait()
    second = driver("second")
    try:
        wait_for(lambda: f"process {second.pid}," in lock(), second)
        kept = {one: (out / one).stat().st_mtime_ns for one in parts(out)}
        before = len(lines_of(notes))
    finally:
        held.unlink()
    assert second.wait(timeout=120) == 0
    wait_for(lambda: any(line[:2] == ["first", "refused"] for line in lines_of(notes)))
    assert not any(line[:2] == ["first", "written"] for line in lines_of(notes)[before:])
    assert kept and all((out / one).stat().st_mtime_ns == at for one, at in kept.items())
    run = xj.open_run(out)
    assert not run.missing and len(parts(out)) == run.parts == 13
    np.testing.assert_array_equal(run.explanation().values, explainer()(X).values)
    asked = sorted(int(line[2]) for line in lines_of(notes) if line[1] == "written")
    assert asked == list(range(13))  # each part was written once, by the first or the second


INTERRUPTED = """
import time
from sweeping import explainer, product
def slowly(rows):
    time.sleep(0.1 * len(rows))
    return product(rows)
made = explainer(slowly)
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--processes", "2")])
def test_ctrl_c_in_the_command_line_is_one_line(options, tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(INTERRUPTED)
    np.save(tmp_path / "rows.npy", X)
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "xaijax", "sweep", "jobs.py:made", "rows.npy", "out"]
    driver = subprocess.Popen(
        [*command, "--rows-per-part", "1", "--quiet", *options],
        env=env,
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not parts(tmp_path / "out"):
        time.sleep(0.05)
        assert driver.poll() is None
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
    _, told = driver.communicate(timeout=60)
    kept = len(parts(tmp_path / "out"))
    assert driver.returncode == 130
    assert told == (f"xaijax: interrupted: {kept} of {N} parts are kept; the same call goes on.\n")


def test_an_interrupt_says_what_is_kept(tmp_path: Path, monkeypatch, capsys) -> None:
    stops = []

    def stopped(rows):
        if len(parts("out")) == 2 and not stops:
            stops.append(True)
            raise KeyboardInterrupt
        return product(rows)

    monkeypatch.chdir(tmp_path)
    Path("jobs.py").write_text("from sweeping import made")
    monkeypatch.setattr("sweeping.made", explainer(stopped), raising=False)
    np.save("rows.npy", X)
    command = ["sweep", "jobs.py:made", "rows.npy", "out", "--rows-per-part", "10", "--quiet"]
    assert main(command) == 130
    told = "xaijax: interrupted: 2 of 3 parts are kept; the same call goes on.\n"
    assert capsys.readouterr().err == told
    assert main(command) == 0


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        (0, "no part was started; the same call starts again."),
        (2, "2 of 3 parts are kept; the same call goes on."),
    ],
)
def test_an_interrupt_before_the_first_part(kept, told, tmp_path: Path, monkeypatch) -> None:
    made = explainer()
    if kept:
        xj.sweep(made, X, tmp_path, rows_per_part=10)
        (tmp_path / "part-000001.npz").unlink()

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sweep, "question_of", stopped)
    with pytest.raises(KeyboardInterrupt) as raised:
        xj.sweep(made, X, tmp_path, rows_per_part=10)
    assert raised.value.__notes__ == [f"xaijax: interrupted: {told}"]


def test_what_a_first_call_does_once_is_no_time_of_its_row(tmp_path: Path) -> None:
    calls = []

    def model(rows):
        calls.append(len(rows))
        if len(calls) == 1:  # it reads its weights, say
            time.sleep(task.ENOUGH + 0.1)
        return product(rows)

    opened = OpenedTask(explainer(model), {})
    piece = source_of(X, None).part(0, N)
    told = task.run(Task(0, 0, N, "X", piece, str(tmp_path), None, None, None, True), opened)
    assert told.seconds / told.rows < task.ENOUGH / 5
    assert len(calls) < 60
