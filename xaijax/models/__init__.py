"""Models: anything callable, or an estimator, as rows [R, *F] -> [R] or [R, K]."""

from xaijax.models.as_jax import as_jax as as_jax
from xaijax.models.as_model import as_model as as_model
from xaijax.models.asking.host import call_host as call_host
from xaijax.models.asking.host import call_host_raw as call_host_raw
from xaijax.models.asking.probe import probe_determinism as probe_determinism
from xaijax.models.asking.probe import probe_neighbours as probe_neighbours
from xaijax.models.base.outputs import check_finite as check_finite
from xaijax.models.base.outputs import check_output as check_output
from xaijax.models.base.outputs import check_traced_shape as check_traced_shape
from xaijax.models.base.outputs import output_names_for as output_names_for
from xaijax.models.base.trace import DTYPES as DTYPES
from xaijax.models.base.trace import explain_trace_failure as explain_trace_failure
from xaijax.models.model import Model as Model
from xaijax.models.players_of import players_of as players_of
from xaijax.models.structure.declared import FirstLayer as FirstLayer
from xaijax.models.translations.registry import Translation as Translation
from xaijax.models.translations.registry import register_translation as register_translation
