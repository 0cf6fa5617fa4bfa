"""`release`: an explanation with noise, and nothing else that depends on a private row.

    facts of the provenance -> sensitivity -> exact sums -> index on the lattice -> charge -> noise

Letters: N people explained (1 for quantities of the data), P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputTypeError, PrivacyError
from xaijax.core.public import public
from xaijax.privacy import mechanism
from xaijax.privacy.facts import facts_of, public_facts
from xaijax.privacy.ledger import Ledger
from xaijax.privacy.plan import ReleasePlan, planned
from xaijax.results.explanation import Explanation
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.recount import LATTICE, Recount, remembered

COMPOSITIONS = ("l1", "sequential")
CALIBRATIONS = ("proved", "paper")


@public
def release(
    explanation: Explanation,
    epsilon: float,
    ledger: Ledger | None = None,
    composition: Literal["l1", "sequential"] = "l1",
    calibration: Literal["proved", "paper"] = "proved",
) -> PrivateExplanation:
    """Makes a differentially private copy of a QII report: its values with noise.

    A reader of the copy learns almost the same if any one record of the data is replaced by
    another: for two data sets that differ in one record, each outcome's probabilities differ by a
    factor of at most e^epsilon. This holds for all values of the report together.

    The following are public, and the same for both data sets: the model, the positive class, the
    players, the people explained (X=), the weight and the group of every record's position, Pr[S],
    and a pool= that was passed. X= is refused if it is the data or shares memory with them; pool=
    if it is a part of them. pool=data is the same as no pool=, and private. An `xaijax.XaiWarning`
    is given if all rows of X= or pool= equal rows of the data. Warnings, errors, the report and the
    ledger are as private as the data; only the copy is for others.

    The model is run again: about 2^P rows (P for unary(); P players) for each combination of an
    explained row and a donor. The explained rows are those of X=, or for quantities of the data the
    data rows that count. Its labels, or its scores clipped and rounded to multiples of 2^-20, are
    added up as exact integers. The values are computed from these as fractions and rounded once.
    The noise is OpenDP's discrete Laplace noise, by a sensitivity (the most that one record can
    move the values) that is proved in docs/privacy.md.

    Args:
        explanation: the full result of `QII(...).explain` or `.unary`, from this process. It must
            be exact (samples=None), on the data or on `xaijax.privacy.subsample(data, rate)`.
        epsilon: float above 0, for the whole report and the full data. Smaller is more private and
            noisier.
        ledger: `Ledger` or None. The budget that is charged. If the same question is asked again,
            the ledger answers it with the same numbers, free of charge, if the model can be
            recognised: one that JAX traces without callbacks, or scikit-learn's own (see
            `mechanism["free_again"]`). None: nothing is charged, and the copy says so.
        composition: "l1": noise by the L1 sensitivity of all values together. "sequential": epsilon
            is divided among the values, which needs more noise.
        calibration: "proved"; or "paper": the noise of Datta, Sen and Zick, for comparison. The
            latter is NOT private (an XaiWarning says so) and never charges the ledger.

    Returns:
        A `PrivateExplanation`.

    Raises:
        InputError, InputTypeError: an argument is not accepted.
        PrivacyError: no sensitivity can be proved for this explanation, or these interactions (the
            message says why), or epsilon is so large that fewer than one value in twenty would be
            changed.
        BudgetExceededError: the ledger has less than epsilon left.
        EnumerationLimitError: there are too many rows to be counted one by one.
        ImportError: opendp is not installed (`pip install "xaijax[privacy]"`).

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> data = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1], [2, 2]], np.float32)
        >>> model = xj.as_model(lambda X: X[:, 0] > 0, output="label", classes=[0, 1])
        >>> report = xj.QII(model, data, quantity="rate").explain()
        >>> private = xj.privacy.release(report, epsilon=2.0)
        >>> private.shape, private.epsilon, round(private.noise_error, 3)
        ((1, 2), 2.0, 0.668)

        With only six people the noise is larger than any influence on a rate.

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (IEEE S&P
        2016), section VI. Balle, Barthe and Gaboardi, "Privacy amplification by subsampling: tight
        analyses via couplings and divergences" (NeurIPS 2018), theorem 9.
    """
    spent = checks.positive(epsilon, "epsilon")
    checks.one_of(composition, "composition", COMPOSITIONS)
    checks.one_of(calibration, "calibration", CALIBRATIONS)
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InputTypeError(
            f"ledger must be an xaijax.privacy.Ledger or None, got {type(ledger).__name__}."
        )
    facts = facts_of(explanation)
    recount = _recount_of(explanation)
    mechanism.library()  # raises before any work if it is missing
    _warn(recount, calibration)
    if ledger is None or calibration == "paper":
        plan = planned(explanation, facts, recount, spent, composition, calibration)
        _claim(recount)
        return _copy(explanation, spent, _with_noise(plan), charged=False)
    query = _query(explanation, recount, composition, spent)
    answer = ledger._known(query, spent)
    if answer is None:
        _claim(recount, take=False)
        plan = planned(explanation, facts, recount, spent, composition, calibration)
        # Once more: from now on the recount has the model that was really called.
        query = _query(explanation, recount, composition, spent)
        answer = ledger._answer(
            query, spent, lambda: _with_noise(plan), may=lambda: _claim(recount)
        )
    return _copy(explanation, spent, answer, charged=True, known=query is not None)


def _warn(recount: Recount, calibration: str) -> None:
    """Warns the curator; warnings are not part of the copy."""
    if calibration == "paper":
        checks.warn(
            "calibration='paper' is not private: its sensitivities are too small, and each value "
            "gets all of epsilon. For comparison only; the ledger is not charged."
        )
    for name in recount.copies():
        checks.warn(
            f"{name} all of its rows are equal to rows of the data. A release takes them to be "
            "public: if they were copied from the data, the copy is NOT private. This warning is "
            "as private as the data."
        )
    if recount.other_labels():
        checks.warn(
            "positive: the data show labels other than 0 and 1. Without positive= or classes= (in "
            "as_model) a release takes 1 for the positive class, whatever the data show; the "
            "report may have taken another one. Say positive=, which this question is about."
        )


def _recount_of(explanation: Explanation) -> Recount:
    recount = remembered(explanation)
    if recount is None:
        raise PrivacyError(
            "explanation cannot be released: it is a slice, a copy, a merged or a loaded one, "
            "without exact sums. Release what xaijax.QII returned, in the process that asked; for "
            "some rows or players ask QII about these."
        )
    reason = recount.refused()
    if reason is not None:
        raise PrivacyError(f"explanation cannot be released: {reason}.")
    return recount


def _with_noise(plan: ReleasePlan) -> dict[str, Any]:
    """The answer: whole numbers with noise, and public facts."""
    return {"noisy": mechanism.noisy(plan.values, plan.needed.scale), **plan.public}


_USED = {
    "again": "has been released once, and the privacy that a sample adds is used up",
    "here": "was drawn in another process, which forked this one; both might release it",
}


def _claim(recount: Recount, take: bool = True) -> None:
    """Uses up the sample, before anything is drawn or charged; without `take` it only checks.

    A second report of one sample would be amplified less than its epsilon claims: both together
    spend ln(1 + rate (e^(e1 + e2) - 1)), more than the sum of their charges.
    """
    if recount.sample is None:
        return
    release = recount.sample.release
    why = release.take() if take else release.refused()
    if why is not None:
        raise PrivacyError(
            f"explanation cannot be released: its subsample {_USED[why]}. Draw another one "
            "(xaijax.privacy.subsample)."
        )


def _copy(
    explanation: Explanation,
    epsilon: float,
    answer: Mapping[str, Any],
    charged: bool,
    known: bool = False,
) -> PrivateExplanation:
    facts = dict(answer["mechanism"])
    steps = np.array(answer["noisy"], np.float64)
    return PrivateExplanation(
        values=steps.reshape(explanation.values.shape) / LATTICE,
        epsilon=epsilon,
        noise_error=mechanism.standard_error(facts["scale"] * LATTICE),
        mechanism=facts | {"charged": charged, "free_again": charged and known},
        feature_names=explanation.feature_names,
        output_names=explanation.output_names,
        kind=explanation.kind,
        provenance=answer["provenance"],
    )


def _query(
    explanation: Explanation, recount: Recount, composition: str, epsilon: float
) -> dict[str, Any] | None:
    """Public facts and digests that make two releases the same question about the same data.

    None: the model cannot be recognised later, so neither can the question.

    It must not use the sums, since it is private whether two questions have equal answers. The
    number of members in a subsample varies from draw to draw, and is not part of the question.
    """
    identity = recount.identity()
    if identity is None:
        return None
    facts = public_facts(explanation.provenance)
    sampled = facts.get("subsample")
    if sampled is not None:
        left_out = ("members", "rest")
        facts = {name: fact for name, fact in facts.items() if name not in left_out}
        facts["subsample"] = [sampled["rows"], sampled["full_rows"]]
    return {
        "facts": facts,
        "kind": explanation.kind,
        "index_weights": repr(explanation.provenance.get("index_weights")),
        "names": [explanation.feature_names, explanation.output_names],
        "identity": dict(identity),
        "composition": composition,
        "epsilon": repr(epsilon),
    }
