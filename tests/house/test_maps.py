"""The maps: a package's `__init__` docstring lists its files, and imports run down that list."""

from __future__ import annotations

import ast
import os
import re
from collections import Counter
from collections.abc import Mapping

import pytest
from imports import Import, read
from repository import ROOT, library_modules, parsed, python_files

HEADING = "\n\nReading order:\n\n"
ENTRY = re.compile(r" {4}(\w+/?) {3,}\S.*")  # name   what it holds

# Parameters of these names are the engine's own objects: how many of a file are `Any`; only fewer.
ENGINE = {"evaluator", "game", "ask", "problem", "model", "explainer"}
UNTYPED = {
    "xaijax/federated/host/host.py": 2,
    "xaijax/federated/in_process/reference.py": 2,
    "xaijax/methods/anchors/problem.py": 1,
    "xaijax/methods/anchors/search.py": 7,
    "xaijax/methods/explainer/record.py": 1,
    "xaijax/methods/qii/arguments.py": 1,
    "xaijax/methods/qii/outcome.py": 5,
    "xaijax/models/queries/findings.py": 3,
    "xaijax/models/structure/declared.py": 1,
}

PAGES = ["ARCHITECTURE.md", "CONTRIBUTING.md", *(ROOT / "docs" / "design").glob("*.md")]
PATH = re.compile(r"[\w.-]+(/[\w.-]+)*(/|\.(py|md|toml|proto|j2))|[\w.-]+(/[\w.-]+)+")
ABSENT = {"kernels/__init__.py"}  # a page says that there is none


def map_of(source: str) -> list[str] | None:
    """The names on the map of an `__init__.py`, in order; None: it has no map."""
    _, heading, entries = (ast.get_docstring(parsed(source)) or "").partition(HEADING)
    found = [(ENTRY.fullmatch(line), line) for line in entries.splitlines()]
    return [match[1] if match else line for match, line in found] if heading else None


def unmapped(maps: Mapping[str, list[str] | None], modules: Mapping[str, object]) -> list[str]:
    """What is not on its package's map exactly once, and what is on it and does not exist."""
    wrong = []
    for package, names in maps.items():
        inside = [one for one in modules if one.rpartition(".")[0] == package]
        here = {one.rpartition(".")[2] + "/" * (one in maps) for one in inside}
        if names is None:
            wrong.append(f"{package} has no map: say 'Reading order:' in its __init__ docstring.")
            continue
        counted = Counter(names)
        wrong += [f"{package}: {one} is not on the map" for one in sorted(here - set(names))]
        wrong += [
            f"{package}: {one!r} on the map is no file, or is there twice"
            for one in counted - Counter(here)
        ]
    return wrong


def climbs(
    imports: Mapping[str, list[Import]], maps: Mapping[str, list[str]]
) -> dict[tuple[str, str], str]:
    """{(module, what it imports): complaint} of imports that do not run down the map.

    The map is that of the deepest package in which both stand. A package's `__init__` may name
    whatever stands in the package.
    """
    found = {}
    for module, its in imports.items():
        for target in {one.target for one in its if not one.typing} & set(imports):
            package = ".".join(os.path.commonprefix([module.split("."), target.split(".")]))
            if package in ("", module):
                continue
            if package == target:
                found[module, target] = f"{module} imports the package it stands in; name the file."
                continue
            order = maps[package]
            here, there = (_entry(one, package, maps) for one in (module, target))
            if {here, there} <= set(order) and order.index(there) < order.index(here):
                found[module, target] = (
                    f"{module} imports {target}, but on the map of {package} {there} stands above "
                    f"{here}. Reorder the map, or move what is shared down."
                )
    return found


def _entry(module: str, package: str, maps: Mapping[str, object]) -> str:
    """The line of the package's map that a module inside it belongs to."""
    name = module[len(package) + 1 :].split(".")[0]
    return f"{name}/" if f"{package}.{name}" in maps else name


def untyped(source: str) -> int:
    """How many parameters that take the engine's objects are annotated `Any`."""
    arguments = [node for node in ast.walk(parsed(source)) if isinstance(node, ast.arg)]
    return sum(
        "Any" in ast.unparse(one.annotation).split(" | ")
        for one in arguments
        if one.arg in ENGINE and one.annotation is not None
    )


def changed(found: Mapping[str, int], known: Mapping[str, int]) -> list[str]:
    """Files with more, or fewer, parameters of type Any than the table says."""
    both = {path: (found.get(path, 0), known.get(path, 0)) for path in {**known, **found}}
    return [
        f"{path}: {now} parameters of the engine are Any, {then} are known: "
        + ("annotate them." if now > then else "lower the number in UNTYPED.")
        for path, (now, then) in both.items()
        if now != then
    ]


