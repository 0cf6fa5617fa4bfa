"""Multi-layer perceptrons."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Columns
from xaijax.models.translations.registry import Translation, place, then, translates, two
from xaijax.tables.table import Untranslatable

ACTIVATIONS = {
    "identity": lambda x: x,
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "softmax": lambda x: jax.nn.softmax(x, axis=1),
    "exp": jnp.exp,
}


def _network(estimator: Any, columns: Columns, answers: bool = False) -> tuple[list[Any], Any, Any]:
    """(params, [(weights [I, O], bias [O])] by layer; its answer [R, K]; its output activation).

    answers: the value to subtract from the outputs.
    """
    out = estimator.out_activation_
    for name in (estimator.activation, out):
        if name not in ACTIVATIONS:
            raise Untranslatable(f"its activation {name!r} has no translation")
    biases = [np.asarray(bias, np.float64) for bias in estimator.intercepts_]
    biases[0] = biases[0] + columns.taken() @ estimator.coefs_[0]
    if answers and out == "identity":
        biases[-1] = biases[-1] - columns.taken_from_answers()
    params = [
        (columns.number(weights), columns.number(bias))
        for weights, bias in zip(estimator.coefs_, biases, strict=True)
    ]
    hidden = ACTIVATIONS[estimator.activation]

    def scores(params: Any, rows: Any) -> Any:
        for weights, bias in params[:-1]:
            rows = hidden(rows @ weights + bias)
        weights, bias = params[-1]
        return rows @ weights + bias

    return params, scores, ACTIVATIONS[out]


@translates("MLPRegressor")
def regressor(estimator: Any, columns: Columns) -> Translation:
    """A number, or one per target."""
    params, scores, out = _network(estimator, columns, True)
    single = estimator.n_outputs_ == 1
    value = then(scores, lambda x: out(x)[:, 0] if single else out(x))
    return Translation(params, {"value": value}, "network")


@translates("MLPClassifier")
def classifier(estimator: Any, columns: Columns) -> Translation:
    """Probabilities; of two classes the second is chosen if its probability is above one half."""
    params, scores, out = _network(estimator, columns)
    if estimator.n_outputs_ == 1:
        # The sigmoid of a score is above one half if the score is above 0.
        heads = {
            "proba": then(scores, lambda x: two(out(x)[:, 0])),
            "label": then(scores, lambda x: place(x[:, 0])),
        }
    else:
        heads = {"proba": then(scores, out), "label": then(scores, place)}
    return Translation(params, heads, "network")
