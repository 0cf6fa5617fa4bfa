"""House rules that a machine can check: docstrings, lengths, names, signatures."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT, library_modules, parsed, python_files

import xaijax

LONGEST = 600  # lines, of one idea; no file is cut to meet it
PRINTERS = (
    "xaijax.commands.cli",
    "xaijax.commands.demo",
    "xaijax.federated.command_line.commands",
    "xaijax.commands",
    "xaijax.__main__",
)  # they talk to a person

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
FILES = [pytest.param(p, id=str(p.relative_to(ROOT))) for p in python_files()]


def undocumented(source: str) -> list[str]:
    """Names without a docstring: the module, and what is public in it, methods included."""
    tree = parsed(source)
    missing = [] if ast.get_docstring(tree) or not tree.body else ["the module"]
    return missing + [name for name, node in _public(tree, "") if not ast.get_docstring(node)]


def _public(tree: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Definition]]:
    protocol = isinstance(tree, ast.ClassDef) and any(
        "Protocol" in ast.unparse(b) for b in tree.bases
    )
    for node in tree.body:
        if not isinstance(node, Definition):
            continue
        if node.name.startswith("_") and node.name != "__call__":
            continue
        # An overload is a signature; the function itself says what it does.
        if any(ast.unparse(one) == "overload" for one in node.decorator_list):
            continue
        # The members of a protocol may be only listed, where its own docstring says what they are.
        if protocol and ast.unparse(node.body[-1]) == "...":
            continue
        yield prefix + node.name, node
        if isinstance(node, ast.ClassDef):
            yield from _public(node, f"{node.name}.")


def prints(source: str) -> list[int]:
    """Lines that call print."""
    return [
        node.lineno
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "builtins.print")
    ]


# Functions that ask the model, compile a program, or run one.
ASKS = {
    *"affine backend compare compare_all compare_first encoded full_donors full_rows".split(),
    *"compile lower program run run_jax call_host rows_asked scanner takes_small whole".split(),
    *"probe_small ask_by_values compile_all may_cross may_scan may_solve may_structure".split(),
    *"predict probe read_affine whole_answers".split(),
}


def asking_properties(source: str) -> list[str]:
    """Properties that ask the model or compile: what looks like an attribute costs nothing."""
    return [
        node.name
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.FunctionDef)
        and {ast.unparse(one).rpartition(".")[2] for one in node.decorator_list}
        & {"property", "cached_property"}
        and ASKS
        & {
            ast.unparse(call.func).rpartition(".")[2]
            for call in ast.walk(node)
            if isinstance(call, ast.Call)
        }
    ]


def public_callables() -> dict[str, Any]:
    """{name: function, class or method} of everything that a person is meant to call."""
    found: dict[str, Any] = {}
    for space in (xaijax, xaijax.datasets, xaijax.federated, xaijax.plots, xaijax.privacy):
        for name in dir(space):  # AEC is there before it is loaded
            member = getattr(space, name)
            inside = getattr(member, "__module__", "") or ""
            if name.startswith("_") or not callable(member) or not inside.startswith("xaijax"):
                continue
            found[name] = member
            if not inspect.isclass(member) or issubclass(member, BaseException):
                continue
            for key, method in vars(member).items():
                if inspect.isfunction(method) and (key == "__call__" or key[0] != "_"):
                    found[f"{name}.{key}"] = method
    return found


def swallows(function: Any) -> bool:
    """Whether it takes any keyword at all."""
    parameters = inspect.signature(function).parameters.values()
    return any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)


@pytest.mark.parametrize("path", FILES)
def test_file_compiles_and_is_short(path: Path) -> None:
    source = path.read_text("utf-8")
    compile(source, str(path), "exec", dont_inherit=True)  # a SyntaxWarning is an error here
    lines = source.count("\n")
    assert lines <= LONGEST, f"{lines} lines: which second idea is in it?"


@pytest.mark.parametrize("name", library_modules())
def test_public_names_have_docstrings(name: str) -> None:
    missing = undocumented(library_modules()[name].read_text("utf-8"))
    assert not missing, f"no docstring: {', '.join(missing)}"


def test_library_does_not_print() -> None:
    found = {
        name: lines
        for name, path in library_modules().items()
        if not name.startswith(PRINTERS) and (lines := prints(path.read_text("utf-8")))
    }
    assert not found, f"print() in {found}: return it, warn, or leave it to the command line"


@pytest.mark.parametrize("name", library_modules())
def test_properties_ask_nothing(name: str) -> None:
    found = asking_properties(library_modules()[name].read_text("utf-8"))
    assert not found, f"{found}: a method with a verb for a name asks the model, or compiles"


def test_public_callables_take_no_arbitrary_keywords() -> None:
    callables = public_callables()
    expected = {"AEC.fit", "Explainer", "Explainer.__call__", "as_model", "adult", "bar"}
    assert expected <= set(callables)
    found = [
        name
        for name, function in callables.items()
        if not (inspect.isclass(function) and issubclass(function, BaseException))
        and swallows(function)
    ]
    assert not found, f"**kwargs in the signature of {found}: name each keyword"


def test_files_with_tests_are_run() -> None:
    lost = [
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith("test_")
        and any(
            isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            for node in ast.walk(parsed(path.read_text("utf-8")))
        )
    ]
    assert not lost, f"pytest does not look into {lost}: name them test_*.py"


def test_the_checks_see_what_they_look_for() -> None:
    assert undocumented('"""M."""\nclass A:\n  "A"\n  def f(self): pass\n  def _g(self): pass') == [
        "A.f"
    ]
    assert undocumented("def f():\n  'F'\n  def inner(): pass") == ["the module"]
    assert undocumented('"M"\nclass A(Protocol):\n  "A"\n  def f(self): ...') == []
    assert undocumented('"M"\n@overload\ndef f(): ...\ndef f(): pass') == ["f"]
    asks = "class A:\n  @{}\n  def f(self): return self.run.probe()"
    assert asking_properties(asks.format("cached_property")) == ["f"]
    assert asking_properties(asks.format("staticmethod")) == []
    assert prints("x = 1\ndef f():\n  print(x)") == [3]
    assert swallows(lambda a, **rest: None) and not swallows(lambda a, b=1: None)
