"""Players: which columns belong to each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError

NAMED = 3  # entries that a player's name lists
_of_some: ContextVar[bool] = ContextVar("of_some", default=False)


@contextmanager
def of_some_rows() -> Iterator[None]:
    """Records that the current rows are a subset of the user's, so that their number is
    meaningless."""
    token = _of_some.set(True)
    try:
        yield
    finally:
        _of_some.reset(token)


@dataclass(frozen=True)
class Players:
    """P players over F columns (the flattened instance)."""

    of_column: np.ndarray  # int64 [F], the player of each column; -1: none, never replaced
    names: tuple[str, ...]  # [P]
    unclear: tuple[int, ...] | None = None  # shape [C, H, W] that could also number C instances

    @cached_property
    def count(self) -> int:
        """P."""
        return len(self.names)

    def refuse_others(self, N: int) -> None:
        """Raises InputError if a numbering for all rows could also be one per row for N rows."""
        if self.unclear is not None and N == self.unclear[0] and not _of_some.get():
            raise InputError(
                f"players has shape {self.unclear}: one number for each entry of a row, or "
                f"{list(self.unclear[1:])} for each of the {N} rows of X. Say for all rows "
                f"np.broadcast_to(players, {(N, *self.unclear)}), for each row its own "
                f"np.broadcast_to(players[:, None], {(N, *self.unclear)})."
            )

    @cached_property
    def single(self) -> bool:
        """Whether player j is column j."""
        P = self.count
        return P == len(self.of_column) and bool((self.of_column == np.arange(P)).all())

    @cached_property
    def all_columns(self) -> tuple[tuple[int, ...], ...]:
        """Column indices of every player."""
        return tuple(tuple(c.tolist()) for c in _columns_of_each(self.of_column, self.count))

    def columns(self, player: int) -> np.ndarray:
        """Column indices of one player."""
        return np.flatnonzero(self.of_column == player)


@dataclass(frozen=True)
class PerInstancePlayers:
    """P players with different entries in each instance, or none."""

    of_entry: np.ndarray  # int64 [N, F], the player of each entry; -1: never replaced
    names: tuple[str, ...]  # [P]

    @cached_property
    def count(self) -> int:
        """P."""
        return len(self.names)

    @cached_property
    def present(self) -> np.ndarray:
        """Whether each instance has entries of each player, bool [N, P]."""
        owned = np.zeros((len(self.of_entry), self.count + 1), bool)
        owned[np.arange(len(owned))[:, None], self.of_entry] = True  # the last column: no player
        return owned[:, :-1]

    def refuse_others(self, N: int) -> None:
        """Raises InputError for another number of instances."""
        if N != len(self.of_entry):
            raise InputError(
                f"players numbers the entries of {len(self.of_entry):,} instances, but X has "
                f"{N:,} rows. Give players [N, *F] of these rows, or [*F] for all of them."
            )

    @cached_property
    def all_columns(self) -> tuple[tuple[int, ...], ...]:
        """No columns for any player, because instances share none."""
        return ((),) * self.count


def players_from(
    players: Any, feature_names: Sequence[str] | None, shape: tuple[int, ...]
) -> Players:
    """Reads the `players=` argument.

    None: each column by itself. {"name": [columns]} or [[columns], ...]: the groups in the order
    given, then the columns that no group names, in column order. An integer array shaped like one
    instance: the player of each entry, numbered 0..P-1 without holes; -1: never replaced.
    See also `per_instance_players`.
    Raises InputError for overlaps, holes and unknown columns, InputTypeError for other types.
    """
    F = math.prod(shape)
    labels = list(feature_names) if feature_names is not None else column_labels(shape)
    if players is None:
        return Players(np.arange(F), tuple(labels))
    if isinstance(players, Mapping):
        groups = [(str(name), columns) for name, columns in players.items()]
    elif isinstance(players, np.ndarray) and (players.shape == shape or players.dtype.kind in "iu"):
        return _from_mask(players, shape)
    elif isinstance(players, Sequence) and not isinstance(players, str):
        if all(isinstance(p, int | np.integer) for p in players) and len(players) == F:
            return _from_mask(np.asarray(players), shape)
        groups = [("", columns) for columns in players]
    else:
        raise InputTypeError(
            "players must be None, a dict or a list of column lists, or an integer array shaped "
            f"like one instance {shape}, got {type(players).__name__}."
        )
    return _from_groups(groups, labels, F)


def column_labels(shape: tuple[int, ...]) -> list[str]:
    """Names of columns that have none: x0, x1, ... or x0,3 for a higher rank."""
    if len(shape) == 1:
        return [f"x{j}" for j in range(shape[0])]
    return ["x" + ",".join(map(str, place)) for place in np.ndindex(*shape)]


def column_finder(labels: Sequence[str], name: str) -> Callable[[Any], int]:
    """A function from a column's index or label to its index; name: the argument's name, for
    errors.
    """
    places: dict[str, int] = {}
    for place, label in enumerate(labels):
        places.setdefault(label, place)

    def find(column: Any) -> int:
        named = places.get(str(column))
        if isinstance(column, int | np.integer) and not isinstance(column, bool):
            if not -len(labels) <= column < len(labels):
                raise InputError(f"{name}: there is no column {column}; there are {len(labels)}.")
            if named is not None and named != column:
                raise InputError(
                    f"{name}: column {column} is the position of {labels[int(column)]!r} and the "
                    f"label of another column. Say the label as text, {str(column)!r}."
                )
            return int(column) % len(labels)
        if named is not None:
            return named
        raise InputError(f"{name}: there is no column {column!r}; columns are {list(labels)[:20]}.")

    return find


def _columns_of_each(of_column: np.ndarray, P: int) -> list[np.ndarray]:
    """The column indices of players 0 to P - 1, ascending, by one sort."""
    order = np.argsort(of_column, kind="stable")
    bounds = np.searchsorted(of_column[order], np.arange(P + 1))
    return [order[first:last] for first, last in itertools.pairwise(bounds.tolist())]


def _from_groups(groups: Iterable[tuple[str, Any]], labels: Sequence[str], F: int) -> Players:
    of_column = np.full(F, -1)
    names: list[str] = []
    find = column_finder(labels, "players")
    for player, (name, columns) in enumerate(groups):
        if isinstance(columns, str) or not isinstance(columns, Iterable):
            columns = [columns]
        places = [find(c) for c in columns]
        if not places:
            raise InputError(f"players: group {name or player!r} has no columns.")
        for c in places:
            if of_column[c] != -1:
                raise InputError(f"players: column {labels[c]!r} is named twice.")
            of_column[c] = player
        names.append(name or "+".join(labels[c] for c in places))
    for c in map(int, np.flatnonzero(of_column == -1)):
        of_column[c] = len(names)
        names.append(labels[c])
    if len(set(names)) != len(names):
        raise InputError(
            f"players: names occur twice: {names}. Name groups otherwise than columns outside them."
        )
    return Players(of_column, tuple(names))


def per_instance_players(numbers: np.ndarray) -> PerInstancePlayers:
    """The players of the entries of each instance, by their numbers [N, F]."""
    return PerInstancePlayers(_numbered(numbers), player_names(int(numbers.max()) + 1))


def player_names(P: int) -> tuple[str, ...]:
    """Names of players that have numbers only."""
    return tuple(f"player {p}" for p in range(P))


def players_numbered(numbers: np.ndarray, labels: Sequence[str]) -> Players:
    """The players from the numbers [F] of the entries, as for an array in `players_from`.

    A player is named by the positions of its entries if there are at most three.
    """
    flat = _numbered(numbers)
    names = []
    for p, columns in enumerate(_columns_of_each(flat, int(flat.max()) + 1)):
        places: list[int] = columns.tolist()
        names.append("+".join(labels[c] for c in places) if len(places) <= NAMED else f"player {p}")
    return Players(flat, tuple(names))


def _from_mask(mask: np.ndarray, shape: tuple[int, ...]) -> Players:
    if mask.dtype.kind not in "iu":
        raise InputTypeError(f"players as an array must hold integers, got dtype {mask.dtype}.")
    if mask.shape != shape:
        raise InputError(
            f"players has shape {mask.shape}, but one instance has {shape}; they must be the same, "
            "or players has a numbering for each instance, [N, *F]."
        )
    flat = _numbered(mask.reshape(-1))
    return Players(flat, player_names(int(flat.max()) + 1))


def _numbered(mask: np.ndarray) -> np.ndarray:
    """The player of each entry, as int64; refuses numbers with holes."""
    flat = mask.astype(np.int64)
    P = int(flat.max(initial=-1)) + 1
    if P == 0:
        raise InputError("players: all entries are -1, never replaced; one player is needed.")
    missing = np.setdiff1d(np.arange(min(P, flat.size + 1)), flat)
    if flat.min() < -1 or len(missing):
        wrong = f"{flat.min()} occurs" if flat.min() < -1 else f"{missing[:5].tolist()} are missing"
        raise InputError(
            f"players must be numbered 0..P-1 without holes, or -1 (never replaced); {wrong}."
        )
    return flat
