"""The size of the library, held under the ledger `size.toml`: it may only fall, or say what for.

Phrases that are not English are counted in the library's text, and in the pages and notebooks.

`python tests/house/test_size.py` lowers the figures of the ledger to what is there now.
"""

from __future__ import annotations

import ast
import io
import json
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1] / "cases"), str(Path(__file__).parent)]

import pytest
from repository import LIBRARY, ROOT, library_modules

LEDGER = Path(__file__).with_name("size.toml")

# Phrases that are not English in the meaning they have here, and what to say instead.
PHRASES = {
    r"hangs? on": "depends on",
    r"held against": "compared with",
    r"as of": "as for",
    r"of which": "begin a new sentence",
    r"stands? in\b(?! for)": "is in",
    r"mends?|mended": "fixes",
    r"what is asked for": "requested",
    r"whole rows?": "full rows",
    r"so many|that many": "that number of",
    r"quick(er|ly)?": "fast",
    r"drawn towards": "shrunk towards",
    r"tells of|is told|told once": "reports, warns",
    r"(?:no ?one|nobody) has seen": "unseen",
    r"ends? with status": "exits with status",
    r"less (?:the|that)": "minus",
    r"beside (?:shap|shapiq|captum|alibi|the peers?)": "compared with",
}
BEGINNINGS = re.compile(r"[.!?][)*\"]* (?:- )?((?:So|Of|Where|That) [^.]{0,40})")
LAYOUT = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


def docstrings(tree: ast.Module) -> list[ast.Constant]:
    """The docstrings of a module, its classes and its functions."""
    owners = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    found = [one.value for one in first if isinstance(one, ast.Expr)]
    return [one for one in found if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def code_lines(source: str) -> int:
    """Lines that hold code: no docstring, no comment line, no blank."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT and token.type not in LAYOUT:
            lines.update(range(token.start[0], token.end[0] + 1))
    for text in docstrings(ast.parse(source)):
        lines.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def prose(source: str) -> str:
    """The comments and all strings of a source."""
    kinds = (tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1))
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return "\n".join(token.string for token in tokens if token.type in kinds)


@cache
def packages() -> dict[str, dict[str, int]]:
    """{package: {"files", "code"}} of the library; the kernels are one package."""
    found: dict[str, Counter[str]] = {}
    for path in library_modules().values():
        name = "kernels"
        if path.is_relative_to(LIBRARY["xaijax"]):
            inside = path.relative_to(LIBRARY["xaijax"]).parts
            name = inside[0] if len(inside) > 1 else "top"
        counts = {"files": 1, "code": code_lines(path.read_text("utf-8"))}
        found.setdefault(name, Counter()).update(counts)
    return {name: dict(counts) for name, counts in sorted(found.items())}


@cache
def twice_defined() -> dict[str, int]:
    """{class name: how often it is defined} of those that are defined more than once."""
    names = Counter(
        node.name
        for path in library_modules().values()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    return {name: count for name, count in names.items() if count > 1}


@cache
def phrases() -> dict[str, int]:
    """{phrase: how often comments, docstrings and messages of the library have it}."""
    text = "\n".join(prose(path.read_text("utf-8")) for path in library_modules().values())
    text = re.sub(r"\s+", " ", text)
    return {
        phrase: len(re.findall(rf"\b(?:{phrase})\b", text, re.IGNORECASE)) for phrase in PHRASES
    }


def page_prose(path: Path) -> str:
    """The text of a page or notebook: no code, no output."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")
    text = re.sub(r"^ *```.*?^ *```", " ", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"`[^`\n]*`", "code", text))


PAGES = [
    *(path for path in ROOT.glob("*.md")),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "notebooks").glob("*.ipynb"),
]


def ledger() -> dict[str, dict[str, dict[str, int]]]:
    """What `size.toml` allows, what was granted with a reason included."""
    kept = tomllib.loads(LEDGER.read_text("utf-8"))
    for grant in kept.get("grown", ()):
        assert grant["what_for"].strip(), "a line of [[grown]] says what for"
        figures = kept["packages"].setdefault(grant["package"], {"files": 0, "code": 0})
        figures["files"] += grant.get("files", 0)
        figures["code"] += grant.get("code", 0)
    return kept


