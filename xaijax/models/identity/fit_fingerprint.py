"""A fingerprint of a fitted estimator, which detects later changes: a refit, an assigned number.

It is cheap, since it is computed at every call: Python's 64-bit hash of all contents, valid in this
process only. (A ledger uses the cryptographic digests of `identity.py`.) Objects that cannot be
read, such as functions, are identified by `id`, and so are modules and the caller's variables of a
formula. Inside objects of other libraries at most `MOST` objects and `BYTES` of arrays are read;
the rest is only compared by outputs.
"""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Callable, Hashable
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np

from xaijax.models.identity.patched import SEARCHED, of_library, of_sklearn

DEEPEST = 200  # objects within objects
# Limits inside objects of classes outside `READ_WHOLE`: objects, and bytes of arrays, that are
# read; of later arrays, entries spread over them.
MOST, BYTES, SPREAD = 1 << 13, 1 << 28, 1 << 12
READ_WHOLE = ("sklearn", "numpy", "scipy")
NAMESPACES = ("EvalEnvironment", "LayeredMapping")  # of patsy and formulaic: the caller's variables
# Attributes that change no output but are often set between calls.
_WITHOUT = ("n_jobs", "verbose", "random_state", "_random_state", *SEARCHED)
# Modules of search trees, which count their visits: identified by their rows and by `id`.
SEARCH_TREES = ("sklearn.neighbors._kd_tree", "sklearn.neighbors._ball_tree")
_BARE, _POINTER = object.__basicsize__, 8  # bytes of an empty object, and of a pointer
_HASHED = frozenset({type(None), bool, str, bytes})
_PRINTED = frozenset({int, slice, np.ufunc})  # hash(-1) == hash(-2); slices have none
_NUMBERS = (float, complex, np.generic, np.dtype)  # so that NaN equals NaN
# Methods that compute outputs: replacing one of them on the class is a change too.
_ANSWERS = ("predict", "predict_proba", "decision_function", "transform", "kneighbors")
# Its state is not part of a fit: scikit-learn keeps NumPy's global generator.
_GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator)
_BY_IDENTITY = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.ModuleType,
    types.FrameType,
)


@functools.cache
def _packed(dtype: np.dtype) -> np.dtype:
    """The same fields without padding, at any depth."""
    if dtype.subdtype is not None:
        return np.dtype((_packed(dtype.base), dtype.shape))
    if dtype.names is None:
        return dtype
    return np.dtype([(name, _packed(dtype[i])) for i, name in enumerate(dtype.names)])


@functools.cache
def _used(dtype: np.dtype) -> int | None:
    """Bytes of a record without its trailing padding, if there is none between its fields; else
    None."""
    packed = _packed(dtype)
    tight, fields = packed.fields or {}, dtype.fields or {}
    return packed.itemsize if all(tight[name] == fields[name][:2] for name in tight) else None


@functools.lru_cache(1 << 10)
def _layout(names: tuple[str, ...], kinds: tuple[type, ...]) -> tuple[int, Any, Any, list[str]]:
    """How attributes of these names and types are read: (a hash of both, getter of hashable
    ones, getter of those read by their repr, names of the others).
    """
    used = [(name, kind) for name, kind in zip(names, kinds, strict=True) if name not in _WITHOUT]
    plain = [name for name, kind in used if kind in _HASHED]
    printed = [name for name, kind in used if kind in (int, float)]
    others = [name for name, _ in used if name not in plain and name not in printed]
    return hash(tuple(used)), _getter(plain), _getter(printed), others


def _getter(names: list[str]) -> Callable[[Any], Any]:
    return itemgetter(*names) if names else lambda _: None


