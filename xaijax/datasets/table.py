"""`Table`: what every loader returns, and the reading of a checked file into a frame."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.datasets.fetch import Found, TableFile, find, optional

if TYPE_CHECKING:
    from pandas import DataFrame, Series


@public_class
@dataclass(frozen=True, eq=False)
class Table:
    """A data set, as `xaijax.datasets` returns it. It unpacks as `X, y = ...`.

    A file is looked for in the folder that the environment variable `XAIJAX_DATA` names, then in
    the user's cache, then at its public address. Its SHA-256 is checked wherever it comes from.

    Attributes:
        X: pandas frame of N rows, the columns in the order of the file unless a reading has
            another.
        y: pandas Series [N], the target.
        source: text: where the data come from, with the address.
        files: the files that the rows come from, in the order of the rows; each has `path` and
            `sha256`.
        path: the file read; of several the first.
        sha256: text: SHA-256 of the file read; of several their digests, joined by commas.

    Example:
        >>> import xaijax as xj
        >>> table = xj.datasets.titanic()  # doctest: +SKIP
        >>> table.X.shape, table.y.name, table.path.name  # doctest: +SKIP
        ((891, 11), 'Survived', 'titanic.csv')
    """

    X: DataFrame
    y: Series
    source: str
    files: tuple[Found, ...]

    def __iter__(self) -> Iterator[Any]:
        return iter((self.X, self.y))

    def __repr__(self) -> str:
        rows, columns = self.X.shape
        return f"Table({rows:,} rows, {columns} columns, y={self.y.name!r}, {self.source})"

    @property
    def path(self) -> Path:
        """The file read; of several the first."""
        return self.files[0].path

    @property
    def sha256(self) -> str:
        """SHA-256 of the file read; of several files their digests, joined by commas."""
        return ",".join(found.sha256 for found in self.files)


def read(file: TableFile, **options: Any) -> tuple[DataFrame, Found]:
    """Find a file and read it as comma-separated values; options go to `pandas.read_csv`."""
    pandas = optional("pandas")
    found = find(file)
    return pandas.read_csv(found.path, **options), found


def choose(parameter: str, value: str, accepted: tuple[str, ...]) -> str:
    """Return the value, or refuse one that is not among the accepted."""
    if not isinstance(value, str) or value not in accepted:
        raise InputError(f"{parameter}={value!r} is not one of {', '.join(map(repr, accepted))}")
    return value
