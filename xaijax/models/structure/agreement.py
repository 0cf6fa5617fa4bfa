"""Measures how closely a structure agrees with its model, on probe rows and on every explained row.

A structure is read from a trace, or declared; neither proves that it gives the model's numbers.
Whether its head is affine is also read from a trace, and compared with an output (`affine`).

Letters: R rows, n rows processed together, F numbers of one instance, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.compiler import compile_sound
from xaijax.models.base.trace import MATMUL
from xaijax_kernels.engine.tiles import traced
from xaijax_kernels.structures.base import Affine, Structure, shapes_of
from xaijax_kernels.structures.prefixes import Prefixes

if TYPE_CHECKING:
    from xaijax.models.model import Model

Evaluate = Callable[[Any], Any]  # rows [R, *F] -> the model's output, [R] or [R, K]

HYBRIDS = 4  # masks by which probe rows are mixed
# Two programs of a model may sum a factor in different orders, to another last bit of float32, and
# then round it to different sides: it changes by up to 2^-10 of its size in TF32, and 2^-7 in
# bfloat16. A few of 100,000 factors do. An output may differ by two such changes of terms as large
# as the spread of the outputs.
MOVED_FACTORS = {"tf32": 2.0**-15, "bfloat16": 2.0**-12}
# A structure rounds its columns and weights to bfloat16 as its model does. It does not round to
# TF32.
EPS = {"float32": 2.0**-23, "tf32": 2.0**-10, "bfloat16": 2.0**-12, "float64": 2.0**-52}
# Two float32 networks with the same sums in another order differ by 1 to 3 roundings of the spread
# of their outputs, networks with a steep end by 25. A wrong layer differs by as much as the outputs
# do. 84 roundings are 1e-5 in float32, which is also the tolerance of translations.
OF_SPREAD = 84
OF_LEVEL = 16  # an output far from zero is rounded at its size, once for each of the last few sums
# Probe rows show the largest of at least 160 roundings. Eight times that is never reached by
# roundings of one kind: normal ones reach 2.7 standard deviations in 160 draws, and 21 in 1e90.
TIMES = 8
LEAST = 4  # roundings of an output, if the probe rows happen to differ by less
STEEP = 104
# A row that differs by more is checked again with its numbers changed by MOVED units: several times
# their rounding, because the rest of the model rounds too.
PATTERNS, MOVED, OF_MOVED = 3, 2.0, 4.0


def roundings(eps: float, spread: Any, level: Any) -> Any:
    """The allowed difference of two sums in another order, for outputs with this spread and
    level."""
    return eps * (OF_SPREAD * spread + OF_LEVEL * level)


@dataclass(frozen=True)
class Agreement:
    """The probe's findings about a structure that agrees; float64 [K] each."""

    gap: np.ndarray  # the largest difference from the model's output
    # The spread of the outputs of probe rows and their hybrids for a translation with
    # `Model.offset`, otherwise 0: an output's own size then sets the tolerance, which does not
    # depend on other rows.
    size: np.ndarray
    eps: float  # one rounding of the model's precision
    compared: int  # rows and hybrids with finite columns and finite outputs; 0: nothing is known

    def allowed(self, answers: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The allowed difference of the structure from the model's outputs [n, K]; [n, K].

        spread [n, K]: their distance from other outputs.
        """
        # A sum near 0 was rounded at the size of its terms, as other sums are.
        least = LEAST * self.eps * (np.maximum(spread, self.size) + np.abs(answers))
        return np.maximum(TIMES * self.gap, least)

    def steep(self, answers: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """The additional tolerance for an exponential at the model's end, [n, K].

        exp(z) has |z| times the rounding error of z, and |z| is at most 104 where float32 is not 0:
        the tails of a sigmoid or a softmax, whose outputs all lie below their spread.
        """
        return STEEP * self.eps * np.minimum(np.abs(answers), spread)


def compare(
    structure: Structure,
    model: Model,
    rows: np.ndarray,
    evaluate: Evaluate,
    programs: dict[Any, Any],
) -> tuple[str, Agreement | None]:
    """(the difference in words of head(structure) and the model on rows [R, *F] and their hybrids,
    each made of two parts as in the engine; empty if they agree; the agreement).

    Full rows alone would not show that two columns were confused.

    programs: of the model; new programs are added.
    """
    R, shape = len(rows), rows.shape[1:]
    flat, donors = rows.reshape(R, -1), np.roll(rows, 1, axis=0).reshape(R, -1)
    drawn = np.random.default_rng(0).random((HYBRIDS, flat.shape[1])) < 0.5
    every = np.ones((1, flat.shape[1]), bool)
    eps = EPS[model.precision]
    gap, answers = np.zeros(1), []
    # The players of a declared sum are not known yet: see `games/certify.py`.
    known = shapes_of(structure, model.params)
    masks = np.concatenate([every, drawn]) if known.by_columns else every
    for mask in masks:
        started = _by_structure(structure, model, flat, donors, mask, programs)
        got, usable = (np.asarray(array) for array in started[:2])
        answer = np.asarray(evaluate(np.where(mask, flat, donors).reshape(R, *shape)))
        if got.shape != answer.shape:
            return f"shapes {got.shape} and {answer.shape}", None
        K = int(np.prod(answer.shape[1:]))  # if no row is usable, NumPy cannot infer K
        got, answer = (array[usable].astype(np.float64).reshape(-1, K) for array in (got, answer))
        off, most = difference(got, answer, eps)
        if off:
            return off, None
        gap = np.maximum(gap, most)
        answers.append(answer[np.isfinite(answer).all(axis=1)])
    finite = np.concatenate(answers)
    known = model.offset is not None and len(finite) > 0
    return "", Agreement(gap, np.ptp(finite, axis=0) if known else np.zeros(1), eps, len(finite))


Compared = tuple[Structure | None, Agreement | None]


def compared(
    structure: Structure,
    model: Model,
    rows: np.ndarray,
    evaluate: Evaluate,
    programs: dict[Any, Any],
) -> Compared:
    """(the structure, its agreement with the model); (None, None) if they differ, see `compare`."""
    agreement = compare(structure, model, rows, evaluate, programs)[1]
    if agreement is None or not agreement.compared:  # without evidence it is not used
        return None, None
    return structure, agreement


def by_structure(
    structure: Structure,
    model: Model,
    rows: np.ndarray,
    programs: dict[Any, Any],
    hybrids: tuple[np.ndarray, np.ndarray] | None = None,
) -> jax.Array:
    """The structure's outputs for full rows [R, *F], [R] or [R, K], computed asynchronously.

    hybrids: (donors [R, *F], kept bool [R, F]), to evaluate hybrids instead.
    """
    flat = rows.reshape(len(rows), -1)
    donors, mask = (flat, np.ones(flat.shape[1], bool)) if hybrids is None else hybrids
    donors = donors.reshape(flat.shape)
    return _by_structure(structure, model, flat, donors, mask, programs)[0]


def columns_of(
    structure: Structure, model: Model, flat: np.ndarray, programs: dict[Any, Any]
) -> tuple[Any, np.ndarray, np.ndarray]:
    """(the program of `_by_structure` for the number of rows of `flat` [R, F], which also returns
    their columns; its mask of full rows; the largest weight of each column [C], or a scalar 1 if
    there are no weights).
    """
    mask = np.ones(flat.shape[1], bool)
    dense = _by_structure(structure, model, flat, flat, mask, programs)[3:]
    largest = np.abs(np.asarray(dense[0])).max(axis=1) if dense else np.ones((), flat.dtype)
    run = programs.get(("difference", structure, flat.shape, mask.shape))
    if run is None:  # parts that are not single columns: a mask for each row
        mask = np.ones(flat.shape, bool)
        run = programs["difference", structure, flat.shape, mask.shape]
    return run, mask, largest


def sensitivity(
    structure: Structure, model: Model, rows: np.ndarray, programs: dict[Any, Any]
) -> np.ndarray:
    """How much rounding changes the structure's outputs for full rows [R, *F]; float64 [R, K].

    Its columns and their sums are changed by a few last bits, each up or down: a rounded sum of
    products equals an exact one of numbers changed in this way. Outputs change much where numbers
    are large or cancel, or where the model is steep.
    """

    def moved(params: Any, flat: Any) -> Any:
        with jax.default_matmul_precision(MATMUL[model.precision]):
            known = structure.of(params)
            x = known.columns(flat)
            columns = jnp.ones(x.shape, bool)
            nothing = known.part(x, ~columns)

            def answer(by: Any) -> Any:
                own_by = by if known.by_columns else 0.0  # tokens are not rounded
                part = known.part(x * (1 + own_by * signs(x.shape[1])).astype(x.dtype), columns)
                hidden = jax.vmap(lambda a, b: known.joined(a[None], b[None])[0, 0])(part, nothing)
                size = jnp.maximum(jnp.abs(hidden), known.level)
                hidden = hidden + (by * signs(hidden.shape[1]) * size).astype(hidden.dtype)
                return structure.head(params, hidden).reshape(len(flat), -1)

            rng = np.random.default_rng(0)

            def signs(count: int) -> Any:
                return rng.choice([-1.0, 1.0], count)

            still, most = answer(0.0), 0.0
            for _ in range(PATTERNS):
                for by in (MOVED, -MOVED):
                    most = jnp.fmax(most, jnp.abs(answer(by * EPS[model.precision]) - still))
            return most

    flat = rows.reshape(len(rows), -1)
    key = ("sensitivity", structure, flat.shape)
    if (run := programs.get(key)) is None:
        made = compile_sound(jax.jit(moved).lower(model.params, flat))
        run = programs.setdefault(key, made)
    return OF_MOVED * np.asarray(run(model.params, flat)).astype(np.float64)


def _by_structure(
    structure: Structure,
    model: Model,
    flat: np.ndarray,
    donors: np.ndarray,
    mask: np.ndarray,
    programs: dict[Any, Any],
) -> tuple[jax.Array, ...]:
    """(outputs of hybrids of rows [R, F], bool [R]: whether all columns may be compared, the
    columns [R, C] of the rows, the weights [C, H] of a dense layer).
    """

    def mixed(params: Any, flat: Any, donors: Any, mask: Any) -> tuple[Any, ...]:
        with jax.default_matmul_precision(MATMUL[model.precision]):
            known = structure.of(params)
            x, other = known.columns(flat), known.columns(donors)
            mine = known.of_columns(jnp.broadcast_to(mask, flat.shape))

            def joined() -> jax.Array:
                parts = known.part(x, mine), known.part(other, ~mine)
                return jax.vmap(lambda a, b: known.joined(a[None], b[None])[0, 0])(*parts)

            if known.adds:
                hidden = joined()
            elif isinstance(known, Prefixes):  # whose parts are the columns themselves
                hidden = known.whole(jnp.where(mine, x, other))
            else:  # a part takes most of the time, and full rows need none of the donors
                hidden = jax.lax.cond(mine.all(), lambda: known.whole(x), joined)
        # Not by a maximum, which XLA's CPU kernels compute without propagating NaN.
        finite = jnp.isfinite(x).all(axis=1) & jnp.isfinite(other).all(axis=1)
        usable = finite | known.compares
        dense = () if known.dense is None else (known.dense[0],)
        return structure.head(params, hidden), usable, x, *dense

    key = ("difference", structure, flat.shape, mask.shape)
    if key not in programs and not shapes_of(structure, model.params).by_columns:
        mask = np.broadcast_to(mask, flat.shape)  # one program of full rows and of hybrids
        key = (*key[:3], mask.shape)
    # Cached for all explainers of a program: making it at each call would take 0.3 ms.
    if (run := programs.get(key)) is None:
        made = compile_sound(jax.jit(mixed).lower(model.params, flat, donors, mask))
        run = programs.setdefault(key, made)
    return run(model.params, flat, donors, mask)


def difference(got: np.ndarray, answer: np.ndarray, eps: float) -> tuple[str, np.ndarray]:
    """(the difference of two outputs [R, K] of the same rows in words, empty if it is rounding; the
    largest difference [K]). Non-finite outputs must be in the same rows."""
    finite = np.isfinite(answer).all(axis=1)
    none = np.zeros(answer.shape[1])
    if (np.isfinite(got).all(axis=1) != finite).any():
        return "other answers are not finite", none
    got, answer = got[finite], answer[finite]
    if not len(answer):
        return "", none
    accepted = roundings(eps, np.ptp(answer, axis=0), np.abs(answer).max(axis=0))
    off = np.abs(got - answer).max(axis=0)
    return ("" if (off <= accepted).all() else f"by {off.max():.3g}"), off


# Steps that move or convert numbers, and are affine in them; indices must be constants. Steps with
# a different derivative (stop_gradient) are excluded, because the matrix is read from the
# derivative.
MOVES = frozenset(
    "broadcast_in_dim concatenate dynamic_slice expand_dims gather pad reshape rev slice squeeze "
    "stack transpose".split()
)
KEPT = MOVES | {"copy", "neg", "reduce_sum", "reshard"}
SUMS = {"add", "sub", "add_any"}
AFFINE_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
ROWS = 32  # the probe's number of rows, for which the model is traced already
ROUNDINGS = 16


def affine(
    head: Any, params: Any, width: int, dtype: Any, programs: dict[Any, Any]
) -> Affine | None:
    """(A float64 [H, K], c [K]) if head(params, hidden [R, H]) is hidden A + c, else None.

    The trace decides. programs: of the head; new programs are added.

    A row's output depends on that row alone, as the probe has checked.
    """
    jaxpr = traced(head, params, jax.ShapeDtypeStruct((ROWS, width), dtype)).jaxpr
    inputs = [False] * (len(jaxpr.invars) - 1) + [True]
    if not all(_outputs(jaxpr, inputs) or [False]):
        return None
    hidden = np.random.default_rng(0).normal(size=(ROWS, width)).astype(dtype)

    # Otherwise each of its steps would be a separate program.
    def numbers(params: Any, hidden: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def answer(hidden: jax.Array) -> jax.Array:
            return head(params, hidden).reshape(ROWS, -1)

        # By the derivative: differences of outputs would cancel for a large c.
        constant, change = jax.linearize(answer, jnp.zeros((ROWS, width), dtype))
        units = jnp.pad(jnp.eye(width, dtype=dtype), ((0, -width % ROWS), (0, 0)))
        return constant[0], jax.lax.map(change, units.reshape(-1, ROWS, width)), answer(hidden)

    run = programs.setdefault("affine", jax.jit(numbers))
    c, changes, answer = (np.asarray(array, np.float64) for array in run(params, hidden))
    A = changes.reshape(-1, changes.shape[-1])[:width]
    return (A, c) if _agrees(answer, hidden, A, c, dtype) else None


def _agrees(
    answer: np.ndarray, hidden: np.ndarray, A: np.ndarray, c: np.ndarray, dtype: Any
) -> bool:
    """Whether the output for given hidden numbers is hidden A + c, not only by the derivative.

    A sum of H products has a rounding error of a few times sqrt(H) units at the size of its terms.
    """
    sizes = np.abs(hidden) @ np.abs(A) + np.abs(c)
    accepted = ROUNDINGS * float(jnp.finfo(dtype).eps) * sizes
    return bool((np.abs(hidden @ A + c - answer) <= accepted).all())


def _outputs(jaxpr: Any, inputs: list[bool]) -> list[bool] | None:
    """Returns which outputs depend on the marked inputs; None: not only by sums and moves."""
    depends = dict(zip(jaxpr.invars, inputs, strict=True))

    def marked(variable: Any) -> bool:
        return not hasattr(variable, "val") and depends.get(variable, False)

    for equation in jaxpr.eqns:
        name = equation.primitive.name
        marks = [marked(v) for v in equation.invars]
        out = [any(marks)] * len(equation.outvars)
        if any(marks):
            if name in AFFINE_CALLS:
                inner = _outputs(equation.params[AFFINE_CALLS[name]].jaxpr, marks)
                if inner is None:
                    return None
                out = inner
            elif not _is_affine(equation, name, marks):
                return None
        depends.update(zip(equation.outvars, out, strict=True))
    return [marked(v) for v in jaxpr.outvars]


def _is_affine(equation: Any, name: str, marks: list[bool]) -> bool:
    floats = all(jnp.issubdtype(v.aval.dtype, jnp.floating) for v in equation.outvars)
    if not floats:
        return False
    if name == "convert_element_type":  # a conversion to fewer digits rounds
        before, after = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
        return bool(jnp.finfo(after).bits >= jnp.finfo(before).bits)
    if name in SUMS or name in ("concatenate", "stack"):
        return True
    if name in KEPT:
        return not any(marks[1:])
    if name in ("mul", "dot_general"):
        return sum(marks) == 1
    return name == "div" and not marks[1]
