"""An Explanation in the forms of other libraries: pandas, shap, shapiq."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.players.index import named, quoted
from xaijax.results.asked import output_of_each
from xaijax.results.player_data import as_numbers
from xaijax.results.shared_fields import labels_of, repeated_labels

if TYPE_CHECKING:
    from xaijax.results.explanation import Explanation


def to_dataframe(explained: Explanation, long: bool) -> Any:
    """See `Explanation.to_dataframe`."""
    pandas = require("pandas", "xaijax[data]")
    return _long(explained, pandas) if checks.yes_or_no(long, "long") else _wide(explained, pandas)


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
        # The only field of shap's that has a text for each instance and is sliced with them.
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
    if explained.values.ndim == 3:
        names = ", ".join(repr(name) for name in (explained.output_names or ())[:4])
        raise InputError(
            "to_shapiq: InteractionValues hold one output; choose one first, "
            f"explanation[:, :, output] (outputs: {names})."
        )
    index = named(explained.kind).shapiq
    if index is None:
        raise InputError(
            f"to_shapiq: got the index {explained.kind!r}; shapiq has "
            f"{' and '.join(quoted('shapiq'))}."
        )
    shapiq = require("shapiq", "shapiq")
    N, P = explained.values.shape
    exact_rows = explained.stats.get("exact_rows", np.full(N, explained.exact))
    budget = explained.stats.get("budget")
    lookup = {(j,): j for j in range(P)}
    return [
        shapiq.InteractionValues(
            values=explained.values[i].copy(),
            index=index,
            min_order=1,
            max_order=1,
            n_players=P,
            interaction_lookup=lookup,
            baseline_value=float(explained.base_values[i]),
            estimated=not bool(exact_rows[i]),
            estimation_budget=None if exact_rows[i] else budget,
        )
        for i in range(N)
    ]


def with_output(table: Any, own: Sequence[str]) -> Any:
    """A frame of one row for each instance, with the output of each as last column, where known."""
    if own:
        table["output"] = np.array(own, dtype=object)
    return table


def _wide(explained: Explanation, pandas: Any) -> Any:
    players = list(explained.feature_names)
    if "base_value" in players:
        raise InputError(
            "to_dataframe: a player is called 'base_value', like the column of base values; "
            "use to_dataframe(long=True)."
        )
    own = output_of_each(explained.stats, len(explained.values))
    if own and "output" in players:
        raise InputError(
            "to_dataframe: a player is called 'output', like the column of each instance's output; "
            "use to_dataframe(long=True)."
        )
    labels = [*players, "base_value"]
    table = np.concatenate([explained.values, explained.base_values[:, None]], axis=1)
    columns: Any = pandas.Index(labels, name="player")
    if explained.output_names is not None:
        table = table.transpose(0, 2, 1).reshape(len(table), -1)  # [N, K (P + 1)]
        columns = pandas.MultiIndex.from_product(
            [list(explained.output_names), labels], names=["output", "player"]
        )
    frame = pandas.DataFrame(table, index=index_of(explained, pandas), columns=columns)
    return with_output(frame, own)


def index_of(explained: Any, pandas: Any) -> Any:
    """The index of a frame with a row for each instance: that of the frame explained, if any."""
    labels = labels_of(explained)
    return pandas.Index(labels, name="instance") if isinstance(labels, np.ndarray) else labels


def _long(explained: Explanation, pandas: Any) -> Any:
    N, P = explained.values.shape[:2]
    outputs = explained.output_names
    K = 1 if outputs is None else len(outputs)
    errors = explained.std_errors
    if errors is None:
        errors = np.full(explained.values.shape, 0.0 if explained.exact else np.nan)
    columns: dict[str, Any] = {
        "instance": repeated_labels(explained, P * K),
        "player": np.tile(np.repeat(np.array(explained.feature_names, dtype=object), K), N),
    }
    if outputs is not None:
        columns["output"] = np.tile(np.array(outputs, dtype=object), N * P)
    elif own := output_of_each(explained.stats, N):
        columns["output"] = np.repeat(np.array(own, dtype=object), P)
    columns["value"] = explained.values.reshape(-1)
    columns["std_error"] = errors.reshape(-1)
    base = explained.base_values.reshape(N, 1, K)
    columns["base_value"] = np.broadcast_to(base, (N, P, K)).reshape(-1)
    table = _table(explained)
    if table is not None:
        columns["data"] = np.repeat(table.reshape(-1), K)
    return pandas.DataFrame(columns)


def _table(explained: Explanation) -> np.ndarray | None:
    """What was explained, player by player: [N, P] float64 if all are numbers, else objects."""
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
