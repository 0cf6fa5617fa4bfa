"""Reports that private releases are tested on, and what a release is before its noise."""

from __future__ import annotations

import functools

import jax.numpy as jnp
import numpy as np

import xaijax as xj
from xaijax.privacy import plan
from xaijax.privacy.facts import facts_of
from xaijax.results.recount import remembered

LATTICE = 1 << 20


def before_noise(explanation):
    """The whole numbers that noise is added to."""
    recount = remembered(explanation)
    chance = recount.chance
    if chance is not None:
        chance = plan.chance_on_lattice(chance)
    return plan.lattice_values(facts_of(explanation), recount.sums(), chance)


def planned(explanation, epsilon=1.0, composition="l1", calibration="proved"):
    """The plan of a release: values, the noise needed, what is said of it."""
    recount = remembered(explanation)
    return plan.planned(
        explanation, facts_of(explanation), recount, epsilon, composition, calibration
    )


def table_model(labels, backend="jax"):
    """A classifier of rows of two bits by a table of four labels; each is compiled once."""
    return _table_model(tuple(float(label) for label in labels), backend)


@functools.cache
def _table_model(table, backend):
    def classify(X):
        place = X[:, 0] + 2 * X[:, 1]
        if backend == "host":
            return np.array(table)[place.astype(int)]
        return jnp.array(table)[place.astype(int)]

    return xj.as_model(classify, output="label", backend=backend, classes=[0, 1])


def scores(X):
    """Scores of rows of three columns, many of them outside (0, 1)."""
    return 0.3 * X[:, 0] + 0.21 * X[:, 1] * X[:, 2] - 0.17 * X[:, 2]


def chances(X):
    """Three classes' chances of rows of three columns."""
    z = jnp.stack([X[:, 0] - X[:, 1], X[:, 1] * X[:, 2], 0.5 * X[:, 2]], axis=1)
    e = jnp.exp(z)
    return e / e.sum(axis=1, keepdims=True)


D = np.random.default_rng(2).integers(0, 2, (8, 2)).astype(np.float32)
WIDE = np.random.default_rng(3).integers(0, 3, (6, 3)).astype(np.float32)
MEMBERS = np.arange(8) < 3
MODEL = table_model((0, 1, 1, 0))
CHANCES = xj.as_model(chances, output="proba", classes=["a", "b", "c"])


def average(**more):
    """A report of the data D."""
    return xj.QII(MODEL, D, quantity="average", **more).explain()


def person(place):
    """A report of one row that is taken as public."""
    return xj.QII(MODEL, D, quantity="individual").explain(D[place : place + 1].copy())


def disparity(data=D, members=MEMBERS, **more):
    """A report of a gap."""
    return xj.QII(MODEL, data, quantity="disparity", members=members, **more).explain()


def of_chances(difference, **more):
    """A report of vectors of chances."""
    return xj.QII(
        CHANCES, WIDE, quantity="rate", outcome="proba", difference=difference, **more
    ).explain()
