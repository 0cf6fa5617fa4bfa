"""Calls a host model: read-only rows, the row range on its errors, a deadline, checked output."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.models.base.outputs import check_labels, check_raw, refuse_codes
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from xaijax.models.model import Model


def call_host(model: Model, rows: Any, start: int = 0) -> np.ndarray:
    """The checked output of one call: float64 [R] or [R, K]; may hold NaN.

    rows: an array [R, *F], passed on as a read-only view, or a frame, passed on as it is (pass a
    copy). start: the position of these rows in the whole run, for messages.

    Raises ModelOutputError for an output of the wrong shape or type and TimeoutError after
    `model.timeout` seconds; the model's own exception is passed on with the row range as a note.
    """
    return call_host_raw(model, rows, start).astype(np.float64, copy=False)


def call_host_raw(
    model: Model,
    rows: Any,
    start: int = 0,
    names: list[str] | None = None,
) -> np.ndarray:
    """Like `call_host`, in the dtype that the model returned (for probes of its rounding).

    More than `max_rows` rows take several calls.

    names: a list that receives the column names of an output frame.
    """
    assert model.call is not None
    count = len(rows)
    if model.max_rows is not None and count > model.max_rows:
        cut = parts(rows, model.max_rows)
        return np.concatenate([call_host_raw(model, p, start + i, names=names) for i, p in cut])
    where = f"{model.name}, rows {start}:{start + count},"
    raw = guarded(model.call, rows, start, model.timeout, model.name)
    if names is not None and hasattr(raw, "columns"):
        names[:] = map(str, raw.columns)
    if model.output == "label":
        labels = check_labels(raw, count, where)
        if labels.dtype.kind not in "biuf":
            refuse_codes(labels, where)
    return check_raw(raw, count, where)


def guarded(
    function: Callable[[Any], Any],
    rows: Any,
    start: int = 0,
    timeout: float | None = None,
    name: str = "the model",
) -> Any:
    """Calls `function(rows)` as `call_host` does, without checking its output."""
    stop = start + len(rows)
    view = read_only(rows)
    try:
        if timeout is None:
            return function(view)
        answer = _within(function, view, timeout)
    except Exception as exc:
        exc.add_note(f"xaijax: raised by {name} on rows {start}:{stop} of those asked")
        if isinstance(exc, ValueError) and "read-only" in str(exc):
            exc.add_note(
                "xaijax: a model must not write into its input, so the rows are read-only; "
                "wrap it as lambda X: f(X.copy())"
            )
        raise
    if answer is None:
        raise TimeoutError(
            f"{name}, called on rows {start}:{stop}, did not answer within timeout={timeout:g} "
            "seconds. Its thread is abandoned and may go on until it returns. Give a longer "
            "timeout= or a smaller max_rows=."
        )
    return answer[0]


def parts(rows: Any, size: int | None) -> Iterator[tuple[int, Any]]:
    """Yields (start, slice) of at most `size` rows each; slices of frames are frames."""
    step = len(rows) if size is None else size
    table = rows_of(rows)
    for start in range(0, len(rows), step):
        yield start, table.part(start, start + step)


def read_only(rows: Any) -> Any:
    """A read-only view of an array; other values are returned as they are."""
    if not isinstance(rows, np.ndarray):
        return rows
    view = rows.view()
    view.flags.writeable = False
    return view


def _within(function: Callable[[Any], Any], rows: Any, timeout: float) -> tuple[Any] | None:
    """(the output,), or raises the function's exception; None: it took longer than the timeout."""
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    # A new thread starts without the caller's context variables (np.errstate is one).
    context = contextvars.copy_context()

    def work() -> None:
        try:
            answers.put((True, context.run(function, rows)))
        except BaseException as exc:
            answers.put((False, exc))

    threading.Thread(target=work, name="xaijax-model", daemon=True).start()
    try:
        ok, answer = answers.get(timeout=timeout)
    except queue.Empty:
        return None
    if ok:
        return (answer,)
    raise answer
