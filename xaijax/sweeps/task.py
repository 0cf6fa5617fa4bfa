"""One part of a sweep, run anywhere: rows are read, explained and written; the result is small.

The recipe of the explainer is pickled with the task and opened once in a process. The written file
is the truth: a receipt only says that there should be one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import os
import platform
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import jax
import numpy as np

from xaijax.core.errors import (
    InputError,
    InputTypeError,
    LongRunWarning,
    ResumeMismatchError,
    XaiError,
)
from xaijax.core.pickling import made_of, pack, unpack
from xaijax.core.reads import CODE, shown
from xaijax.games.engine.loop import OF_X
from xaijax.games.engine.plan import devices_of
from xaijax.methods.amortized.explainer import AmortizedExplainer
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.record import watched
from xaijax.models.base.source import anew
from xaijax.players.players import PerInstancePlayers, of_some_rows
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import ENTRIES, Fingerprint, fingerprint_of
from xaijax.results.rules import Rules
from xaijax.sweeps.directory import PART, RunDirectory, Term
from xaijax.sweeps.inputs import InputRows, RowSlice, counted_in_X
from xaijax.sweeps.question import MOVED, accepted, held, method_of
from xaijax.tables.rows import rows_of

RAISED = "xaijax: raised in"
OF_PART = "these are hybrids of the part's"
EVERY = 1.0  # seconds between two reports of a part's share
ENOUGH = 0.5  # seconds of a call that are enough to time a row
SLOW = 3.0  # seconds of a first call that count as its row's time
_opened = threading.local()  # an explainer is used by one thread at a time
_first_part: tuple[Any, Fingerprint] | None = None  # of a run


@dataclass(frozen=True)
class ExplainerRecipe:
    """An explainer and the keywords of its call, packed."""

    explainer: bytes
    options: bytes
    x64: bool  # whether JAX has 64 bits enabled where it was made
    # The values that the model's function read when the recipe was made, and that Python's version.
    held: tuple[tuple[str, str], ...] = ()
    python: str = ""

    @classmethod
    def of(
        cls, explainer: object, options: dict[str, Any], read: Mapping[str, str] | None = None
    ) -> ExplainerRecipe:
        """Packs them; raises InputTypeError that names what cannot be pickled.

        read: what the model's function reads, as in the question.
        """
        packed, x64 = pack(explainer, "explainer"), bool(jax.config.jax_enable_x64)
        reads = tuple((read or {}).items())
        return cls(packed, pack(options, "options"), x64, reads, platform.python_version())

    @property
    def digest(self) -> str:
        """The digest of its bytes."""
        return hashlib.blake2b(self.explainer + self.options, digest_size=16).hexdigest()

    def open(self) -> OpenedTask:
        """The explainer, made in this process and thread unless it was the last one used."""
        last = getattr(_opened, "last", None)
        if last is not None and last[0] == self.digest and not last[1].changed:
            return last[1]
        made = self.made()
        self._refuse_other_state(made.explainer)
        _opened.last = self.digest, made
        return made

    def made(self) -> OpenedTask:
        """The explainer, constructed in this process."""
        set_x64(self.x64)
        return OpenedTask(unpack(self.explainer, "explainer"), unpack(self.options, "options"))

    def _refuse_other_state(self, explainer: object) -> None:
        """Raises ResumeMismatchError if the model's function reads other values here.

        A global that was assigned after its module was imported is not pickled.
        """
        model = made_of(explainer).get("model")
        recipe = getattr(model, "recipe", None)
        if not self.held or recipe is None or self.python != platform.python_version():
            return
        now = held(recipe.arguments.get("f"))
        # Code is pickled by the name of its module. pytest, for example, compiles it with other
        # asserts.
        values = [pair for pair in self.held if pair[1] != MOVED and not pair[0].endswith(CODE)]
        differ = [name for name, value in values if now.get(name, value) != value]
        if differ:
            raise ResumeMismatchError(
                f"the model reads other values in this process than where the sweep began: "
                f"{', '.join(map(shown, differ))}. Values that are assigned after the import of a "
                "module are not sent: give them as params=, or bind them by functools.partial."
            )


def set_x64(enabled: bool) -> None:
    """Enables or disables 64 bits in JAX, unless they are so."""
    if jax.config.jax_enable_x64 != enabled:
        jax.config.update("jax_enable_x64", enabled)


def per_instance_players_of(explainer: object, source: InputRows) -> PerInstancePlayers | None:
    """The players of each row if rows have their own; raises InputError for those of other rows."""
    holder = getattr(explainer, "_problem", explainer)  # of QII, AnchorExplainer
    if isinstance(explainer, Explainer) and not hasattr(explainer, "players"):
        explainer.check(source.part(0, 1).read())  # it reads them when it gets rows
    players = getattr(holder, "players", None)
    if not isinstance(players, PerInstancePlayers):
        return None
    players.refuse_others(source.rows)
    return players


def tiled(explainer: object) -> Any:
    """The same explainer with path="tiled", so that values do not depend on the size of a part;
    raises InputError for path="small".
    """
    teacher = getattr(explainer, "_teacher", explainer)
    path = getattr(teacher, "path", None)
    if path not in ("auto", "small"):  # the path of a GradientExplainer is another thing
        return explainer
    if path == "small":
        raise InputError(
            "path='small' is for single calls: rows that are explained in parts go by "
            "path='tiled'. Leave path= out."
        )
    pinned = _pinned.get(teacher)
    if pinned is None:
        pinned = _pinned[teacher] = type(teacher)(**{**made_of(teacher), "path": "tiled"})
    return pinned if teacher is explainer else cast("Any", explainer)._anew(pinned)


# The same by tiles of each explainer, so that a second sweep does not probe the model again.
_pinned: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def with_numbers(explainer: object, numbers: np.ndarray) -> object:
    """The same explainer for other rows; numbers [N, F]: the player of each entry."""
    arguments = made_of(explainer)
    names = arguments["players"].names
    return type(explainer)(**{**arguments, "players": PerInstancePlayers(numbers, names)})


@dataclass(frozen=True)
class OpenedTask:
    """An explainer that is ready to be used, and the keywords of its call."""

    explainer: object
    options: dict[str, Any]

    @property
    def devices(self) -> list[Any]:
        """Those that the explainer runs on."""
        return devices_of(made_of(self.explainer).get("devices"))

    @property
    def changed(self) -> bool:
        """Whether earlier rows have changed how it answers.

        They do if they sent a translated estimator to the host, or centred it. Each part uses an
        explainer that has not changed, so that a part does not depend on the parts before it.
        """
        comparison = getattr(made_of(self.explainer).get("model"), "comparison", None)
        return any(getattr(comparison, name, None) is not None for name in ("reason", "centred"))

    def anew(self) -> OpenedTask:
        """The same explainer with an unused model, made in this process."""
        arguments = made_of(self.explainer)
        model = arguments["model"]
        model.check_unchanged()
        arguments["model"] = anew(model.recipe, model.name)
        if isinstance(self.explainer, AmortizedExplainer):
            teacher = type(self.explainer._teacher)(**arguments)
            return OpenedTask(self.explainer._anew(teacher), self.options)
        return OpenedTask(type(self.explainer)(**arguments), self.options)

    def answer(
        self,
        rows: Any,
        first: int,
        report: Callable[[float], None] | None = None,
        numbers: np.ndarray | None = None,
    ) -> Explanation | Rules:
        """Explains some rows.

        first: position of the first of them among all rows. report: called now and then with the
        completed share. numbers: [N, F], the player of each entry, if each instance has its own
        players.
        """
        explainer = self.explainer
        if numbers is not None:
            explainer = with_numbers(explainer, numbers)
        method = method_of(explainer)
        options = dict(self.options)
        outputs = options.get("outputs")
        if outputs is not None and not isinstance(outputs, str):
            options["outputs"] = outputs[first : first + len(rows)]
        with warnings.catch_warnings(), of_some_rows(), watched(report):
            warnings.simplefilter("ignore", LongRunWarning)  # the sweep's bar shows it
            return method(rows, **options, **accepted(method, {"progress": False}))


@dataclass(frozen=True)
class Task:
    """A part, with all that is needed to run it."""

    part: int
    first: int  # rows first to last - 1
    last: int
    of: str  # "X", or its distinct rows
    piece: RowSlice
    out: str
    run: str | None  # the id of the run that asked for it
    recipe: ExplainerRecipe | None  # None: the explainer is where the task runs
    term: Term | None = None  # the driver that submitted it
    measured: bool = False  # True: time the rows and write nothing
    numbers: np.ndarray | None = None  # player of each entry, if each row has its own players

    def where(self) -> str:
        """The part and its rows, in words."""
        return f"part {self.part}, rows {self.first:,} to {self.last - 1:,} of {self.of}"


@dataclass(frozen=True)
class Receipt:
    """The receipt of a task whose part is written, or measured; under 1 kB as a pickle."""

    part: int
    rows: int
    seconds: float
    bytes: int
    worker: str  # host and process


def run(task: Task, opened: OpenedTask | None = None) -> Receipt:
    """Explains a part and writes its file; opened: the explainer, if it is here already.

    An exception of the model is raised unchanged, with the rows in a note.
    """
    started = time.perf_counter()
    try:
        if opened is None:
            assert task.recipe is not None
            opened = task.recipe.open()
        if task.measured:
            return _measured(task, opened)
        with _share_in(RunDirectory(Path(task.out)).within(task.part)) as report:
            answer = opened.answer(task.piece.read(), task.first, report, task.numbers)
        if not isinstance(answer, Explanation | Rules) or len(answer) != task.last - task.first:
            raise InputTypeError(
                f"{type(opened.explainer).__name__} answers {task.last - task.first:,} rows with "
                f"{type(answer).__name__} of {len(answer):,}: it has no answer for each row."
            )
    except Exception as error:
        counted_in_X(error, task.piece)
        notes = getattr(error, "__notes__", [])
        notes[:] = [note.replace(OF_X, OF_PART) for note in notes]  # a call here explains a part
        if task.where() not in str(error):
            error.add_note(f"{RAISED} {task.where()}; the parts before are kept.")
        raise
    seconds = time.perf_counter() - started
    facts = {"first": task.first, "last": task.last, "seconds": seconds, "platform": ran_on(opened)}
    stats = {**answer.stats, PART: {**facts, "run": task.run}}
    directory = RunDirectory(Path(task.out))
    if directory.run_id != task.run:  # this part was given up, and another run is there now
        raise InputError(f"{task.out} no longer holds the run that asked for {task.where()}.")
    _refuse_other_model(directory, task, answer.stats)
    directory.write(task.part, dataclasses.replace(answer, stats=stats), task.term)
    size = os.path.getsize(directory.part(task.part))
    return Receipt(task.part, task.last - task.first, seconds, size, _worker())


@contextlib.contextmanager
def _share_in(path: Path) -> Iterator[Callable[[float], None]]:
    """Writes the completed share of a part to a file once a second, for the driver's bar."""
    last, written = 0.0, time.monotonic()

    def report(share: float) -> None:
        nonlocal last, written
        now = time.monotonic()
        if share > last and now - written >= EVERY:  # an answer may have several bars
            last, written = share, now
            with contextlib.suppress(OSError):  # such as a full disk: writing the part will fail
                path.write_text(f"{share:.4f}")

    try:
        yield report
    finally:
        path.unlink(missing_ok=True)