class FitFingerprint:
    """Equal for one estimator in one state. Objects identified by `id` are kept alive, so that
    no other object gets the same id. The estimator itself is not.
    """

    def __init__(self, estimator: Any) -> None:
        self._held: list[Any] = []
        # Keeps temporary objects alive while the estimator is read, so that ids stay unique.
        self._met: list[Any] = []
        self._seen: dict[int, int] = {}
        self._kinds: dict[type, tuple[int, bool]] = {}
        self._ways: dict[type, Callable[[Any, int], int]] = {}
        self._foreign = 0  # objects of other libraries that are being read, nested
        self._left, self._bytes = MOST, BYTES
        self._found = self._of(estimator, 0)
        self._met.clear()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FitFingerprint) and self._found == other._found

    __hash__ = None  # type: ignore[assignment]

    def made_by(self, libraries: tuple[str, ...]) -> bool:
        """Whether all objects that were read are of classes of these libraries."""
        return all(kind.__module__.split(".")[0] in libraries for kind in self._kinds)

    def _of(self, thing: Any, depth: int) -> int:
        kind = type(thing)
        if kind in _HASHED:
            return hash((kind, thing))
        if self._foreign:
            self._left -= 1
            if self._left < 0:
                return hash(("unread", kind.__qualname__))
        if kind in _PRINTED:
            return hash((kind, repr(thing)))
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = self._way_of(thing)
        return way(thing, depth) if depth <= DEEPEST else 0

    def _way_of(self, thing: Any) -> Callable[[Any, int], int]:
        """How objects of this class are read, cached, because an estimator has many objects of few
        classes."""
        kind = type(thing)
        if isinstance(thing, _NUMBERS):
            return lambda value, _: hash((kind, repr(value)))
        if kind is np.ndarray:
            return self._of_array
        if isinstance(thing, memoryview):
            return lambda array, depth: self._of_array(np.asarray(array), depth)
        if kind in (tuple, list):
            return lambda items, depth: hash((kind, *[self._of(part, depth + 1) for part in items]))
        if kind in (set, frozenset):
            return lambda items, depth: hash(
                (kind, frozenset(self._of(part, depth + 1) for part in items))
            )
        if kind is dict:
            return self._of_pairs
        if isinstance(thing, dict):
            return lambda data, depth: hash(
                (self._of_pairs(data, depth), self._of_pairs(getattr(data, "__dict__", {}), depth))
            )
        if isinstance(thing, _GENERATORS):
            return lambda generator, _: self._of_identity(kind)
        if isinstance(thing, _BY_IDENTITY):
            return lambda value, _: self._of_identity(value)
        if kind.__module__ in SEARCH_TREES and hasattr(thing, "get_tree_stats"):
            return lambda index, depth: hash(
                (self._of_identity(index), self._of_array(np.asarray(index.data), depth))
            )
        state = booster_state(kind)
        if state is not None:
            of_kind, _ = self._of_kind(kind)
            return lambda booster, _: hash((of_kind, state(booster)))
        return self._of_object

    def _of_pairs(self, pairs: Any, depth: int) -> int:
        if "__builtins__" in pairs and "__name__" in pairs:  # the variables of a module
            return self._of_identity(pairs)
        if not self._foreign and set(map(type, pairs)) == {str}:
            layout = _layout(tuple(pairs), tuple(map(type, pairs.values())))
            of_layout, plain, printed, others = layout
            hashes = [self._of(pairs[name], depth + 1) for name in others]
            return hash((of_layout, plain(pairs), repr(printed(pairs)), *hashes))
        items: list[Any] = ["pairs"]
        for key, value in pairs.items():
            if self._foreign and self._left < 0:
                break
            if isinstance(key, str) and key in _WITHOUT:
                continue
            items.append(key if type(key) is str else self._of(key, depth + 1))
            kind = type(value)
            # Most values are these: they are hashable and need no further hash.
            items += (kind, value) if kind in _HASHED else (self._of(value, depth + 1),)
        return hash(tuple(items))

    def _of_array(self, array: np.ndarray, depth: int) -> int:
        facts = array.dtype if array.dtype.names else array.dtype.str, array.shape
        if array.dtype.hasobject:
            return hash((facts, *(self._of(item, depth + 1) for item in array.ravel().tolist())))
        if array.dtype.names:  # padding between the fields is undefined
            used = _used(array.dtype)
            if used is None or not array.flags.c_contiguous:
                array = array.astype(_packed(array.dtype))
            else:
                array = array.view((np.uint8, array.dtype.itemsize))[..., :used]
        if self._foreign:
            self._bytes -= array.nbytes
            if self._bytes < 0 and array.size > SPREAD:
                array = array.flat[np.linspace(0, array.size - 1, SPREAD).astype(np.int64)]
        return hash((facts, array.tobytes()))

    def _of_object(self, thing: Any, depth: int) -> int:
        if id(thing) in self._seen:  # seen before, or inside itself
            return hash(("again", self._seen[id(thing)]))
        self._seen[id(thing)] = len(self._seen)
        self._met.append(thing)
        kind = type(thing)
        if kind.__name__ in NAMESPACES:
            return self._of_identity(thing)
        foreign = kind.__module__.partition(".")[0] not in READ_WHOLE
        self._foreign += foreign
        try:
            return self._of_contents(thing, kind, depth)
        finally:
            self._foreign -= foreign

    def _of_contents(self, thing: Any, kind: type, depth: int) -> int:
        contents = self._of_pairs(vars(thing), depth) if hasattr(thing, "__dict__") else 0
        of_kind, all_in_dict = self._kinds.get(kind) or self._of_kind(kind)
        if all_in_dict:
            return hash((of_kind, contents))
        try:
            reduced = thing.__reduce_ex__(4)
        except Exception:  # a class may raise anything if its objects cannot be pickled
            return hash((self._of_identity(thing), contents))
        if isinstance(reduced, str):
            return hash((self._of_identity(thing), contents))
        parts = (part if i < 3 or part is None else list(part) for i, part in enumerate(reduced))
        return hash((of_kind, contents, *(self._of(p, depth + 1) for p in parts)))

    def _of_kind(self, kind: type) -> tuple[int, bool]:
        """(a hash of a class and of the methods `_ANSWERS` of it and its bases, whether `__dict__`
        holds the whole state of its objects).

        It does if they take no more bytes than an object with a `__dict__` and weak references:
        slots and fields of classes written in C take more.
        """
        methods = [vars(base).get(name) for base in kind.__mro__ for name in _ANSWERS]
        self._held += methods
        pointers = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
        bare = kind.__dictoffset__ != 0 and kind.__basicsize__ == _BARE + _POINTER * pointers
        self._kinds[kind] = hash((self._of_identity(kind), *map(id, methods))), bare
        return self._kinds[kind]

    def _of_identity(self, thing: Any) -> int:
        if isinstance(thing, types.MethodType):  # made again at every access
            return hash((self._of_identity(thing.__func__), self._of_identity(thing.__self__)))
        self._held.append(thing)
        return hash(("identity", id(thing)))


