"""v(S) for the peers that ask a game: coalitions in, means over the background out.

The same model that ours is given, in tiles that suit the processor, so that no peer is slow for
lack of a good game. Letters: N instances, P players, B background rows, C coalitions.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bench.models import Params, forward

Game = Callable[[np.ndarray], np.ndarray]  # coalitions bool [C, P] -> values float64 [C, N]
TILE = 4_096  # model rows in one call of the network


def of_network(params: Params, background: np.ndarray) -> Callable[[np.ndarray], Game]:
    """Instances [N, P] -> their game; compiled once for all of one N."""
    B, P = background.shape
    step = max(1, TILE // B)

    @jax.jit
    def tiled(params: Params, X: jax.Array, tiles: jax.Array) -> jax.Array:
        def of_tile(masks: jax.Array) -> jax.Array:
            def of_instance(x: jax.Array) -> jax.Array:
                rows = jnp.where(masks[:, None, :], x, background)
                return forward(params, rows.reshape(-1, P)).reshape(step, B).mean(axis=1)

            return jax.lax.map(of_instance, X)

        return jax.lax.map(of_tile, tiles)  # [T, N, step]

    def game_of(X: np.ndarray) -> Game:
        def game(masks: np.ndarray) -> np.ndarray:
            C = len(masks)
            # The next of eight sizes an octave: a call of ever new sizes would compile in each.
            tiles = -(-C // step)
            tiles += -tiles % max(1, 2 ** max(0, tiles.bit_length() - 4))
            padded = np.zeros((tiles * step, P), bool)
            padded[:C] = masks
            out = np.asarray(tiled(params, X, padded.reshape(tiles, step, P)), np.float64)
            return out.transpose(0, 2, 1).reshape(-1, len(X))[:C]

        return game

    return game_of


def of_host(
    predict: Callable[[np.ndarray], np.ndarray], background: np.ndarray
) -> Callable[[np.ndarray], Game]:
    """The same for a model on the host, one call an instance."""
    B, P = background.shape

    def game_of(X: np.ndarray) -> Game:
        def game(masks: np.ndarray) -> np.ndarray:
            out = np.empty((len(masks), len(X)))
            for n, x in enumerate(X):
                rows = np.where(masks[:, None, :], x, background).reshape(-1, P)
                out[:, n] = predict(rows).reshape(-1, B).mean(axis=1)
            return out

        return game

    return game_of


class Counted:
    """A game that asks no coalition twice, and counts those that it asked.

    The empty and the full coalition are not counted: everybody asks them.
    """

    def __init__(self, game: Game, players: int) -> None:
        self._game, self._places = game, dict[bytes, int]()
        self._values: np.ndarray | None = None
        self(np.stack([np.zeros(players, bool), np.ones(players, bool)]))

    @property
    def asked(self) -> int:
        """Distinct coalitions so far."""
        return len(self._places) - 2

    def __call__(self, masks: np.ndarray) -> np.ndarray:
        """Values [C, N] of coalitions [C, P], of 0 and 1 in any type."""
        masks = np.asarray(masks).astype(bool)
        keys = [row.tobytes() for row in np.packbits(masks, axis=1)]
        new: dict[bytes, int] = {}
        for at, key in enumerate(keys):
            if key not in self._places and key not in new:
                new[key] = at
        if new:
            values = self._game(masks[list(new.values())])
            self._places.update(zip(new, range(len(self._places), 10**9), strict=False))
            old = self._values
            self._values = values if old is None else np.concatenate([old, values])
        assert self._values is not None
        return self._values[[self._places[key] for key in keys]]
