"""What the engine learns of a model before it runs it, and whole numbers that the model loses."""

from __future__ import annotations

import time
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Var

from xaijax.core.checks import warn
from xaijax.core.compiler import compile_sound
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
from xaijax.models.structure.agreement import Agreement, compare
from xaijax.models.structure.declared import PLAIN, PROBE_ROWS, declared
from xaijax.models.structure.found import find
from xaijax_kernels.engine.tiles import traced as trace_without_places
from xaijax_kernels.structures.base import Structure

if TYPE_CHECKING:
    from xaijax.models.model import Model

_REPEATS = 64  # of the probe, to measure the noise of a model that is declared random


@dataclass(frozen=True)
class Probe:
    """Findings of the probe."""

    outputs: int  # K
    scalar: bool  # the model answers [R] (or [R, 1])
    output_names: tuple[str, ...] | None  # [K]
    answer_dtype: str  # of the model's own answer, before any cast
    jaxpr: Any = None  # of the model on `rows` rows; None on the host
    closed: Any = None  # the same with the constants that it holds
    rows: int = PROBE_ROWS
    noise: np.ndarray | None = None  # [K], standard deviation of one answer; None: deterministic
    compile_seconds: float = 0.0
    structure: Structure | None = None  # declared or found; None: nothing is known
    agreement: Agreement | None = None  # how nearly the structure answers as the model does
    # JAX: (closed trace, rows), refuses another trace whose answers differ; None: not looked at
    look: RowCounts | None = None
    program: bytes | None = None  # a digest of what was traced; None: on the host, or unreadable
    row_dtype: str = ""  # of the rows that it was traced for
    whole: bool = False  # JAX: answers are whole numbers, and no digit is lost so far
    programs: ProgramCache | None = None  # JAX: what is compiled of the program that was traced
    # host: refuses other answers to the probe's rows among more rows; None: not looked at
    again: AnsweredBefore | None = None
    # host: whether the estimator is another than was probed; None: a function, for which that is
    # not known, or one that changes when it is asked
    changed: Callable[[], bool] | None = None
    moved: frozenset[str] = frozenset()  # host: what a function reads and itself changes


def probe_jax(model: Any, rows: np.ndarray) -> Probe:
    """Traces and compiles the model for a few rows (its one trace but the run's), then probes
    it.
    """
    before_jax()
    key = ("probe", rows.shape[1:], rows.dtype.name)
    seconds = 0.0
    if key not in model.compiled:
        started = time.perf_counter()
        model.compiled[key] = _traced(model, rows.shape[1:], rows.dtype)
        seconds = time.perf_counter() - started
    programs = model.compiled[key]
    program, jaxpr, layer, look, _, digest = programs["probe"]

    evaluate = partial(program, model.params)
    rows = rows[np.arange(PROBE_ROWS) % len(rows)]
    answer, noise = _probed(model, evaluate, rows)
    own_dtype = programs["answer_dtype"]  # another model may have traced it
    lost = warn_of_digits(model.name, own_dtype, model.precision, answer)
    warn_of_wraps(model.name, programs["closed"], rows, programs)
    if model.deterministic:
        probe_neighbours(evaluate, rows, model.name, answer, model.precision)
        if look is not None:
            look.answered(model.params, rows, answer)
    agreement = None
    if model.structure == PLAIN:  # a copy of a model in which a structure was found
        layer = None
    elif model.structure is not None:
        layer, agreement = declared(model, rows, evaluate, programs)
    elif layer is not None:
        _, agreement = compare(layer, model, rows, evaluate, programs)
        if agreement is None or not agreement.compared:  # what nothing speaks for is not used
            layer = agreement = None
    return _findings(
        model,
        answer,
        own_dtype,
        noise,
        jaxpr=jaxpr,
        compile_seconds=seconds,
        closed=programs["closed"],
        whole=np.dtype(own_dtype).kind in "iu" and not lost,
        structure=layer,
        agreement=agreement,
        look=look,
        program=digest,
        row_dtype=rows.dtype.name,
        programs=programs,
    )