Kept = TypeVar("Kept")
_known: weakref.WeakKeyDictionary[Any, tuple[FitFingerprint, dict[Hashable, Any]]]
_known = weakref.WeakKeyDictionary()


def once_a_fit(
    estimator: Any, fit: FitFingerprint, use: Hashable, make: Callable[[], Kept]
) -> Kept:
    """Returns make(), or its earlier result for this estimator of scikit-learn in the same state.

    Nothing is kept if a class of another library takes part, whose state may lie where no
    fingerprint sees it.

    Args:
        estimator: the estimator, which the result must not hold: it is kept as long as that lives.
        fit: its fingerprint, taken before anything is read for `make`.
        use: what else `make` depends on.
        make: reads the estimator.
    """
    if not (of_sklearn(type(estimator)) and fit.made_by(READ_WHOLE)):
        return make()
    before, results = _known.get(estimator, (None, {}))
    if before != fit:
        results = {}
        _known[estimator] = fit, results
    if use not in results:
        results[use] = make()
    return results[use]


# A booster's state is in C++. Boosters change in place: by further rounds, leaves that are set or
# refreshed, or loading another model. The state read here changes with each of these: for XGBoost
# the settings, the gains of all splits and the margin of a row without values, to which trees
# without splits add their leaf; for the others their full dump. A leaf of LightGBM can be set to
# another value, which neither gains nor bounds of leaves show.

State = Callable[[Any], tuple[str | bytes, ...]]


def booster_state(kind: type) -> State | None:
    """The function that reads the state of boosters of this class; None if it is not a class of
    XGBoost, LightGBM or CatBoost.
    """
    for base in kind.__mro__:
        for (library, name), state in _STATES.items():
            if base.__name__ == name and of_library(base) == library:
                return state
    return None


def _xgboost(booster: Any) -> tuple[str | bytes, ...]:
    facts = booster.num_boosted_rounds(), booster.attributes()
    try:
        gains = booster.get_score(importance_type="total_gain")
    except ValueError:  # a linear booster has no splits: its coefficients are the model
        return repr(facts), booster.save_config(), bytes(booster.save_raw("ubj"))
    row = np.full((1, booster.num_features()), np.nan, np.float32)
    empty = booster.inplace_predict(row, predict_type="margin", validate_features=False)
    return repr(facts), booster.save_config(), repr(gains), empty.tobytes()


def _lightgbm(booster: Any) -> tuple[str | bytes, ...]:
    return booster.model_to_string(num_iteration=-1), repr(booster.best_iteration)


def _catboost(estimator: Any) -> tuple[str | bytes, ...]:
    whole = estimator._serialize_model() if estimator.is_fitted() else b""
    return whole, repr(estimator.get_params())


_STATES: dict[tuple[str, str], State] = {
    ("xgboost", "Booster"): _xgboost,
    ("lightgbm", "Booster"): _lightgbm,
    ("catboost", "CatBoost"): _catboost,
}
