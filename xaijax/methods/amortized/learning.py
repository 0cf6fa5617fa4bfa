"""The training loop: Adam with decoupled weight decay, validated on rows that are not trained on.

The result is a running mean of the parameters over about the last hundred steps (Polyak and
Juditsky 1992), because labels are noisy and single steps are too.

Letters: n training rows, F columns, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.methods.amortized.calling import fewest_judges
from xaijax.methods.amortized.predictor import Predictor

CHECKS = 50  # checks on the validation rows during training
DECAY = 1e-4  # decay of the weights, per step at rate 1
KEPT = 0.99  # share of the parameters' mean kept from one step to the next
WARM = 0.05  # share of the steps in which the rate rises from 0; then it falls along a cosine


@dataclass(frozen=True)
class TrainingRecipe:
    """The settings of the training."""

    steps: int
    batch: int  # rows in a step
    learning_rate: float  # the highest
    seed: int

    @property
    def each(self) -> int:
        """Number of steps from one check to the next."""
        return -(-self.steps // CHECKS)

    @property
    def total(self) -> int:
        """Total number of steps, rounded up to whole checks."""
        return -(-self.steps // self.each) * self.each


@dataclass(frozen=True)
class Lesson:
    """Rows with the values that the network should predict."""

    read: np.ndarray  # float32 [n, F], as `Inputs.read` gives them
    full: np.ndarray  # float64 [n, K], f(x)
    values: np.ndarray  # float64 [n, P, K]; noise of mean 0 in them is averaged out

    def __len__(self) -> int:
        return len(self.read)

    def take(self, places: np.ndarray) -> Lesson:
        """The rows at these positions."""
        return Lesson(self.read[places], self.full[places], self.values[places])


def learn(
    predictor: Predictor,
    training: Lesson,
    validation: Lesson,
    recipe: TrainingRecipe,
    stepped: Callable[[int], object],
) -> tuple[Any, int]:
    """(the parameters of the smallest validation error, the steps after which they occurred)."""
    optax = require("optax", "optax")
    rate = optax.warmup_cosine_decay_schedule(
        0.0, recipe.learning_rate, max(1, int(WARM * recipe.total)), recipe.total + 1
    )
    optimiser = optax.adamw(rate, weight_decay=DECAY)
    held = [jnp.asarray(array, jnp.float32) for array in (training.read, training.full)]
    wanted = jnp.asarray(training.values, jnp.float32)
    scale = np.asarray(predictor.scale, np.float32)

    def loss(params: Any, rows: jax.Array) -> jax.Array:
        values, _ = predictor.values(params, held[0][rows], held[1][rows])
        return jnp.mean(((values - wanted[rows]) / scale) ** 2)

    @jax.jit
    def chunk(params: Any, state: Any, mean: Any, batches: jax.Array) -> Any:
        def step(carry: Any, rows: jax.Array) -> Any:
            params, state, mean = carry
            updates, state = optimiser.update(jax.grad(loss)(params, rows), state, params)
            params = optax.apply_updates(params, updates)
            mean = jax.tree.map(lambda m, p: m + (1 - KEPT) * (p - m), mean, params)
            return (params, state, mean), None

        return jax.lax.scan(step, (params, state, mean), batches)[0]

    params = predictor.network.params
    state, mean = optimiser.init(params), params
    best, least, met, done = params, validation_error(predictor, params, validation), 0, 0
    for batches in _batches(len(training), recipe):
        params, state, mean = chunk(params, state, mean, batches)
        done += len(batches)
        error = validation_error(predictor, mean, validation)
        if error < least:
            best, least, met = mean, error, done
        stepped(len(batches))
    return jax.tree.map(np.asarray, best), met


def validation_error(predictor: Predictor, params: Any, rows: Lesson) -> float:
    """Mean squared error in units of the values' spread; infinite for NaN."""
    line = np.zeros(1 + predictor.feature_count)
    values, _ = predictor.of(params, line, rows.read, rows.full)
    error = float(np.mean(((values - rows.values) / predictor.scale) ** 2))
    return error if np.isfinite(error) else np.inf


def _batches(n: int, recipe: TrainingRecipe) -> list[np.ndarray]:
    """Positions of the rows of each step, int32 [steps of a check, rows]: all rows in every
    epoch.
    """
    rng = np.random.default_rng([recipe.seed, 2])
    size = min(recipe.batch, n)
    per_epoch = n // size
    epochs = -(-recipe.total // per_epoch)
    order = [rng.permutation(n)[: per_epoch * size].reshape(-1, size) for _ in range(epochs)]
    every = np.concatenate(order)[: recipe.total].astype(np.int32)
    return list(every.reshape(-1, recipe.each, size))


SHARE = 10  # one row in this number is kept from training, for validation
MOST_WATCHED = 5_000  # at most this number of rows
LEAST = 20  # rows in addition to the judge's


@dataclass(frozen=True)
class RowSplit:
    """Positions of rows, int64 each; together all rows, each once."""

    training: np.ndarray
    validation: np.ndarray
    judge: np.ndarray


def read_split(N: int, judge: Any, confidence: float, seed: int) -> RowSplit:
    """Splits N rows into those that judge, validate and train, drawn by the seed."""
    judges = checks.whole_number(judge, "judge")
    fewest = fewest_judges(confidence)
    if judges < fewest:
        raise InputError(
            f"judge={judges} rows are too few at confidence={confidence:g}. Say judge={fewest} or "
            "more."
        )
    if N - judges < LEAST:
        raise InputError(
            f"judge={judges} of the {N:,} rows of X leaves {max(N - judges, 0)} to learn from; "
            f"{LEAST} are needed. Give more rows, or a smaller judge=."
        )
    order = np.random.default_rng([seed, 0]).permutation(N)
    watched = judges + min(max(2, (N - judges) // SHARE), MOST_WATCHED)
    return RowSplit(order[watched:], order[judges:watched], order[:judges])


def read_share(fallback: Any) -> float:
    """Reads a number from 0 to 1."""
    what = "a share of the rows, from 0 (none) to 1 (all)"
    return checks.number(fallback, "fallback", what, lambda x: 0 <= x <= 1)
