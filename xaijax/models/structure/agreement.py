"""How nearly a structure answers as its model does, on probe rows and on every row explained.

A structure is read from a trace, or declared; neither proves that it gives the model's numbers.
Whether its head is affine is read from a trace too, and compared with an answer (`affine`).

Letters: R rows, n rows looked at together, F numbers of one instance, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.compiler import compile_sound
from xaijax.models.base.trace import MATMUL
from xaijax_kernels.engine.tiles import traced
from xaijax_kernels.structures.base import Affine, Structure, shapes_of

Evaluate = Callable[[Any], Any]  # rows [R, *F] -> the model's answer, [R] or [R, K]

HYBRIDS = 4  # masks by which probe rows are mixed
# Two programs of a model that round the same factors of products. A factor that the two have added
# up in another order, to another last bit of float32, may fall to the other side of a rounding: it
# moves by up to 2^-10 of its size in TF32, and 2^-7 in bfloat16. A few of 100,000 factors do. An
# answer is allowed two such moves of terms that are as large as the answers' spread.
MOVED_FACTORS = {"tf32": 2.0**-15, "bfloat16": 2.0**-12}
# A structure rounds its columns and weights to bfloat16 as its model does. Those of a model in TF32
# it does not round.
EPS = {"float32": 2.0**-23, "tf32": 2.0**-10, "bfloat16": 2.0**-12, "float64": 2.0**-52}
# Two float32 networks of the same sums in another order differ by 1 to 3 roundings of the spread of
# their answers, ones with a steep end by 25; a layer that is not the model's differs by as much as
# the answers do. 84 roundings are 1e-5 in float32, what a translation is allowed too.
OF_SPREAD = 84
OF_LEVEL = 16  # an answer far from zero is rounded there, once for each of the last few sums
# The largest of at least 160 roundings is met on probe rows. Eight times that is never reached by
# roundings of one kind: normal ones reach 2.7 deviations in 160 draws, and 21 in 1e90.
TIMES = 8
LEAST = 4  # roundings of an answer, where the probe rows happen to differ by less
STEEP = 104
# A row that differs by more is looked at once more: MOVED units of a number are several times what
# its rounding is, and the rest of the model rounds too.
PATTERNS, MOVED, OF_MOVED = 3, 2.0, 4.0


def roundings(eps: float, spread: Any, level: Any) -> Any:
    """How far two sums in another order may be apart, of answers with this spread and level."""
    return eps * (OF_SPREAD * spread + OF_LEVEL * level)


@dataclass(frozen=True)
class Agreement:
    """What the probe found of a structure that agrees; float64 [K] each."""

    gap: np.ndarray  # the largest difference from the model's answer
    # How far the answers to probe rows, and to hybrids of them, are apart; 0 except for a
    # translation whose level was taken out (`Model.offset`): elsewhere an answer's own size says as
    # much, and what is allowed to a row does not depend on the rows that come with it.
    size: np.ndarray
    eps: float  # one rounding of the model's precision
    compared: int  # rows and hybrids with finite columns and a finite answer; 0: nothing is known

    def allowed(self, answers: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """How far rounding may take the structure from the model's answers [n, K]; [n, K].

        spread [n, K]: how far they are from other answers.
        """
        # A sum that comes to about 0 was rounded at the size of its terms, as other sums are.
        least = LEAST * self.eps * (np.maximum(spread, self.size) + np.abs(answers))
        return np.maximum(TIMES * self.gap, least)

    def steep(self, answers: np.ndarray, spread: np.ndarray) -> np.ndarray:
        """What an exponential at the model's end may add to that, [n, K].

        exp(z) is off by |z| times the rounding of z, and |z| is 104 at most where float32 is not 0:
        the tails of a sigmoid or a softmax, whose answers all lie below their spread.
        """
        return STEEP * self.eps * np.minimum(np.abs(answers), spread)


def compare(
    structure: Structure,
    model: Any,
    rows: np.ndarray,
    evaluate: Evaluate,
    programs: dict[Any, Any],
) -> tuple[str, Agreement | None]:
    """How head(structure) differs from the model's answer to rows [R, *F] and to hybrids of them,
    each made of two parts as the engine makes it; empty: it does not, and the agreement is given.

    Full rows alone would not show that a number is taken for that of another column.

    programs: of the model; those compiled here are put there.
    """
    R, shape = len(rows), rows.shape[1:]
    flat, donors = rows.reshape(R, -1), np.roll(rows, 1, axis=0).reshape(R, -1)
    some = np.random.default_rng(0).random((HYBRIDS, flat.shape[1])) < 0.5
    every = np.ones((1, flat.shape[1]), bool)
    eps = EPS[model.precision]
    gap, answers = np.zeros(1), []
    # Of a declared sum over players it is not known yet who these are: see `games/certify.py`.
    known = shapes_of(structure, model.params)
    masks = np.concatenate([every, some]) if known.by_columns else every
    for kept in masks:
        started = _by_structure(structure, model, flat, donors, kept, programs)
        found, usable = (np.asarray(one) for one in started)
        answer = np.asarray(evaluate(np.where(kept, flat, donors).reshape(R, *shape)))
        if found.shape != answer.shape:
            return f"shapes {found.shape} and {answer.shape}", None
        K = int(np.prod(answer.shape[1:]))  # no row may be usable, and from none NumPy infers no K
        found, answer = (one[usable].astype(np.float64).reshape(-1, K) for one in (found, answer))
        off, most = _difference(found, answer, eps)
        if off:
            return off, None
        gap = np.maximum(gap, most)
        answers.append(answer[np.isfinite(answer).all(axis=1)])
    told = np.concatenate(answers)
    known = model.offset is not None and len(told) > 0
    return "", Agreement(gap, np.ptp(told, axis=0) if known else np.zeros(1), eps, len(told))


def by_structure(
    structure: Structure,
    model: Any,
    rows: np.ndarray,
    programs: dict[Any, Any],
    hybrids: tuple[np.ndarray, np.ndarray] | None = None,
) -> jax.Array:
    """What the structure makes of full rows [R, *F], [R] or [R, K]: started, and not waited for.

    hybrids: (donors [R, *F], kept bool [R, F]), which the rows are then made of.
    """
    flat = rows.reshape(len(rows), -1)
    donors, mask = (flat, np.ones(flat.shape[1], bool)) if hybrids is None else hybrids
    donors = donors.reshape(flat.shape)
    return _by_structure(structure, model, flat, donors, mask, programs)[0]


def sensitivity(
    structure: Structure, model: Any, rows: np.ndarray, programs: dict[Any, Any]
) -> np.ndarray:
    """How far the structure's answers to full rows [R, *F] go by rounding; float64 [R, K].

    Its columns and what it makes of them are moved by some of their last bits, each up or down: a
    sum of products that is rounded is one of numbers that were moved so. What is large, cancels or
    lies where the model is steep has an answer that goes far.
    """

    def moved(params: Any, flat: Any) -> Any:
        with jax.default_matmul_precision(MATMUL[model.precision]):
            known = structure.of(params)
            x = known.columns(flat)
            columns = jnp.ones(x.shape, bool)
            nothing = known.part(x, ~columns)

            def answer(by: Any) -> Any:
                own_by = by if known.by_columns else 0.0  # a token is no number that is rounded
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
    model: Any,
    flat: np.ndarray,
    donors: np.ndarray,
    mask: np.ndarray,
    programs: dict[Any, Any],
) -> tuple[jax.Array, jax.Array]:
    """(answers to hybrids of rows [R, F], bool [R], whose columns are all finite)."""

    def mixed(params: Any, flat: Any, donors: Any, mask: Any) -> tuple[Any, Any]:
        with jax.default_matmul_precision(MATMUL[model.precision]):
            known = structure.of(params)
            x, other = known.columns(flat), known.columns(donors)
            mine = known.of_columns(jnp.broadcast_to(mask, flat.shape))
            if known.adds:
                theirs = known.part(other, ~mine)
            else:  # a part takes most of the time, and for full rows that of the donors is none
                nothing = known.nothing(len(flat), x.dtype)
                theirs = jax.lax.cond(mine.all(), lambda: nothing, lambda: known.part(other, ~mine))
            parts = known.part(x, mine), theirs
            hidden = jax.vmap(lambda a, b: known.joined(a[None], b[None])[0, 0])(*parts)
        # Not by a maximum, which XLA's CPU kernels take of many columns without a NaN among them.
        usable = jnp.isfinite(x).all(axis=1) & jnp.isfinite(other).all(axis=1)
        return structure.head(params, hidden), usable

    key = ("difference", structure, flat.shape, mask.shape)
    # Once for all explainers of a program; not even to be made for each call, of a third of a ms.
    if (run := programs.get(key)) is None:
        made = compile_sound(jax.jit(mixed).lower(model.params, flat, donors, mask))
        run = programs.setdefault(key, made)
    return run(model.params, flat, donors, mask)


def _difference(found: np.ndarray, answer: np.ndarray, eps: float) -> tuple[str, np.ndarray]:
    """(How two answers [R, K] to the same rows differ; empty if only rounding tells them apart,
    the largest difference [K]). Rows whose answers are not finite must be the same ones, and say
    nothing more."""
    finite = np.isfinite(answer).all(axis=1)
    none = np.zeros(answer.shape[1])
    if (np.isfinite(found).all(axis=1) != finite).any():
        return "other answers are not finite", none
    found, answer = found[finite], answer[finite]
    if not len(answer):
        return "", none
    accepted = roundings(eps, np.ptp(answer, axis=0), np.abs(answer).max(axis=0))
    off = np.abs(found - answer).max(axis=0)
    return ("" if (off <= accepted).all() else f"by {off.max():.3g}"), off


# Affine in what is moved or converted; the indices of moves must be constants. Not what has another
# derivative than its numbers have (stop_gradient), since the matrix is read from the derivative.
MOVES = frozenset(
    "broadcast_in_dim concatenate dynamic_slice expand_dims gather pad reshape rev slice squeeze "
    "stack transpose".split()
)
KEPT = MOVES | {"copy", "neg", "reduce_sum", "reshard"}
SUMS = {"add", "sub", "add_any"}
AFFINE_CALLS = {"jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr"}
ROWS = 32  # as many as the probe asks: for these the model is traced already
ROUNDINGS = 16


def affine(
    head: Any, params: Any, width: int, dtype: Any, programs: dict[Any, Any]
) -> Affine | None:
    """(A float64 [H, K], c [K]) if head(params, hidden [R, H]) is hidden A + c, else None.

    The trace decides. programs: those of the head; what is compiled here is put there.

    A row's answer is taken to depend on that row alone, as the probe made sure.
    """
    jaxpr = traced(head, params, jax.ShapeDtypeStruct((ROWS, width), dtype)).jaxpr
    inputs = [False] * (len(jaxpr.invars) - 1) + [True]
    if not all(_outputs(jaxpr, inputs) or [False]):
        return None
    some = np.random.default_rng(0).normal(size=(ROWS, width)).astype(dtype)

    # Step by step, each of its steps would be a program of its own.
    def numbers(params: Any, some: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        def answer(hidden: jax.Array) -> jax.Array:
            return head(params, hidden).reshape(ROWS, -1)

        # By the derivative: differences of answers would drown in a large c.
        constant, change = jax.linearize(answer, jnp.zeros((ROWS, width), dtype))
        units = jnp.pad(jnp.eye(width, dtype=dtype), ((0, -width % ROWS), (0, 0)))
        return constant[0], jax.lax.map(change, units.reshape(-1, ROWS, width)), answer(some)

    run = programs.setdefault("affine", jax.jit(numbers))
    c, found, answer = (np.asarray(one, np.float64) for one in run(params, some))
    A = found.reshape(-1, found.shape[-1])[:width]
    return (A, c) if _agrees(answer, some, A, c, dtype) else None


def _agrees(
    answer: np.ndarray, hidden: np.ndarray, A: np.ndarray, c: np.ndarray, dtype: Any
) -> bool:
    """Whether the answer to some hidden numbers is hidden A + c, not only by the derivative.

    A sum of H products rounds by a few times sqrt(H) units at the size of its terms.
    """
    sizes = np.abs(hidden) @ np.abs(A) + np.abs(c)
    accepted = ROUNDINGS * float(jnp.finfo(dtype).eps) * sizes
    return bool((np.abs(hidden @ A + c - answer) <= accepted).all())


def _outputs(jaxpr: Any, inputs: list[bool]) -> list[bool] | None:
    """Which outputs depend on the inputs that are marked; None: not by sums and moves alone."""
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
    if name == "convert_element_type":  # to fewer digits it is a rounding
        before, after = equation.invars[0].aval.dtype, equation.outvars[0].aval.dtype
        return bool(jnp.finfo(after).bits >= jnp.finfo(before).bits)
    if name in SUMS or name in ("concatenate", "stack"):
        return True
    if name in KEPT:
        return not any(marks[1:])
    if name in ("mul", "dot_general"):
        return sum(marks) == 1
    return name == "div" and not marks[1]
