"""What a neural library's own error means here, and what to write instead.

Such errors come from a module that is asked in training mode, or without all that it needs. An
adapter asks modules in inference form; a function of the user's own may ask them as they are.
"""

from __future__ import annotations

from typing import NamedTuple


class Meaning(NamedTuple):
    """What happened, and the call that works."""

    happened: str
    way: str


_NNX = Meaning(
    "it changes a Flax nnx module when it answers, as batch normalisation and dropout do in "
    "training",
    "Pass the module itself, as_model(module), which is asked by a clone in inference mode; or "
    "call module.eval() before as_model(f).",
)
_LINEN_WRITES = Meaning(
    "it asks a Flax module in training mode, which writes its variables or draws random numbers",
    "Say its inference form: as_model(lambda variables, X: module.apply(variables, X, "
    "train=False), variables), with what your module calls its mode in place of train.",
)
_LINEN_LACKS = Meaning(
    "a Flax module asks for a collection that its variables lack, such as the batch_stats of batch "
    "normalisation",
    "Pass all that module.init returned and training updated: as_model(module, {'params': params, "
    "'batch_stats': batch_stats}) say; a TrainState needs a field batch_stats.",
)
_HAIKU = Meaning(
    "it asks a Haiku function that draws random numbers, as dropout does in training",
    "Let it draw nothing when it is asked, by an argument is_training=False say, as_model(lambda "
    "params, X: transformed.apply(params, None, X, is_training=False), params=params).",
)

# By the module that defines the error, as far as its second dot, and the error's name.
_MEANINGS = {
    ("flax.errors", "TraceContextError"): _NNX,
    ("flax.errors", "ModifyScopeVariableError"): _LINEN_WRITES,
    ("flax.errors", "InvalidRngError"): _LINEN_WRITES,
    ("flax.errors", "ScopeCollectionNotFound"): _LINEN_LACKS,
    ("haiku._src", "MissingRNGError"): _HAIKU,
}
_EQUINOX = Meaning(
    "it asks an Equinox module in training mode, which draws random numbers",
    "Pass the module itself, as_model(module), which is asked in inference mode; or call "
    "equinox.nn.inference_mode(module) before as_model(f).",
)
# Equinox raises a RuntimeError like any other; this is what its text says.
_EQUINOX_TEXT = "requires a key when running in non-deterministic mode"


def meaning_of(exc: Exception) -> Meaning | None:
    """The meaning of an error of Flax, Haiku or Equinox; None: it is not one that is known."""
    if isinstance(exc, RuntimeError) and _EQUINOX_TEXT in str(exc):
        return _EQUINOX
    for kind in type(exc).__mro__:
        found = _MEANINGS.get((".".join(kind.__module__.split(".")[:2]), kind.__name__))
        if found is not None:
            return found
    return None
