"""What all tests share."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import pytest


@pytest.fixture
def strict_numerics() -> Iterator[None]:
    """No implicit dtype promotion: a float64 or int64 that slips into a kernel is an error.

    Asked for by the tests of kernels (`pytestmark = pytest.mark.usefixtures("strict_numerics")`),
    not switched on for all: a model that a person hands in may mix dtypes, and must go on working,
    so the tests of models and explainers keep JAX's ordinary rules. Rank promotion stays allowed:
    the kernels set [P] against [S, P] where the last axis is players in both.
    """
    with jax.numpy_dtype_promotion("strict"):
        yield
