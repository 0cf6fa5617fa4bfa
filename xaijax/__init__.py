"""xaijax: explain machine-learning models in large batches on accelerators.

    import xaijax as xj

    model = xj.as_model(f, params)
    explanation = xj.Explainer(model, background)(X)

Every public name stands here; modules that begin with an underscore are private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xaijax import datasets as datasets
from xaijax import federated as federated
from xaijax import privacy as privacy
from xaijax._coalition_table import CoalitionTable as CoalitionTable
from xaijax._errors import BudgetExceededError as BudgetExceededError
from xaijax._errors import EnumerationLimitError as EnumerationLimitError
from xaijax._errors import FederatedPeerLost as FederatedPeerLost
from xaijax._errors import FederatedPolicyError as FederatedPolicyError
from xaijax._errors import FederatedProtocolError as FederatedProtocolError
from xaijax._errors import ForkedProcessError as ForkedProcessError
from xaijax._errors import InputError as InputError
from xaijax._errors import InputTypeError as InputTypeError
from xaijax._errors import LongRunWarning as LongRunWarning
from xaijax._errors import MemoryPlanError as MemoryPlanError
from xaijax._errors import ModelOutputError as ModelOutputError
from xaijax._errors import NonDeterministicModelError as NonDeterministicModelError
from xaijax._errors import PrivacyError as PrivacyError
from xaijax._errors import XaiError as XaiError
from xaijax._errors import XaiWarning as XaiWarning
from xaijax._explanation import Explanation as Explanation
from xaijax._explanation import load as load
from xaijax._index import SizeLimited as SizeLimited
from xaijax._merge import merge as merge
from xaijax._rules import Rule as Rule
from xaijax._rules import Rules as Rules
from xaijax._version import __version__ as __version__
from xaijax._worth import GuestWorth as GuestWorth
from xaijax.games import quantities as quantities
from xaijax.games.replacement import Baseline as Baseline
from xaijax.methods import observational as observational
from xaijax.methods._samples_needed import samples_needed as samples_needed
from xaijax.methods.anchors import AnchorExplainer as AnchorExplainer
from xaijax.methods.explainer import Explainer as Explainer
from xaijax.methods.federated import FederatedExplainer as FederatedExplainer
from xaijax.methods.movement import MovementSteps as MovementSteps
from xaijax.methods.movement import normalized_movement_rate as normalized_movement_rate
from xaijax.methods.qii import QII as QII
from xaijax.models import FirstLayer as FirstLayer
from xaijax.models import Model as Model
from xaijax.models import Translation as Translation
from xaijax.models import as_jax as as_jax
from xaijax.models import as_model as as_model
from xaijax.models import players_of as players_of
from xaijax.models import register_translation as register_translation
from xaijax.results import plots as plots
from xaijax.results.collinearity import collinearity_report as collinearity_report
from xaijax.results.report import report as report
from xaijax.results.transparency import transparency_report as transparency_report

if TYPE_CHECKING:
    from xaijax.methods.aec.estimator import AEC as AEC


def __getattr__(name: str) -> Any:
    # AEC is a scikit-learn class, and `import xaijax` does not load scikit-learn: AEC is defined
    # when it is first asked for.
    if name == "AEC":
        from xaijax.methods.aec.estimator import AEC as found  # noqa: PLC0415

        globals()[name] = found
        return found
    raise AttributeError(f"module 'xaijax' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), "AEC"} - {"TYPE_CHECKING", "Any", "annotations"})
