"""Records a run of any explainer: its numbers, its cost, and how it was made.

Two questions that names and sizes in the provenance do not tell apart have other fingerprints: of
the donor rows with their weights, and of the functions that the user gave (a link, a difference, a
score, what combines two means). The model has a fingerprint of its own, since many models have
none. Fingerprints stand in `stats` of an Explanation, which already holds numbers made of the same
rows, and not in the provenance, which is public: a private release copies no stats, a federated
explanation drops the first (a guest's reference row must not be found by trying), and reports print
neither. They are not keyed by the process, so that instances explained in several of them can be
compared and merged.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from xaijax.core.reads import of_library
from xaijax.core.version import __version__
from xaijax.games.measure.replacement.base import array_bytes
from xaijax.games.measure.score import read_outputs
from xaijax.tables.rows import rows_of
from xaijax.tables.table import kept_rows

if TYPE_CHECKING:
    from xaijax.games.engine.dispatch import Clock
    from xaijax.games.engine.evaluator import Engine
    from xaijax.games.measure.quantity import Quantity
    from xaijax.games.measure.replacement.base import Replacement
    from xaijax.games.run import GameRun
    from xaijax.models import Model

DEEP = 12  # depth of functions within functions that are read
CALLED = 3  # levels used up by a function called by a global name: functions may call each other
VERSIONS = {"xaijax": __version__, "jax": jax.__version__, "numpy": np.__version__}


def numbers(
    values: np.ndarray, base: np.ndarray, errors: np.ndarray | None, scalar: bool
) -> dict[str, Any]:
    """Returns the numbers of a result; scalar: drop the axis of outputs, which has one entry."""
    cut: Any = (Ellipsis, 0) if scalar else Ellipsis
    return {
        "values": values[cut],
        "base_values": base[cut],
        "std_errors": None if errors is None else errors[cut],
    }


def instances(X: Any, rows: Any) -> dict[str, Any]:
    """Returns the rows of a result and their index; rows: X as read."""
    return {"data": kept_rows(X, rows), "instance_index": rows_of(X).index}


def target_columns(model: Model, outputs: Any, rows: Any) -> np.ndarray | None:
    """Returns column numbers [N, 1] of `outputs=`; None for "predicted"."""
    names = getattr(model, "output_names", None)
    return read_outputs(outputs, len(rows_of(rows)), model.classes, names)


def outputs_of(columns: np.ndarray, names: Any) -> dict[str, Any]:
    """Returns the part of stats that says which output [N] each instance has; names [K] or None."""
    columns = columns.astype(np.int64)
    named = {} if names is None else {"output_names": np.array(names)[columns]}
    return {"outputs": columns} | named


def cost(engine: Engine, clock: Clock, before: Clock, seconds: float) -> dict[str, Any]:
    """Returns the part of stats that says what a run cost, and where it ran.

    before: the clock when the run began; seconds: the time since then, with compilation.
    """
    compile_seconds = clock.compile_seconds - before.compile_seconds
    return {
        "model_calls": clock.model_calls - before.model_calls,
        "tile": clock.tile,
        "seconds": seconds - compile_seconds,
        "compile_seconds": compile_seconds,
        "backend": "host" if engine.on_host else "jax",
        "devices": [str(d) for d in engine.devices],
    }


def sources(seed: int, X: Any, engine: Engine, quantity: Quantity | None = None) -> dict[str, Any]:
    """Returns the part of stats that says what a run read: seed, dtypes, weights, a link."""
    return {
        **({} if quantity is None else functions_of(quantity)),
        "seed": seed,
        "input_dtype": str(X.dtype) if hasattr(X, "dtype") else None,
        "answer_dtype": engine.findings.answer_dtype,
        "weights_sum": engine.replacement.weights_sum,
    }


def cost_of(game: GameRun, before: Clock, seconds: float) -> dict[str, Any]:
    """Returns the same with the model rows of a game, and the fingerprints of its question."""
    clock = game.evaluator.clock
    return {
        "model_rows": game.count.distinct - (clock.spared_rows - before.spared_rows),
        "padded_rows": game.count.padded + clock.padded_rows - before.padded_rows,
        "structure": game.structure,
        **cost(game.evaluator.engine, clock, before, seconds),
        **digests(game),
    }


def digests(game: GameRun) -> dict[str, str | None]:
    """Returns the digests of a game's rows, functions and model."""
    return {"fingerprint": fingerprint(game), "model_fingerprint": model_fingerprint(game)}


