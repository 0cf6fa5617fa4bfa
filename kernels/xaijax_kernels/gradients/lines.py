"""Gradients of a model along straight lines from donors to instances, as values of players.

The value of player i is a weighted sum, over donors b and points t, of the sum over its entries j
of

    (x_j - b_j) df/dz_j at z = b + t (x - b).

With one donor and quadrature weights these are integrated gradients. With the donors of a
background, or with sampled donors and points, they are expected gradients.

A line may run in another space than the codes: `lift` maps codes there, and `head` is the rest of
the model. The value of an embedded token is the sum over its numbers in that space. An affine lift
maps straight lines to straight lines, so the slopes are first summed over the points of a line and
then pulled back to the codes once (`pulls`).

The points of a line are summed first, and tiles are added one after another to the sums of their
instances. Memory therefore holds one tile at most, whatever the numbers of instances, donors and
points.

Letters: n instances of a group, U groups, D donors of a tile, V tiles of donors, S places on a
line, R = n D S rows of a tile, C code columns, P players, K outputs, M rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from xaijax_kernels.engine.tiles import counted_on, folded, over_tiles, tile_by_tile

Lift = Callable[[Any, jax.Array], Any]  # (params, codes [M, C]) -> arrays [M, ...] in a tree
Head = Callable[[Any, Any], jax.Array]  # (params, these arrays of R rows) -> answers [R, K]


@dataclass(frozen=True)
class LineShape:
    """The static facts of a tile; hashable, so that it can be a part of a program's key."""

    instances: int  # n
    donors: int  # D
    steps: int  # S
    players: int  # P
    outputs: int  # K of the model
    entries: tuple[int, ...]  # number of codes behind each array of the lift; their sum is C
    pulls: bool = False  # the lift is affine, and slopes are pulled back through it
    own: bool = False  # each instance has a donor of its own
    pairs: bool = False  # donors are draws; each two in a row share a segment of the line
    chosen: bool = False  # one output for each instance

    @property
    def rows(self) -> int:
        """R."""
        return self.instances * self.donors * self.steps

    @property
    def found(self) -> int:
        """Number of outputs that are explained."""
        return 1 if self.chosen else self.outputs


def line_values(
    lift: Lift,
    head: Head,
    shape: LineShape,
    mesh: Mesh,
    params: Any,
    x: jax.Array,  # [U, n, C]
    donors: jax.Array,  # [V, D, C]; with `own` [U, n, C]
    times: jax.Array,  # [V, D, S], the places t
    weights: jax.Array,  # [V, D, S]
    owner: jax.Array | None,  # int32 [C], or [U, n, C]: player of an entry, P: none; None: its own
    column: jax.Array | None,  # int32 [U, n], with `chosen`: the output of each instance
    groups: jax.Array,  # int32 [devices], groups to compute on each device
    trips: jax.Array,  # int32 [], tiles of donors to compute
) -> tuple[jax.Array, jax.Array]:
    """Values [U, n, P, K], and with `pairs` the variances of their sums, of the same shape; else
    zeros [U, 1, 1, K]. K is 1 with `chosen`.

    Groups that are not computed are zeros. The groups are split over the devices of `mesh`.
    """
    known, each = counted_on(mesh), owner is not None and owner.ndim == 3

    def on_one_device(params, donors, times, weights, owned, trips, x, of_x, owner, column, groups):
        def group(u):
            mine = owner[u] if each else owned
            picked = None if column is None else column[u]

            def turn(v, sums):
                start = of_x[u][:, None] if shape.own else donors[v][None]
                tile = _Tile(shape, params, x[u], start, times[v], weights[v], mine, picked)
                added = tile.values(lift, head)
                return jax.tree.map(jnp.add, sums, added)

            zero = jnp.zeros((shape.instances, shape.players, shape.found), weights.dtype)
            spread = zero if shape.pairs else jnp.zeros((1, 1, shape.found), weights.dtype)
            if len(times) == 1:
                return turn(0, (zero, spread))
            return folded(turn, (zero, spread), trips, len(times), known)

        room = tuple(
            jnp.zeros((len(x), *leaf.shape), leaf.dtype)
            for leaf in jax.eval_shape(group, jnp.zeros((), jnp.int32))
        )
        return tile_by_tile(group, room, groups[0], known)

    run = over_tiles(on_one_device, mesh, (False,) * 6 + (True,) * 5)
    shared, of_x = (None, donors) if shape.own else (donors, None)
    owned, of_each = (None, owner) if each else (owner, None)
    return run(params, shared, times, weights, owned, trips, x, of_x, of_each, column, groups)


