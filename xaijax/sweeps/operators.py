"""`batches`: an explainer as an operator of engines of tables: batches of rows in, with values out.

It travels as a recipe and is opened once in a process, however many batches it gets there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.core.public import public, public_class
from xaijax.core.travel import made_of
from xaijax.sweeps.exports import columns_of
from xaijax.sweeps.inputs import background_of, wanted_of
from xaijax.sweeps.question import checked_options
from xaijax.sweeps.task import Recipe
from xaijax.tables.made_frames import frame_of_columns, widened
from xaijax.tables.rows import rows_of


@public_class
class Batches:
    """An explainer that takes batches of a table; `xaijax.batches` makes it.

    Each method takes a batch and gives it back with more columns: base_value and phi_<name>, with
    errors=True se_<name>; of rules what `Run.to_parquet` lists. Where an engine hands over an
    iterator of batches (Spark), it gives an iterator. It can be pickled.

    Args:
        recipe, columns, kind, errors: for `xaijax.batches`.
    """

    def __init__(
        self, recipe: Recipe, columns: Sequence[str] | None, kind: str, errors: bool
    ) -> None:
        self._recipe, self._kind, self._errors = recipe, kind, errors
        self._columns = None if columns is None else list(columns)

    def arrow(self, batch: Any) -> Any:
        """A pyarrow RecordBatch or Table: for Spark's `mapInArrow`, and Ray's "pyarrow" batches."""
        arrow: Any = require("pyarrow", "xaijax[scale]")
        if isinstance(batch, Iterator):
            return map(self.arrow, batch)
        given = {n: batch.column(i) for i, n in enumerate(batch.schema.names)}
        read = {n: one.to_numpy(zero_copy_only=False) for n, one in self._read(given).items()}
        kind = arrow.Table if isinstance(batch, arrow.Table) else arrow.RecordBatch
        return kind.from_pydict(given | self._values(read, given))

    def pandas(self, frame: Any) -> Any:
        """A pandas frame: for Dask's `map_partitions`, and Spark's `mapInPandas`."""
        return self._framed(frame)

    def polars(self, frame: Any) -> Any:
        """A polars frame."""
        return self._framed(frame)

    def ray(self, batch: Any) -> Any:
        """A batch {name: array}, as Ray's `map_batches` gives; a Table or a pandas frame too."""
        if not isinstance(batch, Mapping):
            return self._framed(batch) if rows_of(batch).is_frame else self.arrow(batch)
        given = {name: np.asarray(one) for name, one in batch.items()}
        return given | self._values(self._read(given), given)

    def _framed(self, frame: Any) -> Any:
        if isinstance(frame, Iterator):
            return map(self._framed, frame)
        given = rows_of(frame)
        columns = dict(zip(map(str, given.labels), given.columns(), strict=True))
        return widened(frame, self._values(self._read(columns), columns))

    def _read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The columns that the explainer reads, in its order."""
        names = list(given) if self._columns is None else self._columns
        lost = [name for name in names if name not in given]
        if lost:
            raise InputError(f"a batch has no column {lost[0]!r}; it has {list(given)}.")
        return {name: given[name] for name in names}

    def _values(self, read: Mapping[str, np.ndarray], given: Mapping[str, Any]) -> dict[str, Any]:
        """The new columns."""
        if not len(next(iter(read.values()))):
            raise InputError("a batch has 0 rows; leave empty partitions out.")
        found = columns_of(self._recipe.open().answer(self._rows(read), 0), 0, self._errors)
        del found["row"]
        twice = [name for name in found if name in given]
        if twice:
            raise InputError(f"a batch has a column {twice[0]!r} already. Rename it.")
        return found

    def _rows(self, read: Mapping[str, np.ndarray]) -> Any:
        if self._kind == "array":
            return np.column_stack(list(read.values()))
        return frame_of_columns(self._kind, read)


@public
def batches(
    explainer: object,
    columns: Sequence[str] | None = None,
    errors: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Batches:
    """An explainer as an operator of Spark, Ray Data, Dask, pandas or polars.

    It is for tables that an engine already holds and hands out; `xaijax.sweep` is for rows in
    files, and can be resumed.

    Args:
        explainer: as of `xaijax.sweep`.
        columns: names of the columns that the explainer reads, in its order; None: those of its
            background where that is a frame, else all columns of a batch.
        errors: bool. Whether se_<name>, standard errors, are columns too: 0 of exact values.
        options: dict or None. Keywords of the explainer's call, as of `xaijax.sweep`.

    Returns:
        A `Batches`: op.arrow, op.pandas, op.polars and op.ray take a batch and give one.

    Raises:
        InputError, InputTypeError: an argument that is not accepted, or an explainer that cannot
            travel.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
        >>> op = xj.batches(explainer, columns=["a", "b"])
        >>> found = op.ray({"id": [7, 8], "a": [2.0, 1.0], "b": [3.0, 4.0]})
        >>> found["id"], found["phi_x0"].round(3)
        (array([7, 8]), array([3., 2.]))
    """
    given = checked_options(explainer, options)
    errors = checks.yes_or_no(errors, "errors")
    kind, own = wanted_of(background_of(made_of(explainer)))
    return Batches(Recipe.of(explainer, given), own if columns is None else columns, kind, errors)
