"""What results of N instances have in common, whatever their values are of: players or sets.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from xaijax.core.checks import as_array, listed, yes_or_no
from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.freeze import (
    check_shape,
    facts,
    floats,
    names,
    not_negative,
    per_instance,
    read_only,
)
from xaijax.results.player_data import frozen_rows, take_rows
from xaijax.results.selection import Selection, resolve, take
from xaijax.tables.plain_frames import is_index
from xaijax.tables.rows import joined_index, labels_of_rows, rows_of

# Arrays [N, ...] of `stats` with an axis of players, and those whose last axis may be of outputs.
PER_PLAYER = frozenset({"pool_std_errors"})
PER_OUTPUT = frozenset({"completeness", "quantity", "pool_std_errors"})


def shared_fields(one: Any, values: np.ndarray, features: Any, P: int) -> dict[str, Any]:
    """The fields that results of values [N, ...] or [N, ..., K] have in common, checked and frozen.

    one: the result as it was given; features: the names of its P players, None: "player 0", ...
    """
    N, K = len(values), values.shape[2] if values.ndim == 3 else None
    base_values = floats("base_values", one.base_values)
    check_shape("base_values", base_values.shape, (N,) if K is None else (N, K))
    std_errors = one.std_errors
    if std_errors is not None:
        std_errors = floats("std_errors", std_errors)
        check_shape("std_errors", std_errors.shape, values.shape)
        not_negative("std_errors", std_errors, "a standard error")
    features = [] if features is None else listed(features, "feature_names")
    if not features:
        features = tuple(f"player {j}" for j in range(P))
    outputs = one.output_names
    if K is not None and outputs is None:
        outputs = tuple(f"output {k}" for k in range(K))
    exact, stats, present = one.exact, facts("stats", one.stats), one.present
    if present is not None:
        present = read_only(as_array(present, "present", ""))
        if present.dtype.kind != "b":
            raise InputTypeError(f"present: got dtype {present.dtype}; a bool mask is needed.")
        check_shape("present", present.shape, (N, P))
    index, labels = checked_labels(one.instance_index, one.instance_names, N)
    return {
        "values": values,
        "base_values": base_values,
        "std_errors": std_errors,
        "data": None if one.data is None else frozen_rows(one.data, N),
        "feature_names": names("feature_names", features, P, unique=True),
        "output_names": names("output_names", outputs, K, unique=True),
        "instance_names": labels,
        "instance_index": index,
        "exact": yes_or_no(bool(exact) if isinstance(exact, np.bool_) else exact, "exact"),
        "stats": MappingProxyType({key: read_only(value) for key, value in stats.items()}),
        "provenance": MappingProxyType(dict(facts("provenance", one.provenance))),
        "present": present,
    }


def checked_labels(index: Any, given: Any, N: int) -> tuple[Any, tuple[str, ...] | None]:
    """(the index, the names) of N instances as they were given; names of another origin than the
    index take its place.
    """
    if index is not None:
        if not is_index(index):
            raise InputTypeError(
                f"instance_index: got {type(index).__name__}; an index of pandas is needed. Say "
                "instance_names= for texts."
            )
        check_shape("instance_index", (len(index),), (N,))
        index = labels_of_rows(index)
    own = None if index is None else texts_of(index)
    if given is None:
        return index, own
    found = names("instance_names", given, N, unique=False)
    return index if found == own else None, found


def texts_of(index: Any) -> tuple[str, ...]:
    """The labels of a pandas Index as texts; those of several levels joined."""
    if index.nlevels == 1:
        return tuple(map(str, index))
    return tuple(", ".join(map(str, label)) for label in index)


def labels_of(one: Any) -> Any:
    """Labels of the N instances for a frame: their index, names or positions."""
    if one.instance_index is not None:
        return one.instance_index
    if one.instance_names is not None:
        return np.array(one.instance_names, dtype=object)
    return np.arange(len(one))


def repeated_labels(one: Any, times: int) -> Any:
    """The same labels as a column, each repeated `times` times."""
    labels = labels_of(one)
    return np.repeat(labels, times) if isinstance(labels, np.ndarray) else _column(labels, times)


def _column(index: Any, times: int) -> Any:
    return (index if index.nlevels == 1 else index.to_flat_index()).repeat(times)


def joined_labels(parts: Sequence[Any]) -> tuple[Any, tuple[str, ...] | None]:
    """(the index, the names) of the instances of all parts. Instances of a part without names have
    their places in that part, as the rows of a frame with a default index do.
    """
    if all(part.instance_names is None for part in parts):
        return None, None
    every, known, texts = [], True, []
    for part in parts:
        places = range(len(part))
        known &= part.instance_index is not None or part.instance_names is None
        texts += map(str, places) if part.instance_names is None else part.instance_names
        every.append(places if part.instance_index is None else part.instance_index)
    if not known:
        return None, tuple(texts)
    index = joined_index(every)
    return index, None if index is None else texts_of(index)


def index_of_rows(one: Any, rows: Selection) -> Any:
    """The index of some rows of a result. Rows of a frame with a default index keep their labels
    in that frame, so that a join finds them.
    """
    if one.instance_index is not None:
        return one.instance_index[rows]
    if one.instance_names is not None or one.data is None:
        return None
    return rows_of(take_rows(one.data, rows)).index


def stats_of_rows(
    stats: Mapping[str, Any], N: int, rows: Selection, players: Selection | None = None
) -> dict[str, Any]:
    """The stats of some of N instances: of what has an entry for each player, of some players.

    players: None where the values are not of players.
    """
    taken = {name: one[rows] if per_instance(one, N) else one for name, one in stats.items()}
    for name in PER_PLAYER & taken.keys() if players is not None else ():
        taken[name] = taken[name][:, players]
    return taken


def select_output(
    key: Any, output_names: tuple[str, ...], changes: dict[str, Any], provenance: dict[str, Any]
) -> None:
    """Cut the arrays of `changes`, those of its stats too, to the outputs that a key means.

    A single one drops their last axis, and its name goes into the provenance.
    """
    outputs, single = resolve(key, len(output_names), output_names, "output")
    chosen: Any = outputs if single is None else single
    for name in ("values", "base_values", "std_errors"):
        if changes[name] is not None:
            changes[name] = changes[name][..., chosen]
    for name in PER_OUTPUT & changes["stats"].keys():
        array = changes["stats"][name]
        if isinstance(array, np.ndarray) and array.shape[-1:] == (len(output_names),):
            if array.ndim > 1:
                changes["stats"][name] = array[..., chosen]
    kept = take(output_names, outputs)
    if not kept:
        raise InputError(f"output key {key!r} selects no output.")
    changes["output_names"] = kept if single is None else None
    if single is not None:
        provenance["selected_output"] = kept[0]