def raised(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Figures of [packages] and [road] that are larger than in an earlier ledger."""
    return [
        f"{table}.{name}.{what}: {count:,} > {before[table][name][what]:,}"
        for table in ("packages", "road")
        for name, counts in now[table].items()
        for what, count in counts.items()
        if count > before[table].get(name, counts)[what]
    ]


def test_packages_do_not_grow() -> None:
    allowed = ledger()["packages"]
    grown = {
        f"{name}.{what}": f"{count:,} > {allowed.get(name, {}).get(what, 0):,}"
        for name, counts in packages().items()
        for what, count in counts.items()
        if count > allowed.get(name, {}).get(what, 0)
    }
    assert not grown, f"{grown}: take something out, or add a line of [[grown]] to {LEDGER.name}"


def test_the_ledger_is_what_is_there() -> None:
    """A figure far above what is there would let the package grow again unseen."""
    allowed, now = ledger()["packages"], packages()
    loose = [
        name
        for name, figures in allowed.items()
        if figures["code"] > 1.03 * now.get(name, {"code": 0})["code"] + 10
    ]
    assert not loose, f"{loose}: run python {Path(__file__).relative_to(ROOT)}"


def test_no_figure_is_raised() -> None:
    """The ledger is compared with the committed one and the one before it."""
    name = LEDGER.relative_to(ROOT).as_posix()

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    commits = git("log", "-2", "--format=%h", "--", name).split()
    if not commits:
        pytest.skip("no history")
    now = tomllib.loads(LEDGER.read_text("utf-8"))
    for commit in commits:
        before = git("show", f"{commit}:{name}")
        wrong = raised(tomllib.loads(before), now) if before else []
        assert not wrong, f"{wrong}: a line of [[grown]] or [[longer]] says what must grow"


def test_a_raised_figure_is_seen() -> None:
    before = {"packages": {"core": {"code": 5}}, "road": {"mlp_warm": {"files": 2}}}
    now = {
        "packages": {"core": {"code": 6}, "new": {"code": 9}},
        "road": {"mlp_warm": {"files": 3}},
    }
    assert raised(before, before) == []
    assert raised(before, now) == ["packages.core.code: 6 > 5", "road.mlp_warm.files: 3 > 2"]


def test_a_class_name_is_defined_once() -> None:
    twice, allowed = twice_defined(), ledger()["names"]["twice"]
    assert len(twice) <= allowed, f"{len(twice)} > {allowed}: {sorted(twice)}"


@pytest.mark.parametrize("phrase", PHRASES)
def test_phrases_are_english(phrase: str) -> None:
    count, allowed = phrases()[phrase], ledger()["phrases"].get(phrase, 0)
    assert count <= allowed, f"{count} > {allowed} times {phrase!r}: say {PHRASES[phrase]!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_are_english(page: Path) -> None:
    text = page_prose(page)
    found = {
        f"{match.group()!r} in '...{text[max(0, match.start() - 40) : match.end() + 30]}...'": say
        for phrase, say in PHRASES.items()
        for match in re.finditer(rf"\b(?:{phrase})\b", text, re.IGNORECASE)
    }
    allowed = ledger().get("pages", {}).get(page.relative_to(ROOT).as_posix(), 0)
    assert len(found) <= allowed, f"say instead: {found}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_sentence_begins_with_its_subject(page: Path) -> None:
    found = BEGINNINGS.findall(page_prose(page))
    assert not found, f"begin with the subject: {found}"


def test_the_text_of_a_page_has_no_code(tmp_path: Path) -> None:
    page, notebook = tmp_path / "page.md", tmp_path / "cells.ipynb"
    page.write_text("It\nhangs on `of which`.\n```python\nmended = 1\n```\nEnd.\n")
    assert page_prose(page) == "It hangs on code. End. "
    cells = [
        {"cell_type": "markdown", "source": ["a\n", "b"]},
        {"cell_type": "code", "source": "c"},
    ]
    notebook.write_text(json.dumps({"cells": cells}))
    assert page_prose(notebook) == "a b"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = 1\n\n# a comment\ny = 2  # another\n", 2),
        ('"""Docstring."""\n\ndef f():\n    """One\n    more."""\n    return "text"\n', 2),
        ('x = """a string\nof two lines"""\n', 2),
    ],
)
def test_code_lines_hold_code(source: str, expected: int) -> None:
    assert code_lines(source) == expected


def test_prose_is_comments_and_strings() -> None:
    found = prose('hangs = on  # it hangs on x\nraise E(f"{n} of which")\n')
    assert "it hangs on x" in found and "of which" in found and "hangs = on" not in found


def lowered(roads: dict[str, dict[str, int]]) -> str:
    """The ledger with every figure at what is there now, if that is less."""
    text = LEDGER.read_text("utf-8") if LEDGER.exists() else ""
    kept = tomllib.loads(text)
    lines = [
        "# What the library may hold: code lines (no docstring, comment, blank) and files of each",
        "# package, class names that are defined more than once, phrases that are not English, and",
        "# the road of one call. Figures only fall (python tests/house/test_size.py lowers them).",
        "# What must grow has a line of [[grown]]: package, files, code, what_for; a road one of",
        "# [[longer]]: call, files, hand_overs, what_for.",
        "",
        "[packages]",
    ]
    granted: Counter[tuple[str, str]] = Counter()
    for grant in kept.get("grown", ()):
        for what in ("files", "code"):
            granted[grant["package"], what] += grant.get(what, 0)
    for name, counts in packages().items():
        old = kept.get("packages", {}).get(name, counts)
        new = {w: min(old[w], max(counts[w] - granted[name, w], 0)) for w in ("files", "code")}
        lines.append(f"{name} = {{ files = {new['files']}, code = {new['code']} }}")
    twice = len(twice_defined())
    lines += ["", "[names]", f"twice = {min(twice, kept.get('names', {}).get('twice', twice))}"]
    lines += ["", "[phrases]"]
    for phrase, count in phrases().items():
        count = min(count, kept.get("phrases", {}).get(phrase, count))
        lines += [f"'{phrase}' = {count}"] if count else []
    lines += ["", "[pages]"]
    lines += [f"'{page}' = {count}" for page, count in kept.get("pages", {}).items()]
    longer: Counter[tuple[str, str]] = Counter()
    for grant in kept.get("longer", ()):
        longer.update(
            {(grant["call"], what): grant.get(what, 0) for what in ("files", "hand_overs")}
        )
    lines += ["", "[road]"]
    for call, now in roads.items():
        old = kept.get("road", {}).get(call, now)
        least = {what: min(old[what], now[what] - longer[call, what]) for what in now}
        lines.append(f"{call} = {{ {', '.join(f'{k} = {v}' for k, v in least.items())} }}")
    grants = [(kind, grant) for kind in ("longer", "grown") for grant in kept.get(kind, ())]
    for kind, grant in grants:
        lines += ["", f"[[{kind}]]"]
        lines += [f"{k} = {v if isinstance(v, int) else repr(v)}" for k, v in grant.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    from test_road import measured

    LEDGER.write_text(lowered(measured()), "utf-8")
