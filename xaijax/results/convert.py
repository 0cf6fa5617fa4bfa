"""Converts results for other libraries: pandas and shapiq."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.results.describe_question import output_of_each
from xaijax.results.shared_fields import labels_of, repeated_labels

if TYPE_CHECKING:
    from xaijax.results.explanation import Explanation
    from xaijax.results.interactions import Interactions

    Result = Explanation | Interactions


def frame_of(
    columns: Mapping[str, Any], axes: Sequence[Sequence[Any]], names: Sequence[str | None]
) -> Any:
    """A pandas DataFrame of these columns; its index is an axis, or the product of several."""
    pandas = require("pandas", "xaijax[data]")
    if len(axes) == 1:
        index = pandas.Index(list(axes[0]), name=names[0])
    else:
        index = pandas.MultiIndex.from_product(axes, names=list(names))
    return pandas.DataFrame(dict(columns), index=index)


def values_of_shapiq(
    result: Result, called: str, index: str, sets: Sequence[tuple[int, ...]], order: int
) -> list[Any]:
    """One `shapiq.InteractionValues` for each instance; called: of one output, for the error."""
    if result.values.ndim == 3:
        names = ", ".join(repr(name) for name in (result.output_names or ())[:4])
        raise InputError(
            f"to_shapiq takes one output: choose one first, {called}[:, :, output] ({names})."
        )
    shapiq = require("shapiq", "shapiq")
    N = len(result.values)
    exact = result.stats.get("exact_rows", np.full(N, result.exact))
    return [
        shapiq.InteractionValues(
            values=result.values[i].copy(),
            index=index,
            min_order=min(map(len, sets)),
            max_order=order,
            n_players=len(result.feature_names),
            interaction_lookup={S: m for m, S in enumerate(sets)},
            baseline_value=float(result.base_values[i]),
            estimated=not bool(exact[i]),
            estimation_budget=None if exact[i] else result.stats.get("budget"),
        )
        for i in range(N)
    ]


def wide(result: Result, axis: str, labels: Sequence[str]) -> Any:
    """A frame with a row for each instance; axis: "player" or "set", whose names labels are."""
    pandas = require("pandas", "xaijax[data]")
    each = output_of_each(result.stats, len(result.values))
    for name, taken in (("base_value", result.feature_names), ("output", labels if each else ())):
        if name in taken:
            raise InputError(
                f"to_dataframe: a player is called {name!r}, like a column of the table; use "
                "to_dataframe(long=True)."
            )
    labels = [*labels, "base_value"]
    table = np.concatenate([result.values, result.base_values[:, None]], axis=1)
    columns: Any = pandas.Index(labels, name=axis)
    if result.output_names is not None:
        table = table.transpose(0, 2, 1).reshape(len(table), -1)  # [N, K (P + 1)]
        columns = pandas.MultiIndex.from_product(
            [list(result.output_names), labels], names=["output", axis]
        )
    index = labels_of(result)
    if isinstance(index, np.ndarray):  # else that of the frame explained
        index = pandas.Index(index, name="instance")
    frame = pandas.DataFrame(table, index=index, columns=columns)
    if each:
        frame["output"] = np.array(each, dtype=object)
    return frame


def long_frame(result: Result, data: np.ndarray | None, **named_by: Any) -> Any:
    """A frame with a row for each instance, player or set, and output.

    data: [N, P], what was explained, or None. named_by: what each player or set is called, and
    other columns of them.
    """
    pandas = require("pandas", "xaijax[data]")
    N, P = result.values.shape[:2]
    outputs = result.output_names
    K = 1 if outputs is None else len(outputs)
    errors = result.std_errors
    if errors is None:
        errors = np.full(result.values.shape, 0.0 if result.exact else np.nan)
    columns: dict[str, Any] = {"instance": repeated_labels(result, P * K)}
    for name, names in named_by.items():
        columns[name] = np.tile(np.repeat(np.asarray(names), K), N)
    if outputs is not None:
        columns["output"] = np.tile(np.array(outputs, dtype=object), N * P)
    elif each := output_of_each(result.stats, N):
        columns["output"] = np.repeat(np.array(each, dtype=object), P)
    columns["value"] = result.values.reshape(-1)
    columns["std_error"] = errors.reshape(-1)
    base = result.base_values.reshape(N, 1, K)
    columns["base_value"] = np.broadcast_to(base, (N, P, K)).reshape(-1)
    if data is not None:
        columns["data"] = np.repeat(data.reshape(-1), K)
    return pandas.DataFrame(columns)
