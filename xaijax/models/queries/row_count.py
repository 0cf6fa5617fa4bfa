"""Probes whether a model's answer to a row depends on how many rows it is asked with.

A host model is asked in other numbers of rows. A JAX model is compiled for one number at a time, so
its traces are compared, of the probe's rows and of a tile's: where they are the same steps but for
the number of rows, so are the answers. The second is compiled and asked only if they are not.

Letters: R rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal, jaxpr_as_fun

from xaijax.core.compiler import compile_sound
from xaijax.core.errors import NonDeterministicModelError
from xaijax.core.reads import shown
from xaijax.models.queries.probe import (
    Evaluate,
    gap_of,
    half_without,
    highest,
    probe_neighbours,
    take_rows,
)

# Steps that tell rows by their place: the axis along which they count, by their parameter's name.
_COUNTING = {
    "iota": "dimension",
    "cumsum": "axis",
    "cumprod": "axis",
    "cummax": "axis",
    "cummin": "axis",
    "cumlogsumexp": "axis",
}
# Rules of derivatives, which are other functions in each trace and make no answer.
_DERIVATIVES = ("jvp_jaxpr_fun", "jvp_jaxpr_thunk", "fwd_jaxpr_thunk", "bwd", "out_trees")


def probe_row_counts(evaluate: Evaluate, rows: Any, answer: np.ndarray, name: str) -> None:
    """Asks a host model for half of the probe's rows, without extreme ones, and for the one with
    the highest answer alone; answer: to all of them. Extreme rows that the half cannot do without
    are asked with copies of their own.

    Raises ModelOutputError if it is the neighbours on which an answer depends, else
    NonDeterministicModelError.
    """
    count = len(rows)
    half, left = half_without(rows, answer)
    alone = np.array([highest(answer)]) if count > 1 else np.zeros(2, dtype=np.int64)
    # Two of each: alone, a model may take no statistics.
    copies = [np.array([row, row]) for row in left]
    for places in (half, alone, *copies):
        try:
            answers = np.array(evaluate(take_rows(rows, places)))
        except Exception as error:
            error.add_note(
                f"xaijax: the probe asked for {len(places)} rows, after {count} were answered; a "
                "model must take any number of rows"
            )
            raise
        gap = gap_of(answer[places], answers, answer)
        if gap is not None:
            probe_neighbours(evaluate, rows, name, among=answer)
            raise NonDeterministicModelError(_refusal(name, count, len(places), gap))


class AnsweredBefore:
    """A host model's answers to the probe's rows, against which later ones are held."""

    def __init__(
        self,
        name: str,
        answer: np.ndarray,
        ask: Callable[[], np.ndarray],
        changed: Callable[[], list[str]] = list,
    ) -> None:
        """answer: [r] or [r, K], as the model gave it; ask: the probe's rows, alone, once more;
        changed: names of what the model reads and what has changed since the probe.
        """
        self._name, self._ask, self._changed = name, ask, changed
        self._answer = answer.reshape(len(answer), -1)

    def __call__(self, which: np.ndarray, found: np.ndarray, rows: int) -> None:
        """Compares the answers found [n, K] to the probe's rows `which` [n], asked among `rows`
        rows.

        A host function is called as it is at each call: if it was changed since the probe, the
        probe's rows alone have other answers now as well, and these are compared from then on.

        Raises NonDeterministicModelError if they differ.
        """
        gap = gap_of(self._answer[which], found, self._answer)
        if gap is None:
            return
        now = self._ask().reshape(self._answer.shape)
        if gap_of(now[which], found, now) is None:
            self._answer = now
            return
        if self._names():
            raise NonDeterministicModelError(
                f"{self._name} gave different answers to the same rows, by up to {gap[0]:.3g}: it "
                f"reads {self._names()}, changed since it was first asked. Make the explainer anew."
            )
        raise NonDeterministicModelError(_refusal(self._name, len(self._answer), rows, gap))

    def refuse_two(self, before: np.ndarray, now: np.ndarray) -> None:
        """Raises NonDeterministicModelError if the answers [n, K] to rows of the first call of an
        explanation are others now, when it is over.
        """
        gap = gap_of(before, now, before)
        if gap is None:
            return
        read = f" It reads {self._names()}, changed since it was first asked." * bool(self._names())
        raise NonDeterministicModelError(
            f"{self._name} does not repeat itself: rows of the first call of this run had other "
            f"answers at its end, by up to {gap[0]:.3g}.{read} Leave what it reads as it is, or "
            "say as_model(..., deterministic=False) if it draws random numbers."
        )

    def _names(self) -> str:
        """What the model reads and what has changed since the probe."""
        return ", ".join(shown(one) for one in self._changed())


class RowCounts:
    """What the probe's trace and answers say of another trace of the same JAX model."""

    def __init__(self, name: str, trace: Any, rows: int) -> None:
        """trace: closed, that of the model for `rows` rows."""
        self.name, self._trace, self._rows = name, trace, rows
        self._known: tuple[Any, np.ndarray, np.ndarray] | None = None

    def answered(self, params: Any, rows: np.ndarray, answer: np.ndarray) -> None:
        """The model, with these parameters, gave this answer to the probe's rows."""
        self._known = params, rows, answer

    @property
    def asked(self) -> tuple[Any, np.ndarray] | None:
        """(parameters, the probe's rows) of the model that answered last; None: none did."""
        return None if self._known is None else self._known[:2]

    @property
    def answer(self) -> np.ndarray:
        """The probe's answers, [r, K]; where some were asked."""
        assert self._known is not None
        return self._known[2].reshape(len(self._known[1]), -1)

    def gap(self, wanted: np.ndarray, found: np.ndarray) -> tuple[float, int] | None:
        """(largest difference, first place) of two answers [n, K] to the same rows by different
        programs; None: they agree.
        """
        answer = self.answer
        return gap_of(wanted, found.astype(answer.dtype), answer)

    def __call__(self, trace: Any, rows: int) -> None:
        """Looks at the trace for another number of rows, before it is run.

        Raises NonDeterministicModelError if its answers to the probe's rows differ.
        """
        if self._known is None or rows == self._rows:
            return
        if _Alike(self._rows, rows).closed(self._trace, trace):
            return
        params, given, answer = self._known
        places = np.arange(rows) % len(given)
        leaves = [_bare(leaf) for leaf in jax.tree.leaves((params, given[places]))]
        # Compiled first, then called: within a trace a jitted function would become a part of it.
        program = compile_sound(jax.jit(jaxpr_as_fun(trace)).lower(*leaves))
        with jax.ensure_compile_time_eval():  # numbers, whatever is traced around it
            found = np.array(program(*leaves)[0])
        gap = gap_of(answer[places], found, answer)
        if gap is not None:
            raise NonDeterministicModelError(_refusal(self.name, len(given), rows, gap))


