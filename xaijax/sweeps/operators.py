"""`batches`: an explainer as an operator of table engines: batches of rows in, with values out.

It is pickled as a recipe and opened once in a process, however many batches it gets there and from
however many threads; threads use it one after the other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.core.pickling import OpenedCache, made_of
from xaijax.core.public import public, public_class
from xaijax.sweeps.exports import columns_of
from xaijax.sweeps.inputs import background_of, wanted_of
from xaijax.sweeps.question import checked_options
from xaijax.sweeps.task import ExplainerRecipe, OpenedTask, set_x64, tiled
from xaijax.tables.frames import frame_of_columns
from xaijax.tables.rows import rows_of

FRAMES = "a frame (pandas or polars), or an iterator of frames"
TABLES = "a pyarrow RecordBatch or Table, or an iterator of these"
NAMED = "a dict {name: array}, a pyarrow Table or a pandas frame"


@dataclass
class _Ready:
    """An explainer that is open in this process."""

    opened: OpenedTask
    x64: bool
    # By `errors`: the new columns of a batch of 0 rows, once they were needed.
    empty: dict[bool, dict[str, Any]] = field(default_factory=dict)

    def columns(self, rows: Any, errors: bool) -> dict[str, Any]:
        """The new columns of some rows."""
        set_x64(self.x64)  # another explainer used since may have changed it
        new = columns_of(self.opened.answer(rows, 0), 0, errors)
        del new["row"]
        return new

    def columns_of_none(self, width: int | None, errors: bool) -> dict[str, Any]:
        """The new columns of 0 rows: those of one of its own rows, without that row."""
        row = _one_row(made_of(self.opened.explainer))
        if row is None:
            raise InputError(
                "a batch has 0 rows, and the explainer none to get columns from. Leave empty "
                "partitions out."
            )
        if width is not None and width != row.shape[1]:
            raise InputError(
                f"a batch has {width} columns for the explainer, which reads {row.shape[1]}. Name "
                "them by columns= of xaijax.batches."
            )
        if errors not in self.empty:
            new = self.columns(row, errors)
            self.empty[errors] = {name: np.asarray(column)[:0] for name, column in new.items()}
        return dict(self.empty[errors])


_open: OpenedCache[_Ready] = OpenedCache(8)  # explainers: some pipelines use several in turn


@public_class
class Batches:
    """Explains batches of a table; made by `xaijax.batches`.

    Each method takes a batch and returns it with more columns: base_value and phi_<name>, and with
    errors=True se_<name>; for rules, those that `Run.to_parquet` lists. If an engine passes an
    iterator of batches (Spark), it returns an iterator. A batch of 0 rows gets the same columns. It
    can be pickled.

    Args:
        recipe, columns, kind, errors: for `xaijax.batches`.
    """

    def __init__(
        self, recipe: ExplainerRecipe, columns: Sequence[str] | None, kind: str, errors: bool
    ) -> None:
        self._recipe, self._kind, self._errors = recipe, kind, errors
        self._columns = None if columns is None else list(columns)
        self._digest = recipe.digest  # computed once: it reads all parameters

    def arrow(self, batch: Any) -> Any:
        """Takes a pyarrow RecordBatch or Table: for Spark's `mapInArrow`, and Ray's "pyarrow"
        batches.
        """
        arrow: Any = require("pyarrow", "xaijax[scale]")
        if isinstance(batch, Iterator):
            return map(self.arrow, batch)
        if not isinstance(batch, arrow.RecordBatch | arrow.Table):
            raise _not_a_batch("batch", TABLES, batch)
        self._refuse_twice(batch.schema.names)
        columns = {n: batch.column(i) for i, n in enumerate(batch.schema.names)}
        read = {n: c.to_numpy(zero_copy_only=False) for n, c in self._read(columns).items()}
        kind = arrow.Table if isinstance(batch, arrow.Table) else arrow.RecordBatch
        return kind.from_pydict(columns | self._values(read, columns))

    def pandas(self, frame: Any) -> Any:
        """Takes a pandas frame: for Dask's `map_partitions`, and Spark's `mapInPandas`."""
        return self._framed(frame)

    def polars(self, frame: Any) -> Any:
        """Takes a polars frame."""
        return self._framed(frame)

    def ray(self, batch: Any) -> Any:
        """Takes a batch {name: array} from Ray's `map_batches`, a Table or a pandas frame."""
        if rows_of(batch).is_frame:
            return self._framed(batch)
        if hasattr(batch, "schema"):
            return self.arrow(batch)
        if not isinstance(batch, Mapping):
            raise _not_a_batch("batch", NAMED, batch)
        columns = {name: np.asarray(column) for name, column in batch.items()}
        lengths = {name: len(column) if column.ndim else None for name, column in columns.items()}
        if None in lengths.values() or len(set(lengths.values())) > 1:
            raise InputError(f"a batch has columns of different lengths: {lengths}.")
        return columns | self._values(self._read(columns), columns)

    def _framed(self, frame: Any) -> Any:
        if isinstance(frame, Iterator):
            return map(self._framed, frame)
        table = rows_of(frame)
        if not table.is_frame:
            raise _not_a_batch("frame", FRAMES, frame)
        labels = list(map(str, table.labels))
        self._refuse_twice(labels)
        columns = dict(zip(labels, table.columns(), strict=True))
        return table.beside(self._values(self._read(columns), columns))

    def _refuse_twice(self, names: Sequence[str]) -> None:
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise InputError(f"a batch has two columns {twice[0]!r}. Rename one.")

    def _read(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that the explainer reads, in its order."""
        names = list(columns) if self._columns is None else self._columns
        if not names:
            raise InputError("a batch has no columns.")
        lost = [name for name in names if name not in columns]
        if lost:
            raise InputError(f"a batch has no column {lost[0]!r}; it has {list(columns)}.")
        return {name: columns[name] for name in names}

    def _values(self, read: Mapping[str, np.ndarray], columns: Mapping[str, Any]) -> dict[str, Any]:
        """The new columns."""
        recipe = self._recipe

        def make() -> _Ready:
            return _Ready(recipe.made(), recipe.x64)

        with _open.opened(self._digest, make, lambda ready: ready.opened.changed) as ready:
            if len(next(iter(read.values()))):
                new = ready.columns(self._rows(read), self._errors)
            else:
                width = len(read) if self._kind == "array" else None
                new = ready.columns_of_none(width, self._errors)
        twice = [name for name in new if name in columns]
        if twice:
            raise InputError(f"a batch has a column {twice[0]!r} already. Rename it.")
        return new

    def _rows(self, read: Mapping[str, np.ndarray]) -> Any:
        if self._kind == "array":
            return np.column_stack(list(read.values()))
        return frame_of_columns(self._kind, read)


def _one_row(arguments: dict[str, Any]) -> Any:
    """A row from an explainer's arguments; None: it holds none."""
    rows = background_of({"data": arguments.get("pool"), **arguments})
    if rows is None or callable(rows):
        return None
    if rows_of(rows).is_frame:
        return rows_of(rows).part(0, 1)
    array = np.asarray(rows)
    return array[None] if array.ndim == 1 else array[:1]  # a Baseline is one row


def _not_a_batch(name: str, expected: str, value: Any) -> InputTypeError:
    return InputTypeError(
        f"{name} must be {expected}; got {type(value).__name__}. op.pandas and op.polars "
        "take frames, op.arrow tables of pyarrow, op.ray dicts of arrays."
    )


@public
def batches(
    explainer: object,
    columns: Sequence[str] | None = None,
    errors: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Batches:
    """Returns an explainer as an operator of Spark, Ray Data, Dask, pandas or polars.

    Use it for tables that an engine already holds and distributes; use `xaijax.sweep` for rows in
    files and runs that can be resumed.

    Args:
        explainer: as for `xaijax.sweep`.
        columns: names of the columns that the explainer reads, in its order; None: those of its
            background if that is a frame, else all columns of a batch.
        errors: bool. Whether to add se_<name>, standard errors: 0 for exact values.
        options: dict or None. Keywords of the explainer's call, as for `xaijax.sweep`.

    Returns:
        A `Batches`: op.arrow, op.pandas, op.polars and op.ray take a batch and return one.

    Raises:
        InputError, InputTypeError: an argument is not accepted, or the explainer cannot be pickled.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
        >>> op = xj.batches(explainer, columns=["a", "b"])
        >>> found = op.ray({"id": [7, 8], "a": [2.0, 1.0], "b": [3.0, 4.0]})
        >>> found["id"], found["phi_x0"].round(3)
        (array([7, 8]), array([3., 2.]))
    """
    keywords = checked_options(explainer, options)
    explainer = tiled(explainer)
    if columns is not None:
        columns = checks.listed(columns, "columns")
        if not columns or not all(isinstance(name, str) for name in columns):
            raise InputTypeError(f"columns must be None or one name at least, got {columns!r:.60}.")
        checks.unique_names(columns, "columns")
    errors = checks.yes_or_no(errors, "errors")
    kind, names = wanted_of(background_of(made_of(explainer)))
    return Batches(
        ExplainerRecipe.of(explainer, keywords), names if columns is None else columns, kind, errors
    )
