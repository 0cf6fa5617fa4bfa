"""What a function read when JAX traced it, so that no program of another state is used.

All programs of a model are of one state: that of its first trace. A later trace in another state is
an error that names what has changed.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.reads import Reads, changed, reads_of, shown

SHOWN = 5  # names in a message
# By which state each Python function was last traced within a model.
_traced_by: weakref.WeakKeyDictionary[Any, weakref.ref[StateAtTrace]] = weakref.WeakKeyDictionary()
# Under another value of this JAX traces functions anew that it has traced before, those that the
# user compiled or that a loop runs; earlier versions of JAX have none.
_anew = jax.make_user_context(None) if hasattr(jax, "make_user_context") else None


class StateAtTrace:
    """What a model's function read when JAX first traced it; compared at every later trace."""

    def __init__(self, f: Any, name: str) -> None:
        """f: the function or module; name: that of the model, for messages."""
        self._f, self._name = f, name
        self._reads: Reads | None = None
        # What a trace itself changes, a log or a counter: by name the places among its facts, or
        # None for all of them.
        self._moved: dict[str, set[int] | None] = {}
        self._token: object = None  # of `_anew`

    def refuse_changed(self) -> None:
        """Raises InputError if what the function reads has changed since the first trace."""
        if self._reads is not None:
            self._compare(reads_of(self._f))

    @contextlib.contextmanager
    def traced(self) -> Iterator[None]:
        """Compares the state around each trace, or takes it at the first one."""
        before = reads_of(self._f)
        if self._reads is None:
            self._refuse_stale(before.arrays)
            self._token = object() if self._elsewhere(before) else None
        else:
            self._compare(before)
        with contextlib.nullcontext() if _anew is None else _anew(self._token):
            yield
        after = reads_of(self._f)
        for name in changed(before.facts, after.facts):
            places = _places(before.facts.get(name), after.facts.get(name))
            known = self._moved.setdefault(name, set())
            self._moved[name] = None if places is None or known is None else known | places
        if self._reads is None:
            for one in before.functions:  # which JAX may not trace again
                _traced_by[one()] = weakref.ref(self)
        self._reads = Reads(after.facts)

    def _refuse_stale(self, arrays: list[tuple[str, np.ndarray]]) -> None:
        """Raises InputError for an array that was written into after JAX read it.

        JAX keeps what it made of an array of 64-bit numbers by the object, as long as a program
        with it lives, and would give a new trace the old numbers.
        """
        if jax.config.jax_enable_x64:
            return
        for name, array in arrays:
            if array.dtype.itemsize < 8 or array.ndim == 0 or array.dtype.kind not in "iuf":
                continue
            for kept in jax.make_jaxpr(lambda: jnp.asarray(array))().consts:  # noqa: B023
                if not np.array_equal(np.asarray(kept), array.astype(kept.dtype), equal_nan=True):
                    raise InputError(
                        f"f= ({self._name}) reads the array {name}, which was written into after "
                        f"JAX traced it. JAX would go on with the old numbers. Bind the name to a "
                        f"copy ({name} = {name}.copy()), or give the array as params=."
                    )

    def _compare(self, now: Reads) -> None:
        assert self._reads is not None
        old, new = self._reads.facts, now.facts
        names = [one for one in changed(old, new) if not self._is_moved(one, old, new)]
        if not names:
            return
        listed = ", ".join(shown(one) for one in names[:SHOWN])
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        raise InputError(
            f"f= ({self._name}) reads {listed}{more}, changed since JAX first traced this model. "
            f"All programs of a model are of the state of its first trace. Make the model anew "
            f"with as_model, and explainers of it; or give what changes as params= and use "
            f"model.replace(params=...)."
        )

    def _is_moved(self, name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
        """Whether nothing of this name differs but what a trace changes."""
        moved = self._moved.get(name, set())
        places = _places(old.get(name), new.get(name))
        return moved is None or places is not None and places <= moved

    def _elsewhere(self, now: Reads) -> bool:
        """Whether JAX may have traced a function that this one calls in another state."""
        if now.jitted:  # the user's own call may have
            return True
        for one in now.functions:
            last = _traced_by.get(one())
            other = None if last is None else last()
            if last is not None and (other is None or other._differs(now)):
                return True
        return False

    def _differs(self, now: Reads) -> bool:
        return self._reads is None or bool(changed(self._reads.facts, now.facts))


def _places(before: Any, after: Any) -> set[int] | None:
    """Places at which two tuples of facts differ; None: they are not of one length."""
    if not (isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after)):
        return None
    return {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
