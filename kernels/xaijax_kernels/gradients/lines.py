"""Gradients of a model along straight lines from donors to instances, as values of players.

The value of player i is a weighted sum over donors b and places t of the sum over its entries j of

    (x_j - b_j) df/dz_j at z = b + t (x - b).

With one donor and the weights of a quadrature these are integrated gradients; with the donors of a
background, or draws of donors and places, expected gradients.

A line may run in another space than that of the codes: `lift` takes codes there, and the model is
then asked by what follows, `head`. An entry of embedded tokens has as its value the sum over its
numbers in that space. An affine lift makes a straight line of a straight line: there the slopes are
added up over the places of a line first, and taken back to the codes once (`pulls`).

The steps of a line are added up before anything else is done with them, and tiles one after another
into the sums of their instances. Memory therefore holds one tile at most, whatever the numbers of
instances, donors and steps.

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
    entries: tuple[int, ...]  # codes that each array of the lift holds numbers of; their sum is C
    pulls: bool = False  # the lift is affine, and slopes are taken back through it
    own: bool = False  # each instance has a donor of its own
    pairs: bool = False  # donors are draws; two that follow each other share a stretch of the line
    chosen: bool = False  # one output for each instance

    @property
    def rows(self) -> int:
        """R."""
        return self.instances * self.donors * self.steps

    @property
    def found(self) -> int:
        """Outputs that values are made of."""
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
    owner: jax.Array | None,  # int32 [C], or [U, n, C]: whose an entry is, P: it stays; None: j's
    column: jax.Array | None,  # int32 [U, n], with `chosen`: the output of each instance
    groups: jax.Array,  # int32 [devices], groups to work at on each device
    turns: jax.Array,  # int32 [], tiles of donors to work at
) -> tuple[jax.Array, jax.Array]:
    """Values [U, n, P, K], and with `pairs` the variances of their sums, of the same shape; else
    zeros [U, 1, 1, K]. K is 1 with `chosen`.

    Groups beyond those worked at are zeros. The groups are split over the devices of `mesh`.
    """
    known, each = counted_on(mesh), owner is not None and owner.ndim == 3

    def on_one_device(params, donors, times, weights, owned, turns, x, own, owner, column, groups):
        def group(u):
            mine = owner[u] if each else owned
            picked = None if column is None else column[u]

            def turn(v, sums):
                start = own[u][:, None] if shape.own else donors[v][None]
                tile = _Tile(shape, params, x[u], start, times[v], weights[v], mine, picked)
                added = tile.values(lift, head)
                return jax.tree.map(jnp.add, sums, added)

            zero = jnp.zeros((shape.instances, shape.players, shape.found), weights.dtype)
            spread = zero if shape.pairs else jnp.zeros((1, 1, shape.found), weights.dtype)
            if len(times) == 1:
                return turn(0, (zero, spread))
            return folded(turn, (zero, spread), turns, len(times), known)

        room = tuple(
            jnp.zeros((len(x), *one.shape), one.dtype)
            for one in jax.eval_shape(group, jnp.zeros((), jnp.int32))
        )
        return tile_by_tile(group, room, groups[0], known)

    run = over_tiles(on_one_device, mesh, (False,) * 6 + (True,) * 5)
    shared, own = (None, donors) if shape.own else (donors, None)
    owned, of_each = (None, owner) if each else (owner, None)
    return run(params, shared, times, weights, owned, turns, x, own, of_each, column, groups)


@dataclass(frozen=True)
class _Tile:
    """n instances, each on lines from D donors, at S places."""

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
        ends, structure = jax.tree.flatten(lift(self.params, self.x))
        begins = jax.tree.leaves(lift(self.params, start.reshape(-1, start.shape[-1])))
        begins = [one.reshape(*start.shape[:2], *one.shape[1:]) for one in begins]
        floats = [jnp.issubdtype(one.dtype, jnp.floating) for one in ends]
        changes = [
            end[:, None] - begin for end, begin, f in zip(ends, begins, floats, strict=True) if f
        ]
        lines = [
            _line(begin, change, self.times)
            for begin, change in zip(_where(begins, floats), changes, strict=True)
        ]
        others = [_repeated(one, n, D, S) for one in _where(begins, [not f for f in floats])]

        def answers(lines: list[jax.Array]) -> jax.Array:
            moving, still = iter(lines), iter(others)
            rows = [next(moving if f else still) for f in floats]
            return head(self.params, jax.tree.unflatten(structure, rows))

        out, back = jax.vjp(answers, lines)
        weights = jnp.broadcast_to(self.weights.astype(out.dtype), (n, D, S)).reshape(-1, 1)

        def of_output(k: jax.Array) -> tuple[jax.Array, jax.Array]:
            picked = jnp.repeat(k, D * S) if self.shape.chosen else k[None]
            one = picked[:, None] == jnp.arange(self.shape.outputs, dtype=jnp.int32)
            (slopes,) = back(jnp.where(one, weights, jnp.zeros_like(weights)))
            slopes = [one.reshape(n, D, S, *one.shape[1:]).sum(axis=2) for one in slopes]
            if self.shape.pulls:
                return self._by_player(self._pulled(lift, start, slopes))
            return self._by_player(self._joined(slopes, changes, floats))

        if self.shape.chosen:
            assert self.column is not None
            found = jax.tree.map(lambda one: one[None], of_output(self.column))
        elif self.shape.outputs == 1:
            found = jax.tree.map(lambda one: one[None], of_output(jnp.zeros((), jnp.int32)))
        else:
            found = jax.lax.map(of_output, jnp.arange(self.shape.outputs, dtype=jnp.int32))
        values, spread = (jnp.moveaxis(one, 0, -1) for one in found)
        return values.astype(self.weights.dtype), spread.astype(self.weights.dtype)

    def _start(self) -> jax.Array:
        """Starting points of the lines, [1 or n, D, C]; entries that stay are the instance's."""
        if self.owner is None:
            return self.donors
        stays = jnp.broadcast_to(self.owner, self.x.shape)[:, None] == self.shape.players
        return jnp.where(stays, self.x[:, None], self.donors)

    def _joined(self, slopes: Any, changes: Any, floats: list[bool]) -> jax.Array:
        """Slopes times changes, added up over the numbers of an entry; [n, D, C]."""
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
        """Slopes taken back through the affine lift, times the changes of the codes; [n, D, C]."""
        n, D, C = self.shape.instances, self.shape.donors, start.shape[-1]
        codes = jnp.zeros((n * D, C), start.dtype)
        lifted, back = jax.vjp(partial(lift, self.params), codes)
        whole = [one.reshape(n * D, *one.shape[2:]) for one in slopes]
        (slope,) = back(jax.tree.unflatten(jax.tree.structure(lifted), whole))
        return slope.reshape(n, D, C) * (self.x[:, None] - start)

    def _by_player(self, parts: jax.Array) -> tuple[jax.Array, jax.Array]:
        """(sums over donors [n, P], with `pairs` their variances) of the parts of entries.

        Draws 2h and 2h + 1 are of one stretch h of the line, independent and alike. Half the square
        of their difference has the variance of one of them as its mean; their sum has twice that.
        """
        if not self.shape.pairs:
            return self._owned(parts.sum(axis=1)), jnp.zeros((1, 1), parts.dtype)
        own = self._owned(parts)  # [n, D, P]
        apart = own[:, 0::2] - own[:, 1::2]
        return own.sum(axis=1), (apart * apart).sum(axis=1)

    def _owned(self, parts: jax.Array) -> jax.Array:
        """Parts of entries [n, .., C] as those of players [n, .., P]."""
        if self.owner is None:
            return parts
        owner = jnp.broadcast_to(self.owner, self.x.shape)
        room = jnp.zeros((*parts.shape[1:-1], self.shape.players + 1), parts.dtype)
        return jax.vmap(lambda part, own: room.at[..., own].add(part))(parts, owner)[..., :-1]


def _line(begin: jax.Array, change: jax.Array, times: jax.Array) -> jax.Array:
    """Rows begin + t change; begin [1 or n, D, ..], change [n, D, ..], times [D, S] -> [R, ..]."""
    places = times.astype(change.dtype).reshape(*times.shape, *(1,) * (change.ndim - 2))
    rows = begin[:, :, None] + places * change[:, :, None]
    return rows.reshape(-1, *rows.shape[3:])


def _repeated(begin: jax.Array, n: int, D: int, S: int) -> jax.Array:
    """The same array at all places of a line; [1 or n, D, ..] -> [R, ..]."""
    rows = jnp.broadcast_to(begin[:, :, None], (n, D, S, *begin.shape[2:]))
    return rows.reshape(-1, *begin.shape[2:])


def _where(arrays: list[jax.Array], wanted: list[bool]) -> list[jax.Array]:
    return [one for one, w in zip(arrays, wanted, strict=True) if w]
