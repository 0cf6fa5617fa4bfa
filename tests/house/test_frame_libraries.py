"""Which library rows come from is asked in `xaijax/tables/` only; others ask `rows_of(given)`."""

from __future__ import annotations

import ast
import re

import pytest
from repository import ROOT, library_modules, parsed

LIBRARIES = {"pandas", "polars", "narwhals"}
MEMBERS = {"frame_kind", "iloc", "itertuples", "iter_rows", "to_frame", "reset_index"}

# Files that make frames of a library, or name its types, and why. May only shrink.
ALLOWED = {
    "xaijax/commands/files.py": "it reads CSV and Parquet files as pandas frames",
    "xaijax/core/typing.py": "the types of frames, in public signatures",
    "xaijax/datasets/tables.py": "a data set is a pandas frame",
    "xaijax/datasets/fetch.py": "a data set is a pandas frame",
    "xaijax/commands/demo/__init__.py": "it says before its work that pandas is missing",
    "xaijax/commands/demo/data.py": "the type of what it reads of the data sets",
    "xaijax/results/convert.py": "Explanation.to_dataframe makes a pandas frame",
    "xaijax/results/rules.py": "Rules.to_dataframe makes a pandas frame",
}


def asks(source: str) -> list[str]:
    """Names of libraries of frames, and of members that one of them has, in code."""
    found = []
    for node in ast.walk(parsed(source)):
        match node:
            case ast.Import(names=names):
                words = [one.name for one in names]
            case ast.ImportFrom(module=module, names=names):
                words = [module or "", *(one.name for one in names)]
            case ast.Name(id=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
                words = [word]
            case ast.Constant(value=str(word)) if re.fullmatch(r"[\w.]+", word):
                words = [word]
            case _:
                continue
        parts = {part for word in words for part in word.split(".")}
        found += [f"line {node.lineno}: {word}" for word in parts & (LIBRARIES | MEMBERS)]
    return found


def test_only_tables_know_the_libraries_of_frames() -> None:
    paths = {path.relative_to(ROOT).as_posix(): path for path in library_modules().values()}
    found = {
        name: asks(path.read_text("utf-8"))
        for name, path in paths.items()
        if not name.startswith("xaijax/tables/")
    }
    wrong = [f"{name}, {one}" for name, its in found.items() if name not in ALLOWED for one in its]
    assert not wrong, "ask rows_of(given) of xaijax/tables/rows.py:\n" + "\n".join(wrong)
    idle = [name for name in ALLOWED if not found.get(name)]
    assert not idle, f"name no library any more, so leave ALLOWED: {idle}"


@pytest.mark.parametrize(
    "source",
    [
        "import pandas as pd",
        "from polars import DataFrame",
        "import narwhals.stable.v1 as nw",
        "from xaijax.tables.frames import frame_kind",
        "rows.iloc[:3]",
        "hasattr(rows, 'iloc')",
        "rows_of(X).kind == 'pandas'",
        "type(x).__module__.startswith('pandas')",
        "sys.modules['pandas'].concat(parts)",
    ],
)
def test_a_planted_question_is_found(source: str) -> None:
    assert len(asks(source)) == 1


def test_words_for_a_person_are_no_question() -> None:
    assert not asks('"A pandas or polars frame."\nerror = f"Give frame.iloc[[0]], not {x}."')
