"""`release`: an explanation with noise, and with nothing else that depends on a private row.

    facts of the provenance -> sensitivity -> exact sums -> index on the lattice -> charge -> noise

Letters: N people explained (1 for quantities of the data), P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._errors import InputTypeError, PrivacyError
from xaijax._exact_sums import LATTICE, ExactSums, Recount, remembered
from xaijax._explanation import Explanation
from xaijax._private_explanation import PrivateExplanation
from xaijax._public import public
from xaijax.privacy import constants, exact_index, mechanism
from xaijax.privacy.facts import Facts, facts_of, public_facts
from xaijax.privacy.ledger import Ledger, positive
from xaijax.privacy.noise_needed import NoiseNeeded, by_the_paper, proved

COMPOSITIONS = ("l1", "sequential")
CALIBRATIONS = ("proved", "paper")


@public
def release(
    explanation: Explanation,
    epsilon: float,
    ledger: Ledger | None = None,
    composition: str = "l1",
    calibration: str = "proved",
) -> PrivateExplanation:
    """A copy of a QII report that is `epsilon`-differentially private for the rows of the data.

    Neighbours have one record replaced. Public, and the same for both: the model, the positive
    class, the players, the people explained (X=), weights and group of every record's place, and a
    pool= that is not the data. All values of the report together are `epsilon`-private.

    Labels, or scores clipped and rounded to multiples of 2^-20, are counted once more, row by row,
    as exact integers; the index is computed from them as fractions and rounded once; the noise is
    OpenDP's discrete Laplace (`pip install "xaijax[privacy]"`), by a sensitivity that is proved
    (docs/privacy.md). The model is asked again, 2^P rows for each pair of a row and a donor.

    Arguments:
        explanation: what `QII(...).explain` or `.unary` returned, whole, in this process: exact
            (samples=None), on the data or on `xaijax.privacy.subsample(data, rate)`.
        epsilon: for the whole report, on the full data.
        ledger: what to charge; None: nothing is charged, and the copy says so.
        composition: "l1": noise by the L1 sensitivity of all values together; "sequential":
            epsilon divided among the values (more noise).
        calibration: "proved"; or "paper": the noise of Datta, Sen and Zick, for comparison. It is
            NOT private (an XaiWarning says so) and never charges the ledger.

    Raises:
        InputError, InputTypeError: an argument that is not accepted.
        PrivacyError: no sensitivity can be proved for this explanation; the text says why.
        BudgetExceededError: the ledger has less than epsilon left.
        EnumerationLimitError: too many rows to be counted one by one.
        ImportError: opendp is not installed.
    """
    spent = positive(epsilon, "epsilon")
    _checks.one_of(composition, "composition", COMPOSITIONS)
    _checks.one_of(calibration, "calibration", CALIBRATIONS)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InputTypeError(
            f"ledger must be an xaijax.privacy.Ledger or None, got {type(ledger).__name__}."
        )
    facts = facts_of(explanation)
    recount = _recount_of(explanation)
    mechanism.library()  # that it is missing is told before any work
    if calibration == "paper":
        _checks.warn(
            "calibration='paper' is not private: its sensitivities are too small, and each value "
            "gets all of epsilon. For comparison only; the ledger is not charged."
        )
        answer = _drawn(explanation, facts, recount, spent, composition, calibration)
        return _copy(explanation, spent, answer | {"charged": False})
    if ledger is None:
        answer = _drawn(explanation, facts, recount, spent, composition, calibration)
        return _copy(explanation, spent, answer | {"charged": False})
    query = _query(explanation, recount, composition, spent)
    answer = ledger._known(query, spent)
    if answer is None:
        _refuse_used(recount)
        plan = _planned(explanation, facts, recount, spent, composition, calibration)
        answer = ledger._answer(query, spent, lambda: _with_noise(plan, recount))
    return _copy(explanation, spent, answer | {"charged": True})


def _recount_of(explanation: Explanation) -> Recount:
    recount = remembered(explanation)
    if recount is None:
        raise PrivacyError(
            "explanation cannot be released: it is a slice, a copy, a merged or a loaded one, and "
            "its exact sums are not kept in files. Release what xaijax.QII returned, in the "
            "process that asked; for some rows or players ask QII about these."
        )
    reason = recount.refused()
    if reason is not None:
        raise PrivacyError(f"explanation cannot be released: {reason}.")
    return recount


class _Plan:
    """Whole numbers and the noise that they will get; nothing is drawn yet."""

    def __init__(self, values: list[int], needed: NoiseNeeded, told: dict[str, Any]) -> None:
        self.values, self.needed, self.told = values, needed, told


def _planned(
    explanation: Explanation,
    facts: Facts,
    recount: Recount,
    epsilon: float,
    composition: str,
    calibration: str,
) -> _Plan:
    sample = recount.sample
    spendable = epsilon if sample is None else mechanism.amplified(epsilon, sample.rate)
    exact = recount.sums()
    _refuse_other_sizes(facts, exact)
    chance = recount.chance
    if chance is not None:
        chance = exact_index.chance_on_lattice(chance)
    if calibration == "paper":
        needed = by_the_paper(facts, exact, spendable)
    else:
        needed = proved(facts, exact, chance, spendable, composition)
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
    return _Plan(values, needed, shown)


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


def _drawn(*arguments: Any) -> dict[str, Any]:
    """Plan and draw at once; arguments as of `_planned`."""
    return _with_noise(_planned(*arguments), arguments[2])


def _with_noise(plan: _Plan, recount: Recount) -> dict[str, Any]:
    """The answer: whole numbers with noise, and what may be said of it."""
    _refuse_used(recount)
    sample = recount.sample
    if sample is not None:
        sample.released.append("a report")
    return {"noisy": mechanism.noisy(plan.values, plan.needed.scale), **plan.told}


def _refuse_used(recount: Recount) -> None:
    """A second report of one sample would be amplified less than its epsilon says.

    Both together spend ln(1 + rate (e^(e1 + e2) - 1)), more than the sum of what each is charged.
    """
    if recount.sample is not None and recount.sample.released:
        raise PrivacyError(
            "explanation cannot be released: its subsample has been released once, and the privacy "
            "that a sample adds is used up. Draw another one (xaijax.privacy.subsample)."
        )


def _copy(
    explanation: Explanation, epsilon: float, answer: Mapping[str, Any]
) -> PrivateExplanation:
    told = dict(answer["mechanism"])
    steps = np.array(answer["noisy"], np.float64)
    return PrivateExplanation(
        values=steps.reshape(explanation.values.shape) / LATTICE,
        epsilon=epsilon,
        noise_error=mechanism.standard_error(told["scale"] * LATTICE),
        mechanism=told | {"charged": answer["charged"]},
        feature_names=explanation.feature_names,
        output_names=explanation.output_names,
        kind=explanation.kind,
        provenance=answer["provenance"],
    )


def _query(
    explanation: Explanation, recount: Recount, composition: str, epsilon: float
) -> dict[str, Any]:
    """What makes two releases the same question to the same data: public facts and digests.

    It must not look at sums: that two questions happen to have equal answers is private. How many
    members a subsample has varies from draw to draw, and is no part of the question.
    """
    told = public_facts(explanation.provenance)
    sampled = told.get("subsample")
    if sampled is not None:
        left_out = ("members", "rest")
        told = {name: fact for name, fact in told.items() if name not in left_out}
        told["subsample"] = [sampled["rows"], sampled["full_rows"]]
    return {
        "facts": told,
        "kind": explanation.kind,
        "index_weights": repr(explanation.provenance.get("index_weights")),
        "names": [explanation.feature_names, explanation.output_names],
        "identity": dict(recount.identity()),
        "composition": composition,
        "epsilon": repr(epsilon),
    }


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