@dataclass(frozen=True)
class _Tile:
    """n instances, each on lines from D donors, at S points."""

    shape: LineShape
    params: Any
    x: jax.Array  # [n, C]
    donors: jax.Array  # [1 or n, D, C]
    times: jax.Array  # [D, S]
    weights: jax.Array  # [D, S]
    owner: jax.Array | None  # int32 [C] or [n, C]
    column: jax.Array | None  # int32 [n]

    def values(self, lift: Lift, head: Head) -> tuple[jax.Array, jax.Array]:
        """(sums [n, P, K], their variances [n, P, K] with `pairs`)."""
        n, D, S = self.shape.instances, self.shape.donors, self.shape.steps
        start = self._start()
        leaves, structure = jax.tree.flatten(lift(self.params, self.x))
        begins = jax.tree.leaves(lift(self.params, start.reshape(-1, start.shape[-1])))
        begins = [leaf.reshape(*start.shape[:2], *leaf.shape[1:]) for leaf in begins]
        floats = [jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in leaves]
        changes = [
            end[:, None] - begin for end, begin, f in zip(leaves, begins, floats, strict=True) if f
        ]
        lines = [
            _line(begin, change, self.times)
            for begin, change in zip(_where(begins, floats), changes, strict=True)
        ]
        others = [_repeated(leaf, n, D, S) for leaf in _where(begins, [not f for f in floats])]

        def answers(lines: list[jax.Array]) -> jax.Array:
            moving, still = iter(lines), iter(others)
            rows = [next(moving if f else still) for f in floats]
            return head(self.params, jax.tree.unflatten(structure, rows))

        out, back = jax.vjp(answers, lines)
        weights = jnp.broadcast_to(self.weights.astype(out.dtype), (n, D, S)).reshape(-1, 1)

        def of_output(k: jax.Array) -> tuple[jax.Array, jax.Array]:
            picked = jnp.repeat(k, D * S) if self.shape.chosen else k[None]
            picks = picked[:, None] == jnp.arange(self.shape.outputs, dtype=jnp.int32)
            (slopes,) = back(jnp.where(picks, weights, jnp.zeros_like(weights)))
            slopes = [leaf.reshape(n, D, S, *leaf.shape[1:]).sum(axis=2) for leaf in slopes]
            if self.shape.pulls:
                return self._by_player(self._pulled(lift, start, slopes))
            return self._by_player(self._joined(slopes, changes, floats))

        if self.shape.chosen:
            assert self.column is not None
            results = jax.tree.map(lambda leaf: leaf[None], of_output(self.column))
        elif self.shape.outputs == 1:
            results = jax.tree.map(lambda leaf: leaf[None], of_output(jnp.zeros((), jnp.int32)))
        else:
            results = jax.lax.map(of_output, jnp.arange(self.shape.outputs, dtype=jnp.int32))
        values, spread = (jnp.moveaxis(leaf, 0, -1) for leaf in results)
        return values.astype(self.weights.dtype), spread.astype(self.weights.dtype)

    def _start(self) -> jax.Array:
        """Starting points of the lines, [1 or n, D, C]; entries without a player are the
        instance's."""
        if self.owner is None:
            return self.donors
        stays = jnp.broadcast_to(self.owner, self.x.shape)[:, None] == self.shape.players
        return jnp.where(stays, self.x[:, None], self.donors)

    def _joined(self, slopes: Any, changes: Any, floats: list[bool]) -> jax.Array:
        """Slopes times changes, summed over the numbers of an entry; [n, D, C]."""
        n, D = self.shape.instances, self.shape.donors
        moving = iter(zip(slopes, changes, strict=True))
        parts = []
        for count, f in zip(self.shape.entries, floats, strict=True):
            if not f:
                parts.append(jnp.zeros((n, D, count), self.weights.dtype))
                continue
            slope, change = next(moving)
            part = (slope * change).reshape(n, D, count, -1)
            part = part[..., 0] if part.shape[-1] == 1 else part.sum(axis=-1)
            parts.append(part.astype(self.weights.dtype))
        return jnp.concatenate(parts, axis=-1) if len(parts) > 1 else parts[0]

    def _pulled(self, lift: Lift, start: jax.Array, slopes: list[jax.Array]) -> jax.Array:
        """Slopes pulled back through the affine lift, times the changes of the codes; [n, D, C]."""
        n, D, C = self.shape.instances, self.shape.donors, start.shape[-1]
        codes = jnp.zeros((n * D, C), start.dtype)
        lifted, back = jax.vjp(partial(lift, self.params), codes)
        whole = [leaf.reshape(n * D, *leaf.shape[2:]) for leaf in slopes]
        (slope,) = back(jax.tree.unflatten(jax.tree.structure(lifted), whole))
        return slope.reshape(n, D, C) * (self.x[:, None] - start)

    def _by_player(self, parts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(sums over donors [n, P], with `pairs` their variances) of the entries' contributions.

        Draws 2h and 2h + 1 are independent, from the same segment h of the line. Half the square of
        their difference is an unbiased estimate of the variance of one; their sum has twice that.
        """
        if not self.shape.pairs:
            return self._owned(parts.sum(axis=1)), jnp.zeros((1, 1), parts.dtype)
        of_players = self._owned(parts)  # [n, D, P]
        apart = of_players[:, 0::2] - of_players[:, 1::2]
        return of_players.sum(axis=1), (apart * apart).sum(axis=1)

    def _owned(self, parts: jax.Array) -> jax.Array:
        """Sums contributions of entries [n, .., C] to those of players [n, .., P]."""
        if self.owner is None:
            return parts
        owner = jnp.broadcast_to(self.owner, self.x.shape)
        room = jnp.zeros((*parts.shape[1:-1], self.shape.players + 1), parts.dtype)
        return jax.vmap(lambda part, player: room.at[..., player].add(part))(parts, owner)[..., :-1]


def _line(begin: jax.Array, change: jax.Array, times: jax.Array) -> jax.Array:
    """Rows begin + t change; begin [1 or n, D, ..], change [n, D, ..], times [D, S] -> [R, ..]."""
    places = times.astype(change.dtype).reshape(*times.shape, *(1,) * (change.ndim - 2))
    rows = begin[:, :, None] + places * change[:, :, None]
    return rows.reshape(-1, *rows.shape[3:])


def _repeated(begin: jax.Array, n: int, D: int, S: int) -> jax.Array:
    """The array repeated at all points of a line; [1 or n, D, ..] -> [R, ..]."""
    rows = jnp.broadcast_to(begin[:, :, None], (n, D, S, *begin.shape[2:]))
    return rows.reshape(-1, *begin.shape[2:])


def _where(arrays: list[jax.Array], wanted: list[bool]) -> list[jax.Array]:
    return [array for array, w in zip(arrays, wanted, strict=True) if w]
