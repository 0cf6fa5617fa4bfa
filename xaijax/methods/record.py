"""Records a run of any explainer: its progress, its plan, its numbers, and how it was made.

Two questions that names and sizes in the provenance do not tell apart have other fingerprints: of
the donor rows with their weights, and of the functions that the user gave (a link, a difference, a
score, what combines two means). The model has a fingerprint of its own, since many models have
none. Fingerprints are in `stats` of an Explanation, which already holds numbers made of the same
rows, and not in the provenance, which is public: a private release copies no stats, a federated
explanation drops the first (a guest's reference row must not be found by trying), and reports print
neither. They are not keyed by the process, so that instances explained in several of them can be
compared and merged.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from tqdm import TqdmWarning

from xaijax.core.compiler import is_compiling
from xaijax.core.errors import InputTypeError
from xaijax.core.reads import of_library
from xaijax.core.version import __version__
from xaijax.games.engine.plan import refuse_shares
from xaijax.games.measure.replacement.base import array_bytes
from xaijax.games.measure.score import read_outputs
from xaijax.games.queries import full_rows_cost
from xaijax.results.plan import Plan
from xaijax.tables.rows import rows_of
from xaijax.tables.table import kept_rows

if TYPE_CHECKING:
    from xaijax.games.engine.dispatch import Clock
    from xaijax.games.engine.evaluator import Engine
    from xaijax.games.measure.quantity import Quantity
    from xaijax.games.measure.replacement.base import Replacement
    from xaijax.games.run import GameRun
    from xaijax.models import Model

with warnings.catch_warnings():
    # In a notebook without ipywidgets tqdm draws its bar as text, and warns of it on import.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm

DEEP = 12  # depth of functions within functions that are read
CALLED = 3  # levels used up by a function called by a global name: functions may call each other
DRAWN_AFTER = 0.5  # seconds after which a bar is drawn, and then drawn again
STOPPED = "xaijax: interrupted:"  # begins the note of a KeyboardInterrupt
VERSIONS = {"xaijax": __version__, "jax": jax.__version__, "numpy": np.__version__}
_watcher: ContextVar[Callable[[float], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(report: Callable[[float], None] | None) -> Iterator[None]:
    """Calls `report` with the completed share of each run inside that shows no bar."""
    before = _watcher.set(report)
    try:
        yield
    finally:
        _watcher.reset(before)


class Bar(tqdm):
    """A bar that is drawn while nothing is counted, too, and says then whether programs compile."""

    def __init__(
        self,
        total: int | None,
        counted: str,
        unit: str,
        shown: bool,
        delay: float,
        report: Callable[[float], None] | None = None,
    ) -> None:
        """total: None if it is not known yet. report: called with the completed share."""
        more = {"unit_scale": True, "desc": counted, "disable": not shown, "delay": delay}
        super().__init__(total=total, unit=unit, **more)
        self._counted, self._report = counted, report
        self._drawn = shown and not delay  # then tqdm has drawn it
        self._over, self._clock = threading.Event(), None
        if shown:
            self._clock = threading.Thread(target=self._tick, name="xaijax-bar", daemon=True)
            self._clock.start()

    def clear(self, nolock: bool = False) -> None:
        """Takes away what was drawn; a bar that was not leaves no mark."""
        if self._drawn:
            super().clear(nolock)

    def expect(self, total: int) -> None:
        """Sets the total once it is known."""
        self.total = total
        container = getattr(self, "container", None)
        if container is not None:  # a notebook's bar, which is short and full without a total
            pictured = container.children[1]
            pictured.max, pictured.bar_style, pictured.layout.width = total, "", None

    def update(self, n: float | None = 1) -> bool | None:
        """Counts n more."""
        if self.disable:  # tqdm does not count then
            self.n += n or 0
        if self._report is not None and self.total:
            self._report(self.n / self.total)
        return super().update(n)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, KeyboardInterrupt):
            of = f" of {self.total:,}" if self.total else ""
            note = "no values are kept, but what was compiled is, in this process."
            error.add_note(f"{STOPPED} after {self.n:,.0f}{of} {self._counted}; {note}")
        self.close()

    def close(self) -> None:
        """Ends the bar; what was drawn stays."""
        self._over.set()
        if self._clock is not None:
            self._clock.join()
        if self._drawn:  # tqdm knows of what it drew itself
            self.last_print_t = max(self.last_print_t, self.start_t + self.delay)
        super().close()

    def _tick(self) -> None:
        while not self._over.wait(DRAWN_AFTER):
            doing = "compiling" if is_compiling() else self._counted
            self.set_description_str(doing, refresh=False)
            self.refresh()
            self._drawn = True


def progress_bar(
    progress: Any, total: int | None, counted: str = "model rows", unit: str = "row"
) -> Bar:
    """A bar over `total`, which may be said later; with progress None it is shown in a terminal or
    notebook after half a second. A KeyboardInterrupt gets a note that says how far the run came.
    """
    shown = read_progress(progress)
    report = _watcher.get() if shown is False else None
    if shown is None:
        shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    return Bar(total, counted, unit, shown, 0 if progress else DRAWN_AFTER, report)


def read_progress(progress: Any) -> bool | None:
    """The argument, checked."""
    if progress is not None and not isinstance(progress, bool):
        raise InputTypeError(f"progress must be None, True or False, got {progress!r}.")
    return progress


def plan_of(game: GameRun, estimator: Any, pairs: bool = True) -> Plan:
    """The plan of a game whose cost was counted.

    estimator: str, or str [N], who answers each instance; pairs: whether those of instances and
    donors are held.

    Raises MemoryPlanError, with the shares, if they add up to more than the memory.
    """
    evaluator, cost, backend = game.evaluator, game.cost, game.backend()
    engine = evaluator.engine
    if engine.score is not None and engine.score.reads_own and game.own is None:
        full_rows_cost(game)
    cost.reserve(**backend.held)
    if pairs and not game.closed:
        cost.reserve(pairs=game.pair_bytes)
    refuse_shares(cost.held, engine.memory)
    # Quantities of the whole data are one number.
    rows = cost.rows if game.quantity.groups is None else cost.rows.sum(keepdims=True)
    return Plan(
        estimator=np.full(len(rows), estimator),
        model_rows=rows,
        structure=game.structure,
        tile=evaluator.clock.tile,
        model_calls=cost.calls,
        shares=cost.held,
        programs=engine.compiled.lacking(cost.recipes.values(), cost.runs),
        backend=engine.model.backend,
        path=path_of(game),
    )


def numbers(
    values: np.ndarray, base: np.ndarray, errors: np.ndarray | None, scalar: bool
) -> dict[str, Any]:
    """Returns the numbers of a result; scalar: drop the axis of outputs, which has one entry."""
    cut: Any = (Ellipsis, 0) if scalar else Ellipsis
    return {
        "values": values[cut],
        "base_values": base[cut],
        "std_errors": None if errors is None else errors[cut],
    }


def instances(X: Any, rows: Any) -> dict[str, Any]:
    """Returns the rows of a result and their index; rows: X as read."""
    source = rows_of(X)
    return {"data": kept_rows(source, rows), "instance_index": source.index}


def target_columns(model: Model, outputs: Any, rows: Any) -> np.ndarray | None:
    """Returns column numbers [N, 1] of `outputs=`; None for "predicted"."""
    names = getattr(model, "output_names", None)
    return read_outputs(outputs, len(rows_of(rows)), model.classes, names)


def outputs_of(columns: np.ndarray, names: Any) -> dict[str, Any]:
    """Returns the part of stats that says which output [N] each instance has; names [K] or None."""
    columns = columns.astype(np.int64)
    named = {} if names is None else {"output_names": np.array(names)[columns]}
    return {"outputs": columns} | named


def cost(engine: Engine, clock: Clock, before: Clock, seconds: float) -> dict[str, Any]:
    """Returns the part of stats that says what a run cost, and where it ran.

    before: the clock when the run began; seconds: the time since then, with compilation.
    """
    compile_seconds = clock.compile_seconds - before.compile_seconds
    return {
        "model_calls": clock.model_calls - before.model_calls,
        "tile": clock.tile,
        "seconds": seconds - compile_seconds,
        "compile_seconds": compile_seconds,
        "backend": "host" if engine.uses_host else "jax",
        "devices": [str(d) for d in engine.devices],
    }


def sources(seed: int, X: Any, engine: Engine, quantity: Quantity | None = None) -> dict[str, Any]:
    """Returns the part of stats that says what a run read: seed, dtypes, weights, a link."""
    return {
        **({} if quantity is None else functions_of(quantity)),
        "seed": seed,
        "input_dtype": str(X.dtype) if hasattr(X, "dtype") else None,
        "answer_dtype": engine.findings.answer_dtype,
        "weights_sum": engine.replacement.weights_sum,
    }


def cost_of(game: GameRun, before: Clock, seconds: float) -> dict[str, Any]:
    """Returns the same with the model rows of a game, and the fingerprints of its question."""
    clock = game.evaluator.clock
    return {
        "model_rows": game.count.distinct - (clock.spared_rows - before.spared_rows),
        "padded_rows": game.count.padded + clock.padded_rows - before.padded_rows,
        "structure": game.structure,
        "path": path_of(game),
        **cost(game.evaluator.engine, clock, before, seconds),
        **digests(game),
    }


def path_of(game: GameRun) -> str:
    """How a run was answered: "closed form", "small" or "tiled"."""
    return "closed form" if game.closed else "small" if game.small else "tiled"


def digests(game: GameRun) -> dict[str, str | None]:
    """Returns the digests of a game's rows, functions and model."""
    return {"fingerprint": fingerprint(game), "model_fingerprint": model_fingerprint(game)}


