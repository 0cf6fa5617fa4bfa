"""`shapley_values`: values as a pure function of the row, the background and the parameters.

Letters: N instances, B background rows, F columns (numbers of a row) = P players, K outputs,
G instances at a time, D donors at a time.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import jaxpr_as_fun
from jax.sharding import NamedSharding, PartitionSpec

from xaijax.core.checks import shown, whole_number
from xaijax.core.compiler import compile_sound, without_fused_products
from xaijax.core.errors import EnumerationLimitError, InputError, InputTypeError, ModelOutputError
from xaijax.core.process import before_jax
from xaijax.core.public import public
from xaijax.players.index import IndexLike, index_weights, named, quoted
from xaijax_kernels.games.differentiable import exact, over_orders, with_smaller_tangents

UNTRACEABLE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
MOST_PLAYERS = 12  # 2^12 hybrids of each pair
ROWS = 1 << 13  # model rows of a step: enough for a processor's cores, few to keep
BACK = ROWS // 4  # rows of a step of the derivative, which keeps the results of each layer of f


@public
def shapley_values(
    f: Callable[..., Any],
    x: Any,
    background: Any,
    *,
    params: Any = None,
    index: IndexLike = "shapley",
    orders: int | None = None,
    key: Any = None,
) -> jax.Array:
    """Computes Shapley values of a row or a batch, as a pure function that JAX can differentiate.

    v(S) is the mean of f over the background rows, with the columns of S kept at x's values. The
    function can be part of a loss: it works under `jax.jit`, `jax.vmap` and `jax.grad` with respect
    to x, background and params. Its derivative needs the memory of some thousand model rows,
    whatever the numbers of background rows and orders: steps are recomputed in the backward pass.

    Use `Explainer` for explanations of many rows: it needs fewer model rows and gives standard
    errors.

    jaxlib 0.12.0.1 compiles some products with repeated numbers (`X @ jnp.ones((5, 5))`) wrongly on
    a CPU. The products of f are compiled separately here, so values are right under your own
    `jax.jit` as well. Your own calls of f in the same program are not protected.

    Args:
        f: f(rows [R, *F]) -> [R] or [R, K], or f(params, rows). It is traced; a row's answer must
            depend on that row alone. Its products are computed in full float32, as by `as_model`.
        x: [*F] one row, or [N, *F]. Each number is a player: P of them.
        background: [B, *F]. All rows have the same weight.
        params: a pytree, the first argument of f. None: f takes rows only.
        index: "shapley", "banzhaf", `SizeLimited(k)` or a callable w(s), as in `Explainer`. Sampled
            orders give "shapley" only.
        orders: None: exact values, by all 2^P coalitions, for at most 12 players. A number: this
            number of random permutations of the players and their reverses, for any P; unbiased.
            All rows share them.
        key: a key of `jax.random`, from which the orders are drawn. It is needed with `orders`
            only.

    Returns:
        [P] or [P, K] for one row; [N, P] or [N, P, K] for a batch. Values have f's dtype and units:
        for "shapley" they add up to f(x) minus the mean of f over the background.

    Raises:
        EnumerationLimitError: there are more than 12 players and no `orders`.
        InputError: shapes of x and background do not fit; `key` is given without `orders` or the
            reverse; or orders do not sample the index.
        InputTypeError: an argument has another type.
        ModelOutputError: f's answer is not [R] or [R, K]; or values are not finite, because answers
            of f are not or because their sums are too large for f's dtype. If a caller's `jax.jit`,
            `jax.vmap` or `jax.grad` traces the call, values cannot be checked and are returned as
            inf or NaN.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np
        >>> import xaijax as xj
        >>> f = lambda w, X: X @ w
        >>> x, background, w = jnp.ones(3), jnp.zeros((2, 3)), jnp.array([1.0, 2.0, 3.0])
        >>> print(np.asarray(xj.shapley_values(f, x, background, params=w)).round(3))
        [1. 2. 3.]
        >>> size = lambda w: xj.shapley_values(f, x, background, params=w)[1] ** 2
        >>> print(abs(np.asarray(jax.grad(size)(w))).round(3))
        [0. 4. 0.]

    References:
        Shapley, "A value for n-person games" (1953). Orders with their reverses: Mitchell, Cooper,
        Frank and Holmes, "Sampling permutations for Shapley value estimation" (2022), section 4.
    """
    before_jax()
    if not callable(f):
        way = " Say xaijax.as_jax(model)." if hasattr(f, "probe") else ""
        raise InputTypeError(f"f must be a JAX function of rows, got {type(f).__name__}.{way}")
    _refuse_arity(f, ("rows",) if params is None else ("params", "rows"))
    x, background, one_row = _rows(x, background)
    mesh = _explicit_mesh(x, background, params)
    if mesh is not None:
        again = partial(inspect.unwrap(shapley_values), f, index=index, orders=orders, key=key)
        return _on_auto_axes(again, mesh, x[0] if one_row else x, background, params)
    N, shape = len(x), background.shape[1:]
    P = math.prod(shape)
    weights = _weights(index, P, orders, key)
    ask, single = _flat_model(f, params, shape, x.dtype)
    drawn = None if orders is None else _drawn(key, orders, P)

    def by_steps(x: jax.Array, background: jax.Array, rows: int) -> jax.Array:
        """Values [N, P, K], with this number of model rows in a step."""
        G, D = _together(N, len(background), 1 << P if drawn is None else 2 * P, rows)
        donors, parts = _in_steps(background.reshape(-1, P), D)
        # The last rows pad to a whole number of steps; their results are dropped.
        instances = jnp.pad(x.reshape(N, P), ((0, -N % G), (0, 0)), mode="edge").reshape(-1, G, P)
        if drawn is None:
            values = exact(ask, instances, donors, parts, weights)
        else:
            values = over_orders(ask, instances, donors, parts, drawn)
        return values.reshape(-1, P, values.shape[-1])[:N]

    run = with_smaller_tangents(partial(by_steps, rows=ROWS), partial(by_steps, rows=BACK))
    values = _run(run, x, background)
    _refuse_nonfinite(values, ask, x.reshape(N, P), background.reshape(-1, P))
    values = values[..., 0] if single else values
    return values[0] if one_row else values


def _explicit_mesh(*trees: Any) -> Any:
    """The mesh on whose explicit axes one of these arrays is; None: there is no such array."""
    arrays = (leaf for leaf in jax.tree.leaves(trees) if isinstance(leaf, jax.Array))
    meshes = (jax.typeof(array).sharding.mesh for array in arrays)
    return next((mesh for mesh in meshes if mesh is not None and mesh.explicit_axes), None)


def _on_auto_axes(
    again: Callable[..., jax.Array], mesh: Any, x: jax.Array, background: jax.Array, params: Any
) -> jax.Array:
    """again(x, background, params=params), with JAX placing the steps on the mesh.

    The first axis of a batch of values is split as that of x.
    """
    axes = jax.typeof(x).sharding.spec[:1] if x.ndim == background.ndim else ()
    where = NamedSharding(mesh, PartitionSpec(*axes))

    def called(x: jax.Array, background: jax.Array, params: Any) -> jax.Array:
        return again(x, background, params=params)

    on_auto: Any = jax.sharding.auto_axes
    on_auto = on_auto(called, axes=mesh.explicit_axes, out_sharding=where)
    try:
        values = on_auto(x, background, params)
    except ValueError as error:
        if "mesh" not in str(error):
            raise
        raise InputError(
            f"x, background, params and what f holds lie on the explicit axes {mesh.explicit_axes} "
            f"of a mesh and elsewhere: {error} Put all on one mesh of AxisType.Auto."
        ) from error
    if not isinstance(values, Tracer) and not np.isfinite(values).all():
        host = jax.tree.map(np.asarray, (x, background, params))
        return called(*host)  # raises and says what is not finite
    return values


def _run(run: Callable[..., jax.Array], x: jax.Array, background: jax.Array) -> jax.Array:
    """run(x, background), by its own compiled program.

    If something in it is traced by the caller, it becomes a part of the caller's program instead.
    """
    closed = jax.make_jaxpr(run)(x, background)
    if any(isinstance(array, Tracer) for array in (x, background, *closed.consts)):
        return run(x, background)
    program = compile_sound(jax.jit(jaxpr_as_fun(closed)).lower(x, background))
    with jax.ensure_compile_time_eval():  # numbers, also in a caller's trace
        return program(x, background)[0]


def _refuse_nonfinite(
    values: jax.Array, ask: Callable[[jax.Array], jax.Array], *rows: jax.Array
) -> None:
    """Raises ModelOutputError if values [N, P, K] are numbers and not finite.

    rows: those of x [N, P] and of the background [B, P]. The message says whether f's answers to
        them are finite.
    """
    if isinstance(values, Tracer):
        return
    with jax.ensure_compile_time_eval():  # numbers, also in a caller's trace
        if bool(jnp.isfinite(values).all()):
            return
        first = np.flatnonzero(~np.isfinite(values).all(axis=(1, 2)))[0]
        answers = [np.asarray(ask(part)) for part in rows]
    name = f"values of x row {first}"
    for answer, where in zip(answers, ("x", "background"), strict=True):
        if not np.isfinite(answer).all():
            row = np.argwhere(~np.isfinite(answer))[0, 0]
            raise ModelOutputError(
                f"f's answer to {where} row {row} is not finite, so that {name} are not either."
            )
    raise ModelOutputError(
        f"{name} are not finite, and f's answers to x and background are: an answer to a hybrid is "
        f"not, or sums of answers are too large for {values.dtype}. Fix f, or divide its answers "
        "by a constant."
    )


def _refuse_arity(f: Callable[..., Any], takes: tuple[str, ...]) -> None:
    """Raises InputTypeError if f cannot be called with these arguments."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):  # a compiled function may have none
        return
    try:
        signature.bind(*takes)
    except TypeError as error:
        raise InputTypeError(
            f"f is called as f({', '.join(takes)}), which {signature} does not accept: {error}. "
            "params= is for a function of (params, rows)."
        ) from None


