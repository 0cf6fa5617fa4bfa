"""Whole numbers that a JAX model loses: answers with too many digits, and sums that wrap.

JAX computes with whole numbers as the processor does: a sum beyond int32 goes on at the other end,
without an error. What the model makes of its rows in whole numbers is therefore made once more for
the probe's rows, in int64, and compared with what each step's dtype holds.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, Var

from xaijax.core.checks import warn
from xaijax.models.base.trace import DTYPES

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
            except (TypeError, ValueError, NotImplementedError):  # it takes its own dtype only
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
