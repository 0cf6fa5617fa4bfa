"""Converts an Explanation for other libraries: pandas, shap, shapiq."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.players.index import named, quoted
from xaijax.results.asked import output_of_each
from xaijax.results.shared_fields import as_numbers, labels_of, repeated_labels

if TYPE_CHECKING:
    from xaijax.results.explanation import Explanation
    from xaijax.results.interactions import Interactions

    Result = Explanation | Interactions


def to_dataframe(explained: Explanation, long: bool) -> Any:
    """See `Explanation.to_dataframe`."""
    if not checks.yes_or_no(long, "long"):
        return wide(explained, "player", explained.feature_names)
    names = np.array(explained.feature_names, dtype=object)
    return long_frame(explained, _table(explained), player=names)


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


def to_shap(explained: Explanation) -> Any:
    """See `Explanation.to_shap`."""
    shap = require("shap", "shap")
    outputs = explained.output_names
    own = output_of_each(explained.stats, len(explained.values))
    return shap.Explanation(
        values=explained.values.copy(),  # shap's own methods write into their arrays
        base_values=explained.base_values.copy(),
        data=_table(explained),
        feature_names=list(explained.feature_names),
        output_names=None if outputs is None else list(outputs),
        # The only field of shap that has a text for each instance and is sliced with them.
        instance_names=[
            f"output {output}" if explained.instance_names is None else f"{name}, output {output}"
            for name, output in zip(explained.instance_names or own, own, strict=True)
        ]
        if own
        else None,
        error_std=None if explained.std_errors is None else explained.std_errors.copy(),
    )


def to_shapiq(explained: Explanation) -> list[Any]:
    """See `Explanation.to_shapiq`."""
    index = named(explained.kind).shapiq
    if index is None:
        raise InputError(
            f"to_shapiq: got the index {explained.kind!r}; shapiq has "
            f"{' and '.join(quoted('shapiq'))}."
        )
    sets = [(j,) for j in range(len(explained.feature_names))]
    return values_of_shapiq(explained, "explanation", index, sets, 1)


def values_of_shapiq(
    found: Result, called: str, index: str, sets: Sequence[tuple[int, ...]], order: int
) -> list[Any]:
    """One `shapiq.InteractionValues` for each instance; called: of one output, for the error."""
    if found.values.ndim == 3:
        names = ", ".join(repr(name) for name in (found.output_names or ())[:4])
        raise InputError(
            "to_shapiq: InteractionValues hold one output; choose one first, "
            f"{called}[:, :, output] (outputs: {names})."
        )
    shapiq = require("shapiq", "shapiq")
    N = len(found.values)
    exact = found.stats.get("exact_rows", np.full(N, found.exact))
    return [
        shapiq.InteractionValues(
            values=found.values[i].copy(),
            index=index,
            min_order=min(map(len, sets)),
            max_order=order,
            n_players=len(found.feature_names),
            interaction_lookup={S: m for m, S in enumerate(sets)},
            baseline_value=float(found.base_values[i]),
            estimated=not bool(exact[i]),
            estimation_budget=None if exact[i] else found.stats.get("budget"),
        )
        for i in range(N)
    ]


def wide(found: Result, axis: str, labels: Sequence[str]) -> Any:
    """A frame with a row for each instance; axis: "player" or "set", whose names labels are."""
    pandas = require("pandas", "xaijax[data]")
    own = output_of_each(found.stats, len(found.values))
    for name, of, taken in (
        ("base_value", "base values", found.feature_names),
        ("output", "each instance's output", labels if own else ()),
    ):
        if name in taken:
            raise InputError(
                f"to_dataframe: a player is called {name!r}, like the column of {of}; "
                "use to_dataframe(long=True)."
            )
    labels = [*labels, "base_value"]
    table = np.concatenate([found.values, found.base_values[:, None]], axis=1)
    columns: Any = pandas.Index(labels, name=axis)
    if found.output_names is not None:
        table = table.transpose(0, 2, 1).reshape(len(table), -1)  # [N, K (P + 1)]
        columns = pandas.MultiIndex.from_product(
            [list(found.output_names), labels], names=["output", axis]
        )
    index = labels_of(found)
    if isinstance(index, np.ndarray):  # else that of the frame explained
        index = pandas.Index(index, name="instance")
    frame = pandas.DataFrame(table, index=index, columns=columns)
    if own:
        frame["output"] = np.array(own, dtype=object)
    return frame


def long_frame(found: Result, data: np.ndarray | None, **named_by: Any) -> Any:
    """A frame with a row for each instance, player or set, and output.

    data: [N, P], what was explained, or None. named_by: what each player or set is called, and
    other columns of them.
    """
    pandas = require("pandas", "xaijax[data]")
    N, P = found.values.shape[:2]
    outputs = found.output_names
    K = 1 if outputs is None else len(outputs)
    errors = found.std_errors
    if errors is None:
        errors = np.full(found.values.shape, 0.0 if found.exact else np.nan)
    columns: dict[str, Any] = {"instance": repeated_labels(found, P * K)}
    for name, one in named_by.items():
        columns[name] = np.tile(np.repeat(np.asarray(one), K), N)
    if outputs is not None:
        columns["output"] = np.tile(np.array(outputs, dtype=object), N * P)
    elif own := output_of_each(found.stats, N):
        columns["output"] = np.repeat(np.array(own, dtype=object), P)
    columns["value"] = found.values.reshape(-1)
    columns["std_error"] = errors.reshape(-1)
    base = found.base_values.reshape(N, 1, K)
    columns["base_value"] = np.broadcast_to(base, (N, P, K)).reshape(-1)
    if data is not None:
        columns["data"] = np.repeat(data.reshape(-1), K)
    return pandas.DataFrame(columns)


def _table(explained: Explanation) -> np.ndarray | None:
    """The explained data, player by player: [N, P] float64 if all are numbers, else objects."""
    parts = explained.player_data()
    if all(part is None for part in parts):
        return None
    numbers = [None if part is None else as_numbers(part) for part in parts]
    plain = all(n is not None for n, p in zip(numbers, parts, strict=True) if p is not None)
    N, P = explained.values.shape[:2]
    table = np.full((N, P), np.nan if plain else None, dtype=np.float64 if plain else object)
    for j, part in enumerate(numbers if plain else parts):
        if part is not None:
            table[:, j] = part
    return table
