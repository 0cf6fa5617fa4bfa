"""What was made of a function before, where it would be made the same again.

JAX knows a program by the Python object that it traced: the same object is not traced twice.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Any

from xaijax.models.identity.function_state import state_of

_Known = dict[Hashable, tuple[Hashable, "weakref.ref[Any]"]]
_known: weakref.WeakKeyDictionary[Any, _Known] = weakref.WeakKeyDictionary()


def made_once(f: Any, use: Hashable, make: Callable[[], Any]) -> Any:
    """make(), or what it made of `f` before, where nothing that `f` reads has changed since.

    It is known as long as a model holds it.

    Args:
        f: the person's function, or any other object: then there is nothing that is known.
        use: what else `make` depends on.
        make: what asks `f` when it is called.
    """
    state = state_of(f)
    if state is None:
        return make()
    made = _known.setdefault(f, {})
    before, kept = made.get(use, (None, None))
    found = None if kept is None or before != state else kept()
    if found is None:
        found = make()
        made[use] = state, weakref.ref(found)
    return found
