"""Reads who plays, from the argument `players=` and the rows that it is for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.players.players import (
    PerInstancePlayers,
    Players,
    per_instance_players,
    players_from,
    players_numbered,
)
from xaijax.tables.table import CodeTable
from xaijax.tables.tree import Layout, difference
from xaijax.tables.tree_table import TreeTable, by_leaves


def players_of_rows(
    players: Any, table: CodeTable, names: Sequence[str] | None = None
) -> Players | PerInstancePlayers:
    """Reads the `players=` argument for rows of a table; names: [F], if they are not its own.

    An array of whole numbers [N, *F] numbers the entries of each instance for itself. For images
    with channels, [H, W, C] or [C, H, W], it may leave the channels out, and for sequences [T, F]
    the columns: a pixel, or a step, is then one player's. For rows in several arrays players is
    also a container of the same structure, with numbers for each leaf: shaped like a row of it,
    like N rows, one for all its entries, or None (each of its entries is a player). Leaves may
    share numbers. In groups of columns the name of a leaf means all its entries. A
    `PerInstancePlayers` is returned as it is. Anything else is read by `players_from`.
    """
    if isinstance(players, PerInstancePlayers):
        return players
    if isinstance(table, TreeTable):
        numbers = None if players is None else _in_line(players, table)
        if numbers is None:
            return players_from(by_leaves(players, table), table.feature_names, table.shape)
        if numbers.ndim == 2:
            return per_instance_players(numbers)
        return _named_by_leaves(players_numbered(numbers, table.layout.labels), table.layout)
    shape = table.shape
    if hasattr(players, "shape") and hasattr(players, "dtype"):
        given = whole_rows(np.asarray(players), shape)
        if given.ndim == len(shape) + 1 and given.shape[1:] == shape and given.dtype.kind in "iu":
            return per_instance_players(given.reshape(len(given), -1))
        if _unclear(given, shape) and given.dtype.kind in "iu":
            own = players_from(given, names or table.feature_names, shape)
            return replace(own, unclear=shape)
        players = given
    return players_from(players, names or table.feature_names, shape)


def whole_rows(numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers for rows of this shape, or for N of them, of numbers that leave out channels.

    [H, W] is of images [H, W, C] or [C, H, W] and [T] of sequences [T, F]; the same of each of N
    instances. What fits no such form comes back as it is.
    """
    if len(shape) < 2 or numbers.shape in (shape, (*numbers.shape[:1], *shape)):
        return numbers
    last, first = shape[:-1], shape[1:] if len(shape) > 2 else None
    own = next((one for one in (numbers.shape, numbers.shape[1:]) if one in (last, first)), None)
    if own is None:
        return numbers
    if shape[:-1] == shape[1:]:
        raise InputError(
            f"players has shape {numbers.shape}, and rows of shape {shape} have channels or "
            "columns on their first axis or on their last one. Say which: np.broadcast_to("
            f"players[..., None], {shape}) repeats players along the last axis, "
            f"np.broadcast_to(players, {shape}) along the first."
        )
    each = numbers.shape[: numbers.ndim - len(own)]
    if own == last:
        return np.broadcast_to(numbers[..., None], (*each, *shape))
    return np.broadcast_to(numbers[(slice(None),) * len(each) + (None,)], (*each, *shape))


def _unclear(numbers: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether numbers shaped like a row, [C, H, W], could be meant for C instances, [H, W] each.

    They cannot if they are the same in all channels, and so for all of those instances, or if there
    are as many channels as columns of pixels: those are on another axis.
    """
    images = len(shape) > 2 and numbers.shape == shape and shape[0] < shape[-1]
    return images and bool((numbers != numbers[:1]).any())


def _in_line(players: Any, table: TreeTable) -> np.ndarray | None:
    """Numbers of all entries, int64 [F] or [N, F]; None if the players are given as groups."""
    leaves, structure = checks.leaves_of(players, "players")
    if structure != table.layout.structure:
        if any(one is None or hasattr(one, "dtype") for one in leaves):
            raise InputError(
                f"players {difference(players, table.layout, 'one row')}. Give numbers for every "
                "leaf: -1 for one that is never replaced, None for one whose entries are players "
                "each."
            )
        return None
    layout = table.layout
    rows = zip(leaves, layout.names, layout.shapes, strict=True)
    given = [_whole(one, name, shape) for one, name, shape in rows]
    free = max((int(one.max(initial=-1)) for one in given if one is not None), default=-1) + 1
    parts = []
    for one, shape in zip(given, layout.shapes, strict=True):
        parts.append(np.arange(free, free + math.prod(shape)) if one is None else one)
        free += math.prod(shape) if one is None else 0
    instances = {len(one) for one in parts if one.ndim == 2}
    if len(instances) > 1:
        said = ", ".join(f"{n!r} {p.shape}" for n, p in zip(layout.names, parts, strict=True))
        raise InputError(f"players is of other numbers of instances in its leaves: {said}.")
    lead = tuple(instances)
    return np.concatenate([np.broadcast_to(p, (*lead, p.shape[-1])) for p in parts], axis=-1)


def _named_by_leaves(players: Players, layout: Layout) -> Players:
    """A player that is all of one leaf is called like it."""
    names = list(players.names)
    for leaf, own in zip(layout.names, np.split(players.of_column, layout.ends[:-1]), strict=True):
        p = int(own[0])
        if p >= 0 and (own == p).all() and len(own) == (players.of_column == p).sum():
            names[p] = leaf
    return replace(players, names=tuple(names))


def _whole(given: Any, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """Numbers of the players of one leaf, [F] or [N, F]; None stays None."""
    if given is None:
        return None
    own = whole_rows(np.asarray(given), shape)
    of_each = own.ndim == len(shape) + 1 and own.shape[1:] == shape
    if own.dtype.kind not in "iu" or not (of_each or own.shape in (shape, ())):
        raise InputError(
            f"players: the leaf {name!r} needs whole numbers of shape {shape}, as one row has, or "
            f"of such a shape for each of N instances, or one number; got {own.dtype} of shape "
            f"{own.shape}."
        )
    if of_each:
        return own.reshape(len(own), -1)
    return np.broadcast_to(own, shape).reshape(-1)
