"""Values of players as a pure function, with a derivative whose memory does not grow.

One scan goes over steps: an order of the players, or all coalitions, for a group of instances
against a group of donors. The backward pass recomputes a step (`jax.checkpoint`), so only its sum
is stored: one more forward pass, and the memory of one step instead of all. Values are linear in
the outputs, so each step adds its share. There is a single scan because JAX 0.12 stores what an
inner scan computes from arguments without a derivative.

Letters: U groups of G instances, T groups of D donors, M orders, C coalitions, P players (columns),
K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.games.semivalues import members, semivalue

Ask = Callable[[jax.Array], jax.Array]  # rows [R, P] -> answers [R, K]
# (v(S) [G, C, K], the order of the step) -> values [G, P, K]
Shares = Callable[[jax.Array, jax.Array], jax.Array]


def exact(
    ask: Ask, x: jax.Array, donors: jax.Array, weights: jax.Array, p: np.ndarray
) -> jax.Array:
    """The semivalue with weights p [P] by all 2^P coalitions; [U, G, P, K].

    x [U, G, P], donors [T, D, P], weights [T, D] of each in the mean.
    """
    every = jnp.arange(x.shape[-1], dtype=jnp.int32)[None]
    return _summed(ask, x, donors, weights, every, members(len(p)), lambda v, _: semivalue(v, p))


def over_orders(
    ask: Ask, x: jax.Array, donors: jax.Array, weights: jax.Array, orders: jax.Array
) -> jax.Array:
    """The mean of marginal contributions over orders [M, P] and their reverses; [U, G, P, K].

    The prefixes of the reverse are the complements of the prefixes of the order.
    """
    P = x.shape[-1]
    first = np.tril(np.ones((P + 1, P), bool), -1)  # the first s of an order, s = 0..P
    both = np.concatenate([first, ~first[1:-1]])

    def shares(v: jax.Array, order: jax.Array) -> jax.Array:
        ahead = v[:, : P + 1]
        behind = jnp.concatenate([v[:, P:], v[:, :1]], axis=1)
        # Player s of the order joins its predecessors in one, and its successors in the other.
        change = (jnp.diff(ahead, axis=1) - jnp.diff(behind, axis=1)) / 2
        return jnp.zeros_like(change).at[:, order].set(change)

    return _summed(ask, x, donors, weights, orders, both, shares) / len(orders)


def _summed(
    ask: Ask,
    x: jax.Array,
    donors: jax.Array,
    weights: jax.Array,
    orders: jax.Array,
    coalitions: np.ndarray,  # bool [C, P]: which positions of the order are kept
    shares: Shares,
) -> jax.Array:
    """The sum over orders and groups of donors of each step's shares; [U, G, P, K]."""

    @jax.checkpoint
    def part(u: jax.Array, t: jax.Array, m: jax.Array) -> jax.Array:
        # Inputs of a step are stored for the backward pass: an index takes less memory than an
        # order.
        places, order = jnp.asarray(coalitions), orders[m]
        mask = jnp.zeros_like(places).at[:, order].set(places)
        rows = jnp.where(mask[:, None, None], x[u][:, None], donors[t])  # [C, G, D, P]
        answers = ask(rows.reshape(-1, rows.shape[-1])).reshape(*rows.shape[:-1], -1)
        w = weights[t].astype(answers.dtype)
        means = jnp.einsum("cgdk,d->gck", answers, w, precision=jax.lax.Precision.HIGHEST)
        return shares(means, order)

    def step(
        values: jax.Array, entry: tuple[jax.Array, jax.Array, jax.Array]
    ) -> tuple[jax.Array, None]:
        u, t, m = entry
        return values.at[u].add(part(u, t, m)), None

    U, T, M = len(x), len(donors), len(orders)
    u, t, m = (jnp.asarray(axis.ravel()) for axis in np.indices((U, T, M), np.int32))
    like: Any = jax.make_jaxpr(part)(u[0], t[0], m[0]).out_avals[0]
    zero = jnp.zeros((U, *like.shape), like.dtype)
    # In a shard_map the zeros must vary over the same axes as the outputs.
    zero = jax.lax.pcast(zero, tuple(like.mat.varying), to="varying")
    return jax.lax.scan(step, zero, (u, t, m))[0]


def with_smaller_tangents(
    values: Callable[..., jax.Array], tangents: Callable[..., jax.Array]
) -> Callable[..., jax.Array]:
    """`values` with the derivative of `tangents`, which is the same function in smaller steps.

    A step of the derivative stores the output of each layer of f, a step of the values only the
    widest one. Equal steps would make the derivative take several times the memory.
    """

    def called(*arguments: jax.Array) -> jax.Array:
        # Values that f closes over may be differentiated too, so they become arguments.
        large, consts = jax.closure_convert(values, *arguments)
        smaller, same = jax.closure_convert(tangents, *arguments)

        @jax.custom_jvp
        def both(arguments, consts, same):
            return large(*arguments, *consts)

        @both.defjvp
        def derivative(primals, changes):
            along = jax.jvp(lambda arguments, _, same: smaller(*arguments, *same), primals, changes)
            return both(*primals), along[1]

        return both(arguments, consts, same)

    return called