def _traced(model: Model, shape: tuple[int, ...], dtype: np.dtype) -> ProgramCache:
    """The model's program for few rows, and what is found in its trace; all models that are traced
    to it share it.
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
        sum(getattr(one, "nbytes", 0) for one in traced.jaxpr.consts),
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
        own = (traced.jaxpr.jaxpr, layer, look, PROBE_ROWS, digest)
        programs["probe"] = (compile_sound(lowered), *own)
        programs["closed"] = traced.jaxpr
    programs["answer_dtype"] = getattr(apply, "answer_dtype", None)
    return programs


def probe_host(model: Model, rows: Any) -> Probe:
    """Calls the model on a few rows, an array or a frame, and probes it."""

    names: list[str] = []  # of the columns, of a model that answers with a frame

    def evaluate(some: Any) -> np.ndarray:
        try:
            return call_host_raw(model, some, names=names)
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
    told = tuple(names) if len(set(names)) == len(names) else ()
    still = model.estimator is not None and FitFingerprint(model.estimator) == before
    changed = (lambda: FitFingerprint(model.estimator) != before) if still else None
    moved: frozenset[str] = frozenset()
    if reads is not None:
        moved = frozenset(names_changed(reads, portable_reads(function).facts))
    known: dict[str, Any] = {"again": again, "changed": changed, "moved": moved}
    return _findings(model, answer, answer.dtype, noise, told, **known)


def answer_host(model: Model, rows: Any, first: int, outputs: int) -> np.ndarray:
    """The model's answer to one call as float64 [R, K], K as on the probe rows."""
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
    """labels: the names that the answer itself brings; known: further fields."""
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


# A cell that is run again makes its function and its model anew. Nothing but the trace tells
# whether the function still does what it did, so it is traced again, which takes milliseconds;
# where every step and constant is the same, what was compiled, which takes seconds, serves it too.
# Parameters are arguments of the program, and may be others.

RECENT = 8  # programs that are kept though no model is left that is traced to them
LARGEST = 1 << 26  # bytes of constants, above which they go with the last model


class ProgramCache(dict[Any, Any]):
    """What is compiled of one program; the probe's own is at "probe"."""

    def __init__(self) -> None:
        super().__init__()
        self.functions: weakref.WeakSet[Any] = weakref.WeakSet()  # that are traced to it


_known: weakref.WeakValueDictionary[Hashable, ProgramCache] = weakref.WeakValueDictionary()
_recent: OrderedDict[Hashable, ProgramCache] = OrderedDict()


def facts_of(model: Model) -> tuple[Any, ...]:
    """What else distinguishes models of one program: how they are probed, where their arrays
    are.
    """
    leaves, tree = jax.tree.flatten(model.params)
    places = tuple(getattr(leaf, "sharding", None) for leaf in leaves)
    kind = (model.name, model.precision, model.structure, model.deterministic, model.reader is None)
    return *kind, tree, places, jax.default_backend(), jax.config.jax_enable_x64


def kept_of(
    facts: Hashable,
    digest: bytes | None,
    constants: int,
    whole: Any,
    trace: Callable[[int], Any],
) -> ProgramCache:
    """What is kept of the program with this digest; empty if it is not known yet.

    Args:
        facts: `facts_of` the model, and the shape and dtype of its rows.
        digest: that of the trace for the probe's rows; None: it does not hold all that is done.
        constants: bytes of the trace's constants.
        whole: the function that is traced.
        trace: (number of rows) -> the model's closed trace, which is compared with the one known.
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
    return all(same_steps(one, trace(R)) for R, one in _traces(cache).items())


def _traces(programs: ProgramCache) -> dict[int, Any]:
    """The closed traces of the model for other numbers of rows than the probe's, by that number."""
    if "probe" not in programs:
        return {}
    layer, probe_rows = programs["probe"][2], programs["probe"][4]
    traces = dict(layer.traces) if layer is not None else {}
    for key, value in programs.items():
        if key[:2] == ("trace", "model"):
            traces[key[2][0]] = value.closed
    traces.pop(probe_rows, None)
    return traces


# JAX computes with whole numbers as the processor does: a sum beyond int32 goes on at the other
# end, without an error. What the model makes of its rows in whole numbers is therefore made once
# more for the probe's rows, in int64, and compared with what each step's dtype holds.

# Steps whose result may be beyond their dtype.
_ARITHMETIC = (
    *("add", "sub", "mul", "neg", "square", "integer_pow", "pow", "abs", "add_any"),
    *("reduce_sum", "reduce_prod", "cumsum", "cumprod", "dot_general", "conv_general_dilated"),
    "convert_element_type",
)
# Steps of bits, as hashes and random numbers have them: there numbers wrap by intention.
_OF_BITS = ("and", "or", "xor", "not", "shift_left", "bitcast_convert_type")
# These are arithmetic, too; of long numbers without a sign they are steps of a hash.
_OF_LONG_BITS = ("shift_right_logical", "rem")
# Steps between the codes of whole numbers, which are floats, and these numbers.
_PLACES = ("reshape", "slice", "squeeze", "transpose", "concatenate", "broadcast_in_dim")
_CALLS = ("jaxpr", "call_jaxpr")  # the parameter that holds what a step calls
_CALLED = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "remat2")


def largest_whole(precision: str) -> int:
    """The whole number up to which all are answers of this precision."""
    return int(2 ** (np.finfo(DTYPES[precision]).nmant + 1))


