"""Probes a model before a run, and checks integers for overflow and lost digits."""

from __future__ import annotations

import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Var

from xaijax.core.checks import warn
from xaijax.core.compiler import compile_sound, compiling
from xaijax.core.errors import InputTypeError, ModelOutputError
from xaijax.core.process import before_jax
from xaijax.core.reads import changed as names_changed
from xaijax.models.base.outputs import output_names_for, refuse_chances, refuse_codes
from xaijax.models.base.trace import DTYPES
from xaijax.models.identity.fit_fingerprint import FitFingerprint
from xaijax.models.identity.identity import portable_reads, program_digest
from xaijax.models.queries.host import call_host, call_host_raw
from xaijax.models.queries.probe import (
    AnsweredBefore,
    RowCounts,
    probe_determinism,
    probe_neighbours,
    probe_row_counts,
    same_steps,
)
from xaijax.models.queries.rows import cannot_trace
from xaijax.models.structure.agreement import Compared, compared
from xaijax.models.structure.declared import PLAIN, declared
from xaijax.models.structure.found import find
from xaijax.models.structure.functions import PROBE_ROWS
from xaijax.models.structure.prefix import GivenPrefix
from xaijax_kernels.engine.tiles import traced as trace_without_places
from xaijax_kernels.engine.tiles import widest_layer
from xaijax_kernels.structures.base import Structure
from xaijax_kernels.structures.named import NAMED

if TYPE_CHECKING:
    from xaijax.models.model import Model

_REPEATS = 64  # calls of the probe, to measure the noise of a model with deterministic=False


@dataclass(frozen=True)
class Probe:
    """Findings of the probe."""

    outputs: int  # K
    scalar: bool  # the model returns [R] (or [R, 1])
    output_names: tuple[str, ...] | None  # [K]
    answer_dtype: str  # dtype of the model's own output, before any cast
    jaxpr: Any = None  # of the model for `rows` rows; None on the host
    closed: Any = None  # also with its constants
    rows: int = PROBE_ROWS
    noise: np.ndarray | None = None  # [K], standard deviation of one output; None: deterministic
    compile_seconds: float = 0.0
    layer: Structure | None = None  # declared or found, not compared yet; None: none is known
    # Compares the layer with the model, once
    compare: Callable[[], Compared] = lambda: (None, None)
    # JAX: (closed trace, rows), refuses another trace whose answers differ; None: not looked at
    look: RowCounts | None = None
    program: bytes | None = None  # digest of the traced program; None: on the host, or unreadable
    row_dtype: str = ""  # dtype of the traced rows
    whole: bool = False  # JAX: outputs are integers, and no digit is lost so far
    programs: ProgramCache | None = None  # JAX: the compiled programs of this trace
    # host: refuses other answers to the probe's rows among more rows; None: not looked at
    again: AnsweredBefore | None = None
    # host: whether the estimator has changed since the probe; None: unknown for a function, or for
    # an estimator that changes when it is called
    changed: Callable[[], bool] | None = None
    moved: frozenset[str] = frozenset()  # host: values that a function reads and itself changes
    width: int | None = None  # host: numbers per row in the widest layer; None: unknown

    @cached_property
    def widest(self) -> int:
        """JAX: numbers of a row in the widest layer."""
        return widest_layer(self.jaxpr, self.rows, NAMED)


