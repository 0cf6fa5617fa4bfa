"""What is compiled of a program, which all models share that are traced to it.

A cell that is run again makes its function and its model anew. Nothing but the trace tells whether
the function still does what it did, so it is traced again, which takes milliseconds; where every
step and constant is the same, what was compiled, which takes seconds, serves it too. Parameters are
arguments of the program, and may be others.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol

import jax

from xaijax.models.asking.row_count import same_steps
from xaijax_kernels.structures.base import Structure

RECENT = 8  # programs that are kept though no model is left that is traced to them
LARGEST = 1 << 26  # bytes of constants, above which they go with the last model


class Traceable(Protocol):
    """What this file reads of a `Model`."""

    @property
    def name(self) -> str: ...
    @property
    def apply(self) -> Callable[..., Any] | None: ...
    @property
    def scores(self) -> Callable[..., Any] | None: ...
    @property
    def params(self) -> Any: ...
    @property
    def precision(self) -> str: ...
    @property
    def structure(self) -> Structure | str | None: ...
    @property
    def deterministic(self) -> bool: ...
    @property
    def reader(self) -> object | None: ...


class Kept(dict[Any, Any]):
    """What is compiled of one program; the probe's own is at "probe"."""

    def __init__(self) -> None:
        super().__init__()
        self.of: weakref.WeakSet[Any] = weakref.WeakSet()  # functions that are traced to it


_known: weakref.WeakValueDictionary[Hashable, Kept] = weakref.WeakValueDictionary()
_recent: OrderedDict[Hashable, Kept] = OrderedDict()


def facts_of(model: Traceable) -> tuple[Any, ...]:
    """What else tells models of one program apart: how they are probed, where their arrays are."""
    leaves, tree = jax.tree.flatten(model.params)
    places = tuple(getattr(leaf, "sharding", None) for leaf in leaves)
    own = (model.name, model.precision, model.structure, model.deterministic, model.reader is None)
    return *own, tree, places, jax.default_backend(), jax.config.jax_enable_x64


def kept_of(
    facts: Hashable,
    digest: bytes | None,
    constants: int,
    whole: Any,
    trace: Callable[[int], Any],
) -> Kept:
    """What is kept of the program with this digest; empty where it is not known yet.

    Args:
        facts: `facts_of` the model, and the shape and dtype of its rows.
        digest: of the trace for the probe's rows; None: it does not hold all that is done.
        constants: bytes of the trace's constants.
        whole: the function that is traced.
        trace: (number of rows) -> the model's closed trace, which is compared with the one known.
    """
    if digest is None:
        return Kept()
    name = (facts, digest)
    kept = _known.get(name)
    if kept is None or not (whole in kept.of or _same(kept, trace)):
        kept = _known[name] = Kept()
    kept.of.add(whole)
    if constants <= LARGEST:
        _recent[name] = kept
        _recent.move_to_end(name)
        while len(_recent) > RECENT:
            _recent.popitem(last=False)
    return kept


def _same(kept: Kept, trace: Callable[[int], Any]) -> bool:
    return all(same_steps(one, trace(R)) for R, one in _traces(kept).items())


def _traces(kept: Kept) -> dict[int, Any]:
    """The closed traces of the model for other numbers of rows than the probe's, by that number."""
    if "probe" not in kept:
        return {}
    layer, probe_rows = kept["probe"][2], kept["probe"][4]
    found = dict(layer.traces) if layer is not None else {}
    for key, value in kept.items():
        if key[:2] == ("trace", "model"):
            found[key[2][0]] = value.closed
    found.pop(probe_rows, None)
    return found
