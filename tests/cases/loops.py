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
    new = jax.jit(lambda *args: function(*args))
    return new.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def unknown_loops(text: str) -> list[str]:
    """Conditions of loops that are not a counter below a number of the program's own."""
    conditions = _CONDITION.findall(text)
    assert len(conditions) == text.count("stablehlo.while")
    return [condition for condition in conditions if not _BELOW_A_NUMBER.search(condition)]


def asked_branches(text: str) -> list[str]:
    """Branches that follow a number made by the program: that of a platform is a constant, so that
    the compiler leaves it out.
    """
    constant = set(re.findall(r"(%\w+) = stablehlo\.constant", text))
    branches = re.findall(r"stablehlo\.if.*", text)
    for name, index in re.findall(r'(%\w+)(?::\d+)? = "stablehlo\.case"\((%\w+)\)', text):
        if index in constant:
            constant.add(name)
        else:
            branches.append(index)
    return branches