def sizes(engine: Engine, players: Any, N: int, P: int) -> dict[str, Any]:
    """Returns the part of provenance that says how many instances and which players a run has."""
    return {
        "instances": N,
        "players": P,
        "player_columns": players.all_columns,
        "precision": "float64" if engine.uses_host else engine.model.precision,
        "versions": VERSIONS,
    }


def background(replacement: Replacement) -> dict[str, Any]:
    """Returns the part of provenance that says what replaces an absent player."""
    return {
        "replacement": replacement.kind,
        "background_rows": replacement.rows_given,
        "weights": "given" if replacement.weights_sum is not None else "equal",
    }


def fingerprint(game: GameRun) -> str:
    """32 hexadecimal digits, equal for the same donors in the same order and the same functions.

    Functions are compared by their code, defaults and closures, and by the user's numbers, texts,
    arrays and functions that they read by a global name or hold. The rows of a sampler are draws
    and are left out, as are the rows that a function makes of the instances.
    """
    engine, quantity = game.engine, game.quantity
    digest = engine.replacement.digest.copy()
    baseline_fn = getattr(engine.replacement.table, "baseline_fn", None)
    for function in (engine.score, quantity.outer, quantity.combine, baseline_fn):
        for part in _parts(function, DEEP):
            digest.update(part)
    return digest.hexdigest()


