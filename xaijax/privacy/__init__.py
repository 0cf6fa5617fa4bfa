"""Differentially private QII reports: noise that is proved, a budget that is kept.

Needs `pip install "xaijax[privacy]"` (OpenDP) when a report is released, and not before.
"""

from xaijax.privacy.ledger.ledger import Ledger as Ledger
from xaijax.privacy.releasing import release as release
from xaijax.privacy.sampling import subsample as subsample
from xaijax.privacy.sensitivity import Sensitivity as Sensitivity
from xaijax.privacy.sensitivity import sensitivity as sensitivity
from xaijax.privacy.utility import LossRow as LossRow
from xaijax.privacy.utility import loss_in_utility as loss_in_utility
from xaijax.privacy.utility import loss_table as loss_table
from xaijax.results.private_explanation import PrivateExplanation as PrivateExplanation

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
