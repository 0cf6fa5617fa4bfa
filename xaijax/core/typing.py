"""The types that public signatures name.

`Rows` are instances or background rows: an array [N, *F], NumPy's or JAX's, or a pandas or polars
frame with one column for each of the F inputs, where the model takes frames.
`Progress` is None (a bar in terminals and notebooks if a run takes long), True or False.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from numpy.typing import ArrayLike as ArrayLike

if TYPE_CHECKING:
    import pandas
    import polars


class ModelLike(Protocol):
    """The members of a model of `xaijax.as_model` that a report uses."""

    @property
    def name(self) -> str: ...
    def probe(self, rows: Any) -> Any: ...


# A `ModelLike`, or whatever `as_model` takes without options.
AnyModel: TypeAlias = Any
Frame: TypeAlias = "pandas.DataFrame | polars.DataFrame"
Rows: TypeAlias = "ArrayLike | Frame"
Progress: TypeAlias = "bool | None"
# The players: {"name": [columns]}, [[columns], ...], or whole numbers shaped like one instance.
PlayerSpec: TypeAlias = "Mapping[str, Sequence[Any]] | Sequence[Sequence[Any]] | ArrayLike"
# The outputs of each instance: all (None), the largest, or the one of this class label or number
# [N].
Outputs: TypeAlias = "Literal['predicted'] | ArrayLike | None"
# All local devices (None), a number of them, or a list of `jax.Device`.
Devices: TypeAlias = "int | Sequence[Any] | None"
# How hybrids are answered: by programs of tiles, without any, or as sizes say.
AnswerPath: TypeAlias = Literal["auto", "small", "tiled"]
# The cheaper model that answers most coalitions of sampled values: none, or a bfloat16 copy.
Levels: TypeAlias = Literal["bfloat16"] | None
