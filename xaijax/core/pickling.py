"""Pickles objects for other processes as a recipe of parts, each packed separately.

The other process calls the constructor with the same arguments: no compiled program, no device and
no cached answer is sent. A part is packed by pickle if all of it can be imported, and by
cloudpickle, which stores functions by value, otherwise. A process pool can therefore send the
recipe by pickle alone, and an error names the argument that cannot be pickled.

A packed part is a program: open only what you trust. No file of this library holds one.
"""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import jax
import numpy as np

from xaijax.core.checks import from_torch
from xaijax.core.errors import InputTypeError
from xaijax.core.optional import require
from xaijax.core.public import public_class

Kind = TypeVar("Kind", bound=type)
Made = TypeVar("Made")
ROWS = ("background", "data", "pool")  # arguments that must not be iterators
WAY = (
    "Define functions and classes in a module that can be imported, and open files, connections "
    "and locks inside of them."
)


def pack(value: Any, what: str) -> bytes:
    """Returns the bytes of one part; `what` names it in the error.

    It raises InputTypeError if neither pickle nor cloudpickle accepts it.
    """
    plain, reason = None, ""
    try:
        plain = pickle.dumps(value, protocol=5)
    except InputTypeError:
        raise  # the error of a part, which names the argument
    except Exception as error:  # each class may raise what it likes
        reason = f"{type(error).__name__}: {error}"
    if plain is not None and b"__main__" not in plain:  # a script is not imported elsewhere
        return plain
    try:
        cloudpickle = require("cloudpickle", "xaijax[scale]")
    except ImportError:
        if plain is not None:
            return plain
        raise InputTypeError(
            f"{what} cannot be sent to another process by pickle ({reason}). For lambdas and "
            f'functions within functions: pip install "xaijax[scale]", which brings cloudpickle. '
            f"{WAY}"
        ) from None
    try:
        return cloudpickle.dumps(value)
    except InputTypeError:
        raise
    except Exception as error:
        raise InputTypeError(
            f"{what} cannot be sent to another process: {type(error).__name__}: {error}. {WAY}"
        ) from error


def unpack(part: bytes, what: str) -> Any:
    """Returns the value that `pack` was given; raises InputTypeError if part of it cannot be
    imported.
    """
    try:
        return pickle.loads(part)
    except (ImportError, AttributeError) as error:
        raise InputTypeError(
            f"{what} cannot be opened in this process: {error}. Install what it is made of here; "
            'a script\'s own functions need cloudpickle (pip install "xaijax[scale]").'
        ) from error


class OpenedCache(Generic[Made]):
    """Caches the objects opened in this process, one for each key and all threads; the last few
    stay.
    """

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._held: OrderedDict[str, _Held[Made]] = OrderedDict()

    @contextmanager
    def opened(
        self, key: str, make: Callable[[], Made], changed: Callable[[Made], bool]
    ) -> Iterator[Made]:
        """Yields the object of the key, to one thread at a time; it is made if there is none or it
        has changed.

        The least recently used object is dropped, once nobody uses it any more.
        """
        with self._lock:
            held = self._held.setdefault(key, _Held())
            self._held.move_to_end(key)
            while len(self._held) > self._most:
                self._held.popitem(last=False)
        with held.lock:
            if not held.made or changed(held.made[0]):
                held.made = [make()]
            yield held.made[0]


class _Held(Generic[Made]):
    def __init__(self) -> None:
        self.lock = threading.RLock()  # a model may ask an explainer itself
        self.made: list[Made] = []  # one, or none yet


def recipe(make: Any, arguments: Mapping[str, Any], then: Mapping[str, Any] | None = None) -> Any:
    """Returns the value of `__reduce__`: make(**given), followed by `.replace(**then)` if `then` is
    given.
    """
    name = make.__name__
    if isinstance(arguments.get("devices"), list | tuple):
        arguments = {**arguments, "devices": _elsewhere(arguments["devices"])}
    parts = {key: pack(value, f"{key}= of {name}") for key, value in arguments.items()}
    changes = {key: pack(value, f"{key}= of replace") for key, value in (then or {}).items()}
    return opened, (make, parts, changes)


def _elsewhere(devices: Sequence[Any]) -> Any:
    """The part of a recipe about devices: their number, which is enough in another process; or
    (platform, number) if their platform is not the one that JAX prefers.
    """
    platform, count = devices[0].platform, len(devices)
    return count if platform == jax.default_backend() else (platform, count)


def opened(make: Any, parts: Mapping[str, bytes], changes: Mapping[str, bytes]) -> Any:
    """Makes the object that the recipe describes."""
    name = make.__name__
    arguments = {key: unpack(part, f"{key}= of {name}") for key, part in parts.items()}
    devices = arguments.get("devices")
    if isinstance(devices, int):  # results do not depend on how many there are
        arguments["devices"] = min(devices, jax.local_device_count())
    elif devices is not None:
        platform, count = devices
        arguments["devices"] = jax.local_devices(backend=platform)[:count]
    made = make(**arguments)
    then = {key: unpack(part, f"{key}= of {name}") for key, part in changes.items()}
    return made.replace(**then) if then else made


def _as_given(name: str, value: Any) -> Any:
    return value


def travels(cls: Kind, read: Callable[[str, Any], Any] = _as_given) -> Kind:
    """Makes objects of the class pickle as a recipe: the class and its constructor arguments.

    Rows are copied, since the caller may change them after construction. A subclass has no recipe.
    read: (name, argument) -> the argument for the constructor and the recipe.
    """
    make: Callable[..., None] = cls.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def recorded(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError:
            make(self, *args, **kwargs)  # which says what is wrong
            return
        _, *arguments = bound.arguments.items()
        held = at_rest((n, value) for n, value in arguments if n not in ROWS)
        taken = {n: read(n, held[n]) if n in held else value for n, value in arguments}
        make(self, **taken)
        if type(self) is cls:
            vars(self)["made of"] = {name: _copied(value) for name, value in taken.items()}

    def __reduce__(self: Any) -> Any:
        return recipe(cls, made_of(self))

    setattr(cls, "__init__", recorded)  # noqa: B010
    setattr(cls, "__reduce__", __reduce__)  # noqa: B010
    return cls


def picklable_class(cls: Kind, read: Callable[[str, Any], Any] = _as_given) -> Kind:
    """Applies `public_class` and `travels` to an explainer; `read` is that of `travels`."""
    return travels(public_class(cls), read)


def made_of(explainer: object) -> dict[str, Any]:
    """Returns the constructor arguments as given; for an amortised explainer, those of its teacher.
    It raises InputTypeError if they are not known.
    """
    explainer = getattr(explainer, "_teacher", explainer)
    arguments = vars(explainer).get("made of") if hasattr(explainer, "__dict__") else None
    if arguments is None:
        raise InputTypeError(
            f"{type(explainer).__name__} cannot be pickled: its arguments are unknown. Use an "
            "explainer of xaijax."
        )
    return dict(arguments)


def at_rest(values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Returns values by name: iterators, which can be read only once, as lists."""
    once = Iterator | KeysView | ValuesView
    return {name: list(value) if isinstance(value, once) else value for name, value in values}


def _copied(value: Any) -> Any:
    """Copies rows and lists; a memory map stays on disk."""
    value = from_torch(value)
    if isinstance(value, np.memmap):
        return value
    if isinstance(value, np.ndarray) or (hasattr(value, "columns") and hasattr(value, "dtypes")):
        return copy.copy(value)
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if type(value) is dict:
        return {name: _copied(value) for name, value in value.items()}
    return value
