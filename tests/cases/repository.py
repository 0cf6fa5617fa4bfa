"""The files of the repository, found from this file: for the tests of the house rules."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
CASES, ORACLES = TESTS / "cases", TESTS / "oracles"  # what tests import by name
LIBRARY = {"xaijax": ROOT / "xaijax", "xaijax_kernels": ROOT / "kernels" / "xaijax_kernels"}
FOLDERS = (
    "xaijax",
    "kernels",
    "bench",
    "examples",
    "site_build",
    "tests",
    "notebooks",
    "docs",
)  # that hold Python


@cache
def python_files() -> list[Path]:
    """Every Python file of the repository, those of generated environments left out."""
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return [p for p in paths if not any(part[0] == "." for part in p.relative_to(ROOT).parts)]


@cache
def library_modules() -> dict[str, Path]:
    """{dotted name: file} of every module of the two import packages."""
    modules = {}
    for package, folder in LIBRARY.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


@cache
def parsed(source: str) -> ast.Module:
    """The tree of a source, which nobody changes: several rules look at the same files."""
    return ast.parse(source)


def package_files() -> set[str]:
    """What both import packages consist of, as paths below the folder that is on the path."""
    return {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in LIBRARY.items()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