def _measured(task: Task, opened: OpenedTask) -> Receipt:
    """Times calls on a growing number of rows until one takes `ENOUGH` seconds; writes no part.

    The first call also compiles, traces and loads, and not all of this time is in its result. It
    counts only if it takes so long that a second call would not be worth its cost.
    """
    rows, count, best, calls = task.piece.read(), 1, math.inf, 0
    while True:
        started = time.perf_counter()
        try:
            chunk = rows_of(rows).take(np.arange(count), counted=True)
            numbers = None if task.numbers is None else task.numbers[:count]
            answer = opened.answer(chunk, task.first, None, numbers)
        except Exception:
            if best < math.inf:  # the part with the row that raises will report it
                break
            raise
        calls += 1
        compiling = float(answer.stats.get("compile_seconds") or 0.0)
        seconds = max(time.perf_counter() - started - compiling, 1e-9)
        best = min(best, seconds / count)
        whole = count >= task.last - task.first
        if seconds >= SLOW or (calls > 1 and (seconds >= ENOUGH or whole)):
            break
        if calls > 1:
            most = min(8 * count, task.last - task.first)
            count = min(most, max(2 * count, math.ceil(1.2 * count * ENOUGH / seconds)))
    return Receipt(task.part, count, best * count, 0, _worker())


