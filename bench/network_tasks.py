"""Networks against themselves alone and against shap: what the cases of `cases/networks.py` share.

Letters: N instances, B background rows, P players, F numbers of a row, K outputs, S seeds,
L places.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xaijax
from bench.definition import REASON, efficiency, shapley_of_players, tolerance
from bench.frame import LEAST_SECONDS, Agreement, Contender, Duel, Figure, Size, Timing, ratio
from bench.passes import best_pass_of
from bench.peers import shap_sampled
from bench.peers.installed import installed
from bench.peers.shap_exact import steadied

OURS, FORWARD, PEER = "xaijax", "plain forward", shap_sampled.PERMUTATION
SEEDS, FEW = 10, 2  # runs and instances by which the estimates are compared
UNITED = 8  # players of the exact comparison


@dataclass(frozen=True)
class Task:
    """A network, its rows, and shap's values of them."""

    network: Any
    forward: Callable[[Any, Any], jax.Array]  # (params, rows) -> [R, K]
    params: Any
    X: Any  # [N, ...], an array or a tree of arrays
    background: Any  # [B, ...]
    in_line: Callable[[Any], np.ndarray]  # rows -> their numbers, float32 [R, F]
    of_line: Callable[[Any], Any]  # the way back, in JAX
    P: int
    given: Callable[[np.ndarray], Any]  # numbers of players [P] -> players=
    peer: Callable[[int, int], np.ndarray]  # (count, seed) -> shap's values of the first instances
    orders: int  # each there and back
    passed: Any  # rows for the plain forward
    tiles: tuple[int, ...]  # of the plain forward
    size: Size

    @property
    def budget(self) -> int:
        """Coalitions of the orders, the two ends left out."""
        return self.orders * 2 * (self.P - 1)

    @cached_property
    def answers(self) -> np.ndarray:
        """The network on the instances, float64 [N, K]."""
        return self._answers(self.X)

    def _answers(self, rows: Any) -> np.ndarray:
        return np.asarray(jax.jit(self.forward)(self.params, rows), np.float64)

    def explainer(self) -> Any:
        """Ours, by pairs of orders."""
        model, players = xaijax.as_model(self.network), self.given(np.arange(self.P))
        return xaijax.Explainer(
            model,
            self.background,
            players=players,
            estimator="permutation",
            budget=self.budget,
        )

    def duel(self) -> Duel:
        """Ours, the network alone and shap in turn."""
        explain, full = self.explainer(), self.size == "full"
        N, B = (len(jax.tree.leaves(rows)[0]) for rows in (self.X, self.background))
        rows_each = B * (self.budget + 2)
        plain, tile = best_pass_of(self.forward, self.params, self.passed, rows_each, self.tiles)
        least = LEAST_SECONDS if full else 0.0
        x, donors = (self.in_line(rows)[:, : self.P] for rows in (self.X, self.background))
        equal = np.mean([(x == donor).mean() for donor in donors])

        def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
            del results
            value, speed = ratio(timings, OURS, FORWARD), ratio(timings, PEER, OURS)
            return [
                Figure("time / plain forward of the same rows", value, 1.25, 1.05),
                Figure(f"{PEER} / ours", speed, better="more", unit="x"),
            ]

        return Duel(
            [
                Contender(OURS, lambda n: explain(first(self.X, n), progress=False), N),
                Contender(FORWARD, plain, N, least),
                Contender(PEER, lambda n: self.peer(n, 0), N, least),
            ],
            lambda results: self.agreements(results[OURS]),
            figures,
            rounds=3 if full else 1,
            notes=(
                f"{N:,} instances, {B} background rows, {self.orders} orders there and back",
                f"forward in tiles of {tile:,} rows, the fastest of {len(self.tiles)}",
                f"{equal:.0%} of the numbers replaced are equal: shap does not ask a hybrid that "
                "equals the one before, ours asks it",
                "shap's calls are padded to few sizes, so that it does not compile in each",
            ),
        )

    def agreements(self, explanation: Any) -> list[Agreement]:
        """Efficiency; exact values and the definition; the means over seeds of ours and shap's."""
        return [efficiency(explanation, self.answers), self._definition(), self._means()]

    def _definition(self) -> Agreement:
        """Exact values of one instance's first output, for few players of several numbers each."""
        united = self.given(np.arange(self.P) * UNITED // self.P)
        model, x = xaijax.as_model(self.network), first(self.X, 1)
        explain = xaijax.Explainer(model, self.background, players=united, estimator="exact")
        values = explain(x, progress=False).values[0, :, 0]
        own = np.arange(self.P) * UNITED // self.P
        numbers = self.in_line(x)[0], self.in_line(self.background)
        padded = np.pad(own, (0, numbers[0].size - self.P), constant_values=-1)

        def predict(rows: np.ndarray) -> np.ndarray:
            return self._answers(self.of_line(jnp.asarray(rows)))[:, 0]

        expected = shapley_of_players(predict, *numbers, padded)
        difference = float(np.abs(values - expected).max())
        accepted = tolerance(self.answers)
        return Agreement("exact values and the definition", difference, accepted, REASON)

    def _means(self) -> Agreement:
        """As near as so many independent runs allow, by seeds that are fixed."""
        explain, few = self.explainer(), first(self.X, FEW)
        sides: list[list[np.ndarray]] = [[], []]
        for seed in range(SEEDS):
            explain.seed = seed
            sides[0].append(explain(few, progress=False).values)
            sides[1].append(self.peer(FEW, seed))
        runs = np.array(sides)  # [2, S, N, P, K]
        ours, theirs = runs.mean(axis=1)
        variance = runs.var(axis=1, ddof=1).mean(axis=(1, 2, 3)).sum() / SEEDS
        difference = float(np.sqrt(((ours - theirs) ** 2).mean()))
        reason = "twice the standard error of the difference of the means"
        name = f"means over {SEEDS} seeds, ours and {PEER}'s"
        return Agreement(name, difference, float(2 * np.sqrt(variance)), reason)


@dataclass(frozen=True)
class TokenTask(Task):
    """Rows {"ids", "mask"}, of which the mask is never replaced."""

    def agreements(self, explanation: Any) -> list[Agreement]:
        """Beside those: the values of the concatenated array, and 0 for padding, to the bit."""
        few = first(self.X, FEW)
        model = xaijax.as_model(
            lambda params, rows: self.forward(params, self.of_line(rows)), params=self.params
        )
        array = xaijax.Explainer(
            model,
            self.in_line(self.background),
            players=np.pad(np.arange(self.P), (0, self.P), constant_values=-1),
            estimator="permutation",
            budget=self.budget,
        )
        values = array(self.in_line(few), progress=False).values
        apart = float(np.abs(explanation.values[:FEW] - values).max())
        padding = float(np.abs(explanation.values[~self.X["mask"]]).max(initial=0.0))
        return [
            *super().agreements(explanation),
            Agreement("arrays in a tree and in one", apart, 0.0, "the same hybrids"),
            Agreement("padding and 0", padding, 0.0, "the network does not read it"),
        ]


def first(rows: Any, count: int) -> Any:
    """The first of the rows."""
    return jax.tree.map(lambda leaf: leaf[:count], rows)


def digits(size: Size) -> Task:
    """Pixels of digits, a convolutional network."""
    installed("flax.nnx")
    from bench import nnx_models  # noqa: PLC0415

    full = size == "full"
    N, B, orders = (1_000, 10, 4) if full else (3, 2, 2)
    images, y = nnx_models.digits()
    X, background = images[:N], images[N : N + B]
    network = nnx_models.Convolutional((16, 32) if full else (2, 4), 64 if full else 8, 10)
    nnx_models.train(network, images[N + B :], y[N + B :], 300 if full else 2)
    forward, params = nnx_models.forward_of(network)

    def of_line(rows: Any) -> Any:
        return rows.reshape(-1, 8, 8, 1)

    def in_line(rows: np.ndarray) -> np.ndarray:
        return rows.reshape(len(rows), -1)

    model = steadied(jax.jit(lambda rows: forward(params, of_line(rows))))
    explain = shap_sampled.permutation_of_rows(model, in_line(background), orders)
    return Task(
        network,
        forward,
        params,
        X,
        background,
        in_line,
        of_line,
        64,
        lambda players: players.reshape(8, 8, 1),
        lambda count, seed: explain(in_line(X[:count]), seed),
        orders,
        np.resize(images, (8_192 if full else 64, 8, 8, 1)),
        (64, 128, 256, 512, 1_024, 2_048, 4_096) if full else (32, 64),
        size,
    )


def tokens(size: Size) -> TokenTask:
    """Words of padded sentences; shap gets an array of ids, and the mask of the instance."""
    installed("flax.nnx")
    from bench import nnx_models  # noqa: PLC0415

    full = size == "full"
    L, N, B, orders = (64, 100, 10, 4) if full else (12, 3, 2, 2)
    network = nnx_models.Reader(L, *((16, 2) if full else (4, 1)))
    nnx_models.train(network, *nnx_models.sentences(4_000, L, 0), 200 if full else 2)
    forward, params = nnx_models.forward_of(network)
    X, background = (nnx_models.sentences(n, L, seed)[0] for n, seed in ((N, 1), (B, 2)))
    model, now = jax.jit(lambda rows: forward(params, rows)), {"mask": X["mask"][:1]}

    def of_ids(ids: np.ndarray) -> Any:
        ids = ids.astype(np.int32)  # shap's hybrids may be float64
        return model({"ids": ids, "mask": np.repeat(now["mask"], len(ids), axis=0)})

    explain = shap_sampled.permutation_of_rows(steadied(of_ids), background["ids"], orders)

    def peer(count: int, seed: int) -> np.ndarray:
        found = []
        for n in range(count):
            now["mask"] = X["mask"][n : n + 1]
            found.append(explain(X["ids"][n : n + 1], seed))
        return np.concatenate(found)

    return TokenTask(
        network,
        forward,
        params,
        X,
        background,
        lambda rows: np.concatenate([rows["ids"], rows["mask"]], axis=1).astype(np.float32),
        lambda rows: {"ids": rows[:, :L].astype(jnp.int32), "mask": rows[:, L:] > 0},
        L,
        lambda players: {"ids": players, "mask": -1},
        peer,
        orders,
        nnx_models.sentences(2_048 if full else 64, L, 3)[0],
        (32, 64, 128, 256, 512) if full else (32, 64),
        size,
    )
