"""Replacement: what stands in the columns of a player that is absent.

Letters: B donor rows, F columns, C code columns, N instances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from xaijax.core import checks
from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.core.typing import Rows
from xaijax.models.asking.rows import row_dtype
from xaijax.models.model import Model
from xaijax.models.translations.translated import Comparison, answering
from xaijax.players.players import OwnPlayers, Players
from xaijax.tables.frame_table import FrameTable
from xaijax.tables.frames import (
    frame_labels,
    is_labelled,
    refuse_series,
    row_of_numbers,
    same_labels,
)
from xaijax.tables.own_table import OwnTable
from xaijax.tables.rows import rows_of
from xaijax.tables.table import CodedTable, FloatTable, Table, Untranslatable, WordTable, dtype_of
from xaijax.tables.tree import is_tree
from xaijax.tables.tree_table import TreeTable


@public_class
class Baseline:
    """One row that stands for "absent", in place of many background rows.

    Give it as `background=` or `pool=`. `Baseline(row)` is that row. `Baseline("median", rows)` and
    `Baseline("mean", rows)` are one row that is computed from many, column by column.
    `Baseline(function)` makes a row for each instance: a blurred image, its mean colour, a sentence
    of masks with its padding kept. It is for `background=` of `Explainer`, `pool=` of
    `QII` and `perturbation=` of `AnchorExplainer`.

    Args:
        row: "median", "mean", or the row itself: an array [F] (or shaped like one instance), a
            frame of one row, a pandas Series of numbers, or for a model of several arrays a tuple
            or another container of one row of each. Or a function of the rows X, a copy of
            them as the model takes them, that returns as many of the same shape.
        rows: rows [B, *F], an array or a frame; with "median" and "mean" only. The value of a
            frame's column that is not numeric is its most frequent one, the first in sorted order
            where there are several. A NaN is refused, unless the model was made with
            allow_nan=True: then it is left out of the median and the mean, as a null of polars is.

    Raises:
        InputError: another word; "median" or "mean" without `rows`; a row with `rows`. Where the
            baseline is used, also a frame of several rows, or `rows` without rows or with a NaN.
        InputTypeError: where it is used, a Series that is not of numbers.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[0.0, 1.0], [0.0, 2.0], [6.0, 9.0]])
        >>> model = xj.as_model(lambda X: X[:, 0] + X[:, 1])
        >>> explanation = xj.Explainer(model, xj.Baseline("median", rows))(np.array([[5.0, 3.0]]))
        >>> explanation.values.round(3), explanation.base_values.round(3)
        (array([[5., 1.]]), array([2.]))
    """

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
        """The function that makes a row for each instance, if that is what was given."""
        holds_rows = hasattr(self.row, "__array__") or is_tree(self.row)
        return self.row if callable(self.row) and not holds_rows else None

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


def _of_arrays(row: Any) -> bool:
    """Whether a row is one of several arrays: a container, or a tuple that holds more than numbers.

    One row of each has an axis less than rows, so that `is_tree` cannot tell.
    """
    several = isinstance(row, tuple) and any(np.ndim(one) > 0 for one in jax.tree.leaves(row))
    return several or isinstance(row, Mapping) or is_tree(row)


def weighted_rows(background: Any, weights: Any, name: str = "background") -> tuple[Any, Any]:
    """(rows, weights) of what is given as rows: those of `xaijax.background` and of `shap.kmeans`
    bring weights of their own.

    Raises InputError where weights are given as well.
    """
    holder = {"Background": "rows", "DenseData": "data"}.get(type(background).__name__)
    if holder is None or not hasattr(background, holder) or not hasattr(background, "weights"):
        return background, weights
    if weights is not None:
        raise InputError(
            f"{name} brings weights of its own, and weights= are given too. Leave them out, or "
            f"give the rows alone ({name}.{holder})."
        )
    return getattr(background, holder), background.weights


@dataclass(frozen=True)
class Replacement:
    """Donor rows as codes, with their weights."""

    table: Table
    codes: np.ndarray  # [B, C]
    weights: np.ndarray  # float64 [B], positive, sum 1
    weights_sum: float | None  # of the weights as given; None: none were
    row: np.ndarray  # int64 [B], place of each donor among the background rows given
    rows_given: int  # background rows before those of weight 0 were dropped
    kind: str  # "rows" | "baseline" | "sampler" | "function"
    rows: Any = None  # of a translated estimator: the donor rows as it takes them itself

    @property
    def codes_of_rows(self) -> np.ndarray:
        """Of all of `rows`, those of weight 0 too; [rows_given, C]."""
        if len(self.codes) == self.rows_given:
            return self.codes
        return self.table.encode(self.rows)[1]

    @property
    def as_read(self) -> Any:
        """The donors [B] as the table reads rows: arrays or frames, no codes of a translation."""
        there = self.for_estimator()
        return there.table.decode(there.codes)

    def for_estimator(self) -> Replacement:
        """The same rows, for the estimator itself if its translation took them."""
        if not isinstance(self.table, CodedTable):
            return self
        return self._encoded_by(self.table.host)

    def for_model(self, model: Model) -> Replacement:
        """The same rows for the model that answers for a translated estimator.

        Raises Untranslatable for rows that do not fit JAX.
        """
        if model.loop == "host" or not isinstance(self.table, CodedTable):
            return self.for_estimator()
        if self.table.reader is model.reader:
            return self
        assert model.reader is not None
        return self._encoded_by(CodedTable(self.table.host, model.reader))

    def _encoded_by(self, table: Table) -> Replacement:
        table, codes = table.encode(self.rows)
        rows = self.rows if isinstance(table, CodedTable) else None
        return replace(self, table=table, codes=codes[self.row], rows=rows)

    def held_by(self, table: Table) -> Replacement:
        """The same rows in codes of another table of them."""
        codes = table.encode(self.table.decode(self.codes))[1]
        return replace(self, table=table, codes=codes)


def replacement_of(model: Model, background: Any, weights: Any, X: Any = None) -> Replacement:
    """Read the `background=` argument for a model.

    X: the instances, where the background is a function of them (`Baseline.of_each`).

    Raises InputError and InputTypeError for rows, names, shapes or weights that are not accepted.
    """
    background, weights = weighted_rows(background, weights)
    if isinstance(background, Baseline):
        if weights is not None:
            raise InputError("weights belong to background rows; a Baseline is one row.")
        if background.of_each is not None:
            table = table_of(model, X, "X")
            rows = table.read(rows_of(X).part(0, 1), "X", model.allow_nan)
            return _replacement(model, table, rows, (np.ones(1), None), "function")
        rows = background.as_rows(model.allow_nan)
    else:
        if callable(background) and not hasattr(background, "__array__"):
            raise InputTypeError(
                "background is a function. One that makes a row for each instance is said by "
                "xaijax.Baseline(function)."
            )
        rows = background
    kind = "baseline" if isinstance(background, Baseline) else "rows"
    _refuse_several(model, background)
    table = table_of(model, rows)
    rows = table.read(rows, "background", model.allow_nan)
    return _replacement(model, table, rows, checks.row_weights(weights, len(rows_of(rows))), kind)


def intervention_of(
    model: Model, table: Table, pool: Any, weights: Any, kind: str = "rows"
) -> Replacement:
    """Read the `pool=` of QII: donor rows, or a `Baseline`, read by the table of the data.

    kind: "rows", "baseline", "sampler" where the rows are draws, to be taken in order, or
    "function" where pool is a row in place of the baselines that instances have for themselves.

    Raises InputError and InputTypeError as `replacement_of`.
    """
    constant = isinstance(pool, Baseline)
    if constant and weights is not None:
        raise InputError("pool_weights belong to pool rows; a Baseline is one row.")
    given = pool.as_rows(model.allow_nan, "pool") if constant else pool
    rows = table.read(given, "pool", model.allow_nan, "the data")
    checked = checks.row_weights(weights, len(rows_of(rows)), "pool_weights", "the pool")
    return _replacement(model, table, rows, checked, kind)


def pool_of(model: Model, data: Any, weights: Any) -> Replacement:
    """Read the `data=` and `weights=` of Anchors: the rows that perturbations are made of.

    Raises InputError and InputTypeError as `replacement_of`.
    """
    if isinstance(data, Baseline):
        raise InputTypeError(
            "data= of AnchorExplainer is rows, by which coverage is counted. A Baseline is what "
            "stands in for free players: say perturbation=Baseline(...)."
        )
    table = table_of(model, data, "data")
    rows = table.read(data, "data", model.allow_nan, "the model")
    checked = checks.row_weights(weights, len(rows_of(rows)), "weights", "the data")
    return _replacement(model, table, rows, checked, "rows")


def _replacement(
    model: Model, table: Table, rows: Any, weights: tuple[np.ndarray, float | None], kind: str
) -> Replacement:
    w, total = weights
    if isinstance(table, FloatTable):
        table = table.joined(rows)
    kept = rows if isinstance(table, CodedTable) else None
    try:
        table, codes = table.encode(rows)
    except Untranslatable as reason:
        assert isinstance(model.comparison, Comparison)
        model.comparison.fall_back(str(reason))
        assert isinstance(table, CodedTable)
        kept = None
        table, codes = table.host.encode(rows)
    row = np.flatnonzero(w > 0)
    return Replacement(table, codes[row], w[row], total, row, len(codes), kind, kept)


def _refuse_several(model: Model, background: Any) -> None:
    """Rows of a table in place of one row, which only a network could take for an image."""
    if not isinstance(background, Baseline) or isinstance(background.row, str):
        return
    if model.network or model.input_shape is not None or _of_arrays(background.row):
        return
    if rows_of(background.row).is_frame:
        return
    if (axes := np.ndim(background.row)) > 1:
        shape = np.shape(background.row)
        raise InputError(
            f"background: Baseline(row) has {axes} axes, shape {shape}; a row of a table has one. "
            f"Give many rows as background=rows. If it is one image, say input_shape={shape} in "
            "as_model."
        )


def table_of(model: Model, background: Any, name: str = "background") -> Table:
    """The table that reads such rows for a model; `name` is the argument they came as."""
    refuse_series(background, name)
    if is_tree(background):
        if model.input_shape is not None or model.feature_names is not None:
            raise InputError(
                f"{name} is rows in several arrays, but input_shape= and feature_names= of "
                "as_model are of one array. Leave them out."
            )
        on_host = model.backend == "host"
        return TreeTable.of(background, name, None if on_host else _numbers_of(model))
    names = model.feature_names
    as_given = model.backend == "host" or model.reader is not None
    if rows_of(background).is_frame:
        labels = frame_labels(background, name)
        shape: tuple[int, ...] = (len(labels),)
        if model.input_shape not in (None, shape):
            raise InputError(
                f"{name} is a frame of {len(labels)} columns, but input_shape="
                f"{model.input_shape}. Give arrays."
            )
        if names is not None:
            same_labels(labels, names, name, "the model")
        if as_given:
            return _read_for(model, FrameTable.of(background, name))
        names = labels
    else:
        array = checks.as_array(background, name)
        wanted = model.input_shape
        if wanted is None and array.ndim > 2 and model.estimator is None:
            wanted = array.shape[1:]  # images, say: as they come
        shape = checks.rows_of(array, name, wanted).shape[1:]
        if names is not None and len(names) != math.prod(shape):
            raise InputError(
                f"feature_names has {len(names)} names, but the {name} has "
                f"{math.prod(shape)} columns."
            )
        checks.unique_names(names or (), "feature_names")
        if as_given:
            return _read_for(model, WordTable(shape, array.dtype, names))
    numbers = _numbers_of(model)
    takes = partial(row_dtype, model, shape)
    own = takes(dtype_of(background, name))
    return FloatTable(shape, numbers, names, own if own.kind in "biu" else None, takes)


def _numbers_of(model: Model) -> np.dtype:
    return np.dtype("f8" if model.precision == "float64" else "f4")


def _read_for(model: Model, table: Table) -> Table:
    reader = answering(model).reader
    return table if reader is None else CodedTable(table, reader)


def agreement_codes(codes: np.ndarray) -> np.ndarray:
    """Codes as whole numbers, to be compared bit for bit."""
    if codes.dtype.kind == "f":
        return codes.view(f"i{codes.dtype.itemsize}")
    return codes


def stand_ins_of(background: Any) -> Callable[[Any], Any] | None:
    """The function of `Baseline(function)`, which makes a row for each instance; None: no such."""
    return background.of_each if isinstance(background, Baseline) else None


def with_own(
    model: Model,
    donors: Replacement,
    players: Players | OwnPlayers,
    stand_ins: Callable[[Any], Any] | None,
) -> tuple[Replacement, Players]:
    """(donors, players) of codes that say what each instance has for itself; see `OwnTable`.

    stand_ins(rows) -> the baseline of each; None: absent players take the donors' entries.
    """
    own = isinstance(players, OwnPlayers)
    if not own and stand_ins is None:
        return donors, players
    if isinstance(donors.table, CodedTable):
        raise InputError(
            f"{model.name} is an estimator translated to JAX, which takes no players and no "
            "baselines for each instance. Say backend='host' in as_model."
        )
    table = OwnTable(
        inner=donors.table,
        owner=np.repeat(
            1 + (players.of_entry if isinstance(players, OwnPlayers) else players.of_column),
            donors.table.codes_per_column,
            axis=-1,
        ),
        P=players.count,
        stand_ins=stand_ins,
        common=donors.codes[0],
        alike=(donors.codes == donors.codes[0]).all(axis=0),
        word=donors.codes.dtype,
        allow_nan=model.allow_nan,
        in_jax=model.loop == "jax",
    )
    codes = table.of_donors(donors.codes)
    return replace(donors, table=table, codes=codes), Players(table.players, players.names)
