"""Probes of a model on a few rows: does it answer the same rows alike, whatever rows come with
them, and however many?

Probes take `evaluate(rows [R, *F]) -> [R] or [R, K]`, so that the caller's compiled function is
what is probed, and rows as an array or anything that `take(rows, index)` can gather from.

A host model is asked in other numbers of rows. A JAX model is compiled for one number at a time, so
its traces are compared, of the probe's rows and of a tile's: if they are the same steps but for the
number of rows, so are the answers. The second is compiled and asked only if they are not.

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
from xaijax.core.errors import ModelOutputError, NonDeterministicModelError
from xaijax.core.reads import shown
from xaijax.tables.rows import rows_of

Evaluate = Callable[[Any], np.ndarray]

# The same sum of n terms, added up in another order, differs by about sqrt(n) roundings of its
# largest partial sum. 2**10 roundings allow for sums of 2**20 terms, more than a layer has.
_ROUNDINGS = 2.0**10
# One rounding of a model's answers, by its precision: at least that of float32. A factor of TF32 or
# bfloat16 that differs in the last bit of float32 may be rounded to the other side, and then moves
# by 2^-10 or 2^-7: 2^10 of these roundings are two moves of terms as large as the largest answer.
_ROUNDED = {"tf32": 2.0**-19, "bfloat16": 2.0**-16}


def probe_determinism(evaluate: Evaluate, rows: Any, name: str = "the model") -> np.ndarray:
    """The answer to `rows`; NonDeterministicModelError if a second call gives another.

    Answers agree within 2**10 roundings of their dtype at the size of the largest answer in the
    column (threads may add in another order); NaN agrees with NaN.
    """
    # Copies: a model may return views of one buffer, in which all of its answers would agree.
    first, second = np.array(evaluate(rows)), np.array(evaluate(rows))
    gap = _largest_gap(first, second, _epsilon(first.dtype))
    if gap is not None:
        raise NonDeterministicModelError(
            f"{name} gave different answers to the same rows: by up to {gap[0]:.3g}, first in row "
            f"{gap[1]} of the probe. Turn dropout or sampling off, or say as_model(..., "
            "deterministic=False)."
        )
    return first


def probe_neighbours(
    evaluate: Evaluate,
    rows: Any,
    name: str = "the model",
    among: np.ndarray | None = None,
    precision: str = "float32",
) -> None:
    """Raises ModelOutputError if the answer to a row depends on the rows that come with it.

    The first row, the last and the most different ones are each asked among the others and among
    copies of themselves, and all rows are asked with other ones in the lead, in batches of one
    shape: a compiled function has one shape only, and the same shape keeps the order of sums.
    Tolerance as in `probe_determinism`, in float32, in which a model may work whatever it returns.

    among: the answer to the rows as they are, if it is known. precision: that of the model.
    """
    count = len(rows)
    if count < 2:
        return
    among = np.array(evaluate(rows)) if among is None else among
    epsilon = max(_epsilon(among.dtype), rounding(precision))
    for row in dict.fromkeys((0, *extremes(rows, among))):
        copies = np.array(evaluate(take_rows(rows, np.full(count, row, dtype=np.int64))))
        # All copies are compared, so a model that looks at a row's place is found too. The scale
        # comes from both batches: the one row's own answer may happen to be near zero.
        scale = np.maximum(_scale(among), _scale(copies))
        alone = np.broadcast_to(among[row], among.shape)
        gap = _largest_gap(alone, copies, epsilon, scale)
        if gap is not None:
            raise ModelOutputError(beside_copies(name, gap))
    scale = _scale(among)
    for lead in {1, opposite(rows), count - 1} - {0}:
        moved = np.roll(np.arange(count), -lead)
        answers = np.array(evaluate(take_rows(rows, moved)))
        gap = _largest_gap(among[moved], answers, epsilon, np.maximum(scale, _scale(answers)))
        if gap is not None:
            raise ModelOutputError(
                f"{name} gave other answers to the same rows in another order: by up to "
                f"{gap[0]:.3g}. Each row's output must depend on that row alone, not on X[0] say."
            )


def beside_copies(name: str, gap: tuple[float, int]) -> str:
    """The message for a row that has another answer among copies of itself."""
    return (
        f"{name} answers a row differently among other rows than among copies of itself: by up to "
        f"{gap[0]:.3g}. Its output depends on the batch, as with batch normalisation in train mode "
        "or a statistic taken over axis 0. Switch it to inference mode; each row's output must "
        "depend on that row alone."
    )


def extremes(rows: Any, answer: np.ndarray) -> tuple[int, ...]:
    """The last row, and for each of the sizes that may characterise a batch the row that has least
    of it: its copies have other statistics than all rows together.
    """
    least = (int(size.argmin()) for size in _sizes(rows, answer))
    return tuple(dict.fromkeys((len(answer) - 1, *least)))


def half_without(rows: Any, answer: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """(as many places as half of the rows, with other statistics: of rows that are largest in none
    of the sizes, those with the lowest answers; `extremes` by sizes for which no row was left out).

    The row that is most unlike the first one is in the lead, the others in another order.
    """
    sizes = _sizes(rows, answer)
    usable, extreme = np.ones(len(answer), bool), []
    for size in sizes:
        without = size < size.max()
        if 2 * without.sum() >= len(size) and (usable & without).any():
            usable &= without
        elif size.min() < size.max():
            extreme.append(int(size.argmin()))
    lowest = np.flatnonzero(usable)[np.argsort(sizes[0][usable], kind="stable")]
    half = np.sort(np.resize(lowest, (len(answer) + 1) // 2))[::-1]
    lead = int(unlike_first(rows)[half].argmax())
    return np.roll(half, -lead), tuple(dict.fromkeys(extreme))


def _sizes(rows: Any, answer: np.ndarray) -> list[np.ndarray]:
    """Sizes of each row [R]: its answer, its largest number and its largest magnitude, and the
    negatives of its answer and its smallest number. If there are several answers, the one that
    differs most counts.
    """
    answers = _told(answer)
    sizes = [answers, -answers]
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iuf" and rows.size:
        flat = np.nan_to_num(rows.reshape(len(rows), -1).astype(np.float64))
        sizes += [flat.max(axis=1), np.abs(flat).max(axis=1), -flat.min(axis=1)]
    return sizes


def highest(answer: np.ndarray) -> int:
    """The row with the highest answer."""
    return int(_told(answer).argmax())


def _told(answer: np.ndarray) -> np.ndarray:
    """The answer to each row, [R]; of several the one that differs most."""
    flat = answer.reshape(len(answer), -1).astype(np.float64)
    flat = np.where(np.isfinite(flat), flat, 0.0)
    return flat[:, np.ptp(flat, axis=0).argmax()]


def opposite(rows: Any) -> int:
    """The row that is on the other side of the median than the first one in most columns.

    What an answer takes from the first row, a sign say, most likely changes where this one leads.
    """
    return int(unlike_first(rows).argmax())


def unlike_first(rows: Any) -> np.ndarray:
    """Number of columns in which each row is on the other side of the median than the first one,
    [R]; of rows that are no array of numbers the one in the middle has one, and the others none.
    """
    count = len(rows)
    if not isinstance(rows, np.ndarray) or rows.dtype.kind not in "biuf":
        return (np.arange(count) == count // 2).astype(np.int64)
    flat = rows.reshape(count, -1)
    above = flat > np.sort(flat, axis=0)[(count - 1) // 2]
    return (above != above[0]).sum(axis=1)


def take_rows(rows: Any, index: np.ndarray) -> Any:
    """The rows of an array or a frame at `index`."""
    return rows[index] if isinstance(rows, np.ndarray) else rows_of(rows).take(index)


def rounding(precision: str) -> float:
    """One rounding of an answer in this precision: at least that of float32, in which a model may
    work whatever it returns.
    """
    return _ROUNDED.get(precision, 2.0**-23)


def gap_of(
    wanted: np.ndarray, found: np.ndarray, answer: np.ndarray, precision: str = "float32"
) -> tuple[float, int] | None:
    """(largest difference, first row) of two answers to the same rows in other company, or None.

    Tolerance as in `probe_neighbours`; answer: to all of the probe's rows, which give the scale.
    """
    if wanted.shape != found.shape:
        return float("inf"), 0
    epsilon = max(_epsilon(answer.dtype), rounding(precision))
    return _largest_gap(wanted, found, epsilon, np.maximum(_scale(answer), _scale(found)))


def _epsilon(dtype: np.dtype) -> float:
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _scale(values: np.ndarray) -> np.ndarray:
    """The largest finite size of each column, [] or [K]."""
    sizes = np.abs(values.astype(np.float64))
    return np.where(np.isfinite(sizes), sizes, 0.0).max(axis=0)


def _largest_gap(
    first: np.ndarray, second: np.ndarray, epsilon: float, scale: np.ndarray | None = None
) -> tuple[float, int] | None:
    """(largest difference, first row that differs), or None if all agree."""
    if first.shape != second.shape:
        return float("inf"), 0
    scale = np.maximum(_scale(first), _scale(second)) if scale is None else scale
    a, b = first.astype(np.float64), second.astype(np.float64)
    with np.errstate(invalid="ignore"):
        gaps = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    differs = ~(gaps <= _ROUNDINGS * epsilon * scale)  # a NaN on one side only differs
    if not differs.any():
        return None
    wrong = gaps[differs]
    largest = float("nan") if np.isnan(wrong).all() else float(np.nanmax(wrong))
    return largest, int(np.argwhere(differs)[0][0])


# A host model is asked in other numbers of rows. A JAX model is compiled for one number at a time,
# so its traces are compared, of the probe's rows and of a tile's: where they are the same steps
# but for the number of rows, so are the answers. The second is compiled and asked only if they are
# not.

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

    def __init__(self, name: str, trace: Any, rows: int, precision: str = "float32") -> None:
        """trace: closed, that of the model for `rows` rows; precision: of the model."""
        self.precision = precision
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
        return gap_of(wanted, found.astype(answer.dtype), answer, self.precision)

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
        gap = gap_of(answer[places], found, answer, self.precision)
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
