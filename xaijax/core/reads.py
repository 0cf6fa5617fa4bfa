"""Finds the values that a function's answers depend on besides its arguments, from its code.

It reads the function's code, defaults, closed-over values and globals, those of the functions that
it calls, and the attributes that the code names of the user's own objects, classes and modules.
Nothing is called: a property is read as the function that it is. Objects and modules of libraries
are never enumerated; only attributes that the code names are read. At most `MOST` objects are read;
plain values in one list, frame or array count as one. From arrays above `WHOLE` bytes only entries
spread over them are read, so that reading an array takes a tenth of a second at most. `unread`
lists what a limit leaves out. Values that no code names (the content of a file, for example) are
not read; other modules compare answers for them.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import functools
import hashlib
import inspect
import os
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from xaijax.core import same
from xaijax.core.code_names import Names, digest_of_code, names_of
from xaijax.core.same import SameArray, SameObject, digest_of_array

MOST = 1 << 13  # values that are read for one function
MANY = 1 << 20  # numbers and texts in one list, which count as one value
DEEP = 24  # values within values
NOT_WHOLE = " and more, not read"  # after a digest
# Packages whose functions, settings and modules do not change while a model lives.
SETTLED = frozenset(
    "jax jaxlib numpy math cmath functools operator itertools typing xaijax xaijax_kernels".split()
)
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), slice, range)
_BY_TEXT = (dt.date, dt.time, dt.timedelta, decimal.Decimal, fractions.Fraction)
_BY_TEXT += (np.generic, np.dtype)
# Attributes by which objects of libraries hold a function that they wrap.
_WRAPPED = ("__wrapped__", "__func__", "func", "fun", "_fun", "fn", "pyfunc", "fget")
_MUTABLE = (list, dict, set, bytearray, collections.deque, np.ndarray)
_MADE_IN = ("__init__", "__new__", "__post_init__", "__setattr__", "__setstate__", "setup")
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType)
JIT = type(jax.jit(lambda: None))
CODE = "()"  # ends the name of a fact that is the code of a function


@dataclass
class Reads:
    """The values that were read.

    Attributes:
        facts: facts about each value, by the name under which the code reads it ("scale",
            "settings.factor"); equal facts mean equal values.
        functions: the Python functions whose code was read, weakly.
        jitted: whether the user compiled one of them with `jax.jit`.
        arrays: NumPy's arrays of numbers among the facts, by name.
        unread: names of values that were not read completely: equal facts do not prove that these
            are equal.
    """

    facts: dict[str, Hashable] = field(default_factory=dict)
    functions: list[weakref.ref[Any]] = field(default_factory=list)
    jitted: bool = False
    arrays: list[tuple[str, np.ndarray]] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)

    def digests(self) -> dict[str, str]:
        """The facts of `reads_of(..., portable=True)` as hexadecimal digits."""
        return {
            name: hashlib.blake2b(repr(fact).encode(), digest_size=8).hexdigest()
            + NOT_WHOLE * (name in self.unread)
            for name, fact in self.facts.items()
        }


def reads_of(
    function: Any, portable: bool = False, digest: Callable[[Any], bytes | None] | None = None
) -> Reads:
    """Finds the values that the answers of a function, or of a callable object, depend on.

    Args:
        function: the function or object.
        portable: if True, facts are the same in another process, and leave out state that the code
            itself changes (logs, counters, remembered answers). If False, JAX's arrays are compared
            as objects first.
        digest: (fitted estimator) -> digest of its whole state, or None if it cannot be read.
    """
    reader = _Reader(portable, digest)
    reader.read("", function, _NONE, 0)
    for name in sorted(reader.texts & os.environ.keys()) if reader.reads_environment else ():
        reader.facts[f"os.environ[{name!r}]"] = [("text", os.environ[name])]
    reader.result.facts = {name: tuple(facts) for name, facts in reader.facts.items()}
    return reader.result


def shown(name: str) -> str:
    """The name of a fact, for messages."""
    return name if name not in ("", CODE) else "its code"


def changed(before: Mapping[str, Hashable], after: Mapping[str, Hashable]) -> list[str]:
    """Names of the facts that differ, in order."""
    return [name for name in {**before, **after} if before.get(name) != after.get(name)]


_NONE = Names(*(frozenset() for _ in range(7)), by_text=False)
_EMPTY = object()

APART = 64  # a container of plain values with at most this many entries has a fact for each


class _Reader:
    def __init__(self, portable: bool, digest: Callable[[Any], bytes | None] | None) -> None:
        self.portable, self.digest = portable, digest
        self.facts: dict[str, list[Hashable]] = {}
        self.result = Reads()
        self._left = MOST
        self._seen: dict[int, set[str]] = {}
        self._held: list[Any] = []  # so that no other object gets the place of one seen
        self._open: set[int] = set()  # containers that are being read
        self.texts: set[str] = set()
        self.reads_environment = False

    def read(self, path: str, value: Any, names: Names, deep: int) -> None:
        """Adds the facts of a value that code with these names refers to."""
        self._left -= 1
        if self._left < 0 or deep > DEEP:
            return self._note(path)
        kind = type(value)
        module = kind.__module__ if isinstance(kind.__module__, str) else ""
        if isinstance(value, enum.Enum):
            self._add(path, ("enum", kind.__qualname__, value.name))
        elif kind in PLAIN or isinstance(value, _BY_TEXT):
            if isinstance(value, str):
                self.texts.add(value)
            self._add(path, (kind.__qualname__, _short(repr(value))))
        elif isinstance(value, jax.Array):
            self._add(path, self._digest(path, value) if self.portable else SameArray(value))
        elif isinstance(value, np.ndarray):
            self._read_array(path, value, names, deep)
        elif isinstance(value, type):
            self._read_class(path, value, names, deep)
        elif isinstance(value, types.ModuleType):
            self._read_module(path, value, names, deep)
        elif isinstance(value, types.CellType):
            if (held := _content(value)) is not _EMPTY:
                self.read(path, held, names, deep + 1)
        elif isinstance(value, types.FunctionType):
            self._read_function(path, value, deep)
        elif isinstance(value, types.MethodType):
            inner = value.__func__
            inside = names_of(inner.__code__) if isinstance(inner, types.FunctionType) else _NONE
            self.read(path, inner, names, deep + 1)
            self.read(path, value.__self__, _both(names, inside), deep + 1)
        elif isinstance(value, functools.partial):
            self.read(path, value.func, names, deep + 1)
            self.read(path, (value.args, value.keywords), _names_within(value, names), deep + 1)
        elif isinstance(value, types.BuiltinFunctionType):
            self._add(path, ("builtin", value.__module__, value.__qualname__))
            if value is os.getenv:
                self.reads_environment = True
        elif kind in (tuple, list, set, frozenset, collections.deque) or _is_mapping(value):
            self._read_container(path, value, names, deep)
        else:
            self._read_object(path, value, names, deep, module)

    def _add(self, path: str, fact: Hashable) -> None:
        self.facts.setdefault(path, []).append(fact)

    def _note(self, path: str) -> None:
        """Notes that a value was not read completely."""
        if path not in self.result.unread:
            self.result.unread.add(path)
            self._add(path, "not read whole")

    def _known(self, value: Any, names: Iterable[str]) -> set[str]:
        """The names that were not read from this object yet."""
        before = self._seen.get(id(value))
        if before is None:
            before = self._seen[id(value)] = set()
            self._held.append(value)
            fresh = {*names, ""}
        else:
            fresh = {*names} - before
        before |= fresh
        return fresh

    def _read_array(self, path: str, array: np.ndarray, names: Names, deep: int) -> None:
        if not array.dtype.hasobject:
            self._add(path, self._digest(path, array))
            self.result.arrays.append((path, array))
            return
        self._add(path, ("objects", array.shape))
        if self._known(array, ()):
            self._read_entries(path, array.ravel().tolist(), names, deep)

    def _digest(self, path: str, array: Any) -> Hashable:
        if getattr(array, "nbytes", 0) > same.WHOLE:
            self._note(path)
        return digest_of_array(array)

    def _read_container(self, path: str, value: Any, names: Names, deep: int) -> None:
        if value is os.environ:
            self.reads_environment = True
            return
        if id(value) in self._open:  # it holds itself
            self._add(path, "again")
            return
        self._add(path, (type(value).__qualname__, len(value)))
        self._open.add(id(value))
        try:
            self._read_entries(path, value, names, deep)
        finally:
            self._open.remove(id(value))

    def _read_entries(self, path: str, value: Any, names: Names, deep: int) -> None:
        flat = [*value, *value.values()] if isinstance(value, Mapping) else value
        if len(value) <= MANY and all(type(entry) in PLAIN for entry in flat):
            if len(value) < MOST:
                self.texts |= {entry for entry in flat if type(entry) is str}
            text = map(repr, value.items() if isinstance(value, Mapping) else value)
            ordered = sorted(text) if isinstance(value, set | frozenset) else list(text)
            if isinstance(value, set | frozenset) or len(value) > APART:
                ordered = [" ".join(ordered)]
            for entry in ordered:
                self._add(path, _short(entry))
            return
        if isinstance(value, set | frozenset):
            kinds = (repr(v) if _is_plain(v) else type(v).__qualname__ for v in value)
            self._add(path, _short(" ".join(sorted(kinds))))
            if not all(map(_is_plain, value)):
                self._note(path)
            return
        if not isinstance(value, Mapping):
            for item in _first(value, max(0, self._left) + 1):
                self.read(path, item, names, deep + 1)
            return
        if "__builtins__" in value and "__name__" in value:  # the globals of a module
            self._read_named(path, value.get, names.attributes | names.texts, names, deep)
            return
        for key, item in _first(value.items(), max(0, self._left) + 1):
            plain = type(key) in PLAIN
            self._add(path, _short(repr(key)) if plain else type(key).__qualname__)
            self.read(path, item, names, deep + 1)

    def _read_function(self, path: str, function: Any, deep: int) -> None:
        """Reads a user's function completely; for a library's function, the user's function that it
        wraps.
        """
        if not self._known(function, ()):
            return
        inner = getattr(function, "__wrapped__", None)
        code = function.__code__
        if of_library(function.__globals__.get("__name__")):
            self._add(path, ("function", function.__module__, function.__qualname__))
            if function is os.getenv:
                self.reads_environment = True
            if inner is not None:
                self.read(path, inner, _NONE, deep + 1)
            for cell in function.__closure__ or ():
                held = _content(cell)
                if callable(held) and not isinstance(held, type):
                    self.read(path, held, _NONE, deep + 1)
            return
        names = names_of(code)
        self.result.functions.append(weakref.ref(function))
        self.texts |= names.texts
        self._add(f"{path}{CODE}", digest_of_code(code))
        if inner is not None:
            self.read(path, inner, names, deep + 1)
        defaults = function.__defaults__ or ()
        first = code.co_argcount - len(defaults)
        defaulted = zip(code.co_varnames[first : code.co_argcount], defaults, strict=True)
        for name, value in (*defaulted, *(function.__kwdefaults__ or {}).items()):
            self.read(_joined(path, name), value, names, deep + 1)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._read_variable(path, name, _content(cell), names, deep)
        wanted = names.globals | _looked_up(names)
        for name in sorted(wanted):
            if name in function.__globals__:
                self._read_variable(path, name, function.__globals__[name], names, deep)
        for name in sorted(names.modules):
            package = function.__globals__.get("__package__") or ""
            for full in (name, f"{package}.{name}"):
                if full in sys.modules:
                    self.read(_joined(path, name), sys.modules[full], names, deep + 1)
        for name, value in sorted(vars(function).items()):
            if name in names.attributes and name not in ("__wrapped__", *names.assigned):
                self.read(_joined(path, name), value, names, deep + 1)

    def _read_variable(self, path: str, name: str, value: Any, names: Names, deep: int) -> None:
        if value is _EMPTY or name in names.written:
            return
        if self._left_out(name, value, names):
            return
        self.read(_joined(path, name), value, names, deep + 1)

    def _left_out(self, name: str, value: Any, names: Names) -> bool:
        """Whether the code itself changes the variable, which makes it a log or a store of
        answers.
        """
        return self.portable and name in names.changed and isinstance(value, _MUTABLE)

    def _read_module(self, path: str, module: types.ModuleType, names: Names, deep: int) -> None:
        self._add(path, ("module", module.__name__))
        if module.__name__.partition(".")[0] not in SETTLED:
            wanted = names.attributes | _looked_up(names)
            self._read_named(path, vars(module).get, wanted, names, deep, module)

    def _read_named(
        self,
        path: str,
        find: Callable[[str, Any], Any],
        wanted: Iterable[str],
        names: Names,
        deep: int,
        owner: Any = None,
    ) -> None:
        """Reads the entries of an owner that the code names."""
        for name in sorted(wanted if owner is None else self._known(owner, wanted)):
            value = find(name, _EMPTY)
            if value is not _EMPTY and not self._left_out(name, value, names):
                self.read(_joined(path, name), value, names, deep + 1)

    def _read_class(self, path: str, kind: type, names: Names, deep: int) -> None:
        self._add(path, ("class", kind.__module__, kind.__qualname__))
        if of_library(kind.__module__):
            if issubclass(kind, os._Environ):
                self.reads_environment = True
            return
        self._read_members(path, kind, kind, names, deep)

    def _read_object(self, path: str, value: Any, names: Names, deep: int, module: str) -> None:
        kind = type(value)
        if isinstance(value, JIT):
            self.result.jitted |= not of_library(getattr(value, "__module__", None))
        if module.partition(".")[0] == "sklearn" and hasattr(value, "get_params"):
            self._add(path, kind.__qualname__)
            digest = None if self.digest is None else self.digest(value)
            self._add(path, digest)
            if digest is None and self.digest is not None:
                self._note(path)
            return
        if callable(state := getattr(kind, "state_dict", None)) and "torch" in sys.modules:
            tensors: Any = state(value)
            for name, tensor in sorted(tensors.items()):
                if hasattr(tensor, "detach"):
                    self._add(path, (name, digest_of_array(tensor.detach().cpu())))
        if "a tree" in self._known(value, ("a tree",)):
            for leaf in _leaves(value)[: max(0, self._left) + 1]:
                self.read(path, leaf, names, deep + 1)
        if not of_library(kind.__module__):
            self._add(path, ("object", kind.__module__, kind.__qualname__))
            self._read_members(path, value, kind, names, deep)
            return
        before = self._left
        self._add(path, ("object", kind.__module__, kind.__qualname__))
        if hasattr(kind, "to_numpy") and hasattr(kind, "__array__"):  # all become one array
            self._read_frame(path, value, names, deep)
        attributes = getattr(value, "__dict__", None)
        attributes = attributes if isinstance(attributes, Mapping) else {}
        for name in _WRAPPED:
            inner = attributes.get(name, _EMPTY)
            if callable(inner) and not isinstance(inner, type):
                self.read(path, inner, names, deep + 1)
        if isinstance(value, JIT):
            self.read(path, getattr(value, "__wrapped__", None), names, deep + 1)
        # A library's own attributes are read where they are plain; its objects lead anywhere.
        wanted = names.attributes | _looked_up(names)
        simple = (*PLAIN, np.ndarray, np.generic, jax.Array, list, tuple, dict)
        if isinstance(value, types.SimpleNamespace) or module == "argparse":
            simple = (object,)
        for name in sorted(self._known(value, wanted)):
            attribute = attributes.get(name, _EMPTY)
            if attribute is not _EMPTY and isinstance(attribute, simple):
                self.read(_joined(path, name), attribute, names, deep + 1)
        if not self.portable and before == self._left:
            self._add(path, SameObject(value))

    def _read_frame(self, path: str, frame: Any, names: Names, deep: int) -> None:
        try:
            labels, array = list(getattr(frame, "columns", ())), np.asarray(frame)
        except Exception:  # a frame of a library that has no array of it
            return self._note(path)
        self._add(path, _short(repr(labels)))
        self._read_array(path, array, names, deep)

    def _read_members(self, path: str, owner: Any, kind: type, names: Names, deep: int) -> None:
        """Reads what the code, and the methods that it names, use of an object or a class."""
        wanted = set(names.attributes | _looked_up(names))
        assigned, changes = set(names.assigned), set(names.changed)
        for base in kind.__mro__:  # called by operators, and without a name
            if not of_library(base.__module__):
                dunder = (n for n in vars(base) if n.startswith("__") and n.endswith("__"))
                wanted |= {n for n in dunder if _functions(vars(base)[n])}
        waiting, looked = set(wanted), set(wanted)
        while waiting:
            name = waiting.pop()
            for function in _functions(_static(owner, kind, name)):
                if of_library(function.__globals__.get("__name__")):
                    continue
                inside = names_of(function.__code__)
                self.texts |= inside.texts
                if name not in _MADE_IN:
                    assigned |= inside.assigned
                    changes |= inside.changed
                more = set(inside.attributes | _looked_up(inside)) - looked
                waiting |= more
                looked |= more
        sets = {"attributes": looked, "assigned": assigned, "changed": changes}
        names = dataclasses.replace(names, **{k: frozenset(words) for k, words in sets.items()})
        for name in sorted(self._known(owner, looked)):
            member = _static(owner, kind, name)
            functions = _functions(member)
            for function in functions:
                self.read(_joined(path, name), function, names, deep + 1)
            if functions or name in assigned or name.startswith("__"):
                continue
            if isinstance(member, _DESCRIPTORS):
                member = _EMPTY if isinstance(owner, type) else _value_of(member, owner)
            if member is not _EMPTY and not self._left_out(name, member, names):
                self.read(_joined(path, name), member, names, deep + 1)
        if isinstance(owner, dict | list | tuple | set) and not isinstance(owner, type):
            entries = [*owner.items()] if isinstance(owner, dict) else [*owner]
            for entry in entries[: max(0, self._left) + 1]:
                self.read(path, entry, names, deep + 1)


def _looked_up(names: Names) -> frozenset[str]:
    """Texts by which a variable may be looked up."""
    return names.texts if names.by_text else frozenset()


def _short(text: str) -> str:
    if len(text) <= 64:
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _EMPTY


def _first(values: Iterable[Any], most: int) -> list[Any]:
    return [value for _, value in zip(range(most), values, strict=False)]


def _is_plain(value: Any) -> bool:
    """Whether the value is fully described by its text."""
    if type(value) in (tuple, frozenset):
        return type(value) is tuple and all(map(_is_plain, value))
    return type(value) in PLAIN


def _is_mapping(value: Any) -> bool:
    root = str(type(value).__module__).partition(".")[0]
    return isinstance(value, Mapping) and (root == "builtins" or root in sys.stdlib_module_names)


def _names_within(value: functools.partial[Any], names: Names) -> Names:
    inner = value.func
    while isinstance(inner, functools.partial):
        inner = inner.func
    inside = names_of(inner.__code__) if isinstance(inner, types.FunctionType) else _NONE
    return _both(names, inside)


def _both(a: Names, b: Names) -> Names:
    sets = (f for f in Names.__dataclass_fields__ if f != "by_text")
    joined: dict[str, Any] = {name: getattr(a, name) | getattr(b, name) for name in sets}
    return Names(**joined, by_text=a.by_text or b.by_text)


@functools.lru_cache(4096)
def of_library(module: Any) -> bool:
    """Whether a module is Python's own or installed, rather than the user's."""
    if not isinstance(module, str):  # of a text that was executed
        return False
    root = module.partition(".")[0]
    if root in ("__main__", "__mp_main__"):  # in a notebook the file of a library
        return False
    if root in SETTLED or root in sys.stdlib_module_names or root == "builtins":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return getattr(sys.modules.get(module), "__spec__", None) is not None
    paths = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    return any(file.startswith(path + os.sep) for path in paths if path)


def _leaves(value: Any) -> list[Any]:
    """Leaves of a pytree; an empty list for other values."""
    try:
        leaves = jax.tree.leaves(value)
    except Exception:  # the class's own code, which may fail for such an object
        return []
    return [leaf for leaf in leaves if leaf is not value]


def _static(owner: Any, kind: type, name: str) -> Any:
    """Returns an attribute as stored, without calling the code that computes it."""
    try:
        return inspect.getattr_static(owner, name)
    except AttributeError:
        return _EMPTY


def _functions(member: Any) -> list[types.FunctionType]:
    """The Python functions behind a method or a property."""
    if isinstance(member, staticmethod | classmethod):
        member = member.__func__
    if isinstance(member, property):
        member = member.fget
    elif isinstance(member, functools.cached_property | functools.partialmethod):
        member = member.func
    else:
        while not isinstance(member, types.FunctionType):
            wrapped = getattr(member, "__wrapped__", None)
            if wrapped is None or wrapped is member:
                return []
            member = wrapped
    return [member] if isinstance(member, types.FunctionType) else []


def _value_of(slot: Any, owner: Any) -> Any:
    try:
        return slot.__get__(owner, type(owner))
    except AttributeError:
        return _EMPTY
