"""`sweep`: many rows explained part by part, in a directory that is never lost.

Letters: N rows.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import Any, Literal

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.pickling import made_of
from xaijax.core.public import public
from xaijax.core.typing import Progress as Shown
from xaijax.methods.amortized.explainer import AmortizedExplainer
from xaijax.methods.record import STOPPED, progress_bar
from xaijax.players.players import PerInstancePlayers, of_some_rows
from xaijax.results.files.npz import encode
from xaijax.sweeps.directory import MOST, Cut, RunDirectory, cut_of
from xaijax.sweeps.driver import Driver, incomplete, time_of
from xaijax.sweeps.engines.choose import Engine, Shard, engine_of, shard_of
from xaijax.sweeps.exports import refuse_format
from xaijax.sweeps.inputs import (
    Held,
    InputRows,
    Picked,
    background_of,
    check_of,
    distinct_of,
    may_share,
    of_run,
    source_of,
)
from xaijax.sweeps.question import PROBED, accepted, checked_options, question_of, refuse_other
from xaijax.sweeps.run import Run, forget
from xaijax.sweeps.task import (
    ExplainerRecipe,
    OpenedTask,
    Task,
    per_instance_players_of,
    tiled,
    with_numbers,
)
from xaijax.tables.rows import rows_of

FORMATS = ("npz", "parquet", "zarr")
LOOKED_AT = 64  # rows that the plan uses
AT_EACH = 4  # rows that are read together, of those spread over X
LEAST = 64  # rows of a part, if no time is known
MODEL_ROWS = {"jax": 2 << 27, "host": 2 << 20}  # of a part, approximately, if no time is known
Measured = Callable[[InputRows, Mapping[str, Any]], tuple[float | None, int]]


@public
def sweep(
    explainer: object,
    X: Any,
    out: str | os.PathLike[str],
    executor: Any = None,
    rows_per_part: int | None = None,
    retries: int = 3,
    timeout: float | None = None,
    format: Literal["npz", "parquet", "zarr"] = "npz",
    options: Mapping[str, Any] | None = None,
    progress: Shown = None,
) -> Run:
    """Explains many rows part by part into a directory; calling it again resumes.

    Each part is a file that is written completely or not at all. If a process ends, its parts stay,
    and the next call computes those that are missing. The values of a part depend only on the
    explainer and its rows, so they do not depend on the engine or the order of parts (bit for bit
    on one platform; stats["platform"] names it). Repeated rows are explained once if that saves at
    least a fifth. Peak memory is one part, plus X if it is an array, plus 48 bytes per row at the
    start.

    Args:
        explainer: an `Explainer`, `GradientExplainer`, `AmortizedExplainer`, `FederatedExplainer`,
            `AnchorExplainer`, or a `QII` of an individual quantity. With workers it is pickled as a
            recipe. players= per instance belong to the rows of X. The share fallback= of an
            amortised explainer applies to each part.
        X: rows [N, *F]: an array, a memory map, a frame; or a file "rows.npy" or "rows.parquet", a
            list or folder of Parquet files or a pyarrow Dataset of them, whose columns are read by
            the names of the explainer's background if that is a frame, else as a matrix. Each
            worker reads its own rows from memory maps and files.
        out: the directory: a new or an empty one, or that of the same sweep.
        executor: where the parts run. None: in this process. A whole number: the number of
            processes started on this machine. A Dask Client, `xaijax.engines.ray()`, or anything
            whose submit(function, *args) returns a future. `xaijax.engines.slurm()` or
            `shard(k, n)`: in this process, but only every n-th part.
        rows_per_part: int or None. None: a new run times its first rows and chooses parts of
            about 5 seconds, then of about 8, of at most 10,000 rows; the manifest keeps the sizes,
            so a later call has the same parts. An int fixes one size.
        retries: int from 0. The number of times that a part that raised, or took too long, is tried
            again on workers. Errors of this library are not retried: the rows would be refused
            again. Without workers, exceptions are raised at once. A part whose process died twice
            runs alone, and is given up if that process dies too.
        timeout: float or None. Time limit per part, in seconds. The worker of a part that exceeds
            it is killed, if the engine supports that (docs/scaling.md).
        format: "npz"; "parquet" and "zarr" write explanation.parquet or explanation.zarr into
            `out` as well, once all parts are there (`Run.to_parquet`, `Run.to_zarr`).
        options: dict or None. Keywords of the explainer's call: {"outputs": "predicted"},
            {"top": 3}, {"index": "banzhaf"} of `QII`, {"threshold": 0.9} of anchors.
        progress: None (a bar in terminals and notebooks; elsewhere a line a minute on stderr), True
            or False.

    Returns:
        A `Run`. It is complete (for a shard: as far as all shards are).

    Raises:
        ResumeMismatchError: the directory has another question; the message has the fields that
            differ.
        InputError, InputTypeError: an argument is not accepted; another driver uses the directory;
            or the explainer refuses its first rows. With workers, also if the explainer cannot be
            pickled; the message names the argument.
        SweepIncompleteError: at the end, if parts failed; the others are kept.
        TimeoutError, OSError (a full or read-only disk), the model's own exceptions: existing parts
            are kept.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
        >>> X = np.array([[2.0, 3.0], [1.0, 4.0], [5.0, 2.0]])
        >>> run = xj.sweep(explainer, X, tempfile.mkdtemp(), rows_per_part=2)
        >>> run.explanation().values.round(3)
        array([[3., 3.],
               [2., 2.],
               [5., 5.]])
    """
    keywords = checked_options(explainer, options)
    explainer = tiled(explainer)
    checks.one_of(format, "format", FORMATS)
    retries = checks.whole_number(retries, "retries", least=0)
    seconds = None if timeout is None else checks.positive(timeout, "timeout")
    each = None if rows_per_part is None else checks.whole_number(rows_per_part, "rows_per_part")
    shard, executor = shard_of(executor)
    source = source_of(X, background_of(made_of(explainer)))
    _refuse_outputs(keywords.get("outputs"), source.rows)
    refuse_format(format, out, explainer, keywords)
    check = check_of(explainer)
    if isinstance(source, Held) and check is not None:  # for files, the part reports what is wrong
        source.check(check)
    players = per_instance_players_of(explainer, source)
    if players is not None:  # tasks carry the numbers of their rows
        explainer = type(explainer)(**{**made_of(explainer), "players": players})
    if isinstance(explainer, AmortizedExplainer):
        explainer = explainer._for_sweep(source.rows, **accepted(explainer._for_sweep, keywords))
    directory = RunDirectory.made(out)
    with (
        _interruptible(directory),
        directory.driven(shard.name) as term,
        ExitStack() as engines,
    ):

        def engine_for(made: object) -> Engine:
            opened = OpenedTask(_of_first(made, players), keywords)
            return engines.enter_context(closing(engine_of(executor, opened, seconds)))

        def recipe_of(made: object, question: Mapping[str, Any]) -> ExplainerRecipe | None:
            if executor is None:
                return None
            read = (question.get("model") or {}).get("held")
            return ExplainerRecipe.of(_of_first(made, players), keywords, read)

        def task_of(
            rows: InputRows, number: int, bounds: tuple[int, int], recipe: Any, run: Run | None
        ) -> Task:
            first, last = bounds
            of = "the distinct rows of X, as they come" if isinstance(rows, Picked) else "X"
            out, made_for = str(directory.path.absolute()), run and run.manifest.get("id")
            numbers = None if players is None else players.of_entry[first:last]
            task = number, first, last, of, rows.part(first, last), out, made_for, recipe, term
            return Task(*task, run is None, numbers)

        engine: Engine | None = None

        def measured(rows: InputRows, question: Mapping[str, Any]) -> tuple[float | None, int]:
            nonlocal engine
            recipe = recipe_of(explainer, question)
            task = task_of(rows, 0, (0, min(MOST, rows.rows)), recipe, None)
            engine = engine_for(explainer)
            return time_of(engine, task, seconds), engine.at_once

        # A row on which a model dies or hangs is left to its part.
        over = executor is None and seconds is None
        labels = rows_of(source.X).index if isinstance(source, Held) else None
        of_run = _asked(explainer, keywords, source, directory, each, over, measured)
        directory.write_labels(labels)
        run = Run(directory.path)
        source = _distinct(source, run)
        numbers = _left(run, directory, shard)
        if numbers:
            forget(directory.path)
            recipe = recipe_of(of_run, run.manifest["question"])
            tasks = (task_of(source, n, run.range_of(n), recipe, run) for n in numbers)
            if engine is None or of_run is not explainer:
                engine = engine_for(of_run)
            sizes = run.sizes
            total = sum(sizes[n] for n in range(run.parts) if shard.has(n))
            left = sum(sizes[number] for number in numbers)
            with Progress(progress, total, total - left) as bar:
                driver = Driver(engine, directory, retries, seconds, bar.done)
                bar.within = driver.within
                _drive(driver, tasks, shard)
    if format != "npz" and not (shard.name and run.missing):
        path = directory.path / f"explanation.{format}"
        if numbers or not path.exists():
            (run.to_parquet if format == "parquet" else run.to_zarr)(path)
    return run


@contextmanager
def _interruptible(directory: RunDirectory) -> Iterator[None]:
    """Adds a note to a KeyboardInterrupt that says how many parts are kept."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        parts = (directory.manifest or {}).get("parts")
        message = "no part was started; the same call starts again."
        if parts is not None:
            message = f"{directory.written:,} of {parts:,} parts are kept; the same call goes on."
        of_parts = [note for note in getattr(stopped, "__notes__", ()) if note.startswith(STOPPED)]
        for note in of_parts:  # a part's note counts only its own values
            stopped.__notes__.remove(note)
        stopped.add_note(f"{STOPPED} {message}")
        raise


