"""Reads the players from the argument `players=` and the rows."""

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
    """Reads the `players=` argument for rows of a table; names: [F], if they differ from the
    table's.

    An integer array [N, *F] numbers the entries of each instance separately. For images with
    channels, [H, W, C] or [C, H, W], it may omit the channels, and for sequences [T, F] the
    columns: all numbers of a pixel, or of a step, then belong to one player. For rows in several
    arrays `players` may also be a container of the same structure, with numbers for each leaf:
    shaped like one row of it, like N rows, a single number for all its entries, or None (each of
    its entries is a player). Leaves may share numbers. In groups of columns the name of a leaf
    means all its entries. A `Players` or `PerInstancePlayers` is returned as it is. Anything else
    is read by `players_from`.
    """
    if isinstance(players, Players | PerInstancePlayers):
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
        array = whole_rows(np.asarray(players), shape)
        if array.ndim == len(shape) + 1 and array.shape[1:] == shape and array.dtype.kind in "iu":
            return per_instance_players(array.reshape(len(array), -1))
        if _unclear(array, shape) and array.dtype.kind in "iu":
            read = players_from(array, names or table.feature_names, shape)
            return replace(read, unclear=shape)
        players = array
    return players_from(players, names or table.feature_names, shape)


def whole_rows(numbers: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Expands numbers that omit channels to rows of this shape, or to N of them.

    [H, W] is for images [H, W, C] or [C, H, W] and [T] for sequences [T, F], also with a leading
    axis of N instances. Other shapes are returned as they are.
    """
    if len(shape) < 2 or numbers.shape in (shape, (*numbers.shape[:1], *shape)):
        return numbers
    last, first = shape[:-1], shape[1:] if len(shape) > 2 else None
    dims = next((s for s in (numbers.shape, numbers.shape[1:]) if s in (last, first)), None)
    if dims is None:
        return numbers
    if shape[:-1] == shape[1:]:
        raise InputError(
            f"players has shape {numbers.shape}, and rows of shape {shape} have channels or "
            "columns on their first axis or on their last one. Say which: np.broadcast_to("
            f"players[..., None], {shape}) repeats players along the last axis, "
            f"np.broadcast_to(players, {shape}) along the first."
        )
    each = numbers.shape[: numbers.ndim - len(dims)]
    if dims == last:
        return np.broadcast_to(numbers[..., None], (*each, *shape))
    return np.broadcast_to(numbers[(slice(None),) * len(each) + (None,)], (*each, *shape))


def _unclear(numbers: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether numbers shaped like a row, [C, H, W], could also be [H, W] for each of C instances.

    They cannot if they are equal in all channels, and so for all instances, or if there are as many
    channels as columns of pixels: then channels are on another axis.
    """
    images = len(shape) > 2 and numbers.shape == shape and shape[0] < shape[-1]
    return images and bool((numbers != numbers[:1]).any())


def _in_line(players: Any, table: TreeTable) -> np.ndarray | None:
    """Numbers of all entries, int64 [F] or [N, F]; None if the players are groups."""
    leaves, structure = checks.leaves_of(players, "players")
    if structure != table.layout.structure:
        if any(leaf is None or hasattr(leaf, "dtype") for leaf in leaves):
            raise InputError(
                f"players {difference(players, table.layout, 'one row')}. Give numbers for every "
                "leaf: -1 for one that is never replaced, None for one whose entries are players "
                "each."
            )
        return None
    layout = table.layout
    rows = zip(leaves, layout.names, layout.shapes, strict=True)
    numbers = [_whole(leaf, name, shape) for leaf, name, shape in rows]
    free = max((int(leaf.max(initial=-1)) for leaf in numbers if leaf is not None), default=-1) + 1
    parts = []
    for leaf, shape in zip(numbers, layout.shapes, strict=True):
        parts.append(np.arange(free, free + math.prod(shape)) if leaf is None else leaf)
        free += math.prod(shape) if leaf is None else 0
    instances = {len(part) for part in parts if part.ndim == 2}
    if len(instances) > 1:
        said = ", ".join(f"{n!r} {p.shape}" for n, p in zip(layout.names, parts, strict=True))
        raise InputError(f"players: give all arrays the same number of instances, got {said}.")
    lead = tuple(instances)
    return np.concatenate([np.broadcast_to(p, (*lead, p.shape[-1])) for p in parts], axis=-1)


def _named_by_leaves(players: Players, layout: Layout) -> Players:
    """Names a player after its leaf if it is one full leaf."""
    names = list(players.names)
    for leaf, ids in zip(layout.names, np.split(players.of_column, layout.ends[:-1]), strict=True):
        p = int(ids[0])
        if p >= 0 and (ids == p).all() and len(ids) == (players.of_column == p).sum():
            names[p] = leaf
    return replace(players, names=tuple(names))


def _whole(leaf: Any, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """Numbers of the players of one leaf, [F] or [N, F]; None stays None."""
    if leaf is None:
        return None
    numbers = whole_rows(np.asarray(leaf), shape)
    of_each = numbers.ndim == len(shape) + 1 and numbers.shape[1:] == shape
    if numbers.dtype.kind not in "iu" or not (of_each or numbers.shape in (shape, ())):
        raise InputError(
            f"players: the leaf {name!r} needs whole numbers of shape {shape}, as one row has, or "
            f"of such a shape for each of N instances, or one number; got {numbers.dtype} of shape "
            f"{numbers.shape}."
        )
    if of_each:
        return numbers.reshape(len(numbers), -1)
    return np.broadcast_to(numbers, shape).reshape(-1)
