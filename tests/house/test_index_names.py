"""What holds of an index stands in `xaijax/players/index.py`; no other file asks for its name."""

from __future__ import annotations

import ast

from repository import library_modules, parsed

from xaijax.players.index import KNOWN

NAMES = set(KNOWN) - {"aec"}  # a method's name as well
HOME = "xaijax.players.index"
COLLECTIONS = ast.Tuple | ast.List | ast.Set


def compared(source: str) -> list[int]:
    """Lines that compare something with an index's name, or list such names to compare with."""
    lines = []
    for node in ast.walk(parsed(source)):
        parts: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Assign):
            parts = [node.value] if isinstance(node.value, COLLECTIONS) else []
        if NAMES.intersection(one for part in parts for one in _texts(part)):
            lines.append(node.lineno)
    return lines


def _texts(node: ast.AST) -> list[object]:
    """The constant that a node is, or those that a collection holds."""
    if isinstance(node, COLLECTIONS):
        return [one.value for one in node.elts if isinstance(one, ast.Constant)]
    return [node.value] if isinstance(node, ast.Constant) else []


def test_no_file_compares_with_the_name_of_an_index() -> None:
    assert {"shapley", "banzhaf"} <= NAMES
    found = {
        name: lines
        for name, path in library_modules().items()
        if name != HOME and (lines := compared(path.read_text("utf-8")))
    }
    assert not found, f"{found}: ask `named(...)` of {HOME} for a fact, or give `Index` a new one"


def test_a_planted_comparison_is_found() -> None:
    source = (
        'def f(index="shapley", kind: Literal["banzhaf"] = "banzhaf"):\n'
        '  if index == "shapley" or "unary" != index: pass\n'
        '  x = index in ("owen", "banzhaf")\n'
        "  match index:\n"
        '    case "banzhaf": g(index="shapley")\n'
        '  return KINDS[index, "banzhaf"]\n'
        'SAMPLED = ("shapley", "banzhaf")\n'
    )
    assert sorted(compared(source)) == [2, 2, 3, 5, 7]
