"""Complex numbers are refused wherever numbers come in: NumPy would keep their real parts."""

from __future__ import annotations

import numpy as np
import pytest

import xaijax as xj
from xaijax import plots
from xaijax.core.errors import InputTypeError
from xaijax.federated import FunctionPart
from xaijax.results.explanation import Explanation

Z = np.array([[1 + 2j, 3.0], [0.0, 1.0]])
D = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
ONE = np.complex128(1 + 1j)
SCORE = xj.as_model(lambda rows: rows[:, 0], backend="host")
PROBA = xj.as_model(
    lambda rows: np.stack([1 - rows[:, 0], rows[:, 0]], 1),
    backend="host", output="proba", classes=[0, 1],
)  # fmt: skip
OF = {"quantity": "individual", "outcome": "score"}
PLAIN = Explanation(values=np.ones((2, 2)), base_values=np.zeros(2))


def twice(weight):
    return lambda size: weight


CASES = {
    "values": lambda: Explanation(values=Z, base_values=np.zeros(2)),
    "base_values": lambda: Explanation(values=Z.real, base_values=Z[0]),
    "std_errors": lambda: Explanation(values=Z.real, base_values=np.zeros(2), std_errors=Z),
    "data": lambda: Explanation(values=Z.real, base_values=np.zeros(2), data=Z),
    "values of objects": lambda: Explanation(values=Z.astype(object), base_values=np.zeros(2)),
    "values of a list": lambda: Explanation(values=[[1j]], base_values=[0.0]),
    "level": lambda: PLAIN.half_widths(np.complex128(0.5)),
    "game": lambda: xj.CoalitionTable(Z, ("a",)),
    "rounding": lambda: xj.CoalitionTable(Z.real, ("a",), rounding=np.array([1j, 0])),
    "one rounding": lambda: xj.CoalitionTable(Z.real, ("a",), rounding=ONE),
    "weights": lambda: xj.Explainer(SCORE, D, weights=np.array([1j, 1, 1])),
    "tolerance": lambda: xj.Explainer(SCORE, D, tolerance=ONE),
    "index": lambda: xj.Explainer(SCORE, D, index=twice(ONE)),
    "plain index": lambda: xj.Explainer(SCORE, D, index=twice(1j)),
    "link": lambda: xj.Explainer(SCORE, D, link=lambda v: v + 1j)(D),
    "baseline": lambda: xj.Explainer(SCORE, xj.Baseline(Z[0]))(D),
    "chances": lambda: xj.QII(SCORE, D, **OF).explain(D, index=np.array([1j, 1, 1, 1])),
    "chances by a function": lambda: xj.QII(SCORE, D, **OF).explain(
        D, index=lambda masks: masks.sum(1) + 1j
    ),
    "difference": lambda: xj.QII(
        PROBA,
        D,
        quantity="individual",
        outcome="proba",
        difference=lambda p, q: (p - q).sum(-1) * 1j,
    ).explain(D),
    "bounds": lambda: xj.QII(SCORE, D, **OF, bounds=(np.complex128(0), ONE)),
    "pool weights": lambda: xj.QII(SCORE, D, **OF, pool_weights=np.array([1j, 1, 1])),
    "rows of a sampler": lambda: xj.QII(
        SCORE, D, **OF, pool=lambda rng, n: np.ones((n, 2)) * 1j, samples=8
    ).explain(D),
    "cuts": lambda: xj.AnchorExplainer(PROBA, D, bins={"x0": [1j]}),
    "threshold of rules": lambda: xj.AnchorExplainer(PROBA, D).explain(D, threshold=ONE),
    "part": lambda: FunctionPart(lambda rows: rows[:, 0] * 1j, 2).answers(D),
    "picture": lambda: plots.image(
        Explanation(values=np.ones((1, 4)), base_values=np.zeros(1), data=Z[None]), outline=True
    ),
    "ranking": lambda: xj.normalized_movement_rate(lambda X, y: np.array([1j, 0]), D, D[:, 0]),
}


@pytest.mark.parametrize("name", CASES)
def test_complex_numbers_are_refused(name):
    """Warnings are errors here, so that NumPy's own would be seen."""
    with pytest.raises((InputTypeError, xj.ModelOutputError, xj.InputError)) as caught:
        CASES[name]()
    assert "omplex" in str(caught.value) or "number" in str(caught.value)
