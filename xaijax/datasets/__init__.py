"""Real tables for tests, notebooks and bench. Needs the extra: `pip install "xaijax[data]"`.

A file is looked for in the folder that the environment variable `XAIJAX_DATA` names, then in the
user's cache, then at its public address; its SHA-256 is checked wherever it comes from.
"""

from xaijax.datasets._adult import adult as adult
from xaijax.datasets._errors import DataHashError as DataHashError
from xaijax.datasets._errors import DataNotFoundError as DataNotFoundError
from xaijax.datasets._errors import MissingExtraError as MissingExtraError
from xaijax.datasets._table import Table as Table
from xaijax.datasets._tables import arrests as arrests
from xaijax.datasets._tables import bike as bike
from xaijax.datasets._tables import cervical as cervical
from xaijax.datasets._tables import diabetes as diabetes
from xaijax.datasets._tables import titanic as titanic
from xaijax.datasets._tables import wine as wine

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
