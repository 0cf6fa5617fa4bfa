"""xaijax: explain machine-learning models in large batches on accelerators.

    import xaijax as xj

    model = xj.as_model(f, params)
    explanation = xj.Explainer(model, background)(X)

Every public name stands here; modules that begin with an underscore are private.
"""

from xaijax import datasets as datasets
from xaijax._coalition_table import CoalitionTable as CoalitionTable
from xaijax._errors import EnumerationLimitError as EnumerationLimitError
from xaijax._errors import InputError as InputError
from xaijax._errors import InputTypeError as InputTypeError
from xaijax._errors import MemoryPlanError as MemoryPlanError
from xaijax._errors import ModelOutputError as ModelOutputError
from xaijax._errors import NonDeterministicModelError as NonDeterministicModelError
from xaijax._errors import XaiError as XaiError
from xaijax._errors import XaiWarning as XaiWarning
from xaijax._explanation import Explanation as Explanation
from xaijax._explanation import load as load
from xaijax._index import SizeLimited as SizeLimited
from xaijax._merge import merge as merge
from xaijax._version import __version__ as __version__
from xaijax.games import quantities as quantities
from xaijax.games.replacement import Baseline as Baseline
from xaijax.methods import observational as observational
from xaijax.methods._samples_needed import samples_needed as samples_needed
from xaijax.methods.explainer import Explainer as Explainer
from xaijax.methods.qii import QII as QII
from xaijax.models import FirstLayer as FirstLayer
from xaijax.models import Model as Model
from xaijax.models import as_jax as as_jax
from xaijax.models import as_model as as_model
from xaijax.models import players_of as players_of
from xaijax.results import plots as plots
from xaijax.results.report import report as report
from xaijax.results.transparency import transparency_report as transparency_report
