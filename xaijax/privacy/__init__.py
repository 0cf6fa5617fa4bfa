"""Differentially private QII reports: noise with a proof, and a budget that is kept.

It needs `pip install "xaijax[privacy]"` (OpenDP) when a report is released, not before.

Reading order:

    releasing      `release`: from an Explanation of QII to a private copy
    plan           a release before its noise: exact sums, an index of them, and the noise needed
    mechanism      the noise: OpenDP's integer discrete Laplace
    facts          the provenance that a release reads, or errors
    sensitivity    how far one record can move a quantity of interest, proved
    utility        what privacy costs, by the paper's table
    ledger         `Ledger`: what was spent of a budget, in a file
"""

from xaijax.privacy.ledger import Ledger as Ledger
from xaijax.privacy.releasing import release as release
from xaijax.privacy.sensitivity import Sensitivity as Sensitivity
from xaijax.privacy.sensitivity import sensitivity as sensitivity
from xaijax.privacy.utility import LossRow as LossRow
from xaijax.privacy.utility import loss_in_utility as loss_in_utility
from xaijax.privacy.utility import loss_table as loss_table
from xaijax.results.private_explanation import PrivateExplanation as PrivateExplanation
from xaijax.results.subsample import subsample as subsample

__all__ = [
    "Ledger",
    "LossRow",
    "PrivateExplanation",
    "Sensitivity",
    "loss_in_utility",
    "loss_table",
    "release",
    "sensitivity",
    "subsample",
]