def _rows(x: Any, background: Any) -> tuple[jax.Array, jax.Array, bool]:
    """(x [N, *F], background [B, *F], whether x was one row)."""
    try:
        x, background = jnp.asarray(x), jnp.asarray(background)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputTypeError(f"x and background must be arrays of numbers; {error}.") from error
    if background.ndim < 2 or 0 in background.shape:
        raise InputError(
            f"background must be rows [B, *F], got shape {background.shape}. Say row[None]."
        )
    one_row = x.ndim == background.ndim - 1
    if x.shape[0 if one_row else 1 :] != background.shape[1:] or x.ndim > background.ndim:
        raise InputError(
            f"x must be {background.shape[1:]}, one row, or rows of that shape, got {x.shape}."
        )
    x = x[None] if one_row else x
    if not len(x):
        raise InputError("x must have at least one row, got none.")
    dtype = jnp.result_type(x, background)
    return x.astype(dtype), background.astype(dtype), one_row


def _weights(index: IndexLike, P: int, orders: int | None, key: Any) -> np.ndarray:
    """The weights of the index, [P]; raises for what is not sampled, and for too many players."""
    if orders is None:
        if key is not None:
            raise InputError("key is used with orders= only: say orders=, or leave key out.")
        if P > MOST_PLAYERS:
            raise EnumerationLimitError(
                f"x has {P:,} players; at most {MOST_PLAYERS} are exact. Say orders= and key=."
            )
        return index_weights(index, P)[0]
    whole_number(orders, "orders")
    if key is None:
        raise InputError("orders needs key=, a key of jax.random such as jax.random.key(0).")
    if not isinstance(index, str) or not named(index).draws_orders:
        accepted = " or ".join(quoted("draws_orders"))
        raise InputError(f"index must be {accepted} where orders= is given, got {index!r}.")
    return index_weights(index, P)[0]