def model_fingerprint(game: GameRun) -> str | None:
    """The fingerprint of the model, if it can be read; None for a function on the host, for
    example.

    A JAX model's fingerprint is computed once, with the parameters that its programs hold. An
    estimator that is itself called is read at each call, since it may have been fitted again.
    """
    engine = game.engine
    if not engine.uses_host:
        return engine.model_fingerprint
    return engine.model.fingerprint(engine.findings, engine.devices[0].platform)


def digest_of(value: Any) -> str:
    """32 hexadecimal digits of a function, an array or plain values, as in `fingerprint`."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(value, DEEP):
        digest.update(part)
    return digest.hexdigest()


def functions_of(quantity: Quantity) -> dict[str, str]:
    """The fingerprint of a link, for stats, since two functions may have one name."""
    return {} if quantity.outer is None else {"link_fingerprint": digest_of(quantity.outer)}


def _parts(value: Any, deep: int) -> Iterator[bytes]:
    """The bytes that distinguish one value, or function, from another."""
    yield type(value).__qualname__.encode()
    if deep <= 0:
        return
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
    elif hasattr(value, "__array__") and hasattr(value, "dtype"):  # NumPy's and JAX's
        yield from array_bytes(np.asarray(value))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item, deep - 1)
    elif isinstance(value, frozenset):
        yield repr(sorted(map(repr, value))).encode()
    elif isinstance(value, CodeType):
        yield value.co_code
        yield repr(value.co_names).encode()
        yield from _parts(value.co_consts, deep - 1)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, deep - 1)
    elif isinstance(value, MethodType):
        yield from _parts(value.__func__, deep - 1)
        yield from _parts(value.__self__, deep - 1)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, sorted(value.keywords.items())), deep - 1)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _parts([getattr(value, field.name) for field in fields(value)], deep - 1)
    elif (wrapped := getattr(value, "__wrapped__", None)) is not None:  # of jax.jit
        yield from _parts(wrapped, deep - 1)
    else:
        yield str(getattr(value, "__name__", "")).encode()
        if callable(value):
            yield from _parts(getattr(type(value).__call__, "__code__", None), deep - 1)
        held = getattr(value, "__dict__", {})
        yield from _parts([item for item in sorted(held.items()) if _plain(item[1])], deep - 1)


def _plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | np.ndarray)


def _of_function(function: FunctionType, deep: int) -> Iterator[bytes]:
    yield from _parts(function.__code__, deep)
    yield from _parts(function.__defaults__, deep)
    keywords = function.__kwdefaults__ or {}
    yield from _parts(sorted(keywords.items()), deep)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not set yet
            continue
        yield from _parts(held, deep)
    for name in function.__code__.co_names:
        held = function.__globals__.get(name)
        if _plain(held):
            yield from _parts(held, deep)
        elif (
            isinstance(held, FunctionType)
            and held is not function
            and not of_library(held.__globals__.get("__name__"))
        ):  # one of the user's own functions
            yield from _parts(held, deep - CALLED)
