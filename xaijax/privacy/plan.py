"""What a release is before its noise: whole numbers, the noise they need, and what is said of it.

Letters: N people explained (1 for quantities of the data), P players, K outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from xaijax.core.errors import PrivacyError
from xaijax.privacy import constants, exact_index, mechanism
from xaijax.privacy.facts import Facts, public_facts
from xaijax.privacy.noise_needed import NoiseNeeded, by_the_paper, proved
from xaijax.results.explanation import Explanation
from xaijax.results.recount import LATTICE, ExactSums, Recount


@dataclass(frozen=True)
class Plan:
    """Nothing is drawn yet."""

    values: list[int]  # in lattice steps, without noise
    needed: NoiseNeeded
    told: dict[str, Any]  # public: the mechanism and the provenance of the copy


def planned(
    explanation: Explanation,
    facts: Facts,
    recount: Recount,
    epsilon: float,
    composition: str,
    calibration: str,
) -> Plan:
    """Count the sums, and find the noise that they need; nothing is charged."""
    sample = recount.sample
    spendable = epsilon if sample is None else mechanism.amplified(epsilon, sample.rate)
    exact = recount.sums()
    _refuse_other_sizes(facts, exact)
    chance = recount.chance
    if chance is not None:
        chance = exact_index.chance_on_lattice(chance)
    try:
        if calibration == "paper":
            needed = by_the_paper(facts, exact, spendable)
        else:
            needed = proved(facts, exact, chance, spendable, composition)
    except mechanism.TooLittleNoise as little:
        rate = 1.0 if sample is None else sample.rate
        most = mechanism.of_all_rows(spendable * little.factor, rate)
        raise PrivacyError(
            f"epsilon={epsilon:g} leaves no noise: values are multiples of 2^-20, and fewer than "
            "one in twenty would be changed, so the copy would hold the exact values. The largest "
            f"epsilon that adds noise to this report is {most:.6g}."
        ) from None
    told = {
        "noise": "discrete Laplace, OpenDP make_laplace on i64",
        "lattice": 1 / LATTICE,
        "scale": needed.scale / LATTICE,
        "sensitivity": needed.sensitivity / LATTICE,
        "composition": composition if calibration == "proved" else "none",
        "calibration": calibration,
        "epsilon_of_mechanism": spendable,
    }
    shown = {"mechanism": told, "provenance": public_facts(explanation.provenance)}
    values = lattice_values(facts, exact, chance)
    mechanism.refuse_large(values)
    return Plan(values, needed, shown)


def lattice_values(facts: Facts, exact: ExactSums, chance: np.ndarray | None) -> list[int]:
    """The values before noise, in lattice steps, in the order of values [N, P] or [N, P, K]."""
    P = facts.players
    out: list[int] = []
    for n in range(len(exact.sums)):
        v, below = exact_index.influences(exact, n, facts.difference, facts.signed)
        per_score = [_values(v[:, k], facts, chance) for k in range(v.shape[1])]
        out += [
            exact_index.on_lattice(Fraction(per_score[k][i]) / below)
            for i in range(P)
            for k in range(len(per_score))
        ]
    return out


def _values(v: np.ndarray, facts: Facts, chance: np.ndarray | None) -> list[Any]:
    """The values of one game [P], in units of its denominator."""
    if facts.unary:
        return [int(one) for one in v[1:]]
    if chance is not None:
        return list(exact_index.of_chances(v, chance))
    assert facts.weights is not None
    return list(exact_index.semivalues(v, constants.exact_weights(facts.weights)))


def _refuse_other_sizes(facts: Facts, exact: ExactSums) -> None:
    """Refuse sums that are of another question than the provenance tells."""
    told = [facts.games, facts.players]
    came = [len(exact.sums), exact.sets.shape[1]]
    groups = [one for one in (facts.members, facts.rest) if one is not None]
    if groups and not facts.weighted:
        own = groups if facts.quantity == "disparity" else groups[:1]
        told += own
        came += [int(one.sum()) for one in exact.outer]
    if told != came:
        raise PrivacyError(
            f"explanation cannot be released: its provenance tells of other sizes {told} than were "
            f"counted {came}."
        )
