"""Loads real tables for tests, notebooks and bench. It needs the extra: `pip install
"xaijax[data]"`.

A file is searched in the folder that the environment variable `XAIJAX_DATA` names, then in the
user's cache, then at its public address; its SHA-256 is checked in each case.

Reading order:

    tables   a loader for each data set, of the files that tables.toml lists
    fetch    `Table`, and its file: found, downloaded, and checked by its SHA-256
"""

from xaijax.datasets.fetch import DataHashError, DataNotFoundError, MissingExtraError, Table
from xaijax.datasets.tables import adult, arrests, bike, cervical, diabetes, titanic, wine

__all__ = [
    "DataHashError",
    "DataNotFoundError",
    "MissingExtraError",
    "Table",
    "adult",
    "arrests",
    "bike",
    "cervical",
    "diabetes",
    "titanic",
    "wine",
]
