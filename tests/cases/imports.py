"""The imports of modules, read from their text: for the tests of the house rules."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from repository import parsed

REQUIRE = {"require", "optional"}  # their functions


@dataclass(frozen=True)
class Import:
    """One module that a module imports."""

    target: str
    line: int
    inside: bool  # a function
    typing: bool  # under TYPE_CHECKING
    computed: bool = False  # import_module(name)


class _Reader(ast.NodeVisitor):
    """Collects the imports of one module, resolved to modules where they are `known`."""

    def __init__(self, module: str, package: bool, known: frozenset[str]) -> None:
        self.imports: list[Import] = []
        self._base = module.split(".") if package else module.split(".")[:-1]
        self._known = known
        self._inside = 0
        self._typing = 0

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        parts = self._base[: len(self._base) - node.level + 1] if node.level else []
        origin = ".".join([*parts, node.module] if node.module else parts)
        for alias in node.names:
            module = f"{origin}.{alias.name}"
            self._add(module if module in self._known else origin, node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else None
        called = node.func.id if isinstance(node.func, ast.Name) else called
        if called in ("import_module", "__import__"):
            self._add("", node, computed=True)
        elif called in REQUIRE and node.args and isinstance(node.args[0], ast.Constant):
            self._add(str(node.args[0].value), node)
        self.generic_visit(node)

    def visit_If(self, node: ast.If) -> None:
        guard = "TYPE_CHECKING" in ast.unparse(node.test)
        self._typing += guard
        for child in node.body:
            self.visit(child)
        self._typing -= guard
        for child in node.orelse:
            self.visit(child)

    def _function(self, node: ast.AST) -> None:
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def _add(self, target: str, node: ast.stmt | ast.expr, computed: bool = False) -> None:
        place = node.lineno, self._inside > 0, self._typing > 0
        self.imports.append(Import(target, *place, computed))


def read(sources: Mapping[str, str], packages: frozenset[str]) -> dict[str, list[Import]]:
    """{module: its imports}; sources: {module: text}."""
    imports = {}
    for module, text in sources.items():
        reader = _Reader(module, module in packages, frozenset(sources))
        reader.visit(parsed(text))
        imports[module] = reader.imports
    return imports