def _drive(driver: Driver, tasks: Iterator[Task], shard: Shard) -> None:
    """Runs the tasks, and keeps why some were given up, also if the driver is interrupted."""
    try:
        driver.run(tasks)
        if driver.failed:
            parts = (driver.directory.manifest or {}).get("parts", 0)
            raise incomplete(driver.directory, driver.failed, parts) from driver.first
    except BaseException as stopped:
        driver.close()
        try:
            driver.directory.write_failed(driver.failed, shard.name)
        except OSError as other:  # such as the disk that stopped the sweep: it is reported once
            stopped.add_note(f"xaijax: why parts failed could not be written: {other}")
        raise
    driver.directory.write_failed(driver.failed, shard.name)


def _asked(
    explainer: object,
    options: dict[str, Any],
    source: InputRows,
    directory: RunDirectory,
    each: int | None,
    spread: bool,
    measured: Measured,
) -> Any:
    """The explainer with the run's tile; writes a new run's manifest, refuses another run's."""
    there = directory.manifest
    # Rows of the first part alone; a later call uses as many rows as the first one did.
    looked_at = (there or {}).get("looked_at", min(LOOKED_AT, each or LOOKED_AT, source.rows))
    head = source.part(0, looked_at).read()
    if rows_of(head).is_frame or (isinstance(head, np.ndarray) and head.dtype.hasobject):
        encode(head, "X", {})  # raises for what no part could be written with
    players = made_of(explainer).get("players")
    players = players if isinstance(players, PerInstancePlayers) else None
    first = explainer if players is None else with_numbers(explainer, players.of_entry[:looked_at])
    plan = _planned(first, options, head)  # raises for rows that are not accepted
    over, numbers = _over(source) if spread else (None, ())
    question = question_of(explainer, options, source.facts(), head, over, numbers)
    if there is None:
        # Equal rows may have different players, or differ in an amortised explainer's fallback.
        sharing = players is None and not isinstance(explainer, AmortizedExplainer)
        sharing = sharing and may_share(made_of(explainer), options)
        repeats = distinct_of(source) if sharing else None
        if repeats is not None:
            repeats.write(directory.path)
        distinct = source.rows if repeats is None else len(repeats.first)
        if each is None:
            rows = source if repeats is None else Picked(source, repeats.first)
            took, at_once = measured(rows, question)
            cut = Cut.of_size(_rows_of_part(plan), distinct)
            if took is not None:
                cut = Cut.by_time(took, distinct, at_once)
        else:
            cut = Cut.of_size(each, distinct)
        content = {"question": question, "rows": source.rows, "distinct": distinct}
        content |= {"rows_per_part": cut.largest, "ranges": cut.chunks, "looked_at": looked_at}
        parts = cut.parts
        tile = plan.tile if plan is not None and plan.backend == "jax" else None
        directory.write_manifest({**content, "parts": parts, "tile": tile})
        there = directory.manifest or {}
    cut, size = cut_of(there), there["rows_per_part"]
    if each is not None and cut != Cut.of_size(each, there["distinct"]):
        size = size if len(cut.chunks) == 1 else "by time"
    else:
        each = None
    before = {**there["question"], "rows_per_part": size}
    now = {**question, "rows_per_part": size if each is None else each}
    refuse_other(before, now, directory.path)
    tile = there["tile"]
    if tile is None or (plan is not None and plan.tile == tile):
        return explainer
    return type(explainer)(**{**made_of(explainer), "tile": tile})


