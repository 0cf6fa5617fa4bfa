"""The layers: who may import whom. ARCHITECTURE.md explains the table that is checked here."""

from __future__ import annotations

import graphlib
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from imports import Import, read
from repository import ROOT, library_modules


@dataclass(frozen=True)
class Part:
    """A part of the library: its layer, and the other parts that it may import."""

    layer: int
    may: tuple[str, ...]


PARTS = {
    "kernels": Part(0, ()),
    "core": Part(0, ()),
    "tables": Part(1, ("core",)),
    "players": Part(1, ("core",)),
    # An Explanation holds no model and no game.
    "results": Part(2, ("core", "tables", "players", "kernels")),
    "models": Part(2, ("core", "tables", "kernels")),
    "games": Part(3, ("core", "tables", "players", "models", "kernels")),
    "plots": Part(3, ("core", "results")),
    "privacy": Part(3, ("core", "results")),
    "estimators": Part(4, ("core", "players", "games", "kernels")),
    "reports": Part(4, ("core", "results", "plots")),
    "methods": Part(
        5, ("core", "tables", "players", "results", "models", "games", "estimators", "kernels")
    ),
}
# And xaijax itself: layer 6, may import all.
TOP = ("federated", "sweeps", "datasets", "commands", "__main__")
PARTS["top"] = Part(6, tuple(PARTS))

# What the public names may load; everything else is imported inside the function that needs it.
LOADED = {"jax", "jaxlib", "numpy", "tqdm"}
# Here, and nowhere else, a module is imported by a name that is computed.
IMPORTERS = {"xaijax", "xaijax.core.optional", "xaijax.datasets.fetch"}
# The one public class that needs more: a scikit-learn estimator, with scikit-learn as its base.
NEEDS_MORE = "xaijax.methods.aec.aec"


def part_of(module: str) -> str | None:
    """The part that a module belongs to; None: it stands outside the table."""
    root, _, rest = module.partition(".")
    if root == "xaijax_kernels":
        return "kernels"
    name = rest.partition(".")[0]
    if not name or name in TOP:
        return "top"
    return name if name in PARTS else None


def _ours(module: str) -> bool:
    return module.partition(".")[0] in ("xaijax", "xaijax_kernels")


def violations(imports: Mapping[str, list[Import]]) -> list[str]:
    """Every broken rule, with its place, the rule and what to do."""
    loaded = _loaded(imports)
    homeless = [
        f"{module} has no layer. Put it into an existing package, or give its package a line in "
        "PARTS of tests/house/test_layers.py and in ARCHITECTURE.md."
        for module in imports
        if part_of(module) is None
    ]
    wrong = [
        f"{module}, line {one.line}: {complaint}"
        for module, found in imports.items()
        for one in found
        for complaint in _complaints(module, one, loaded)
    ]
    return homeless + wrong + _cycle(imports)


def _loaded(imports: Mapping[str, list[Import]]) -> set[str]:
    """The modules of ours that the public names load, without a call of any function."""
    reached, waiting = set(), ["xaijax"]
    while waiting:
        module = waiting.pop()
        if module in reached or module not in imports:
            continue
        reached.add(module)
        lazy = module == "xaijax"  # lists the public names under TYPE_CHECKING
        waiting += [
            one.target
            for one in imports[module]
            if not one.inside and (lazy or not one.typing) and one.target != NEEDS_MORE
        ]
    return reached


def _complaints(module: str, one: Import, loaded: set[str]) -> Iterator[str]:
    part, root = part_of(module), one.target.partition(".")[0]
    if part is None:
        return
    if one.computed:
        if module not in IMPORTERS:
            yield "a module is imported by a computed name; say optional.require(name, install)."
        return
    if _ours(one.target):
        if one.inside:
            yield (
                f"{one.target} is imported inside a function. Only optional libraries are; for our "
                "own modules that hides a cycle. Move the import up, or what is shared down."
            )
        yield from _wrong_layer(part, one.target)
        return
    if root in sys.stdlib_module_names or one.typing:
        if one.inside:
            yield f"{root} is imported inside a function; import it at the top."
        return
    if part == "kernels" and root not in ("jax", "numpy"):
        yield f"kernels (layer 0) import jax, numpy and each other only, not {root}."
    elif one.inside and root in LOADED:
        yield f"{root} is always installed; import it at the top."
    elif not one.inside and root not in LOADED and module in loaded:
        yield (
            f"a public name would load {root}. Import it in the function that needs it, by "
            "optional.require where an extra brings it."
        )


def _wrong_layer(part: str, target: str) -> Iterator[str]:
    to = part_of(target)
    if to is None or to == part or to in PARTS[part].may:
        return
    allowed = ", ".join(f"{name} ({PARTS[name].layer})" for name in PARTS[part].may) or "no other"
    yield (
        f"{part} (layer {PARTS[part].layer}) imports {target}, which is of {to} (layer "
        f"{PARTS[to].layer}). It may import {allowed}: nothing flows back. Pass what is needed as "
        "an argument, or move what is shared down."
    )