TEXTS = {name: path.read_text("utf-8") for name, path in library_modules().items()}
INITS = [name for name, path in library_modules().items() if path.name == "__init__.py"]
MAPS = {name: map_of(TEXTS[name]) for name in INITS}


def test_every_file_is_on_its_map() -> None:
    assert len(MAPS) > 40, "the packages were not found, so nothing was checked"
    wrong = unmapped(MAPS, TEXTS)
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.slow
def test_imports_run_down_the_map() -> None:
    found = climbs(read(TEXTS, frozenset(MAPS)), {name: one or [] for name, one in MAPS.items()})
    assert not found, "\n" + "\n".join(found.values())


@pytest.mark.slow
def test_parameters_of_the_engine_lose_their_any() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): untyped(TEXTS[name])
        for name, path in library_modules().items()
    }
    wrong = changed(found, UNTYPED)
    assert not wrong, "\n" + "\n".join(wrong)


def test_paths_that_the_pages_name_exist() -> None:
    """From the root, or from a folder that holds Python: a page may name a file of its own room."""
    folders = {ROOT, *(parent for path in python_files() for parent in path.parents)}
    folders = {folder for folder in folders if folder.is_relative_to(ROOT)}
    wrong = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", (ROOT / page).read_text("utf-8"), flags=re.M | re.S)
        named = {one for one in re.findall(r"`([^`\n]+)`", text) if PATH.fullmatch(one)} - ABSENT
        wrong += [f"{page}: {one}" for one in named if not any((f / one).exists() for f in folders)]
    assert not wrong, "no such file: " + ", ".join(sorted(wrong))


def test_the_architecture_is_one_page() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines()) <= 120


PLANTED = {
    "a package without a map": ('"""P."""', "p has no map"),
    "a file that is not on the map": ('"""P.\n\nReading order:\n\n    b/   b\n"""', "a is not on"),
    "a package as a file": (
        '"""P.\n\nReading order:\n\n    a   a\n    b   b\n    b/   b\n"""',
        "'b' on the map is no file",
    ),
    "a file that does not exist": (
        '"""P.\n\nReading order:\n\n    a   a\n    b/   b\n    c   c\n"""',
        "'c' on the map is no file",
    ),
    "a file that is named twice": (
        '"""P.\n\nReading order:\n\n    a   a\n    b/   b\n    a   a\n"""',
        "'a' on the map is no file, or is there twice",
    ),
    "a line that is no entry": (
        '"""P.\n\nReading order:\n\n    a   a\n    b/   b\nAnd so on.\n"""',
        "'And so on.' on the map is no file",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_hole_in_a_map_is_found(name: str) -> None:
    source, message = PLANTED[name]
    found = unmapped({"p": map_of(source), "p.b": []}, dict.fromkeys(("p", "p.a", "p.b")))
    assert len(found) == 1 and message in found[0], found


@pytest.mark.parametrize(
    ("importer", "source", "climbed"),
    [
        ("p.a", "from p.b import c", None),
        ("p.a", "import p.b.c", None),
        ("p.b.d", "from p.b.c import x", "p.b.c"),
        ("p.b.c", "from p.b import d", None),
        ("p.b.c", "if TYPE_CHECKING:\n  from p.a import x", None),  # no import when it runs
        ("p.b", "import p.a", "p.a"),
        ("p.b", "from p.b import d\nfrom p.b import c", None),
        ("p.b.d", "from p.b import x", "p.b"),
    ],
)
def test_a_planted_climb_is_found(importer: str, source: str, climbed: str | None) -> None:
    texts = {**dict.fromkeys(("p", "p.a", "p.b", "p.b.c", "p.b.d"), ""), importer: source}
    maps = {"p": ["a", "b/"], "p.b": ["c", "d"]}
    found = climbs(read(texts, frozenset(maps)), maps)
    assert set(found) == ({(importer, climbed)} if climbed else set()), found


def test_a_planted_any_is_found() -> None:
    source = "def f(game: Any, model: Any | None, rows: Any, *, ask: GameRun): pass"
    assert untyped(source) == 2
    assert not changed({"a": 2, "b": 0}, {"a": 2})
    assert "annotate" in changed({"a": 2}, {"a": 1})[0]
    assert "lower" in changed({"a": 1}, {"a": 2})[0] and "lower" in changed({}, {"a": 1})[0]
