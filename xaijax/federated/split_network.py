"""A split network, trained with optax: an encoder for each party, and a head at the host.

Letters: N rows, F columns, E numbers of an answer, H hidden units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax import _checks
from xaijax._errors import InputError
from xaijax._optional import require
from xaijax._public import public
from xaijax.federated.parts import Part
from xaijax.federated.policy import positive
from xaijax.federated.split import JOINS, Split, split_of
from xaijax.federated.split_models import labels_of, split_parties
from xaijax.methods._parties import HOST

LEAST_EMBEDDING = 4
Params = dict[str, dict[str, Any]]  # {party or "join": arrays}


@public
def split_network(
    rows: Any,
    labels: Any,
    guests: Mapping[str, Any],
    embedding: int = LEAST_EMBEDDING,
    hidden: int = 32,
    steps: int = 2_000,
    batch: int = 512,
    rate: float = 3e-3,
    seed: int = 0,
) -> Split:
    """Train sigmoid(head([h(x_H), g_1(x_G1), ...])); each encoder sees one party's columns.

    An encoder is columns -> hidden -> embedding, with tanh after both layers, so that a guest's
    answer is `embedding` numbers within -1 and 1; the head has one hidden layer. Training (Adam)
    sees all columns, in this process; it is the explanation that needs no column of a guest.

    Args:
        rows: [N, F], normalised. labels: [N], True or 1 for the class that is explained.
        guests: {"name": [places of its columns]}.
        embedding: numbers in a guest's answer, at least 4; the host's own encoder has as many as
            `hidden`.
        hidden, steps, batch, rate, seed: of the layers and of the training.

    Raises InputError and InputTypeError for what is not accepted.
    """
    X = _checks.matrix(rows, "rows").astype(np.float32)
    y = labels_of(labels, len(X)).astype(np.float32)
    parties = split_parties(guests, X.shape[1])
    if _checks.whole_number(embedding, "embedding") < LEAST_EMBEDDING:
        raise InputError(
            f"embedding={embedding}: fewer than {LEAST_EMBEDDING} numbers cost accuracy; give more."
        )
    for name, value in (("hidden", hidden), ("steps", steps), ("batch", batch)):
        _checks.whole_number(value, name)
    positive(rate, "rate")
    blocks = {HOST: np.array(parties.host)}
    blocks |= {name: np.array(places) for name, places in parties.guests.items()}
    rng = np.random.default_rng(_checks.whole_number(seed, "seed", least=0))
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
    return split_of(own, made, parties.guests, parties.host, "head", params["join"])


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