def _refuse_other_model(directory: RunDirectory, task: Task, stats: Mapping[str, Any]) -> None:
    """Raises ResumeMismatchError if an existing part has another model or background.

    Otherwise the parts would be refused when they are joined, after all of them were computed.
    """
    global _first_part
    key = task.out, task.run
    if _first_part is None or _first_part[0] != key:
        paths = sorted(directory.path.glob("part-*.npz"))
        if not paths:
            return
        try:
            part = directory.read(int(paths[0].stem.partition("-")[2]))
        except (OSError, XaiError):  # a damaged file, which is set aside later
            return
        if part.stats.get(PART, {}).get("run") != task.run:
            return
        _first_part = key, fingerprint_of(part.stats)
    for field in _first_part[1].why_not(fingerprint_of(stats)):
        if field not in ENTRIES:
            continue
        what = "model" if field == "model" else "background or function"
        raise ResumeMismatchError(
            f"{task.out} holds parts of another {what} (stats[{ENTRIES[field]!r}]) than "
            f"{task.where()}: it has changed since. Give another directory, or ask as before."
        )


def raised_in_part(error: BaseException) -> bool:
    """Whether a part raised it, and not a check before the parts."""
    return any(note.startswith(RAISED) for note in getattr(error, "__notes__", ()))


def ran_on(opened: OpenedTask) -> str:
    """Describes what identical results depend on besides versions: the machine and the devices of
    the run.
    """
    devices = opened.devices
    kinds = ", ".join(sorted({device.device_kind for device in devices}))
    return f"{platform.system()} {platform.machine()}, {devices[0].platform}: {kinds}"


def _worker() -> str:
    return f"{platform.node()}, process {os.getpid()}"