def _cycle(imports: Mapping[str, list[Import]]) -> list[str]:
    graph = {
        module: {one.target for one in found if not one.typing} for module, found in imports.items()
    }
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return [f"import cycle: {' <- '.join(error.args[1])}. Move what is shared to a third file."]
    return []


def test_library_keeps_its_layers() -> None:
    paths = library_modules()
    assert len(paths) > 50, "the library was not found, so nothing was checked"
    packages = frozenset(name for name, path in paths.items() if path.name == "__init__.py")
    texts = {name: path.read_text("utf-8") for name, path in paths.items()}
    found = violations(read(texts, packages))
    assert not found, "\n" + "\n".join(found)


def test_the_table_is_explained() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    shown = [line for line in text.splitlines() if line.startswith("| ")]
    for name, part in PARTS.items():
        if name not in ("kernels", "top"):
            row = [line for line in shown if f"`xaijax/{name}/`" in line]
            assert row and row[0].startswith(f"| {part.layer} |"), f"no row of layer for {name}"


PLANTED = {
    "a kernel that knows the library": (
        {"xaijax_kernels.a": "from xaijax.core import b", "xaijax.core.b": ""},
        r"kernels \(layer 0\) imports xaijax\.core\.b",
    ),
    "a kernel that knows scikit-learn": (
        {"xaijax_kernels.a": "def f():\n  import sklearn.base"},
        "line 2: kernels .* not sklearn",
    ),
    "a model that knows a game": (
        {"xaijax.models.a": "from ..games import g", "xaijax.games.g": ""},
        r"models \(layer 2\) imports xaijax\.games\.g",
    ),
    "a result that knows a method": (
        {"xaijax.results.a": "import xaijax.methods.m", "xaijax.methods.m": ""},
        r"may import core \(0\), tables \(1\), players \(1\), kernels \(0\)",
    ),
    "a method that knows a report, for its type only": (
        {
            "xaijax.methods.m": "if TYPE_CHECKING:\n  from xaijax.reports.a import A",
            "xaijax.reports.a": "",
        },
        r"methods \(layer 5\) imports xaijax\.reports\.a",
    ),
    "a module that asks the front door": (
        {"xaijax.core.a": "import xaijax", "xaijax": ""},
        r"core \(layer 0\) imports xaijax, ",
    ),
    "our own module inside a function": (
        {
            "xaijax.core.a": "class A:\n  def f(self):\n    from xaijax.core.b import c",
            "xaijax.core.b": "",
        },
        r"line 3: xaijax\.core\.b is imported inside a function",
    ),
    "a late import at the front door": (
        {"xaijax": "def f():\n  from xaijax.methods.m import A", "xaijax.methods.m": ""},
        r"line 2: xaijax\.methods\.m is imported inside a function",
    ),
    "our own module through require": (
        {
            "xaijax.core.a": "def f():\n  return require('xaijax.core.b', 'xaijax')",
            "xaijax.core.b": "",
        },
        r"xaijax\.core\.b is imported inside a function",
    ),
    "a standard module inside a function": (
        {"xaijax.core.a": "f = lambda: require('json', 'json')"},
        "json is imported inside a function",
    ),
    "a heavy library at the top": (
        {"xaijax": "from xaijax.core import a", "xaijax.core.a": "import pandas as pd"},
        "a public name would load pandas",
    ),
    "a heavy library behind a public name": (
        {
            "xaijax": "if TYPE_CHECKING:\n  from xaijax.core.a import b",
            "xaijax.core.a": "import pandas as pd",
        },
        "a public name would load pandas",
    ),
    "an import by a computed name": (
        {"xaijax.core.a": "def f(x):\n  return importlib.import_module(x)"},
        "computed name",
    ),
    "a cycle": (
        {
            "xaijax.core.a": "import xaijax.core.b",
            "xaijax.core.b": "from xaijax.core.a import x",
        },
        r"import cycle: .*core\.a",
    ),
    "a package without a layer": (
        {"xaijax.helpers.a": ""},
        "has no layer",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_violation_is_found(name: str) -> None:
    sources, message = PLANTED[name]
    found = violations(read(sources, frozenset({"xaijax"} & set(sources))))
    assert len(found) == 1, found
    assert re.search(message, found[0]), found[0]


def test_what_the_rules_allow_is_not_reported() -> None:
    sources = {
        "xaijax": "from xaijax.players import a\nfrom xaijax import methods",
        "xaijax.players.a": "import json\nimport numpy as np\nfrom xaijax.core import c",
        "xaijax.core.c": "",
        "xaijax_kernels.k": "import jax\nfrom xaijax_kernels.m import n",
        "xaijax_kernels.m": "",
        "xaijax.methods": "from xaijax.players import a\nfrom xaijax.games import g",
        "xaijax.games": "from xaijax_kernels import k",
        "xaijax.games.g": "def f():\n  import pandas\n  return require('polars', 'polars')",
        "xaijax.results.r": "import xaijax.players.a\nif TYPE_CHECKING:\n  import matplotlib.axes",
        "xaijax.commands.demo": "import optax\nimport xaijax as xj",  # behind no public name
    }
    assert not violations(read(sources, frozenset({"xaijax"})))
