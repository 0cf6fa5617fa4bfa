"""From what a search found to `Rules`.

Letters: N instances, F columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.methods.anchors.problem import AnchorProblem
from xaijax.methods.anchors.settings import SearchSettings
from xaijax.methods.record import VERSIONS, cost
from xaijax.results.rules import AS_IT_IS, Rule, Rules
from xaijax.tables.rows import rows_of

OWN_VALUES = "tested at the instance's own values"


def found_rules(
    problem: AnchorProblem, game: Any, found: Found, search: str, target: str | None
) -> list[Rule]:
    """The Rule of each instance of the game; target: what is predicted, for the sentences."""
    rows = game.rows
    single = getattr(rows, "dtype", None) == np.float32
    if single and game.read_bins is not None:  # else `applies` compares with data of more digits
        single = all(one.single for one in game.read_bins.columns)
    # Columns with bins that a rule keeps at the instance's own value.
    own_values = np.zeros(problem.F, bool)
    if problem.space is not None and problem.space.KEEPS_OWN:
        own_values = game.space.binned
    predictions = problem.predictions(game.own)
    columns: dict[int, np.ndarray] = {}
    made = []
    for n in range(len(found.rules)):
        kept = np.flatnonzero(found.rules[n])
        predicates, words = [], []
        for f in kept:
            j = int(f)
            if game.read_bins is None:  # players without bins: as they are in x
                predicates.append((j, AS_IT_IS))
                words.append(f"{problem.players.names[j]} as it is")
                continue
            if j not in columns:
                columns[j] = rows_of(rows).column(j)
            one = game.read_bins.columns[j]
            value = columns[j][n]
            value = value.item() if isinstance(value, np.generic) else value
            predicate = one.predicate(int(game.low[n, j]), value, int(game.high[n, j]))
            predicates.append(predicate)
            words.append(one.words(predicate, value))
        low, error = float(found.lower[n]), float(found.error[n])
        made.append(
            Rule(
                rule=words,
                predicates=predicates,
                prediction=predictions[n],
                precision=float(found.precision[n]),
                precision_lower=None if np.isnan(low) else low,
                coverage=float(found.cover[n]) if game.cover is not None else None,
                accepted=bool(found.accepted[n]),
                samples=int(found.samples[n]),
                search=search,
                std_error=None if np.isnan(error) else error,
                target=target,
                tolerance=problem.tolerance,
                note=OWN_VALUES if own_values[kept].any() else "",
                names=problem.names,
                single=single,
            )
        )
    return made


def record(
    rules: list[Rule],
    problem: AnchorProblem,
    settings: SearchSettings,
    before: Any,
    how: dict[str, Any],
) -> Rules:
    """The rules with how they were made; before: the clock when the run began. how: rounds,
    widened, model_rows, seconds and reason of the stats.
    """
    evaluator = problem.evaluator
    evaluator.finish()
    clock = evaluator.clock
    stats = {
        "search": settings.search,
        "reason": how["reason"],
        "rounds": how["rounds"],
        "widened": how["widened"],
        "model_rows": how["model_rows"],
        "padded_rows": clock.padded_rows - before.padded_rows,
        **cost(evaluator.engine, clock, before, how["seconds"]),
        "devices": tuple(map(str, evaluator.engine.devices)),
        "seed": problem.seed,
    }
    provenance = {
        "method": "AnchorExplainer",
        "threshold": settings.threshold,
        "perturbation": problem.space_name,
        "beam_size": settings.beam_size,
        "max_size": settings.max_size,
        "delta": settings.delta,
        "confirm": settings.confirm,
        "widen": settings.widen,
        "data_rows": problem.B,
        "instances": len(rules),
        "versions": VERSIONS,
    }
    return Rules(tuple(rules), problem.names, stats, provenance)


@dataclass
class Found:
    """What was found; every array begins with the axis N."""

    rules: np.ndarray  # bool [N, F]
    precision: np.ndarray  # float64 [N]
    lower: np.ndarray  # float64 [N]; NaN: no bound
    error: np.ndarray  # float64 [N], standard error of precision; NaN: exact
    cover: np.ndarray  # float64 [N]
    accepted: np.ndarray  # bool [N]
    samples: np.ndarray  # int64 [N]
    rounds: int = 0
    widened: int = 0  # rules that came out wider

    @classmethod
    def empty(cls, N: int, F: int) -> Found:
        """Nothing yet."""
        lost = np.full(N, np.nan)
        zero = np.zeros(N, np.int64)
        held = np.zeros(N, bool)
        return cls(np.zeros((N, F), bool), lost, lost.copy(), lost.copy(), lost.copy(), held, zero)
