"""Probes a model on a few rows: a row's output must not depend on the other rows or on their
number.

Probes take `evaluate(rows [R, *F]) -> [R] or [R, K]`, so that the caller's compiled function is
probed, and rows as an array or anything that `take(rows, index)` accepts.

A host model is called with other numbers of rows. A JAX model is compiled for one number at a time,
so its traces for the probe's rows and for a tile's are compared. If they differ only in the number
of rows, the outputs are equal too. Otherwise the second is compiled and called.

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

# A sum of n terms in another order differs by about sqrt(n) roundings of its largest partial sum.
# 2**10 roundings allow for sums of 2**20 terms, more than a layer has.
_ROUNDINGS = 2.0**10
# One rounding of a model's outputs, by its precision: at least that of float32. A TF32 or bfloat16
# factor that differs in the last bit of float32 may be rounded in the other direction, and then
# changes by 2^-10 or 2^-7: 2^10 of these roundings allow for two such changes of terms as large as
# the largest output.
_ROUNDED = {"tf32": 2.0**-19, "bfloat16": 2.0**-16}


def probe_determinism(evaluate: Evaluate, rows: Any, name: str = "the model") -> np.ndarray:
    """Returns the output for `rows`; raises NonDeterministicModelError if a second call differs.

    Outputs agree within 2**10 roundings of their dtype at the size of the largest output in the
    column (threads may add in another order); NaN agrees with NaN.
    """
    # Copies: a model may return views of one buffer, and then all of its outputs would agree.
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
    """Raises ModelOutputError if a row's output depends on the other rows in the call.

    The first row, the last and the most different ones are evaluated among the others and among
    copies of themselves, and all rows are evaluated with other rows first. All batches have one
    shape, because a compiled function has a single shape, and the same shape keeps the order of
    sums. The tolerance is that of `probe_determinism`, in float32, which a model may use
    internally.

    among: the output of the rows in their order, if known. precision: the model's.
    """
    count = len(rows)
    if count < 2:
        return
    among = np.array(evaluate(rows)) if among is None else among
    epsilon = max(_epsilon(among.dtype), rounding(precision))
    for row in dict.fromkeys((0, *extremes(rows, among))):
        copies = np.array(evaluate(take_rows(rows, np.full(count, row, dtype=np.int64))))
        # All copies are compared, so a model that depends on a row's position is found too. The
        # scale comes from both batches, because the single row's output may be near zero.
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
    """The message for a row whose output differs among copies of itself."""
    return (
        f"{name} answers a row differently among other rows than among copies of itself: by up to "
        f"{gap[0]:.3g}. Its output depends on the batch, as with batch normalisation in train mode "
        "or a statistic taken over axis 0. Switch it to inference mode; each row's output must "
        "depend on that row alone."
    )


def extremes(rows: Any, answer: np.ndarray) -> tuple[int, ...]:
    """The last row, and for each size that may characterise a batch the row with the smallest:
    its copies have other statistics than all rows together.
    """
    least = (int(size.argmin()) for size in _sizes(rows, answer))
    return tuple(dict.fromkeys((len(answer) - 1, *least)))


def half_without(rows: Any, answer: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """(positions of half as many rows, with other statistics: among rows that are largest in no
    size, those with the lowest outputs; `extremes` for sizes whose largest row could not be left
    out).

    The row most unlike the first one comes first, the others in another order.
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
    """Sizes of each row [R]: its output, its largest number and its largest magnitude, and the
    negatives of its output and of its smallest number. Of several outputs the one that varies
    most counts.
    """
    answers = _most_varied(answer)
    sizes = [answers, -answers]
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iuf" and rows.size:
        flat = np.nan_to_num(rows.reshape(len(rows), -1).astype(np.float64))
        sizes += [flat.max(axis=1), np.abs(flat).max(axis=1), -flat.min(axis=1)]
    return sizes


def highest(answer: np.ndarray) -> int:
    """The row with the highest output."""
    return int(_most_varied(answer).argmax())