def _over(source: InputRows) -> tuple[Any, Sequence[int]]:
    """Some rows spread over X, including the first and the last, and their numbers."""
    starts = np.unique(np.linspace(0, max(0, source.rows - AT_EACH), PROBED // AT_EACH).astype(int))
    cuts = [range(n, min(n + AT_EACH, source.rows)) for n in starts.tolist()]
    chunks = [source.part(cut.start, cut.stop).read() for cut in cuts]
    rows = rows_of(chunks[0]).stacked(chunks) if len(chunks) > 1 else chunks[0]
    return rows, [number for cut in cuts for number in cut]


def _distinct(source: InputRows, run: Run) -> InputRows:
    """The rows that the parts explain: all rows, or each repeated row once."""
    count = run.manifest["distinct"]
    return source if count == run.rows else Picked(source, of_run(run.path, source, count).first)


def _planned(explainer: object, options: dict[str, Any], rows: Any) -> Any:
    plan = getattr(explainer, "plan", None)
    if plan is None:
        return None
    known = accepted(plan, options)
    if "outputs" in known and np.ndim(known["outputs"]):
        known["outputs"] = known["outputs"][: len(rows_of(rows))]
    with of_some_rows():
        return plan(rows, **known)


def _rows_of_part(plan: Any) -> int:
    """The size of parts if the first rows could not be timed, since their model raised or died.

    A part has the number of rows that takes some hundred million model rows, which is seconds of
    work.
    """
    if plan is None:
        return MOST
    each = max(1.0, float(np.mean(plan.model_rows)))
    return int(np.clip(MODEL_ROWS[plan.backend] / each, LEAST, MOST))


def _left(run: Run, directory: RunDirectory, shard: Shard) -> list[int]:
    """Parts of this shard that have no valid file; invalid files are set aside."""
    numbers = [number for number in run.missing if shard.has(number)]
    for number in numbers:
        if directory.part(number).exists():
            aside = directory.set_aside(number)
            checks.warn(f"part {number} was damaged: it is now {aside.name}, and answered again.")
    return numbers


def _of_first(explainer: object, players: PerInstancePlayers | None) -> object:
    """The explainer as it is pickled: with players for each row, only those of one row."""
    return explainer if players is None else with_numbers(explainer, players.of_entry[:1])


def _refuse_outputs(outputs: Any, rows: int) -> None:
    if outputs is not None and np.ndim(outputs) and len(outputs) != rows:
        raise InputError(f"options: outputs has {len(outputs):,} entries, but X has {rows:,} rows.")


EVERY = 60.0  # seconds between two lines if there is no terminal
LOOKS = 1.0  # seconds between two checks of the running parts


class Progress:
    """Shows how many of `rows` are answered; earlier: those answered by an earlier call.

    A thread reads the progress of running parts, so that the bar moves and lines are written even
    if one part takes minutes. The thread ends with the sweep.
    """

    within: Callable[[], int] = staticmethod(lambda: 0)  # answered rows of running parts

    def __init__(self, progress: bool | None, rows: int, earlier: int) -> None:
        self._bar: Any = progress_bar(progress, rows, "rows")
        self._bar.initial = self._bar.n = earlier
        self._lines = progress is not False and self._bar.disable
        self._rows, self._kept, self._done, self._shown = rows, earlier, earlier, earlier
        self._start = self._told = time.monotonic()
        self._telling, self._ended = threading.Lock(), threading.Event()
        self._clock: threading.Thread | None = None

    def __enter__(self) -> Progress:
        if self._lines or not self._bar.disable:
            self._clock = threading.Thread(target=self._tick, name="xaijax-progress", daemon=True)
            self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._clock is not None:
            self._clock.join()  # no line is written after the end
        self._bar.close()

    def done(self, rows: int) -> None:
        """Counts some more answered rows."""
        with self._telling:
            self._done += rows
            self._show(self._done)
            if self._lines:
                self._report()

    def _tick(self) -> None:
        while not self._ended.wait(LOOKS):
            within = self.within()
            with self._telling:
                self._show(self._done + within)
                if self._lines:
                    self._report()

    def _show(self, rows: int) -> None:
        """Moves the bar forwards only; a part that is tried again starts from zero."""
        before, self._shown = self._shown, min(self._rows, max(self._shown, rows))
        self._bar.update(self._shown - before)

    def _report(self) -> None:
        """Writes a line if the last one is old enough."""
        now = time.monotonic()
        if now - self._told >= EVERY:
            self._told = now
            sys.stderr.write(f"{self.line(now)}\n")
            sys.stderr.flush()

    def line(self, now: float) -> str:
        """The progress of the sweep, in one line."""
        each = (self._shown - self._kept) / max(now - self._start, 1e-9)
        left = timedelta(seconds=int((self._rows - self._shown) / each)) if each else "unknown time"
        share = self._shown / self._rows
        return (
            f"xaijax: {self._shown:,} of {self._rows:,} rows ({share:.0%}), {each:,.0f} rows a "
            f"second, {left} left"
        )
