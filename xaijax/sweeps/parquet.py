"""Parquet files as the rows of a sweep, read by row groups; each task reads its own.

Letters: N rows.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.checks import count
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.optional import require
from xaijax.tables.arrow_columns import ArrowColumns, layout_of, missing_in

SUFFIXES = (".parquet", ".pq")
ROWS = 1 << 16  # decoded at a time
FixedColumns = tuple[tuple[str, Any], ...]  # columns of one value, and that value


def is_dataset(X: Any) -> bool:
    """Whether X is a Dataset of pyarrow; imports nothing."""
    dataset = sys.modules.get("pyarrow.dataset")
    return dataset is not None and isinstance(X, dataset.Dataset)


def source_of(X: Any, kind: str, columns: Sequence[str] | None, background: Any) -> ParquetRows:
    """The rows of a file, of files in order, of all *.parquet of a folder, or of a Dataset's files.

    kind: "array" or a library of frames, the form in which a part is read. columns: the requested
        ones, in order; None: all. background: rows of the explainer, for their dtypes.

    It raises ImportError without pyarrow; InputError or InputTypeError for what cannot be read.
    """
    parquet: Any = require("pyarrow.parquet", "xaijax[scale]")
    files = _files(X)
    sizes, names, missing = [], None, set[str]()
    types: dict[str, dict[Any, None]] = {}
    cast: dict[str, str] = {}
    for path, fixed in zip(files.paths, files.fixed, strict=True):
        with _opened(parquet, path, files.system) as file:
            groups = range(file.num_row_groups)
            sizes.append(tuple(file.metadata.row_group(g).num_rows for g in groups))
            labels = _columns(file, columns, path, files.schema, [name for name, _ in fixed])
            if names is not None and labels != names:
                raise InputError(f"X: {path} has the columns {labels}, the first file has {names}.")
            names = labels
            schema = file.schema_arrow if files.schema is None else files.schema
            now = {name: schema.field(name).type for name in labels}
            missing |= missing_in(file, {n: dtype for n, dtype in now.items() if n not in missing})
            missing |= {name for name, value in fixed if value is None}
            for name, dtype in now.items():
                types.setdefault(name, {})[dtype] = None
            if files.schema is not None:
                file_types = {field.name: field.type for field in file.schema_arrow}
                cast |= {n: str(t) for n, t in now.items() if file_types.get(n, t) != t}
    if not any(map(any, sizes)):
        raise InputError("X has 0 rows; at least 1 is needed.")
    names = names or []
    every = {name: list(seen) for name, seen in types.items()}
    folders = {name for fixed in files.fixed for name, _ in fixed}
    handed = layout_of(kind, names, every, missing, background, folders)
    if kind == "array":
        _refuse_width(names, background, files.paths[0])
    return ParquetRows(
        tuple(files.paths),
        tuple(sizes),
        tuple(names),
        handed,
        files.system,
        tuple(files.fixed),
        tuple(sorted(cast.items())),
    )


@dataclass(frozen=True)
class ParquetRows:
    """Files with the rows of each of their row groups; see `inputs.InputRows`."""

    files: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    columns: tuple[str, ...]
    handed: ArrowColumns  # the types of the columns
    system: Any = None  # of pyarrow.fs; None: the local one
    fixed: tuple[FixedColumns, ...] = ()  # of each file, the values that its folder names
    cast: FixedColumns = ()  # types that a Dataset gives to columns with other types in the files
    first: int = 0
    last: int | None = None

    @property
    def rows(self) -> int:
        """The number N of rows of all files."""
        return sum(map(sum, self.groups))

    def facts(self) -> dict[str, Any]:
        """The facts, with the digest of the files' bytes."""
        digest = hashlib.sha256()
        for path, fixed in zip(self.files, self.fixed, strict=True):
            digest.update(_digest(path, self.system))
            if fixed:
                digest.update(repr(fixed).encode())
        fields = {"rows": self.rows, "kind": "parquet", "columns": list(self.columns)}
        fields |= {"types": dict(self.cast)} if self.cast else {}
        return fields | {"sha256": digest.hexdigest()}

    def part(self, first: int, last: int) -> ParquetRows:
        """These rows, still to be read."""
        return replace(self, first=first, last=last)

    def place(self, row: int) -> int:
        """The position in X of one of these rows."""
        return self.first + row

    def read(self) -> Any:
        """The rows of this part: an array [n, F], or a frame."""
        arrow: Any = require("pyarrow", "xaijax[scale]")
        table = arrow.Table.from_batches(list(self._batches()), self.handed.schema)
        return self.handed.rows(table, self.first)

    def _batches(self) -> Iterator[Any]:
        """Record batches of exactly these rows; no more of a row group is kept than they hold."""
        parquet: Any = require("pyarrow.parquet", "xaijax[scale]")
        last = self.rows if self.last is None else self.last
        start = 0
        for path, groups, fixed in zip(self.files, self.groups, self.fixed, strict=True):
            names = [name for name in self.columns if name not in dict(fixed)]
            for group, size in enumerate(groups):
                if start < last and start + size > self.first:
                    with _opened(parquet, path, self.system) as file:
                        for batch in file.iter_batches(ROWS, [group], names, use_threads=False):
                            low, high = max(self.first - start, 0), min(last - start, len(batch))
                            if low < high:
                                yield self.handed.batch(batch.slice(low, high - low), fixed)
                            start += len(batch)
                            if start >= last:
                                break
                        else:
                            continue
                        return
                start += size


