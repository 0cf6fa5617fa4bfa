"""What tests of the engine share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import pytest

COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def compiled() -> Iterator[Counter[str]]:
    """The programs that are compiled from here on, by the names of their functions."""
    counts: Counter[str] = Counter()

    def count(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event == COMPILED:
            counts[kwargs.get("fun_name", "")] += 1

    jax.monitoring.register_event_duration_secs_listener(count)
    yield counts
    jax.monitoring.unregister_event_duration_listener(count)
