"""Translates scalers, imputers and encoders: one number or several per column.

Encoders read codes (`columns.ColumnSource`): the output for a code is a row of a small table, so
that text and categories never reach the device.

Letters: R rows, F columns, V known values of a column, W columns computed from it.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import MISSING, Columns, key_of
from xaijax.models.translations.registry import Translation, translates
from xaijax.tables.table import Untranslatable


@translates("StandardScaler", mixed=True)
def standard(estimator: Any, columns: Columns) -> Translation:
    """(x - mean) / scale; NaN stays."""
    count = len(columns)
    # The means are fitted even without with_mean.
    mean = estimator.mean_ if estimator.with_mean else np.zeros(count)
    scale = estimator.scale_ if estimator.with_std else np.ones(count)
    columns.as_values()
    if columns.lazy:
        pairs = zip(mean, scale, strict=True)
        return _left(columns.mapped([lambda x, m=m, s=s: (x - m) / s for m, s in pairs]))
    params = {"mean": columns.number(mean - columns.taken()), "scale": columns.number(scale)}

    def transform(params: Any, rows: Any) -> Any:
        return (rows - params["mean"]) / params["scale"]

    return Translation(params, {"transform": transform}, "scale", True, columns.changed())


@translates("MinMaxScaler", mixed=True)
def min_max(estimator: Any, columns: Columns) -> Translation:
    """x scale + min, cut to the range where clip=True; NaN stays."""
    columns.as_values()
    low, high = estimator.feature_range
    if columns.lazy and (np.asarray(estimator.scale_) > 0).all():
        bounds = (low, high) if estimator.clip else (-np.inf, np.inf)
        pairs = zip(estimator.scale_, estimator.min_, strict=True)
        return _left(
            columns.mapped([lambda x, s=s, m=m: np.clip(x * s + m, *bounds) for s, m in pairs])
        )
    columns.as_they_are()
    shift = estimator.min_ + columns.taken() * estimator.scale_
    params = {"scale": columns.number(estimator.scale_), "shift": columns.number(shift)}

    def transform(params: Any, rows: Any) -> Any:
        made = rows * params["scale"] + params["shift"]
        return jnp.clip(made, low, high) if estimator.clip else made

    return Translation(params, {"transform": transform}, "scale", True, columns.changed())


def _left(columns: Columns) -> Translation:
    """Unchanged columns with maps for later."""
    return Translation((), {"transform": lambda _, rows: rows}, "scale", True, columns)


@translates("FunctionTransformer", mixed=True)
def identity(estimator: Any, columns: Columns) -> Translation:
    """Unchanged columns; other functions have no translation."""
    function = getattr(estimator.func, "func", estimator.func)  # a partial's own
    checks = getattr(function, "__module__", "") == "sklearn.utils.validation"
    if estimator.func is not None and not checks:
        raise Untranslatable("FunctionTransformer holds a function of its own")
    if checks:
        columns.as_values()
    return Translation((), {"transform": lambda _, rows: rows}, "pass", True, columns)


@translates("SimpleImputer", mixed=True)
def imputer(estimator: Any, columns: Columns) -> Translation:
    """Missing values become the column's statistic, a number or a category."""
    if estimator.add_indicator:
        raise Untranslatable("SimpleImputer adds indicators")
    gone = estimator.missing_values
    fills = list(estimator.statistics_)
    if not estimator.keep_empty_features and any(key_of(fill) is MISSING for fill in fills):
        raise Untranslatable("SimpleImputer drops a column without values")
    wanted, fill, maps = [], [], []
    later = columns.lazy and key_of(gone) is MISSING
    if not later:
        columns.as_they_are()
    for source, value in zip(columns, fills, strict=True):
        if isinstance(value, str):
            if source is None:
                raise Untranslatable("SimpleImputer fills text into numbers")
            source.read_as("code")
            wanted.append(source.code(gone))
            fill.append(source.code(value))
            maps.append(None)
            continue
        if source is not None:
            source.read_as("value")
        wanted.append(np.nan if key_of(gone) is MISSING else float(gone))
        number = float(value)
        fill.append(np.nan if later else number)  # NaN stays, for the map
        maps.append(lambda x, number=number: np.where(np.isnan(x), number, x))
    params = {"missing": columns.number(wanted), "fill": columns.number(fill)}

    def transform(params: Any, rows: Any) -> Any:
        marks = params["missing"]  # [F]
        lost = (rows == marks) | (jnp.isnan(rows) & jnp.isnan(marks))
        return jnp.where(lost, params["fill"], rows)

    if later:
        outputs = columns.mapped(maps, fills=True)
        return Translation(params, {"transform": transform}, "fill", True, outputs)
    texts = [isinstance(value, str) for value in fills]
    sources = [s if text else None for s, text in zip(columns, texts, strict=True)]
    gaps = [None] * len(sources) if key_of(gone) is MISSING else columns.gaps
    outputs = Columns(sources, columns.dtype, gaps, None, columns.lazy, columns.centre)
    return Translation(params, {"transform": transform}, "fill", True, outputs)