def _bare(leaf: Any) -> Any:
    """A leaf as NumPy has it; a typed key, which NumPy has not, as it is."""
    key = jnp.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key)
    return leaf if key else np.asarray(leaf)


def _refusal(name: str, first: int, second: int, gap: tuple[float, int]) -> str:
    return (
        f"{name} gave different answers to the same rows when it was asked for {first} and for "
        f"{second} at a time: by up to {gap[0]:.3g}. Its answer to a row depends on the number of "
        "rows (len(X), X.shape[0]). Each row's output must depend on that row alone: put constants "
        "in their place, or switch the model to inference mode."
    )


def same_steps(one: Any, other: Any) -> bool:
    """Whether two closed traces are the same steps with the same constants."""
    return _Alike(1, 1).closed(one, other)


class _Alike:
    """Whether two traces are the same steps but for their numbers of rows a and b.

    False is always safe: the second is then asked.
    """

    def __init__(self, a: int, b: int) -> None:
        self._a, self._b = a, b

    def closed(self, one: Any, other: Any) -> bool:
        """Whether two closed traces are alike."""
        if len(one.consts) != len(other.consts):
            return False
        same = all(map(_same_array, one.consts, other.consts))
        return same and self._steps(one.jaxpr, other.jaxpr)

    def _steps(self, one: Any, other: Any) -> bool:
        names: dict[Any, Any] = {}

        def bound(mine: Any, theirs: Any) -> bool:
            if len(mine) != len(theirs):
                return False
            names.update(zip(mine, theirs, strict=True))
            return all(map(self._same_kind, mine, theirs))

        def read(mine: Any, theirs: Any) -> bool:
            if isinstance(mine, Literal) or isinstance(theirs, Literal):
                both = isinstance(mine, Literal) and isinstance(theirs, Literal)
                return both and _same_array(mine.val, theirs.val)
            return names.get(mine) is theirs

        if not bound([*one.constvars, *one.invars], [*other.constvars, *other.invars]):
            return False
        if len(one.eqns) != len(other.eqns):
            return False
        for mine, theirs in zip(one.eqns, other.eqns, strict=True):
            if mine.primitive is not theirs.primitive or len(mine.invars) != len(theirs.invars):
                return False
            if not all(map(read, mine.invars, theirs.invars)) or self._joins_rows(mine, theirs):
                return False
            if not self._options(mine.params, theirs.params):
                return False
            if not bound(mine.outvars, theirs.outvars):
                return False
        outputs = len(one.outvars) == len(other.outvars)
        return outputs and all(map(read, one.outvars, other.outvars))

    def _same_kind(self, mine: Any, theirs: Any) -> bool:
        a, b = mine.aval, theirs.aval
        if getattr(a, "dtype", None) != getattr(b, "dtype", None):
            return False
        return self._sizes(getattr(a, "shape", ()), getattr(b, "shape", ()))

    def _sizes(self, mine: Any, theirs: Any) -> bool:
        return len(mine) == len(theirs) and all(map(self._size, mine, theirs))

    def _size(self, mine: Any, theirs: Any) -> bool:
        """Whether two sizes are equal, or the same multiple of the numbers of rows."""
        return bool(mine == theirs or mine * self._b == theirs * self._a)

    def _joins_rows(self, mine: Any, theirs: Any) -> bool:
        """Whether a step may add up or count rows: no axis of rows is left, or it contracts one."""

        def moving(variables: Any, others: Any) -> list[list[int]]:
            shapes = [
                (getattr(v.aval, "shape", ()), getattr(w.aval, "shape", ()))
                for v, w in zip(variables, others, strict=True)
            ]
            return [[i for i, n in enumerate(a) if n != b[i]] for a, b in shapes]

        given = moving(mine.invars, theirs.invars)
        made = moving(mine.outvars, theirs.outvars)
        name = mine.primitive.name
        if name in _COUNTING and any(mine.params[_COUNTING[name]] in own for own in made):
            return True
        if name == "scan" and mine.params["length"] != theirs.params["length"]:
            body = mine.params["jaxpr"].jaxpr.outvars  # what it carries on has no axis of steps
            return any(a.aval.ndim == b.aval.ndim for a, b in zip(body, mine.outvars, strict=True))
        if any(given) and not all(made):
            return True
        axes = mine.params.get("axes", ())
        if name == "dot_general":
            (left, right), _ = mine.params["dimension_numbers"]
            return bool({*left} & {*given[0]} or {*right} & {*given[1]})
        return isinstance(axes, tuple) and any({*axes} & {*own} for own in given)

    def _options(self, mine: Any, theirs: Any) -> bool:
        named = [key for key in mine if key not in _DERIVATIVES]
        return mine.keys() == theirs.keys() and all(
            self._option(mine[key], theirs[key]) for key in named
        )

    def _option(self, mine: Any, theirs: Any) -> bool:
        if _unsharded(mine) and _unsharded(theirs):  # as traces on placed arrays have it, and not
            return True
        if type(mine) is not type(theirs):
            return False
        if hasattr(mine, "jaxpr") and hasattr(mine, "consts"):
            return self.closed(mine, theirs)
        if hasattr(mine, "eqns"):
            return self._steps(mine, theirs)
        if type(mine) in (tuple, list):
            if mine and all(type(one) is int for one in (*mine, *theirs)):
                return self._sizes(mine, theirs)
            return len(mine) == len(theirs) and all(map(self._option, mine, theirs))
        if mine is theirs:
            return True
        try:
            return bool(mine == theirs)
        except Exception:  # arrays among them, or things that do not compare
            return False


def _unsharded(option: Any) -> bool:
    """Whether an option of a step says that no axis is spread over devices, or says nothing."""
    if option is None:
        return True
    return isinstance(option, jax.sharding.NamedSharding) and not any(option.spec)


def _same_array(mine: Any, theirs: Any) -> bool:
    if mine is theirs:
        return True
    a, b = np.asarray(mine), np.asarray(theirs)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
