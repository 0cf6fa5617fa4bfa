"""The progress bar of a run, counted in model rows, instances or steps."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from tqdm import TqdmWarning
from tqdm import tqdm as plain

from xaijax.core.errors import InputTypeError
from xaijax.games.queries import full_rows_cost
from xaijax.games.run import GameRun
from xaijax.results.plan import Plan

with warnings.catch_warnings():
    # In a notebook without ipywidgets tqdm draws its bar as text, and warns of it on import.
    warnings.simplefilter("ignore", TqdmWarning)
    from tqdm.auto import tqdm


_watcher: ContextVar[Callable[[float], None] | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(report: Callable[[float], None] | None) -> Iterator[None]:
    """Calls `report` with the completed share of each run inside that shows no bar."""
    before = _watcher.set(report)
    try:
        yield
    finally:
        _watcher.reset(before)


class _Watched(plain):
    """Draws nothing and reports its progress."""

    def __init__(self, total: int, report: Callable[[float], None]) -> None:
        super().__init__(total=total, disable=True)
        self._tell = report

    def update(self, n: float | None = 1) -> None:
        self.n += n or 0
        if self.total:
            self._tell(self.n / self.total)


def progress_bar(
    progress: Any, total: int, counted: str = "model rows", unit: str = "row"
) -> plain:
    """A bar over `total`; with progress None it is shown in a terminal or notebook after a
    while.
    """
    shown = read_progress(progress)
    report = _watcher.get()
    if shown is False and report is not None:
        return _Watched(total, report)
    if shown is None:
        shown = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(
        total=total,
        unit=unit,
        unit_scale=True,
        desc=counted,
        disable=not shown,
        delay=0.5 if progress is None else 0,
    )


def read_progress(progress: Any) -> bool | None:
    """The argument, checked."""
    if progress is not None and not isinstance(progress, bool):
        raise InputTypeError(f"progress must be None, True or False, got {progress!r}.")
    return progress


def plan_of(game: GameRun, estimator: Any, pairs: bool = True) -> Plan:
    """The plan of a game whose cost was counted.

    estimator: str, or str [N], who answers each instance; pairs: whether those of instances and
    donors are held.
    """
    evaluator, cost, backend = game.evaluator, game.cost, game.backend()
    engine = evaluator.engine
    if engine.score is not None and engine.score.reads_own and game.own is None:
        full_rows_cost(game)
    cost.hold(**backend.held)
    if pairs:
        count = min(game.N, engine.instances_at_a_time) * engine.replacement.count
        cost.hold(pairs=(80 + 2 * game.P) * count)
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
    )
