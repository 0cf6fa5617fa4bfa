"""`Baseline`: one row that represents "absent", or a function that makes one for each instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.core.typing import Rows
from xaijax.games.measure.replacement.base import (
    Replacement,
    ReplacementSource,
    agreement_codes,
    table_of,
)
from xaijax.models.model import Model
from xaijax.tables.frames import is_labelled, row_of_numbers
from xaijax.tables.rows import rows_of
from xaijax.tables.table import CodeTable, FloatTable, read_by
from xaijax.tables.tree import is_tree


class BaselineRow(Replacement):
    """One row, the same for all instances."""

    kind = "baseline"


class RowOfEach(Replacement):
    """A row made from each instance, or one donor in their place.

    Anchors uses the rows themselves, row n for instance n (`Baseline._for_rows`). The engine has a
    single donor instead, and `PerInstanceTable` puts the rows into the instances' codes.
    """

    kind = "function"
    SHARED = False

    def may_change(self, codes: np.ndarray) -> np.ndarray:
        """See `Replacement`; each instance is compared with its own row."""
        return agreement_codes(codes) != self.bits

    def draw(self, u: np.ndarray, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Replacement`; nothing is drawn."""
        return self.codes[who], u


@public_class
class Baseline(ReplacementSource):
    """One row that represents "absent", instead of many background rows.

    Give it as `background=` or `pool=`. `Baseline(row)` is that row. `Baseline("median", rows)` and
    `Baseline("mean", rows)` are computed from many rows, column by column. `Baseline(function)`
    makes a row for each instance: for example a blurred image, its mean colour, or a sentence of
    mask tokens that keeps its padding. It is accepted by `background=` of `Explainer`, `pool=` of
    `QII` and `perturbation=` of `AnchorExplainer`.

    Args:
        row: "median", "mean", or the row itself: an array [F] (or shaped like one instance), a
            frame of one row, a pandas Series of numbers, or for a model of several arrays a
            container with one row of each. It may also be a function of the rows X (a copy in the
            model's form) that returns the same number of rows of the same shape.
        rows: rows [B, *F], an array or a frame; with "median" and "mean" only. A frame's column
            that is not numeric gets its most frequent value, the first in sorted order if there are
            several. A NaN raises an error, unless the model was made with allow_nan=True: then the
            median and the mean ignore it, like nulls of polars.

    Raises:
        InputError: another word; "median" or "mean" without `rows`; a row with `rows`. It is also
            raised when the baseline is used, for a frame of several rows, or for `rows` without
            rows or with a NaN.
        InputTypeError: a Series that is not of numbers, when the baseline is used.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0.0, 1.0], [0.0, 2.0], [6.0, 9.0]])
        >>> model = xj.as_model(lambda X: X[:, 0] + X[:, 1])
        >>> explanation = xj.Explainer(model, xj.Baseline("median", rows))(np.array([[5.0, 3.0]]))
        >>> explanation.values.round(3), explanation.base_values.round(3)
        (array([[5., 1.]]), array([2.]))
    """

    UNWEIGHTED = "a Baseline is one row"

    def __init__(self, row: Any, rows: Rows | None = None) -> None:
        if isinstance(row, str):
            checks.one_of(row, "row", ("median", "mean"))
            if rows is None:
                raise InputError(f"Baseline({row!r}, rows) needs the rows to take the {row} of.")
        elif rows is not None:
            raise InputError("Baseline takes a row, or 'median' or 'mean' and rows; not both.")
        self.row = row
        self.rows = rows

    def __repr__(self) -> str:
        if isinstance(self.row, str):
            return f"Baseline({self.row!r}, rows)"
        return "Baseline(row)" if self.of_each is None else "Baseline(function)"

    @property
    def of_each(self) -> Callable[[Any], Any] | None:
        """The function that makes a row for each instance, if one was given."""
        holds_rows = hasattr(self.row, "__array__") or is_tree(self.row)
        return self.row if callable(self.row) and not holds_rows else None

    @property
    def of_instances(self) -> bool:
        """See `ReplacementSource.of_instances`."""
        return self.of_each is not None

    def as_rows(self, allow_nan: bool | NanColumns, name: str = "background") -> Any:
        """The one row as a batch: array [1, *F], or a frame of one row."""
        if self.of_each is not None:
            raise InputError(
                f"{name}: Baseline(function) makes a row for each instance, which background= of "
                "Explainer, pool= of QII and perturbation= of AnchorExplainer take. Give one row, "
                "or rows."
            )
        if isinstance(self.row, str):
            return rows_of(self.rows).summary(self.row, name, allow_nan)
        if rows_of(self.row).is_frame:
            if len(self.row) != 1:
                raise InputError(f"{name}: Baseline(row) got a frame of {len(self.row)} rows.")
            return self.row
        if is_labelled(self.row):
            return row_of_numbers(self.row, name)
        if _of_arrays(self.row):
            leaves, structure = checks.leaves_of(self.row, name)
            return structure.unflatten([np.asarray(leaf)[None] for leaf in leaves])
        return checks.as_array(self.row, name)[None]

    def replacement(self, model: Model, X: Any) -> Replacement:
        """See `ReplacementSource`."""
        if self.of_each is not None:
            table = table_of(model, X, "X")
            rows = table.read(rows_of(X).part(0, 1), "X", model.allow_nan)
            return RowOfEach.of(model, table, rows, (np.ones(1), None))
        row = self.as_rows(model.allow_nan)
        self._refuse_several(model)
        table = table_of(model, row)
        rows = table.read(row, "background", model.allow_nan)
        return BaselineRow.of(model, table, rows, checks.row_weights(None, len(rows_of(rows))))

    def _for_rows(
        self, table: CodeTable, rows: Any, allow_nan: bool | NanColumns, argument: str
    ) -> Replacement:
        """The baselines of these rows, in codes of a table that includes both.

        Raises InputError and InputTypeError, which name the argument, for a baseline that is not
        accepted.
        """
        kind: type[Replacement]
        if self.of_each is None:
            donor, name, count, kind = self.as_rows(allow_nan, argument), argument, 1, BaselineRow
        else:
            donor, count, kind = self.of_each(rows_of(rows).copy()), len(rows_of(rows)), RowOfEach
            name = "what the function of Baseline returned"
        read = read_by(table).read(donor, name, allow_nan, "the data")
        if len(rows_of(read)) != count:
            raise InputError(f"{name} has {len(rows_of(read)):,} rows; {count:,} are needed.")
        if isinstance(table, FloatTable):
            read = table.like(read, name)
        table, codes = table.encode(read)
        return kind(table, codes, np.full(count, 1 / count), None, np.arange(count), count)

    def _refuse_several(self, model: Model) -> None:
        """Refuses rows of a table in place of one row, which only a network could read as an
        image."""
        if isinstance(self.row, str):
            return
        if model.network or model.input_shape is not None or _of_arrays(self.row):
            return
        if rows_of(self.row).is_frame:
            return
        if (axes := np.ndim(self.row)) > 1:
            shape = np.shape(self.row)
            raise InputError(
                f"background: Baseline(row) has {axes} axes, shape {shape}; a row of a table has "
                "one. Give many rows as background=rows. If it is one image, say "
                f"input_shape={shape} in as_model."
            )


def baseline_fn_of(background: Any) -> Callable[[Any], Any] | None:
    """The function of `Baseline(function)`, which makes a row for each instance; None: another
    background."""
    return background.of_each if isinstance(background, Baseline) else None


def _of_arrays(row: Any) -> bool:
    """Whether a row has several arrays: a container, or a tuple that holds more than numbers.

    One row of each has one axis fewer than rows, so `is_tree` cannot decide.
    """
    several = isinstance(row, tuple) and any(np.ndim(item) > 0 for item in jax.tree.leaves(row))
    return several or isinstance(row, Mapping) or is_tree(row)
