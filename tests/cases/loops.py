"""Loops of a program lowered for CUDA: which of them would ask the host whether they go on."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import pytest

from xaijax_kernels.engine import tiles as turns

_CONDITION = re.compile(r"stablehlo\.while.*?\bcond \{(.*?)\} do \{", re.DOTALL)
_BELOW_A_NUMBER = re.compile(r"stablehlo\.compare +LT, %iterArg\w*, %c(_\d+)?,")


def count_turns(known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make loops as for a GPU, or as for a CPU, whichever device is here."""
    monkeypatch.setattr(turns, "counted", lambda platform: known)


def for_cuda(function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """The program as text; a function that is new each time is traced anew."""
    new = jax.jit(lambda *given: function(*given))
    return new.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def unknown_loops(text: str) -> list[str]:
    """Conditions of loops that are not a counter below a number of the program's own."""
    found = _CONDITION.findall(text)
    assert len(found) == text.count("stablehlo.while")
    return [one for one in found if not _BELOW_A_NUMBER.search(one)]
