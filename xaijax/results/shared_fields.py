"""What results of N instances have in common, whatever their values are of: players or sets.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.results.freeze import check_shape, floats, names, read_only
from xaijax.results.player_data import frozen_rows
from xaijax.results.selection import resolve, take


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
    if features is None or len(features) == 0:
        features = tuple(f"player {j}" for j in range(P))
    outputs = one.output_names
    if K is not None and outputs is None:
        outputs = tuple(f"output {k}" for k in range(K))
    present = one.present
    if present is not None:
        present = read_only(np.asarray(present, bool))
        check_shape("present", present.shape, (N, P))
    return {
        "values": values,
        "base_values": base_values,
        "std_errors": std_errors,
        "data": None if one.data is None else frozen_rows(one.data, N),
        "feature_names": names("feature_names", features, P, unique=True),
        "output_names": names("output_names", outputs, K, unique=True),
        "instance_names": None
        if one.instance_names is None
        else names("instance_names", one.instance_names, N, unique=False),
        "exact": bool(one.exact),
        "stats": MappingProxyType({key: read_only(value) for key, value in one.stats.items()}),
        "provenance": MappingProxyType(dict(one.provenance)),
        "present": present,
    }


def select_output(
    key: Any, output_names: tuple[str, ...], changes: dict[str, Any], provenance: dict[str, Any]
) -> None:
    """Cut the arrays of `changes` to the outputs that a key means. A single one drops their last
    axis, and its name goes into the provenance.
    """
    outputs, single = resolve(key, len(output_names), output_names, "output")
    chosen: Any = outputs if single is None else single
    for name in ("values", "base_values", "std_errors"):
        if changes[name] is not None:
            changes[name] = changes[name][..., chosen]
    kept = take(output_names, outputs)
    if not kept:
        raise InputError(f"output key {key!r} selects no output.")
    changes["output_names"] = kept if single is None else None
    if single is not None:
        provenance["selected_output"] = kept[0]