def _most_varied(answer: np.ndarray) -> np.ndarray:
    """The output of each row, [R]; of several outputs the one that varies most."""
    flat = answer.reshape(len(answer), -1).astype(np.float64)
    flat = np.where(np.isfinite(flat), flat, 0.0)
    return flat[:, np.ptp(flat, axis=0).argmax()]


def opposite(rows: Any) -> int:
    """The row that differs from the first one in the side of the median for most columns.

    A property that the model takes from the first row, such as a sign, most likely changes if this
    row comes first.
    """
    return int(unlike_first(rows).argmax())


def unlike_first(rows: Any) -> np.ndarray:
    """Number of columns in which each row is on the other side of the median from the first row,
    [R]; for rows that are not a numeric array, 1 for the middle row and 0 for the others.
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
    """One rounding of an output in this precision: at least that of float32, which a model may
    use internally.
    """
    return _ROUNDED.get(precision, 2.0**-23)


def gap_of(
    wanted: np.ndarray, got: np.ndarray, answer: np.ndarray, precision: str = "float32"
) -> tuple[float, int] | None:
    """(largest difference, first row) of two outputs for the same rows among other rows, or None.

    The tolerance is that of `probe_neighbours`; answer: the outputs of all probe rows, for the
    scale.
    """
    if wanted.shape != got.shape:
        return float("inf"), 0
    epsilon = max(_epsilon(answer.dtype), rounding(precision))
    return _largest_gap(wanted, got, epsilon, np.maximum(_scale(answer), _scale(got)))


def _epsilon(dtype: np.dtype) -> float:
    return float(np.finfo(dtype if dtype.kind == "f" else np.float64).eps)


def _scale(values: np.ndarray) -> np.ndarray:
    """The largest finite magnitude of each column, [] or [K]."""
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


# A host model is called with other numbers of rows; of a JAX model, traces for two numbers of rows
# are compared.

# Steps that depend on a row's position: by name, the parameter of the axis along which they count.
_COUNTING = {
    "iota": "dimension",
    "cumsum": "axis",
    "cumprod": "axis",
    "cummax": "axis",
    "cummin": "axis",
    "cumlogsumexp": "axis",
}
# Derivative rules, which are different functions in each trace and compute no output.
SORTS_ROWS = "xaijax_sorted_by_length"  # puts rows into an order, and their answers back
_DERIVATIVES = ("jvp_jaxpr_fun", "jvp_jaxpr_thunk", "fwd_jaxpr_thunk", "bwd", "out_trees")


def probe_row_counts(evaluate: Evaluate, rows: Any, answer: np.ndarray, name: str) -> None:
    """Calls a host model with half of the probe's rows, without extreme ones, and with the row of
    the highest output alone; answer: the outputs of all. Extreme rows that the half must include
    are evaluated with copies of themselves.

    Raises ModelOutputError if an output depends on the other rows, otherwise
    NonDeterministicModelError.
    """
    count = len(rows)
    half, left = half_without(rows, answer)
    alone = np.array([highest(answer)]) if count > 1 else np.zeros(2, dtype=np.int64)
    # Two of each: a model may compute no statistics of a single row.
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
    """A host model's outputs for the probe's rows, with which later ones are compared."""

    def __init__(
        self,
        name: str,
        answer: np.ndarray,
        ask: Callable[[], np.ndarray],
        changed: Callable[[], list[str]] = list,
    ) -> None:
        """answer: [r] or [r, K], the model's output; ask: evaluates the probe's rows alone
        again; changed: names of the values that the model reads and that have changed since the
        probe.
        """
        self._name, self._ask, self._changed = name, ask, changed
        self._answer = answer.reshape(len(answer), -1)

    def __call__(self, which: np.ndarray, got: np.ndarray, rows: int) -> None:
        """Compares the outputs `got` [n, K] of the probe's rows `which` [n], computed among `rows`
        rows.

        A host function is called in its current state: if it has changed since the probe, the
        probe's rows alone have new outputs too, and these are compared from then on.

        Raises NonDeterministicModelError if they differ.
        """
        gap = gap_of(self._answer[which], got, self._answer)
        if gap is None:
            return
        now = self._ask().reshape(self._answer.shape)
        if gap_of(now[which], got, now) is None:
            self._answer = now
            return
        if self._names():
            raise NonDeterministicModelError(
                f"{self._name} gave different answers to the same rows, by up to {gap[0]:.3g}: it "
                f"reads {self._names()}, changed since its first call. Make a new explainer."
            )
        raise NonDeterministicModelError(_refusal(self._name, len(self._answer), rows, gap))

    def refuse_two(self, before: np.ndarray, now: np.ndarray) -> None:
        """Raises NonDeterministicModelError if the outputs [n, K] of rows of an explanation's
        first call differ at its end.
        """
        gap = gap_of(before, now, before)
        if gap is None:
            return
        read = f" It reads {self._names()}, changed since its first call." * bool(self._names())
        raise NonDeterministicModelError(
            f"{self._name} gave other answers to rows of the first call of this run when the "
            f"run ended: by up to {gap[0]:.3g}.{read} Do not change what it reads, or "
            "say as_model(..., deterministic=False) if it draws random numbers."
        )

    def _names(self) -> str:
        """The values that the model reads and that have changed since the probe, in words."""
        return ", ".join(shown(name) for name in self._changed())


class RowCounts:
    """Compares other traces of a JAX model with the probe's trace and outputs."""

    def __init__(self, name: str, trace: Any, rows: int, precision: str = "float32") -> None:
        """trace: the model's closed trace for `rows` rows; precision: the model's."""
        self.precision = precision
        self.name, self._trace, self._rows = name, trace, rows
        self._known: tuple[Any, np.ndarray, np.ndarray] | None = None

    def answered(self, params: Any, rows: np.ndarray, answer: np.ndarray) -> None:
        """Records the model's output for the probe's rows, with these parameters."""
        self._known = params, rows, answer

    @property
    def asked(self) -> tuple[Any, np.ndarray] | None:
        """(parameters, the probe's rows) of the last recorded output; None: there is none."""
        return None if self._known is None else self._known[:2]

    @property
    def answer(self) -> np.ndarray:
        """The probe's outputs, [r, K], if recorded."""
        assert self._known is not None
        return self._known[2].reshape(len(self._known[1]), -1)

    def gap(self, wanted: np.ndarray, got: np.ndarray) -> tuple[float, int] | None:
        """(largest difference, first position) of two outputs [n, K] of the same rows by
        different programs; None: they agree.
        """
        answer = self.answer
        return gap_of(wanted, got.astype(answer.dtype), answer, self.precision)

    def __call__(self, trace: Any, rows: int) -> None:
        """Checks the trace for another number of rows, before it is run.

        Raises NonDeterministicModelError if its outputs for the probe's rows differ.
        """
        if self._known is None or rows == self._rows:
            return
        if _Alike(self._rows, rows).closed(self._trace, trace):
            return
        params, probe_rows, answer = self._known
        places = np.arange(rows) % len(probe_rows)
        leaves = [_bare(leaf) for leaf in jax.tree.leaves((params, probe_rows[places]))]
        # Compiled first, then called: within a trace a jitted function would become a part of it.
        program = compile_sound(jax.jit(jaxpr_as_fun(trace)).lower(*leaves))
        with jax.ensure_compile_time_eval():  # concrete numbers, even inside another trace
            got = np.array(program(*leaves)[0])
        gap = gap_of(answer[places], got, answer, self.precision)
        if gap is not None:
            raise NonDeterministicModelError(_refusal(self.name, len(probe_rows), rows, gap))


