"""Makes players from a fitted ColumnTransformer: columns grouped by their source column."""

from __future__ import annotations

from typing import Any

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.models.identity.patched import is_own


@public
def players_of(column_transformer: Any) -> dict[str, list[int]]:
    """Returns one player for each source column of a fitted ColumnTransformer.

    A model of encoded rows has several columns for one source column, for example one per category.
    This returns the groups, for `players=`: `Explainer(model, encoded,
    players=players_of(transformer))`.

    Args:
        column_transformer: a fitted `sklearn.compose.ColumnTransformer`. Its transformers must make
            outputs that belong to one column each: scalers, imputers and ordinal encoders (one
            output per column), OneHotEncoder, "passthrough", and Pipelines of these. A transformer
            with as many outputs as inputs is assumed to keep columns apart, except PCA and
            TruncatedSVD, which are refused. Do not use other transformers that mix columns. Dropped
            columns are left out.

    Returns:
        dict {name of the source column: [indices of its output columns]}. Source columns without
        names are called "x0", "x1", ...

    Raises:
        InputError: outputs cannot be assigned to source columns, or a column is used twice.
        InputTypeError: not a fitted ColumnTransformer.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> from sklearn.compose import make_column_transformer
        >>> from sklearn.preprocessing import OneHotEncoder, StandardScaler
        >>> rows = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 2.0]])
        >>> encoder = make_column_transformer((StandardScaler(), [0]), (OneHotEncoder(), [1]))
        >>> xj.players_of(encoder.fit(rows))
        {'x0': [0], 'x1': [1, 2, 3]}
    """
    slices = getattr(column_transformer, "output_indices_", None)
    if slices is None or not is_own(column_transformer, "ColumnTransformer"):
        raise InputTypeError(
            "column_transformer must be a fitted sklearn ColumnTransformer, got "
            f"{type(column_transformer).__name__}. Fit it first."
        )
    names = getattr(column_transformer, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(column_transformer.n_features_in_)]
    players: dict[str, list[int]] = {}
    for key, transformer, columns in column_transformer.transformers_:
        place = slices.get(key)
        if place is None or place.start == place.stop or transformer == "drop":
            continue
        sources = _sources(columns, list(names))
        counts = _outputs_per_column(transformer, len(sources), place.stop - place.start, key)
        first = place.start
        for source, count in zip(sources, counts, strict=True):
            if source in players:
                raise InputError(
                    f"column_transformer uses {source!r} twice; say players={{name: [columns]}}."
                )
            players[source] = list(range(first, first + count))
            first += count
    return players


def _sources(columns: Any, names: list[Any]) -> list[str]:
    if isinstance(columns, slice):
        return [str(n) for n in names[columns]]
    if isinstance(columns, str | int):
        columns = [columns]
    if len(columns) == len(names) and all(type(c).__name__ in ("bool", "bool_") for c in columns):
        return [str(n) for n, chosen in zip(names, columns, strict=True) if chosen]
    return [str(c) if isinstance(c, str) else str(names[int(c)]) for c in columns]


def _outputs_per_column(transformer: Any, inputs: int, outputs: int, key: str) -> list[int]:
    is_chain = is_own(transformer, "Pipeline")
    parts = [step for _, step in transformer.steps] if is_chain else [transformer]
    for part in parts:
        if is_own(part, "OneHotEncoder"):
            counts = _one_hot(part)
            if len(counts) == inputs and sum(counts) == outputs:
                return counts
    if inputs == outputs and not any(is_own(part, "PCA", "TruncatedSVD") for part in parts):
        return [1] * inputs
    raise InputError(
        f"column_transformer: the {outputs} outputs of {key!r} cannot be told apart by its "
        f"{inputs} columns. Name the groups yourself with players={{name: [columns]}}."
    )


def _one_hot(encoder: Any) -> list[int]:
    infrequent = getattr(encoder, "infrequent_categories_", None)
    counts = []
    for j, categories in enumerate(encoder.categories_):
        rare = None if infrequent is None else infrequent[j]
        dropped = encoder.drop_idx_ is not None and encoder.drop_idx_[j] is not None
        counts.append(len(categories) - (0 if rare is None else len(rare) - 1) - int(dropped))
    return counts
