"""The public names, where each is documented, and which of them a script uses."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import xaijax

PLACES = ("datasets", "federated", "plots", "privacy")  # modules that name what is public
FILES = ("engines", "observational", "quantities")  # modules that also hold what is not


def public() -> dict[str, Any]:
    """{name behind `xj.`: class or function} of all that is public, modules opened."""
    names = dict(_ours(xaijax))
    for space in (*PLACES, *FILES):
        module = getattr(xaijax, space)
        for name, member in _ours(module):
            # `@public` wraps functions
            ours = hasattr(member, "__wrapped__") or inspect.isclass(member)
            if space in PLACES or (ours and member.__module__.startswith(module.__name__)):
                names[f"{space}.{name}"] = member
    return names


def _ours(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """(name, object) of the classes and functions of xaijax that a module names."""
    for name in dir(module):
        member = getattr(module, name)
        ours = (getattr(member, "__module__", None) or "").startswith("xaijax.")
        if ours and callable(member) and not name.startswith("_"):
            yield name, member


def room(name: str) -> str:
    """The package that a name belongs to: `Explainer` to methods, `plots.bar` to plots; or
    "certainty", which is in methods and has a page of its own.
    """
    space = name.rpartition(".")[0]
    module = getattr(xaijax, space).__name__ if space else public()[name].__module__
    _, package, *inside = module.split(".")
    return "certainty" if inside[:1] == ["certainty"] else package


def address(name: str) -> str:
    """Its anchor in the site: where it is defined. `xaijax.plots.bar` would be the file too."""
    member = public()[name]
    return f"{member.__module__}.{member.__qualname__}"


def used(script: Path) -> set[str]:
    """The public names that a script reaches as `xj.NAME`."""
    tree = ast.parse(script.read_text("utf-8"))
    dotted = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {name.removeprefix("xj.") for name in dotted if name.startswith("xj.")} & set(public())
