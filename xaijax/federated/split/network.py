"""A split network, trained with optax: an encoder for each party, and a head at the host.

Letters: N rows, F columns, E numbers of an answer, H hidden units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.core.public import public
from xaijax.core.typing import ArrayLike
from xaijax.federated.in_process.parties import HOST
from xaijax.federated.split.makers import training
from xaijax.federated.split.model import JOINS, PartySplit, split_of
from xaijax.federated.split.parts import Part

LEAST_EMBEDDING = 4
Params = dict[str, dict[str, Any]]  # {party or "join": arrays}


@public
def split_network(
    rows: ArrayLike,
    labels: ArrayLike,
    guests: Mapping[str, Iterable[int | str]],
    embedding: int = LEAST_EMBEDDING,
    hidden: int = 32,
    steps: int = 2_000,
    batch: int = 512,
    rate: float = 3e-3,
    seed: int = 0,
    feature_names: Sequence[str] | None = None,
) -> PartySplit:
    """Trains a split neural network: an encoder for each party, and a head at the host.

    The model is sigmoid(head([h(x_H), g_1(x_G1), ...])). An encoder sees the columns of one party
    and has two layers, columns -> hidden -> embedding, with tanh after both. A guest's answer is
    therefore `embedding` numbers between -1 and 1. The head has one hidden layer. Training is by
    Adam.

    Args:
        rows: array [N, F] of numbers, read as float32; normalise it before.
        labels: [N], True or 1 for the class that is explained and False or 0 for the other one;
            both must occur.
        guests: {"name": [places of its columns]}, places from 0. The other columns are the host's.
            Each party needs at least one. With feature names, names are accepted too.
        embedding: int, at least 4. It is how many numbers a guest's answer has. The host's own
            encoder has as many as `hidden`.
        hidden: int. It is the number of units of each hidden layer.
        steps: int. It is the number of steps of the training.
        batch: int. It is the number of rows in one step, drawn with replacement; at most N are
            used.
        rate: float above 0. It is the first learning rate; it falls to 0 along a cosine.
        seed: int. The first weights and the draws follow from it.
        feature_names: texts [F] or None, the names of all columns; see `split_logistic`. None: the
            names in a frame `rows`, and no names otherwise.

    Returns:
        A `PartySplit`, with a part of `embedding` numbers for each guest.

    Raises:
        InputError, InputTypeError: an argument that is not accepted.
        ImportError: optax is not installed.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> rows = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
        >>> labels = [0, 0, 1, 1]
        >>> split = xj.federated.split_network(rows, labels, {"shop": [1]}, steps=100)
        >>> split.joint.predict(rows) > 0.5
        array([False, False,  True,  True])
        >>> split.parts["shop"].width
        4

    Training sees all columns, in this process; explaining needs no column of a guest.
    """
    X, y, names, parties = training(rows, labels, guests, feature_names, np.float32)
    y = y.astype(np.float32)
    if checks.whole_number(embedding, "embedding") < LEAST_EMBEDDING:
        raise InputError(f"embedding={embedding}: at least {LEAST_EMBEDDING} numbers are needed.")
    for name, value in (("hidden", hidden), ("steps", steps), ("batch", batch)):
        checks.whole_number(value, name)
    checks.positive(rate, "rate")
    blocks = {HOST: np.array(parties.host)}
    blocks |= {name: np.array(places) for name, places in parties.guests.items()}
    rng = np.random.default_rng(checks.whole_number(seed, "seed", least=0))
    widths = {name: hidden if name == HOST else embedding for name in blocks}
    params: Params = {
        name: _layers(rng, len(places), hidden, widths[name]) for name, places in blocks.items()
    }
    params["join"] = _layers(rng, sum(widths.values()), hidden, 1)
    encode = Part("network", params[HOST]).formula

    def chance(held: Params, some: Any) -> Any:
        own, *answers = (encode(jnp, held[name], some[:, at]) for name, at in blocks.items())
        return JOINS["head"](jnp, held["join"], own, jnp.concatenate(answers, axis=1))

    params = _trained(chance, params, X, y, steps, min(batch, len(X)), rate, rng)
    made = {name: Part("network", params[name]) for name in blocks}
    own = made.pop(HOST)
    return split_of(own, made, parties, "head", params["join"], names)


def _layers(rng: np.random.Generator, columns: int, hidden: int, width: int) -> dict[str, Any]:
    def weights(rows: int, out: int) -> np.ndarray:
        return (rng.normal(size=(rows, out)) / np.sqrt(rows)).astype(np.float32)

    return {
        "weights0": weights(columns, hidden),
        "bias0": np.zeros(hidden, np.float32),
        "weights1": weights(hidden, width),
        "bias1": np.zeros(width, np.float32),
    }


def _trained(
    chance: Callable[[Params, Any], Any],
    params: Params,
    X: np.ndarray,
    y: np.ndarray,
    steps: int,
    batch: int,
    rate: float,
    rng: np.random.Generator,
) -> dict[str, dict[str, np.ndarray]]:
    optax = require("optax", "optax")
    optimiser = optax.adam(optax.cosine_decay_schedule(rate, steps))

    def loss(held: Params, some: Any, truth: Any) -> Any:
        p = jnp.clip(chance(held, some), 1e-6, 1 - 1e-6)
        return -(truth * jnp.log(p) + (1 - truth) * jnp.log1p(-p)).mean()

    @jax.jit
    def run(held: Params, data: Any, truth: Any, draws: Any) -> Params:
        def step(carry: Any, places: Any) -> Any:
            now, state = carry
            gradient = jax.grad(loss)(now, data[places], truth[places])
            updates, state = optimiser.update(gradient, state)
            return (optax.apply_updates(now, updates), state), None

        return jax.lax.scan(step, (held, optimiser.init(held)), draws)[0][0]

    draws = rng.integers(0, len(X), (steps, batch))
    done = run(params, X, y, draws)
    return {name: {k: np.asarray(v) for k, v in held.items()} for name, held in done.items()}
