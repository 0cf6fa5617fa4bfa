"""A run as one Parquet file or one zarr group, written part by part.

Letters: N rows, P players, K outputs.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import as_path
from xaijax.results.rules import Rules

RULE_COLUMNS = ("prediction", "precision", "precision_lower", "coverage", "accepted", "samples")


class Finished(Protocol):
    """A complete run, as this file reads it."""

    @property
    def rows(self) -> int: ...
    @property
    def rows_per_part(self) -> int: ...
    @property
    def manifest(self) -> dict[str, Any]: ...
    def read(self) -> Iterator[tuple[int, Explanation | Rules]]: ...


def to_parquet(run: Finished, path: Any) -> Path:
    """See `Run.to_parquet`."""
    arrow: Any = require("pyarrow", "xaijax[scale]")
    parquet: Any = require("pyarrow.parquet", "xaijax[scale]")
    target = as_path(path)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    writer, sampled = None, _sampled(run)
    try:
        for first, found in run.read():
            columns = columns_of(found, first, sampled)
            if writer is None:
                told = {b"xaijax": json.dumps(told_of(run, found)).encode()}
                schema = arrow.table(columns).schema.with_metadata(told)
                writer = parquet.ParquetWriter(temporary, schema)
            writer.write_table(arrow.table(columns, writer.schema))
        if writer is not None:
            writer.close()
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


def to_zarr(run: Finished, path: Any) -> Path:
    """See `Run.to_zarr`."""
    zarr: Any = require("zarr", "xaijax[scale]")
    target = as_path(path)
    making = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    sampled, group, arrays = _sampled(run), None, {}
    try:
        for first, found in run.read():
            assert isinstance(found, Explanation)
            fields = {"values": found.values, "base_values": found.base_values}
            if sampled:
                fields["std_errors"] = errors_of(found)
            if group is None:
                group = zarr.open_group(str(making), mode="w", attributes=told_of(run, found))
                for name, one in fields.items():
                    arrays[name] = group.create_array(
                        name,
                        shape=(run.rows, *one.shape[1:]),
                        chunks=(run.rows_per_part, *one.shape[1:]),
                        dtype="float64",
                    )
            for name, one in fields.items():
                arrays[name][first : first + len(one)] = one
        if target.exists():
            shutil.rmtree(target)
        os.replace(making, target)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return target


def told_of(run: Finished, found: Explanation | Rules) -> dict[str, Any]:
    """What a table says of itself: the question, names, and what values mean."""
    told: dict[str, Any] = {"format": "xaijax.Run", "question": run.manifest["question"]}
    told["feature_names"] = list(found.feature_names)
    if isinstance(found, Explanation):
        told |= {"output_names": found.output_names, "kind": found.kind}
    return json.loads(json.dumps(told, default=str))


def columns_of(found: Explanation | Rules, first: int, errors: bool) -> dict[str, Any]:
    """The columns of a part; first: the place of its first row. errors: with standard errors."""
    columns: dict[str, Any] = {"row": np.arange(first, first + len(found))}
    if isinstance(found, Rules):
        columns["rule"] = [" AND ".join(one.rule) or "TRUE" for one in found.rules]
        told = [one.as_dict() for one in found.rules]
        for name in RULE_COLUMNS:
            columns[name] = [one[name] for one in told]
        columns["prediction"] = [str(one) for one in columns["prediction"]]
        columns["precision_lower"] = _numbers(columns["precision_lower"])
        columns["coverage"] = _numbers(columns["coverage"])
        return columns
    named = [("phi", found.values)]
    if errors:
        named.append(("se", errors_of(found)))
    ends = [""] if found.output_names is None else [f"_{one}" for one in found.output_names]
    base = found.base_values.reshape(len(found), -1)
    columns |= {f"base_value{end}": base[:, k] for k, end in enumerate(ends)}
    for word, array in named:
        array = array.reshape(*array.shape[:2], -1)
        for j, name in enumerate(found.feature_names):
            for k, end in enumerate(ends):
                label = f"{word}_{name}{end}"
                if label in columns:
                    raise InputError(f"two columns of the table would be called {label!r}.")
                columns[label] = np.ascontiguousarray(array[:, j, k])
    return columns


def errors_of(found: Explanation) -> np.ndarray:
    """Standard errors; 0 of exact values, NaN where none is known."""
    if found.std_errors is None:
        return np.full(found.shape, 0.0 if found.exact else np.nan)
    return found.std_errors


def _sampled(run: Finished) -> bool:
    return any(isinstance(one, Explanation) and one.std_errors is not None for _, one in run.read())


def _numbers(values: list[float | None]) -> np.ndarray:
    return np.array([np.nan if one is None else one for one in values], np.float64)