def _flat_model(
    f: Callable[..., Any], params: Any, shape: tuple[int, ...], dtype: Any
) -> tuple[Callable[[jax.Array], jax.Array], bool]:
    """(flat rows [R, P] -> answers [R, K], whether f gives [R])."""

    def whole(rows: jax.Array) -> Any:
        rows = rows.reshape(-1, *shape)
        with jax.default_matmul_precision("highest"):
            return f(rows) if params is None else f(params, rows)

    R = 7  # a number of rows that f would not return by chance
    try:
        out = jax.eval_shape(whole, jax.ShapeDtypeStruct((R, math.prod(shape)), dtype))
    except UNTRACEABLE as error:
        raise InputTypeError(
            f"f must be a function that JAX traces ({type(error).__name__}). Write it with "
            "jax.numpy (jnp.where for a decision), or give xaijax.as_jax(model), which has no "
            "derivative."
        ) from error
    except Exception as error:
        takes = "(rows)" if params is None else "(params, rows)"
        error.add_note(f"xaijax: raised by f{takes} when JAX traces it, rows [{R}, *F]")
        raise
    single = getattr(out, "ndim", 0) == 1
    numbers = hasattr(out, "dtype") and jnp.issubdtype(out.dtype, jnp.floating)
    if not numbers or out.ndim not in (1, 2) or out.shape[0] != R:
        got = f"{out.dtype} {out.shape}" if hasattr(out, "shape") else type(out).__name__
        raise ModelOutputError(
            f"f must return real numbers [R] or [R, K] for {R} rows of {dtype}, got {got}."
        )
    K = 1 if single else out.shape[1]
    sound = without_fused_products(whole)
    return lambda rows: sound(rows).reshape(len(rows), K), single


def _drawn(key: Any, orders: int, P: int) -> jax.Array:
    """Random orders of the players, int32 [orders, P]."""
    try:
        keys = jax.random.split(key, orders)
    except (TypeError, ValueError) as error:
        raise InputTypeError(
            f"key must be one key of JAX, such as jax.random.key(0), got {shown(key)}."
        ) from error
    return jax.vmap(lambda key: jax.random.permutation(key, P))(keys).astype(jnp.int32)


def _together(N: int, B: int, coalitions: int, rows: int) -> tuple[int, int]:
    """(instances, donors) of a step with about this number of model rows."""
    pairs = max(1, rows // coalitions)
    D = min(B, pairs)
    D = -(-B // -(-B // D))  # evenly: few rows pad the last step
    return min(N, max(1, pairs // D)), D


def _in_steps(donors: jax.Array, D: int) -> tuple[jax.Array, jax.Array]:
    """(donors [T, D, P], weights [T, D], 0 for the padding of the last step)."""
    B, P = donors.shape
    weights = np.zeros(-(-B // D) * D)
    weights[:B] = 1 / B
    donors = jnp.pad(donors, ((0, -B % D), (0, 0)), mode="edge")
    return donors.reshape(-1, D, P), jnp.asarray(weights.reshape(-1, D))