def _bare(leaf: Any) -> Any:
    """A leaf as a NumPy array; a typed key, which NumPy lacks, as it is."""
    key = jnp.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key)
    return leaf if key else np.asarray(leaf)


def _refusal(name: str, first: int, second: int, gap: tuple[float, int]) -> str:
    return (
        f"{name} gave different answers to the same rows when called with {first} rows and with "
        f"{second} rows: by up to {gap[0]:.3g}. Its answer to a row depends on the number of "
        "rows (len(X), X.shape[0]). Each row's output must depend on that row alone: put constants "
        "in their place, or switch the model to inference mode."
    )


def same_steps(left: Any, right: Any) -> bool:
    """Whether two closed traces are the same steps with the same constants."""
    return _Alike(1, 1).closed(left, right)


class _Alike:
    """Whether two traces differ only in their numbers of rows, a and b.

    False is always safe: the second is then called.
    """

    def __init__(self, a: int, b: int) -> None:
        self._a, self._b = a, b

    def closed(self, left: Any, right: Any) -> bool:
        """Whether two closed traces are alike."""
        if len(left.consts) != len(right.consts):
            return False
        same = all(map(_same_array, left.consts, right.consts))
        return same and self._steps(left.jaxpr, right.jaxpr)

    def _steps(self, left: Any, right: Any) -> bool:
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

        if not bound([*left.constvars, *left.invars], [*right.constvars, *right.invars]):
            return False
        if len(left.eqns) != len(right.eqns):
            return False
        for mine, theirs in zip(left.eqns, right.eqns, strict=True):
            if mine.primitive is not theirs.primitive or len(mine.invars) != len(theirs.invars):
                return False
            if not all(map(read, mine.invars, theirs.invars)):
                return False
            if {one.params.get("name") for one in (mine, theirs)} == {SORTS_ROWS}:
                names.update(zip(mine.outvars, theirs.outvars, strict=True))
                continue
            if self._joins_rows(mine, theirs):
                return False
            if not self._options(mine.params, theirs.params):
                return False
            if not bound(mine.outvars, theirs.outvars):
                return False
        outputs = len(left.outvars) == len(right.outvars)
        return outputs and all(map(read, left.outvars, right.outvars))

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
        """Whether a step may sum or count rows: its output has no axis of rows, or it contracts
        one."""

        def moving(variables: Any, others: Any) -> list[list[int]]:
            shapes = [
                (getattr(v.aval, "shape", ()), getattr(w.aval, "shape", ()))
                for v, w in zip(variables, others, strict=True)
            ]
            return [[i for i, n in enumerate(a) if n != b[i]] for a, b in shapes]

        inputs = moving(mine.invars, theirs.invars)
        made = moving(mine.outvars, theirs.outvars)
        name = mine.primitive.name
        if name in _COUNTING and any(mine.params[_COUNTING[name]] in moved for moved in made):
            return True
        if name == "scan" and mine.params["length"] != theirs.params["length"]:
            body = mine.params["jaxpr"].jaxpr.outvars  # carried values have no axis of steps
            return any(a.aval.ndim == b.aval.ndim for a, b in zip(body, mine.outvars, strict=True))
        if any(inputs) and not all(made):
            return True
        axes = mine.params.get("axes", ())
        if name == "dot_general":
            (left, right), _ = mine.params["dimension_numbers"]
            return bool({*left} & {*inputs[0]} or {*right} & {*inputs[1]})
        return isinstance(axes, tuple) and any({*axes} & {*moved} for moved in inputs)

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
            if mine and all(type(size) is int for size in (*mine, *theirs)):
                return self._sizes(mine, theirs)
            return len(mine) == len(theirs) and all(map(self._option, mine, theirs))
        if mine is theirs:
            return True
        try:
            return bool(mine == theirs)
        except Exception:  # arrays, or values that cannot be compared
            return False


def _unsharded(option: Any) -> bool:
    """Whether no axis is sharded by an option of a step."""
    if option is None:
        return True
    return isinstance(option, jax.sharding.NamedSharding) and not any(option.spec)


def _same_array(mine: Any, theirs: Any) -> bool:
    if mine is theirs:
        return True
    a, b = np.asarray(mine), np.asarray(theirs)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