@dataclass(frozen=True)
class _Files:
    paths: list[str]
    fixed: list[FixedColumns]
    system: Any = None
    schema: Any = None  # of a Dataset, used to read its files


def _files(X: Any) -> _Files:
    if is_dataset(X):
        return _of_dataset(X)
    if isinstance(X, list | tuple):
        for name in X:
            if not isinstance(name, str | os.PathLike):
                raise InputTypeError(
                    "X: a list must hold names of Parquet files, or be rows of numbers; got "
                    f"{name!r:.60}."
                )
            if Path(name).suffix not in SUFFIXES:
                raise InputError(
                    f"X: {Path(name).name} is no .parquet file, as a list must name. Give a folder "
                    "alone, without a list."
                )
        every = [_files(name) for name in X]
        fixed = [pairs for files in every for pairs in files.fixed]
        return _Files([path for files in every for path in files.paths], fixed)
    path = Path(os.fspath(X)).absolute()
    if path.is_dir():
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise InputError(f"X: the folder {path} holds no file *.parquet.")
        if any("=" in part for file in files for part in file.relative_to(path).parts[:-1]):
            dataset: Any = require("pyarrow.dataset", "xaijax[scale]")
            every = [str(file) for file in files]
            hive = dataset.partitioning(flavor="hive")
            return _of_dataset(
                dataset.dataset(
                    every, format="parquet", partitioning=hive, partition_base_dir=str(path)
                )
            )
        return _Files([str(file) for file in files], [()] * len(files))
    if not path.exists() and path.suffix in ("", *SUFFIXES):
        raise FileNotFoundError(f"X: there is no file or folder {path}.")
    if path.suffix not in SUFFIXES:
        raise InputError(
            f"X: {path.name} is no .parquet or .npy file. Give a .parquet (.pq) or .npy file, a "
            "folder or list of .parquet files, or the array or frame itself."
        )
    return _Files([str(path)], [()])


def _of_dataset(X: Any) -> _Files:
    """The files of a Dataset; its other settings are applied, or raise an error."""
    dataset: Any = require("pyarrow.dataset", "xaijax[scale]")
    files: list[str] = list(getattr(X, "files", ()))
    if not files or X.format.default_extname != "parquet":
        raise InputTypeError("X is a Dataset that is not made of Parquet files; give the files.")
    fragments = [] if getattr(X, "_scan_options", None) else list(X.get_fragments())
    whole = all(part.num_row_groups == part.metadata.num_row_groups for part in fragments)
    if not whole or [fragment.path for fragment in fragments] != files:
        raise InputError(
            "X is a Dataset with a filter, or of some row groups of its files. Write its rows to "
            "files (pyarrow.dataset.write_dataset) and give these."
        )
    keys = (dataset.get_partition_keys(fragment.partition_expression) for fragment in fragments)
    fixed = [tuple(values.items()) for values in keys]
    local = type(X.filesystem).__name__ == "LocalFileSystem"
    return _Files(files, fixed, None if local else X.filesystem, X.schema)


def _opened(parquet: Any, path: str, system: Any) -> Any:
    if system is not None:
        return parquet.ParquetFile(system.open_input_file(path))
    try:
        return parquet.ParquetFile(path, memory_map=True)
    except (OSError, ValueError) as error:
        raise InputError(f"X: {path} is no Parquet file that can be read: {error}") from error


def _columns(
    file: Any, wanted: Sequence[str] | None, path: str, full: Any, fixed: Sequence[str]
) -> list[str]:
    """Names of the columns to read; full: a Dataset's schema; fixed: those of the folder."""
    schema = file.schema_arrow
    index = (schema.pandas_metadata or {}).get("index_columns", [])  # pandas keeps its index there
    there = [name for name in schema.names if name not in index]
    twice = sorted(name for name, times in Counter(there).items() if times > 1)
    if twice:
        raise InputError(f"X: {path} has several columns {twice[0]!r}. Rename them.")
    there += [name for name in fixed if name not in there]
    if full is not None and wanted is not None:
        there = [name for name in there if name in full.names]
    whose = "explainer's background"
    if wanted is None and full is not None:
        wanted, whose = [name for name in full.names if name not in index], "Dataset's schema"
    lost = [name for name in wanted or () if name not in there]
    if lost:
        raise InputError(
            f"X: {path} has no column {lost[0]!r}, which the {whose} has; it has {there}."
        )
    return there if wanted is None else list(wanted)


def _refuse_width(names: Sequence[str], background: Any, path: str) -> None:
    """Raises InputError if the number of columns differs from an array [B, F] or [F]."""
    wide = getattr(background, "shape", None) or np.shape(background)
    if len(wide) in (1, 2) and wide[-1] != len(names):
        raise InputError(
            f"X: {path} has {count(len(names), 'column')}, {list(names)}, but the background "
            f"has {wide[-1]}. Leave the others out, or make the explainer of a frame."
        )


def _digest(path: str, system: Any) -> bytes:
    if system is None:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    digest = hashlib.sha256()
    with system.open_input_stream(path) as stream:
        while block := stream.read(1 << 22):
            digest.update(block)
    return digest.digest()