def warn_of_digits(name: str, dtype: str, precision: str, *answers: np.ndarray) -> bool:
    """Warns if answers of whole numbers are beyond those that the precision holds; returns whether
    any are.
    """
    largest = max((float(np.abs(one).max(initial=0.0)) for one in answers), default=0.0)
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

    programs: where the program that finds it is kept.
    """
    with jax.enable_x64(True):
        if "wraps" not in programs:
            steps = _Steps()
            lowered = jax.jit(partial(steps.wrapped, closed)).lower(rows)
            programs["wraps"] = lowered.compile() if steps.dtypes else None, tuple(steps.dtypes)
        program, dtypes = programs["wraps"]
        wraps = () if program is None else program(rows)
        wrong = [dtype for dtype, one in zip(dtypes, wraps, strict=True) if bool(one)]
    if wrong:
        warn(
            f"{name} makes whole numbers beyond {wrong[0]} of rows of the background or of X, and "
            f"JAX lets them wrap around to other numbers of {wrong[0]}. Convert the rows in the "
            "model before it computes with them (X.astype(jnp.float32)), or give them as floats."
        )


class _Steps:
    """Follows what a trace makes of its rows in whole numbers alone, in int64."""

    def __init__(self) -> None:
        self.dtypes: list[np.dtype] = []  # of the steps that are looked at
        self._found: list[jax.Array] = []
        self._bits = False
        # By id of a result: it, which of its entries wrap, and the place of its step in `_found`.
        self._chosen: dict[int, tuple[Any, jax.Array, int]] = {}

    def wrapped(self, closed: Any, rows: jax.Array) -> list[jax.Array]:
        """For each step of arithmetic, whether a result is beyond its dtype."""
        self._follow(closed, [None] * (len(closed.jaxpr.invars) - 1) + [rows])
        if self._bits:
            self.dtypes.clear()
            return []
        return self._found

    def _follow(self, closed: Any, given: list[Any]) -> list[Any]:
        """What the steps make of inputs: codes, int64 or bool; or None if it is not known."""
        jaxpr = getattr(closed, "jaxpr", closed)
        env: dict[Any, Any] = {}
        uses = Counter(var for step in jaxpr.eqns for var in step.invars if isinstance(var, Var))
        uses.update(var for var in jaxpr.outvars if isinstance(var, Var))
        for var, const in zip(jaxpr.constvars, getattr(closed, "consts", ()), strict=True):
            env[var] = _wide(const)
        env.update(zip(jaxpr.invars, given, strict=True))

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
            if any(one is None for one in inputs):
                continue
            if name not in _PLACES and not all(map(_whole, dtypes)):
                continue
            self._bits |= name in _OF_BITS and dtypes[0].kind != "b"
            self._bits |= name in _OF_LONG_BITS and dtypes[0] == np.uint32
            if name == "select_n":  # entries that are not selected reach no answer
                for k, (var, one) in enumerate(zip(step.invars[1:], inputs[1:], strict=True)):
                    if id(one) in self._chosen and uses[var] == 1:
                        _, wraps, place = self._chosen.pop(id(one))
                        self._found[place] = (wraps & (inputs[0] == k)).any()
            options = dict(step.params)
            if name == "convert_element_type":
                options["new_dtype"] = np.dtype(bool if dtypes[0].kind == "b" else np.int64)
            for key in ("preferred_element_type", "out_dtype"):
                if options.get(key) is not None:
                    options[key] = np.dtype(np.int64)
            try:
                made = step.primitive.bind(*inputs, **options)
            except (
                TypeError,
                ValueError,
                NotImplementedError,
            ):  # it accepts its own dtype only: not judged
                continue
            made = list(made) if step.primitive.multiple_results else [made]
            counted = name in _ARITHMETIC and dtypes[0].kind != "b" and dtypes[0].itemsize < 8
            if counted and _whole(step.invars[0].aval.dtype):
                limits = np.iinfo(dtypes[0])
                self.dtypes.append(np.dtype(dtypes[0]))
                wraps = (made[0] < limits.min) | (made[0] > limits.max)
                self._found.append(wraps.any())
                # What follows goes on with the numbers that the model has.
                made[0] = made[0].astype(dtypes[0]).astype(np.int64)
                if uses[step.outvars[0]] == 1:
                    self._chosen[id(made[0])] = made[0], wraps, len(self._found) - 1
            env.update(zip(step.outvars, made, strict=True))
        return [read(var) for var in jaxpr.outvars]


def _whole(dtype: Any) -> bool:
    return dtype is not None and getattr(dtype, "kind", "") in ("i", "u", "b")


def _wide(value: Any) -> Any:
    """A constant in int64, or as it is where it is bool; None: no whole number."""
    array = value if hasattr(value, "dtype") else np.asarray(value)
    if not _whole(array.dtype):
        return None
    return jnp.asarray(array) if array.dtype.kind == "b" else jnp.asarray(array, np.int64)