def sizes(model: Model, players: Any, N: int, P: int) -> dict[str, Any]:
    """Returns the part of provenance that says how many instances and which players a run has."""
    return {
        "instances": N,
        "players": P,
        "player_columns": players.all_columns,
        "precision": model.precision if model.backend == "jax" else "float64",
        "versions": VERSIONS,
    }


def background(replacement: Replacement) -> dict[str, Any]:
    """Returns the part of provenance that says what replaces an absent player."""
    return {
        "replacement": replacement.kind,
        "background_rows": replacement.rows_given,
        "weights": "given" if replacement.weights_sum is not None else "equal",
    }


def fingerprint(game: GameRun) -> str:
    """32 hexadecimal digits, equal for the same donors in the same order and the same functions.

    Functions are compared by their code, defaults and closures, and by the user's numbers, texts,
    arrays and functions that they read by a global name or hold. The rows of a sampler are draws
    and are left out, as are the rows that a function makes of the instances.
    """
    engine, quantity = game.engine, game.quantity
    digest = engine.replacement.digest.copy()
    baseline_fn = getattr(engine.replacement.table, "baseline_fn", None)
    for function in (engine.score, quantity.outer, quantity.combine, baseline_fn):
        for part in _parts(function, DEEP):
            digest.update(part)
    return digest.hexdigest()


def model_fingerprint(game: GameRun) -> str | None:
    """The fingerprint of the model, if it can be read; None for a function on the host, for
    example.

    A JAX model's fingerprint is computed once, with the parameters that its programs hold. An
    estimator that is itself called is read at each call, since it may have been fitted again.
    """
    engine = game.engine
    return engine.model.mark(engine.findings) if engine.on_host else engine.mark


def digest_of(value: Any) -> str:
    """32 hexadecimal digits of a function, an array or plain values, as in `fingerprint`."""
    digest = hashlib.blake2b(digest_size=16)
    for part in _parts(value, DEEP):
        digest.update(part)
    return digest.hexdigest()


def functions_of(quantity: Quantity) -> dict[str, str]:
    """The fingerprint of a link, for stats, since two functions may have one name."""
    return {} if quantity.outer is None else {"link_fingerprint": digest_of(quantity.outer)}


def _parts(value: Any, deep: int) -> Iterator[bytes]:
    """The bytes that distinguish one value, or function, from another."""
    yield type(value).__qualname__.encode()
    if deep <= 0:
        return
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value).encode()
    elif hasattr(value, "__array__") and hasattr(value, "dtype"):  # NumPy's and JAX's
        yield from array_bytes(np.asarray(value))
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _parts(one, deep - 1)
    elif isinstance(value, frozenset):
        yield repr(sorted(map(repr, value))).encode()
    elif isinstance(value, CodeType):
        yield value.co_code
        yield repr(value.co_names).encode()
        yield from _parts(value.co_consts, deep - 1)
    elif isinstance(value, FunctionType):
        yield from _of_function(value, deep - 1)
    elif isinstance(value, MethodType):
        yield from _parts(value.__func__, deep - 1)
        yield from _parts(value.__self__, deep - 1)
    elif isinstance(value, functools.partial):
        yield from _parts((value.func, value.args, sorted(value.keywords.items())), deep - 1)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from _parts([getattr(value, one.name) for one in fields(value)], deep - 1)
    elif (wrapped := getattr(value, "__wrapped__", None)) is not None:  # of jax.jit
        yield from _parts(wrapped, deep - 1)
    else:
        yield str(getattr(value, "__name__", "")).encode()
        if callable(value):
            yield from _parts(getattr(type(value).__call__, "__code__", None), deep - 1)
        held = getattr(value, "__dict__", {})
        yield from _parts([one for one in sorted(held.items()) if _plain(one[1])], deep - 1)


def _plain(value: Any) -> bool:
    return isinstance(value, bool | int | float | str | np.ndarray)


def _of_function(function: FunctionType, deep: int) -> Iterator[bytes]:
    yield from _parts(function.__code__, deep)
    yield from _parts(function.__defaults__, deep)
    keywords = function.__kwdefaults__ or {}
    yield from _parts(sorted(keywords.items()), deep)
    for cell in function.__closure__ or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not set yet
            continue
        yield from _parts(held, deep)
    for name in function.__code__.co_names:
        held = function.__globals__.get(name)
        if _plain(held):
            yield from _parts(held, deep)
        elif (
            isinstance(held, FunctionType)
            and held is not function
            and not of_library(held.__globals__.get("__name__"))
        ):  # one of the user's own functions
            yield from _parts(held, deep - CALLED)
