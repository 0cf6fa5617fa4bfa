"""The fields of an Explanation, for the modules that it is itself made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np


class Valued(Protocol):
    """What has values; `Explanation`, `PrivateExplanation`."""

    @property
    def values(self) -> np.ndarray: ...


class Explained(Protocol):
    """What `Explanation` offers to read; its docstring says what each field means."""

    @property
    def values(self) -> np.ndarray: ...
    @property
    def base_values(self) -> np.ndarray: ...
    @property
    def std_errors(self) -> np.ndarray | None: ...
    @property
    def feature_names(self) -> tuple[str, ...]: ...
    @property
    def output_names(self) -> tuple[str, ...] | None: ...
    @property
    def instance_names(self) -> tuple[str, ...] | None: ...
    @property
    def exact(self) -> bool: ...
    @property
    def kind(self) -> str: ...
    @property
    def stats(self) -> Mapping[str, Any]: ...
    @property
    def provenance(self) -> Mapping[str, Any]: ...
    def player_data(self) -> list[np.ndarray | None]: ...
