"""T23: model rows a second with one background row, over those with 100."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import xaijax
from bench.cases.exact import Problem, network
from bench.definition import efficiency
from bench.frame import Case, Contender, Figure, Outcome, Several, Size, take_turns
from bench.models import forward


@dataclass(frozen=True)
class Rates:
    """Two problems of as many model rows, with one background row and with many."""

    one: Problem
    many: Problem
    estimator: dict[str, Any]  # arguments of the Explainer
    rounds: int

    def measure(self) -> Outcome:
        """Time both in turn; rows are those that the model was asked, padding left out."""
        sides = {f"B = {len(side.background)}": side for side in (self.one, self.many)}

        def contender(name: str, side: Problem) -> Contender:
            model = xaijax.as_model(forward, side.params)
            explain = xaijax.Explainer(model, side.background, **self.estimator)
            return Contender(name, lambda n: explain(side.X[:n], progress=False), len(side.X))

        contenders = [contender(name, side) for name, side in sides.items()]
        timings, results = take_turns(contenders, rounds=self.rounds)
        one, many = (results[name].stats["model_rows"] / timings[name].best for name in sides)
        figure = Figure("rows/s with 1 background row / with many", one / many, 0.7, 0.9, "more")
        agreements = tuple(efficiency(results[name], side.outputs) for name, side in sides.items())
        return Outcome((figure,), tuple(timings.values()), agreements)


def setup(size: Size) -> Several:
    """Measures model rows a second with one background row over those with 100: exact values of MLP
    12-64-64-1 and permutations of MLP 64-64-64-1.

    Exact values of T1's network, and permutations of T18's.

    Missed: With permutations and one background row a tile of one size has few rows.
    """
    many, instances = (5, 4) if size == "smoke" else (100, 80)
    exact, wide = ((6, 8, 1), (16, 8, 1)) if size == "smoke" else ((12, 64, 64, 1), (64, 64, 64, 1))
    ways = {
        "exact": (exact, {"estimator": "exact"}),
        "permutation": (wide, {"estimator": "permutation", "budget": 20 * (wide[0] - 1)}),
    }
    return Several(
        {
            name: Rates(
                network(instances * many, 1, widths),
                network(instances, many, widths),
                estimator,
                rounds=1 if size == "smoke" else 5,
            )
            for name, (widths, estimator) in ways.items()
        }
    )


CASES = (Case("T23", setup),)
