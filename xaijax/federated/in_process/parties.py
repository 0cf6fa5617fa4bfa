"""Parties of a vertically split table: the host's columns one by one, each guest's together.

Letters: N instances, F columns, P players, m guests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.players.players import column_finder
from xaijax.tables.rows import rows_of

HOST = "host"  # the party that explains, in what compares parties


@dataclass(frozen=True)
class Parties:
    """The owner of each column."""

    labels: tuple[str, ...]  # [F]
    host: tuple[int, ...]  # columns, in order
    guests: Mapping[str, tuple[int, ...]]  # [m]

    def players(self) -> dict[str, list[str]]:
        """The host's columns in order, then one player per guest, as `players=` takes them.

        The guests that own no column are left out, see `idle`.
        """
        alone = {self.labels[c]: [self.labels[c]] for c in self.host}
        shared = {name: columns for name, columns in self.guests.items() if columns}
        return alone | {name: [self.labels[c] for c in columns] for name, columns in shared.items()}

    @property
    def idle(self) -> dict[int, str]:
        """The guests that own no column, by their place among all players."""
        H = len(self.host)
        return {H + g: name for g, (name, columns) in enumerate(self.guests.items()) if not columns}

    def columns_of_host_data(self) -> tuple[tuple[int, ...], ...]:
        """The columns of `host_data` of each player: a guest has none there."""
        return tuple((j,) for j in range(len(self.host))) + ((),) * len(self.guests)

    def host_data(self, X: Any) -> Any:
        """The host's columns of rows X [N, F], an array or a frame; None if it has none."""
        if not self.host:
            return None
        return without(X, [c for columns in self.guests.values() for c in columns])

    def united_less_single(self, united: np.ndarray, single: np.ndarray) -> np.ndarray:
        """Values [N, P] of the guests minus the sum over their columns in `single` [N, F]; [N, m].

        Both may have an axis of outputs at the end.
        """
        out = united[:, len(self.host) :].copy()
        for g, columns in enumerate(self.guests.values()):
            out[:, g] -= single[:, list(columns)].sum(axis=1)
        return out


def parties_of(guests: Any, labels: Sequence[str], remote: bool = True) -> Parties:
    """Reads the `guests=` argument, {"name": [columns]}, for a table with these columns.

    remote: guests are asked over the wire, where each party needs a column to answer with; else
    one without columns is a player whose value is 0.

    Raises InputError for columns that are unknown or named twice, a guest that bears the name of a
    host's column, and a party without columns that is remote; InputTypeError otherwise.
    """
    checks.instance(guests, "guests", Mapping, 'a dict {"name": [columns]}')
    owner: dict[int, str] = {}
    columns_of: dict[str, tuple[int, ...]] = {}
    find = column_finder(labels, "guests")
    for name, columns in guests.items():
        if not isinstance(name, str):
            raise InputTypeError(f"guests: names must be text, got {name!r}.")
        if name in ("", HOST):
            raise InputError(f"guests: {name!r} cannot be a guest's name; choose another.")
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            raise InputTypeError(
                f"guests: {name!r} needs a list of columns, got {columns!r}. Say [{columns!r}]."
            )
        places = [find(c) for c in columns]
        if not places and remote:
            raise InputError(
                f"guests: {name!r} has no columns for an answer over the wire. Leave it out: its "
                "value is 0."
            )
        for c in places:
            if c in owner:
                whose = "twice" if owner[c] == name else f"by {owner[c]!r} and by {name!r}"
                raise InputError(f"guests: column {labels[c]!r} is named {whose}: one owner each.")
            owner[c] = name
        columns_of[name] = tuple(places)
    host = tuple(c for c in range(len(labels)) if c not in owner)
    if not host and remote:
        raise InputError(f"guests own all {len(labels)} columns; over the wire a host needs one.")
    taken = [name for name in columns_of if name in {labels[c] for c in host}]
    if taken:
        raise InputError(f"guests: {taken[0]!r} is the name of a column of the host; rename it.")
    return Parties(tuple(labels), host, columns_of)


def without(X: Any, columns: Sequence[int]) -> Any:
    """Rows X [N, F], an array or a frame, less some of its columns."""
    left = [c for c in range(rows_of(X).width) if c not in set(columns)]
    return rows_of(X).columns_at(left)
