"""Small tables and models that the tests of Anchors share."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

import xaijax as xj

RNG = np.random.default_rng(5)
# Two columns with few values that go by equality, two numeric ones with cuts.
DATA = np.column_stack(
    [RNG.integers(0, 2, 24), RNG.integers(0, 3, 24), RNG.normal(size=24), RNG.normal(size=24)]
).astype(np.float32)
X = np.concatenate([DATA[:3], DATA[10:12]])
CATEGORIES = [0, 1]
CUTS = {2: [-0.5, 0.5], 3: [0.0]}
EDGES = [None, None, [-0.5, 0.5], [0.0]]
WEIGHTS = RNG.random(24).round(2) + 0.1


def score(rows, xp):
    """Three classes; products of columns, so that precisions differ and are not monotone."""
    a = rows[:, 0] * rows[:, 2] + 0.3 * rows[:, 1]
    b = 0.7 * rows[:, 3] - 0.2 * rows[:, 1] * rows[:, 2]
    return xp.stack([a, b, 0.4 + 0 * a], axis=1)


def one_class(row):
    """The class of one row, in float64."""
    p, q, r, s = map(float, row)  # plain numbers: it is asked a hundred thousand times
    answers = (p * r + 0.3 * q, 0.7 * s - 0.2 * q * r, 0.4)
    return answers.index(max(answers))


def jax_model():
    return xj.as_model(lambda rows: score(rows, jnp), output="decision", classes=["a", "b", "c"])


def host_model(calls=None):
    def f(rows):
        if calls is not None:
            calls.append(len(rows))
        return score(np.asarray(rows, np.float64), np)

    return xj.as_model(f, backend="host", output="decision", classes=["a", "b", "c"])


def explainer(model=None, **options):
    keywords = {"categories": CATEGORIES, "bins": CUTS, **options}
    return xj.AnchorExplainer(jax_model() if model is None else model, DATA, **keywords)


def columns_of(rule):
    return frozenset(rule.features)
