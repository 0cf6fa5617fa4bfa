"""Names that will be removed: they warn where they are used, and go in the version promised."""

from __future__ import annotations

import ast

import pytest
from repository import library_modules, parsed

import xaijax as xj
from xaijax.core.deprecated import deprecated
from xaijax.core.version import __version__


def version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def overdue(source: str, now: str) -> list[str]:
    """The versions that a source promises as `removed_in=`, and that are `now` or before it."""
    promised = [
        keyword.value.value
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "removed_in" and isinstance(keyword.value, ast.Constant)
    ]
    return [one for one in promised if version(one) <= version(now)]


def test_a_function_warns_at_its_caller_and_works_as_before():
    @deprecated(use="xaijax.new(x)", removed_in="0.9")
    def old(x: int) -> int:
        """Doubles."""
        return 2 * x

    said = r"xaijax\.old is deprecated and will be removed in xaijax 0\.9\. Say xaijax\.new\(x\)\."
    with pytest.warns(DeprecationWarning, match=said) as caught:
        assert old(3) == 6
    assert caught[0].filename == __file__ and old.__doc__ == "Doubles."


def test_a_class_stays_a_class():
    @deprecated(use="xaijax.New", removed_in="0.9", name="xaijax.part.Old")
    class Old:
        def __init__(self, x: int) -> None:
            self.x = x

    with pytest.warns(DeprecationWarning, match=r"xaijax\.part\.Old .* Say xaijax\.New") as caught:
        made = Old(3)
    assert caught[0].filename == __file__ and isinstance(made, Old) and made.x == 3


@pytest.mark.slow
def test_no_name_stays_beyond_the_version_in_which_it_goes():
    sources = [path.read_text("utf-8") for path in library_modules().values()]
    assert sum("removed_in=" in one for one in sources) >= 2  # the decorator, and a name
    assert not [one for source in sources for one in overdue(source, __version__)]


def test_a_name_beyond_its_version_is_found():
    source = '@deprecated(use="b", removed_in="0.3")\ndef a(): ...\n'
    assert overdue(source, "0.3.0") == ["0.3"] and overdue(source, "0.10.0") == ["0.3"]
    assert not overdue(source, "0.2.9")


def test_the_decorator_is_no_public_name():
    assert "deprecated" not in dir(xj)