def probe_jax(model: Any, rows: np.ndarray) -> Probe:
    """Traces and compiles the model for a few rows (its only trace besides the run's), then
    probes it.
    """
    before_jax()
    key = ("probe", rows.shape[1:], rows.dtype.name)
    seconds = 0.0
    if key not in model.compiled:
        started = time.perf_counter()
        with compiling(), model.shortened.trial() if model.shortened else nullcontext():
            model.compiled[key] = _traced(model, rows.shape[1:], rows.dtype)
        seconds = time.perf_counter() - started
    programs = model.compiled[key]
    program, jaxpr, layer, look, _, digest = programs["probe"]

    evaluate = partial(program, model.params)
    rows = rows[np.arange(PROBE_ROWS) % len(rows)]
    if model.shortened is not None:
        model.shortened.check(model, rows, programs)
    answer, noise = _probed(model, evaluate, rows)
    own_dtype = programs["answer_dtype"]  # another model may share the trace
    lost = warn_of_digits(model.name, own_dtype, model.precision, answer)
    warn_of_wraps(model.name, programs["closed"], rows, programs)
    if model.deterministic:
        probe_neighbours(evaluate, rows, model.name, answer, model.precision)
        if look is not None:
            look.answered(model.params, rows, answer)
    compare: Callable[[], Compared] = _none_known
    if model.structure == PLAIN:  # a copy of a model in which a structure was found
        layer = None
    elif isinstance(model.structure, GivenPrefix) and model.structure.segments is not None:
        layer = model.structure.shaped(model.params, rows, model.name)
        compare = partial(declared, model, rows, evaluate, programs)
    elif model.structure is not None:
        known = declared(model, rows, evaluate, programs)
        layer, compare = known[0], lambda: known
    elif layer is not None:  # a few rows run without it, and then it is not compared
        compare = partial(compared, layer, model, rows, evaluate, programs)
    return _findings(
        model,
        answer,
        own_dtype,
        noise,
        jaxpr=jaxpr,
        compile_seconds=seconds,
        closed=programs["closed"],
        whole=np.dtype(own_dtype).kind in "iu" and not lost,
        layer=layer,
        compare=cache(compare),
        look=look,
        program=digest,
        row_dtype=rows.dtype.name,
        programs=programs,
    )


def _none_known() -> Compared:
    return None, None


