"""Parquet files as the rows of a sweep: read by row groups, each task its own.

Letters: N rows.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.tables.made_frames import frame_of_arrow

ROWS = 1 << 16  # decoded at a time


def is_dataset(X: Any) -> bool:
    """Whether X is a Dataset of pyarrow; nothing is imported for the answer."""
    dataset = sys.modules.get("pyarrow.dataset")
    return dataset is not None and isinstance(X, dataset.Dataset)


def source_of(X: Any, kind: str, columns: Sequence[str] | None) -> ParquetRows:
    """The rows of a file, of all *.parquet of a folder (by name), or of a Dataset's files.

    kind: "array" or a library of frames, what a part is read as. columns: those that are wanted, in
    order; None: all.

    Raises ImportError without pyarrow; InputError, InputTypeError for what cannot be read.
    """
    parquet: Any = require("pyarrow.parquet", "xaijax[scale]")
    files, system = _files(X)
    sizes, names = [], None
    for path in files:
        with _opened(parquet, path, system) as file:
            groups = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            own = _columns(file, columns, path)
        if names is not None and own != names:
            raise InputError(f"X: {path} has the columns {own}, the first file has {names}.")
        names = own
        sizes.append(tuple(groups))
    return ParquetRows(tuple(files), tuple(sizes), tuple(names or ()), kind, system)


@dataclass(frozen=True)
class ParquetRows:
    """Files with the rows of each of their row groups; see `inputs.Source`."""

    files: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    columns: tuple[str, ...]
    kind: str
    system: Any = None  # of pyarrow.fs; None: the local one
    first: int = 0
    last: int | None = None

    @property
    def rows(self) -> int:
        """N, of all files."""
        return sum(map(sum, self.groups))

    def facts(self) -> dict[str, Any]:
        """With the digest of the files' bytes."""
        found = hashlib.sha256()
        for path in self.files:
            found.update(_digest(path, self.system))
        told = {"rows": self.rows, "kind": "parquet", "columns": list(self.columns)}
        return told | {"sha256": found.hexdigest()}

    def part(self, first: int, last: int) -> ParquetRows:
        """These rows, still to be read."""
        return replace(self, first=first, last=last)

    def read(self) -> Any:
        """The rows of this part: an array [n, F], or a frame."""
        arrow: Any = require("pyarrow", "xaijax[scale]")
        table = arrow.Table.from_batches(list(self._batches()))
        return _matrix(table) if self.kind == "array" else frame_of_arrow(self.kind, table)

    def _batches(self) -> Iterator[Any]:
        """Record batches of exactly these rows; of a row group no more is kept than they hold."""
        parquet: Any = require("pyarrow.parquet", "xaijax[scale]")
        last = self.rows if self.last is None else self.last
        start = 0
        for path, groups in zip(self.files, self.groups, strict=True):
            for group, size in enumerate(groups):
                if start < last and start + size > self.first:
                    with _opened(parquet, path, self.system) as file:
                        names = list(self.columns)
                        for batch in file.iter_batches(ROWS, [group], names, use_threads=False):
                            low, high = max(self.first - start, 0), min(last - start, len(batch))
                            if low < high:
                                yield batch.select(names).slice(low, high - low)
                            start += len(batch)
                            if start >= last:
                                break
                        else:
                            continue
                        return
                start += size


def _matrix(table: Any) -> np.ndarray:
    for field in table.schema:
        if not str(field.type).startswith(("int", "uint", "float", "double", "half", "bool")):
            raise InputTypeError(
                f"X: column {field.name!r} holds {field.type}, but the explainer's background is "
                "an array of numbers. Make the explainer of a frame with these columns."
            )
    return np.column_stack([column.to_numpy() for column in table.columns])


def _files(X: Any) -> tuple[list[str], Any]:
    if is_dataset(X):
        system = getattr(X, "filesystem", None)
        files: list[str] = list(getattr(X, "files", ()))
        if not files or X.format.default_extname != "parquet":
            raise InputTypeError(
                "X is a Dataset that is not made of Parquet files; give the files, or an array."
            )
        local = type(system).__name__ == "LocalFileSystem"
        return files, None if local else system
    path = Path(os.fspath(X)).absolute()
    if path.is_dir():
        files = sorted(str(one) for one in path.rglob("*.parquet"))
        if not files:
            raise InputError(f"X: the folder {path} holds no file *.parquet.")
        return files, None
    if not path.exists():
        raise FileNotFoundError(f"X: there is no file or folder {path}.")
    if path.suffix not in (".parquet", ".pq"):
        raise InputError(f"X: {path.name} is no .parquet or .npy file; read it first.")
    return [str(path)], None


def _opened(parquet: Any, path: str, system: Any) -> Any:
    if system is not None:
        return parquet.ParquetFile(system.open_input_file(path))
    try:
        return parquet.ParquetFile(path, memory_map=True)
    except (OSError, ValueError) as error:
        raise InputError(f"X: {path} is no Parquet file that can be read: {error}") from error


def _columns(file: Any, wanted: Sequence[str] | None, path: str) -> list[str]:
    schema = file.schema_arrow
    index = (schema.pandas_metadata or {}).get("index_columns", [])  # pandas keeps its index there
    there = [name for name in schema.names if name not in index]
    lost = [name for name in wanted or () if name not in there]
    if lost:
        raise InputError(
            f"X: {path} has no column {lost[0]!r}, which the explainer's background has; it has "
            f"{there}."
        )
    return there if wanted is None else list(wanted)


def _digest(path: str, system: Any) -> bytes:
    if system is None:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    found = hashlib.sha256()
    with system.open_input_stream(path) as stream:
        while block := stream.read(1 << 22):
            found.update(block)
    return found.digest()
