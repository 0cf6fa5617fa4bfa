"""Finds the names that a function's code reads, assigns and changes, without running it."""

from __future__ import annotations

import dis
import functools
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

# Methods that change the container they belong to.
CHANGES = frozenset(
    "append appendleft extend insert add update setdefault pop popitem popleft clear remove discard"
    " move_to_end fill sort reverse __setitem__ __delitem__".split()
)
LOOKS_UP = frozenset({"globals", "vars", "locals", "eval", "getattr", "attrgetter"})  # by a text
# Instructions that take values from the stack and leave the others unchanged.
_ONLY_TAKES = ("POP_", "STORE_", "DELETE_", "RETURN_", "NOP", "RESUME", "CACHE", "PRECALL", "NOT_")


@dataclass(frozen=True)
class Names:
    """The names in a code object, and in the code of functions within it."""

    globals: frozenset[str]  # global variables that are read
    attributes: frozenset[str]  # attributes that are read, of any object
    texts: frozenset[str]  # constants that could be the name of an attribute, a key or a variable
    modules: frozenset[str]  # imported within the function
    written: frozenset[str]  # outer and global variables that are assigned
    assigned: frozenset[str]  # attributes that are assigned
    changed: frozenset[str]  # variables and attributes whose entries are assigned or added
    by_text: bool  # whether a variable may be looked up by its name as a text


@functools.lru_cache(4096)
def names_of(code: CodeType) -> Names:
    """The names in the code, and in the code of functions within it."""
    names: dict[str, set[Any]] = {name: set() for name in Names.__dataclass_fields__}
    for part in _codes(code):
        names["changed"] |= _changed(part)
        names["texts"] |= {text for const in part.co_consts for text in _texts(const)}
        for step in dis.get_instructions(part):
            kind, name = step.opname, step.argval
            if kind in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
                names["globals"].add(name)
            elif kind in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"):
                names["attributes"].add(name)
            elif kind in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                names["written"].add(name)
            elif kind in ("STORE_DEREF", "DELETE_DEREF") and name in part.co_freevars:
                names["written"].add(name)
            elif kind in ("STORE_ATTR", "DELETE_ATTR"):
                names["assigned"].add(name)
            elif kind == "IMPORT_NAME":
                names["modules"].add(name)
                names["attributes"] |= set(name.split("."))
    by_text = bool(LOOKS_UP & (names["globals"] | names["attributes"]))
    sets: dict[str, Any] = {name: frozenset(entries) for name, entries in names.items()}
    return Names(**{**sets, "by_text": by_text})


@functools.lru_cache(4096)
def digest_of_code(code: CodeType) -> bytes:
    """Digest of 16 bytes, equal for code that does the same, in any process and at any line of a
    file.
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in _codes(code):
        digest.update(repr((part.co_argcount, part.co_varnames, part.co_names)).encode())
        digest.update(repr((part.co_freevars, part.co_cellvars, part.co_flags)).encode())
        digest.update(part.co_code)
        digest.update(repr([_constant(const) for const in part.co_consts]).encode())
    return digest.digest()


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _constant(const: Any) -> Any:
    """A constant as text. Sets are sorted, since their order differs between processes."""
    if isinstance(const, CodeType):
        return const.co_name
    if isinstance(const, frozenset):
        return "set", sorted(map(repr, const))
    if isinstance(const, tuple):
        return [_constant(item) for item in const]
    return type(const).__name__, repr(const)


def _texts(const: Any) -> Iterator[str]:
    if isinstance(const, str) and len(const) <= 128:
        yield const
        yield from re.findall(r"[A-Za-z_]\w*", const)
    elif isinstance(const, tuple | frozenset):
        for item in const:
            yield from _texts(item)


def _changed(code: CodeType) -> set[str]:
    """Names of variables and attributes whose content the code changes: `log.append(1)`,
    `known[key] = value`. It follows the values on the stack by name, instruction by instruction.
    """
    stack: list[str | None] = []
    local: dict[str, str | None] = {}
    owners: set[str | None] = set()
    for step in dis.get_instructions(code):
        kind, name = step.opname, step.argval
        after = max(0, len(stack) + dis.stack_effect(step.opcode, step.arg, jump=False))
        if kind.startswith("LOAD_FAST"):
            stack += [local.get(n) for n in (name if isinstance(name, tuple) else (name,))]
        elif kind in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF"):
            # Python 3.11 and 3.12 push an empty place below a global that is called.
            stack += [None] * (after - len(stack) - 1) + [name]
        elif kind in ("LOAD_ATTR", "LOAD_METHOD"):
            owner = stack.pop() if stack else None
            if name in CHANGES:
                owners.add(owner)
            stack.append(name)
        elif kind == "COPY":
            stack.append(stack[-step.argval] if len(stack) >= step.argval else None)
        elif kind == "SWAP" and len(stack) >= step.argval:
            stack[-1], stack[-step.argval] = stack[-step.argval], stack[-1]
        elif kind in ("STORE_SUBSCR", "DELETE_SUBSCR"):
            owners.add(stack[-2] if len(stack) > 1 else None)
        elif kind == "STORE_SLICE":
            owners.add(stack[-3] if len(stack) > 2 else None)
        elif kind == "STORE_FAST" and stack:
            local[name] = stack[-1]
        del stack[after:]
        stack += [None] * (after - len(stack))
        unchanged = kind.startswith(("LOAD_", "COPY", "SWAP", *_ONLY_TAKES))
        if stack and not unchanged:
            stack[-1] = None
    return {name for name in owners if name is not None}