def _traced(model: Model, shape: tuple[int, ...], dtype: np.dtype) -> ProgramCache:
    """The model's program for a few rows, and the findings of its trace; all models with this
    trace share it.
    """

    def rows(count: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((count, *shape), dtype)

    apply = model.apply
    assert apply is not None
    try:
        traced = jax.jit(apply).trace(model.params, rows(PROBE_ROWS))
    except Exception as error:
        whole = np.dtype("int32")
        if dtype.kind == "f" and not cannot_trace(apply, model.params, shape, whole):
            raise InputTypeError(
                f"X and background= must both be whole numbers for {model.name}, which JAX traces "
                f"with int32 rows, not {dtype}. Say .astype(int), also of a Baseline's row."
            ) from error
        raise
    lowered = traced.lower()
    digest = program_digest(traced, lowered)
    programs = kept_of(
        (facts_of(model), shape, str(dtype)),
        None if traced.jaxpr.effects else digest,
        sum(getattr(const, "nbytes", 0) for const in traced.jaxpr.consts),
        model.scores,
        lambda count: trace_without_places(apply, model.params, rows(count)),
    )
    if "probe" not in programs:
        layer = None
        # A translation is compared with its estimator, in another number of rows.
        look = None
        if model.reader is None:
            look = RowCounts(model.name, traced.jaxpr, PROBE_ROWS, model.precision)
        if model.structure is None and model.deterministic:
            layer = find(apply, model.params, rows(PROBE_ROWS), traced.jaxpr, look)
        facts = (traced.jaxpr.jaxpr, layer, look, PROBE_ROWS, digest)
        programs["probe"] = (compile_sound(lowered), *facts)
        programs["closed"] = traced.jaxpr
    programs["answer_dtype"] = getattr(apply, "answer_dtype", None)
    return programs


def probe_host(model: Model, rows: Any) -> Probe:
    """Calls the model on a few rows, an array or a frame, and probes it."""

    names: list[str] = []  # column names of a model that returns a frame

    def evaluate(batch: Any) -> np.ndarray:
        try:
            return call_host_raw(model, batch, names=names)
        except Exception as error:
            error.add_note(
                "xaijax: these are the rows of the probe, the first of the background (pool, data) "
                "and of X"
            )
            raise

    before = FitFingerprint(model.estimator)
    function = getattr(model, "_function", None)
    reads = None if function is None else portable_reads(function).facts
    answer, noise = _probed(model, evaluate, rows)
    again: AnsweredBefore | None = None
    if model.deterministic:
        probe_row_counts(evaluate, rows, answer, model.name)

        def changes() -> list[str]:
            return [] if reads is None else names_changed(reads, portable_reads(function).facts)

        again = AnsweredBefore(model.name, answer, lambda: np.array(evaluate(rows)), changes)
    output_names = tuple(names) if len(set(names)) == len(names) else ()
    still = model.estimator is not None and FitFingerprint(model.estimator) == before
    changed = (lambda: FitFingerprint(model.estimator) != before) if still else None
    moved: frozenset[str] = frozenset()
    if reads is not None:
        moved = frozenset(names_changed(reads, portable_reads(function).facts))
    widest = getattr(model.scores, "widest", None)  # set by an adapter that can inspect layers
    width = None if widest is None else widest(rows)
    known: dict[str, Any] = {"again": again, "changed": changed, "moved": moved, "width": width}
    return _findings(model, answer, answer.dtype, noise, output_names, **known)


def answer_host(model: Model, rows: Any, first: int, outputs: int) -> np.ndarray:
    """The model's output of one call as float64 [R, K], with K as on the probe rows."""
    values = call_host(model, rows, first)
    if model.output == "label":
        refuse_codes(values, model.name)
    values = values[:, None] if values.ndim == 1 else values
    if values.shape[1] != outputs:
        raise ModelOutputError(
            f"{model.name} returned {values.shape[1]} outputs from row {first} on, {outputs} "
            "before: the number must not change."
        )
    return values


def _probed(model: Any, evaluate: Any, rows: Any) -> tuple[np.ndarray, np.ndarray | None]:
    if model.deterministic:
        return probe_determinism(evaluate, rows, model.name), None
    answers = np.stack([evaluate(rows) for _ in range(_REPEATS)])
    spread = answers.astype(np.float64).reshape(*answers.shape[:2], -1).var(axis=0, ddof=1)
    return answers[0], np.sqrt(spread.mean(axis=0))


def _findings(
    model: Any, answer: np.ndarray, dtype: Any, noise: Any, labels: Any = (), **known: Any
) -> Probe:
    """labels: names from the output itself; known: further fields."""
    if model.output == "label":
        refuse_codes(answer, model.name)
    if getattr(getattr(model, "apply", None), "of_labels", False):
        refuse_chances(answer.ravel(), model.name)
    scalar = answer.ndim == 1 or answer.shape[1] == 1
    outputs = 1 if scalar else answer.shape[1]
    chosen = model.output_names or (labels if len(labels) == outputs else None)
    names = output_names_for(chosen, model.classes, None if scalar else outputs)
    names = None if scalar else names  # one output has no axis to name
    return Probe(outputs, scalar, names, str(dtype), noise=noise, **known)


# A notebook cell that is run again makes a new function and model. Only the trace tells whether the
# function still computes the same, so it is traced again, which takes milliseconds. If every step
# and constant is equal, the earlier programs, which take seconds to compile, are reused. Parameters
# are arguments of the program, and may differ.

RECENT = 8  # programs that are kept after their last model is gone
LARGEST = 1 << 26  # bytes of constants above which programs are dropped with the last model


class ProgramCache(dict[Any, Any]):
    """The compiled forms of one program; that of the probe is at "probe"."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: weakref.WeakSet[Any] = weakref.WeakSet()  # models with this trace


_known: weakref.WeakValueDictionary[Hashable, ProgramCache] = weakref.WeakValueDictionary()
_recent: OrderedDict[Hashable, ProgramCache] = OrderedDict()


def facts_of(model: Model) -> tuple[Any, ...]:
    """Other facts that distinguish models with one program: how they are probed, where their
    arrays are.
    """
    leaves, tree = jax.tree.flatten(model.params)
    places = tuple(getattr(leaf, "sharding", None) for leaf in leaves)
    kind = (model.name, model.precision, model.structure, model.deterministic, model.reader is None)
    return *kind, tree, places, _platform(), jax.config.jax_enable_x64


def _platform() -> str:
    """Platform of the device on which the probe runs, unless an array of the model is on
    another."""
    device = jax.config.jax_default_device
    if device is None:
        return jax.default_backend()
    return device if isinstance(device, str) else device.platform


def kept_of(
    facts: Hashable,
    digest: bytes | None,
    constants: int,
    whole: Any,
    trace: Callable[[int], Any],
) -> ProgramCache:
    """The cache of the program with this digest; empty if it is new.

    Args:
        facts: `facts_of` the model, and the shape and dtype of its rows.
        digest: of the trace for the probe's rows; None: the trace is incomplete.
        constants: bytes of the trace's constants.
        whole: the traced function.
        trace: (number of rows) -> the model's closed trace, which is compared with the cached one.
    """
    if digest is None:
        return ProgramCache()
    name = (facts, digest)
    cache = _known.get(name)
    if cache is None or not (whole in cache.functions or _same(cache, trace)):
        cache = _known[name] = ProgramCache()
    cache.functions.add(whole)
    if constants <= LARGEST:
        _recent[name] = cache
        _recent.move_to_end(name)
        while len(_recent) > RECENT:
            _recent.popitem(last=False)
    return cache


def _same(cache: ProgramCache, trace: Callable[[int], Any]) -> bool:
    return all(same_steps(traced, trace(R)) for R, traced in _traces(cache).items())


def _traces(programs: ProgramCache) -> dict[int, Any]:
    """The closed traces of the model for numbers of rows other than the probe's, by that number."""
    if "probe" not in programs:
        return {}
    layer, probe_rows = programs["probe"][2], programs["probe"][4]
    traces = dict(layer.traces) if layer is not None else {}
    for key, value in programs.items():
        if key[:2] == ("trace", "model"):
            traces[key[2][0]] = value.closed
    traces.pop(probe_rows, None)
    return traces


# JAX integers wrap around without an error: a sum beyond int32 becomes negative. The model's
# integer steps are therefore computed again for the probe's rows in int64, and compared with the
# range of each step's dtype.

# Steps whose result may exceed their dtype.
_ARITHMETIC = (
    *("add", "sub", "mul", "neg", "square", "integer_pow", "pow", "abs", "add_any"),
    *("reduce_sum", "reduce_prod", "cumsum", "cumprod", "dot_general", "conv_general_dilated"),
    "convert_element_type",
)
# Steps on bits, as in hashes and random numbers, where wrapping is intended.
_OF_BITS = ("and", "or", "xor", "not", "shift_left", "bitcast_convert_type")
# These are arithmetic too; on unsigned words they are steps of a hash.
_OF_LONG_BITS = ("shift_right_logical", "rem")
# Steps between codes, which are floats, and the integers that they encode.
_PLACES = ("reshape", "slice", "squeeze", "transpose", "concatenate", "broadcast_in_dim")
_CALLS = ("jaxpr", "call_jaxpr")  # the parameter that holds the function a step calls
_CALLED = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2")


def largest_whole(precision: str) -> int:
    """The integer up to which this precision represents all integers."""
    return int(2 ** (np.finfo(DTYPES[precision]).nmant + 1))


def warn_of_digits(name: str, dtype: str, precision: str, *answers: np.ndarray) -> bool:
    """Warns if integer outputs exceed the precision's exact range; returns whether any do."""
    largest = max((float(np.abs(answer).max(initial=0.0)) for answer in answers), default=0.0)
    most = largest_whole(precision)
    if np.dtype(dtype).kind not in "iu" or not largest > most:
        return False
    off = np.spacing(DTYPES[precision](largest)) / 2
    way = "" if precision == "float64" else ", or turn 64-bit JAX on and say precision='float64'"
    warn(
        f"{name} answers with whole numbers ({dtype}) of up to {largest:,.0f}, which are rounded "
        f"to {np.dtype(DTYPES[precision])}, by up to {off:,.0f}: it holds all of them up to "
        f"{most:,} only. Subtract a constant from the answers in the model{way}."
    )
    return True


def warn_of_wraps(name: str, closed: Any, rows: np.ndarray, programs: dict[Any, Any]) -> None:
    """Warns if a step of the model's trace `closed` wraps for these rows, its last input.

    programs: the cache of the program that computes it.
    """
    with jax.enable_x64(True):
        if "wraps" not in programs:
            steps = _Steps()
            lowered = jax.jit(partial(steps.wrapped, closed)).lower(rows)
            programs["wraps"] = lowered.compile() if steps.dtypes else None, tuple(steps.dtypes)
        program, dtypes = programs["wraps"]
        wraps = () if program is None else program(rows)
        wrong = [dtype for dtype, wrapped in zip(dtypes, wraps, strict=True) if bool(wrapped)]
    if wrong:
        warn(
            f"{name} makes whole numbers beyond {wrong[0]} of rows of the background or of X, and "
            f"JAX lets them wrap around to other numbers of {wrong[0]}. Convert the rows in the "
            "model before it computes with them (X.astype(jnp.float32)), or give them as floats."
        )


class _Steps:
    """Evaluates the integer steps of a trace in int64."""

    def __init__(self) -> None:
        self.dtypes: list[np.dtype] = []  # sources of the checked steps
        self._found: list[jax.Array] = []
        self._bits = False
        # By id of a result: the result, which of its entries wrap, and the position of its step in
        # `_found`.
        self._chosen: dict[int, tuple[Any, jax.Array, int]] = {}

    def wrapped(self, closed: Any, rows: jax.Array) -> list[jax.Array]:
        """Returns whether a result of each arithmetic step exceeds its dtype."""
        self._follow(closed, [None] * (len(closed.jaxpr.invars) - 1) + [rows])
        if self._bits:
            self.dtypes.clear()
            return []
        return self._found

    def _follow(self, closed: Any, arguments: list[Any]) -> list[Any]:
        """The steps' results for inputs: codes, int64 or bool; None if unknown."""
        jaxpr = getattr(closed, "jaxpr", closed)
        env: dict[Any, Any] = {}
        uses = Counter(var for step in jaxpr.eqns for var in step.invars if isinstance(var, Var))
        uses.update(var for var in jaxpr.outvars if isinstance(var, Var))
        for var, const in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
            env[var] = _wide(const)
        env.update(zip(jaxpr.invars, arguments, strict=True))

        def read(var: Any) -> Any:
            return _wide(var.val) if isinstance(var, Literal) else env.get(var)

        for step in jaxpr.eqns:
            inputs, name = [read(var) for var in step.invars], step.primitive.name
            called = next((step.params[key] for key in _CALLS if key in step.params), None)
            if called is not None:
                if name in _CALLED:
                    env.update(zip(step.outvars, self._follow(called, inputs), strict=True))
                continue
            dtypes: list[Any] = [getattr(var.aval, "dtype", None) for var in step.outvars]
            if any(value is None for value in inputs):
                continue
            if name not in _PLACES and not all(map(_whole, dtypes)):
                continue
            self._bits |= name in _OF_BITS and dtypes[0].kind != "b"
            self._bits |= name in _OF_LONG_BITS and dtypes[0] == np.uint32
            if name == "select_n":  # entries that are not selected do not reach the output
                for k, (var, value) in enumerate(zip(step.invars[1:], inputs[1:], strict=True)):
                    if id(value) in self._chosen and uses[var] == 1:
                        _, wraps, place = self._chosen.pop(id(value))
                        self._found[place] = (wraps & (inputs[0] == k)).any()
            options = dict(step.params)
            if name == "convert_element_type":
                options["new_dtype"] = np.dtype(bool if dtypes[0].kind == "b" else np.int64)
            for key in ("preferred_element_type", "out_dtype"):
                if options.get(key) is not None:
                    options[key] = np.dtype(np.int64)
            try:
                made = step.primitive.bind(*inputs, **options)
            except (TypeError, ValueError, NotImplementedError):  # its own dtype only: not checked
                continue
            made = list(made) if step.primitive.multiple_results else [made]
            counted = name in _ARITHMETIC and dtypes[0].kind != "b" and dtypes[0].itemsize < 8
            if counted and _whole(step.invars[0].aval.dtype):
                limits = np.iinfo(dtypes[0])
                self.dtypes.append(np.dtype(dtypes[0]))
                wraps = (made[0] < limits.min) | (made[0] > limits.max)
                self._found.append(wraps.any())
                # Later steps use the model's own numbers.
                made[0] = made[0].astype(dtypes[0]).astype(np.int64)
                if uses[step.outvars[0]] == 1:
                    self._chosen[id(made[0])] = made[0], wraps, len(self._found) - 1
            env.update(zip(step.outvars, made, strict=True))
        return [read(var) for var in jaxpr.outvars]


def _whole(dtype: Any) -> bool:
    return dtype is not None and getattr(dtype, "kind", "") in ("i", "u", "b")


def _wide(value: Any) -> Any:
    """A constant in int64, or as it is if bool; None: not an integer."""
    array = value if hasattr(value, "dtype") else np.asarray(value)
    if not _whole(array.dtype):
        return None
    return jnp.asarray(array) if array.dtype.kind == "b" else jnp.asarray(array, np.int64)
