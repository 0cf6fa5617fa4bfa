"""Turns any callable or estimator into a model of rows [R, *F] -> [R] or [R, K].

Reading order:

    as_model        `as_model`: functions, modules and estimators in, a `Model` out
    as_jax          `as_jax`: a host model as a JAX function
    players_of      players from a ColumnTransformer: columns grouped by source column
    model           `Model`: the interface of a model for the engine and for the user
    adapters/       one file per kind of callable: functions, Flax and Equinox, scikit-learn
    queries/        calling a model: probes, calls on the host, labels
    translations/   fitted scikit-learn estimators as JAX functions
    structure/      a layer found in a model's trace, or declared
    identity/       whether two models are the same, and whether one has changed
    base/           what all kinds of models share: source, trace, outputs, options
"""

from xaijax.models.as_jax import as_jax as as_jax
from xaijax.models.as_model import as_model as as_model
from xaijax.models.as_model import explainer_class as explainer_class
from xaijax.models.as_model import gradient_class as gradient_class
from xaijax.models.as_model import model_of as model_of
from xaijax.models.model import Model as Model
from xaijax.models.players_of import players_of as players_of
from xaijax.models.structure.declared import FirstLayer as FirstLayer
from xaijax.models.structure.declared import Split as Split
from xaijax.models.structure.prefix import Prefix as Prefix
from xaijax.models.translations.registry import Translation as Translation
from xaijax.models.translations.registry import register_translation as register_translation