@translates("OneHotEncoder", mixed=True)
def one_hot(estimator: Any, columns: Columns) -> Translation:
    """One column per category, or per group of rare ones, without the dropped ones."""
    tables, widths = [], []
    dropped = estimator._drop_idx_after_grouping
    for j, categories in enumerate(estimator.categories_):
        group, rare = np.arange(len(categories)), None
        if estimator._infrequent_enabled:
            mapped = estimator._default_to_infrequent_mappings[j]
            group = group if mapped is None else np.asarray(mapped)
            indices = estimator._infrequent_indices[j]
            rare = None if indices is None else int(group[indices[0]])
        unknown = rare if estimator.handle_unknown in ("infrequent_if_exist", "warn") else None
        drop = None if dropped is None else dropped[j]
        width = int(estimator._n_features_outs[j])
        table = np.zeros((len(categories) + 1, width))  # the last: an unknown value
        for k, g in enumerate([*group.tolist(), unknown]):
            if g is not None and g != drop:
                table[k, g - (drop is not None and g > drop)] = 1.0
        tables.append(table)
        widths.append(width)
    return _encoded(estimator, columns, tables, sum(widths))


@translates("OrdinalEncoder", mixed=True)
def ordinal(estimator: Any, columns: Columns) -> Translation:
    """The category's number."""
    if estimator._infrequent_enabled:
        raise Untranslatable("OrdinalEncoder groups infrequent categories")
    tables = []
    for j, categories in enumerate(estimator.categories_):
        table = np.arange(len(categories) + 1, dtype=np.float64)[:, None]
        if j in estimator._missing_indices:
            table[estimator._missing_indices[j]] = estimator.encoded_missing_value
        table[-1] = np.nan if estimator.unknown_value is None else estimator.unknown_value
        tables.append(table)
    return _encoded(estimator, columns, tables, len(tables))


def _encoded(estimator: Any, columns: Columns, tables: list[np.ndarray], count: int) -> Translation:
    """A row of a table [V + 1, W] for each column, found by code or by comparing numbers."""
    columns.as_they_are()
    params, compared = [], []
    for source, categories, table in zip(columns, estimator.categories_, tables, strict=True):
        values = [value for value in categories.tolist()]
        if source is None:
            params.append({"table": columns.number(table), "known": _numbers(values, columns)})
            compared.append(True)
            continue
        source.read_as("code")
        if estimator.handle_unknown == "error":
            source.strict = type(estimator).__name__
        places = [source.code(value) for value in values]
        by_code = np.repeat(table[-1:], len(source.codes) + 1, axis=0)
        by_code[places] = table[:-1]
        params.append({"table": columns.number(by_code)})
        compared.append(False)

    def transform(params: Any, rows: Any) -> Any:
        made = []
        for j, (column, by_value) in enumerate(zip(params, compared, strict=True)):
            x, last = rows[:, j], column["table"].shape[0] - 1
            if by_value:
                same = (x[:, None] == column["known"]) | (
                    jnp.isnan(x)[:, None] & jnp.isnan(column["known"])
                )
                code = jnp.where(same.any(axis=1), same.argmax(axis=1), last)
            else:
                # Codes that other steps added later are unknown to this one.
                code = jnp.where((x >= 0) & (x < last), x, last).astype("int32")
            made.append(column["table"][code])
        return jnp.concatenate(made, axis=1)

    outputs = columns.made(count)
    return Translation(params, {"transform": transform}, "codes", True, outputs)


def _numbers(values: list[Any], columns: Columns) -> np.ndarray:
    """Categories as numbers, which must stay distinct."""
    if any(not isinstance(value, bool | int | float) for value in values):
        raise Untranslatable("an encoder of text reads numbers that a step before it made")
    known = columns.number(values)
    if len(np.unique(known)) < len(np.unique(np.asarray(values, np.float64))):
        raise Untranslatable(f"two categories are one number in {columns.dtype}")
    return known
