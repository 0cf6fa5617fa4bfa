"""`shapley_values`: values and derivatives against definitions in float64; its memory."""

from __future__ import annotations

from functools import partial

import eight_devices
import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import xaijax as xj

P, B, H = 4, 3, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, P)).astype(np.float32)
DONORS = RNG.normal(size=(B, P)).astype(np.float32)
PARAMS = {
    "W": RNG.normal(size=(P, H)).astype(np.float32),
    "V": RNG.normal(size=(H, 2)).astype(np.float32),
}
KEY = jax.random.key(0)
# A network of width 5 whose answers are about 3: some ten roundings of 6e-8 of that, and values are
# sums of 16 of them; derivatives are larger by a factor of a few.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
# Central differences in float64 with this step are off by its square times a third derivative.
STEP = 1e-5


def network(params, rows):
    return jnp.tanh(rows @ params["W"]) @ params["V"]


def network64(params, rows):
    return np.tanh(np.asarray(rows, np.float64) @ params["W"]) @ params["V"]


def wanted(x, donors, params, weight=None, P=P):
    """Values [P, K] of one row, from the definition."""
    weight = oracles.shapley_weight(P) if weight is None else weight
    return oracles.explain(partial(network64, params), x[None], donors, weight)[0][0]


INDICES = {
    "shapley": oracles.shapley_weight(P),
    "banzhaf": oracles.banzhaf_weight(P),
    xj.SizeLimited(1): oracles.size_limited_weight(P, 1),
    (lambda s: 0.1 * (s + 1)): lambda s: 0.1 * (s + 1),
}


@pytest.mark.parametrize("index", INDICES)
def test_values_are_those_of_the_definition(index):
    found = xj.shapley_values(network, X, DONORS, params=PARAMS, index=index)
    assert found.shape == (3, P, 2)
    for x, own in zip(X, found, strict=True):
        np.testing.assert_allclose(own, wanted(x, DONORS, PARAMS, INDICES[index]), **TOLERANCE)


def on_mesh(kind):
    """(rows on the axis of a mesh, how a shard_map splits them)."""
    mesh = jax.make_mesh((1,), ("d",), axis_types=(kind,))
    rows = jax.device_put(X, NamedSharding(mesh, PartitionSpec("d", None)))
    return rows, {"mesh": mesh, "in_specs": PartitionSpec("d"), "out_specs": PartitionSpec("d")}


def squares(x):
    return (values_of(x) ** 2).sum()


def values_of(x):
    return xj.shapley_values(network, x, DONORS, params=PARAMS)


@pytest.mark.slow
def test_rows_may_lie_on_a_mesh():
    for kind in (AxisType.Auto, AxisType.Explicit):
        rows, split = on_mesh(kind)
        for way in (values_of, jax.jit(jax.shard_map(values_of, **split))):
            np.testing.assert_allclose(way(rows), values_of(X), **TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_programs_of_rows_on_a_mesh(kind):
    rows, split = on_mesh(kind)
    for way in (jax.jit, jax.vmap):
        np.testing.assert_allclose(way(values_of)(rows), values_of(X), **TOLERANCE)
    parts = jax.shard_map(lambda x: jax.grad(squares)(x), **split)
    for way in (jax.jit(jax.grad(squares)), jax.jit(parts)):
        np.testing.assert_allclose(way(rows), jax.grad(squares)(X), **TOLERANCE)


@pytest.mark.slow
def test_explicit_axes_that_do_not_fit_are_told():
    mesh = jax.make_mesh((1,), ("d",), axis_types=(AxisType.Explicit,))
    rows = jax.device_put(X, NamedSharding(mesh, PartitionSpec("d", None)))
    held = jax.device_put(jnp.ones(4), NamedSharding(mesh, PartitionSpec("d")))
    with pytest.raises(xj.InputError, match="explicit axes .*AxisType.Auto"):
        xj.shapley_values(lambda x: x @ held, rows, DONORS)
    with pytest.raises(xj.ModelOutputError, match="x row 0 is not finite"):
        xj.shapley_values(lambda x: jnp.log(x[:, 0] * 0 - 1), rows, DONORS)


ON_TWO = """
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec
import test_shapley_values as own
import xaijax as xj
values = lambda x: xj.shapley_values(own.network, x, own.DONORS, params=own.PARAMS)
x, split = own.DONORS[:2], PartitionSpec("d")
out["here"] = values(x)
for kind in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((2,), ("d",), axis_types=(kind,))
    rows = jax.device_put(x, NamedSharding(mesh, split))
    out[f"as they are {kind}"] = values(rows)
    parts = jax.shard_map(values, mesh=mesh, in_specs=split, out_specs=split)
    out[f"shard_map {kind}"] = jax.jit(parts)(rows)
"""


@pytest.mark.slow
def test_rows_may_lie_on_two_devices(tmp_path):
    found = eight_devices.outcome(ON_TWO, tmp_path, 2)
    for name, values in found.items():
        np.testing.assert_allclose(values, found["here"], **TOLERANCE, err_msg=name)


@pytest.mark.slow
def test_values_are_those_of_explainer():
    model = xj.as_model(network, PARAMS)
    explained = xj.Explainer(model, DONORS)(X, progress=False).values
    found = xj.shapley_values(network, X, DONORS, params=PARAMS)
    np.testing.assert_allclose(found, explained, rtol=0, atol=1e-5)  # what the library promises


@pytest.mark.slow
def test_what_f_closes_over_is_differentiated_like_params():
    """Forwards, backwards, twice, and mapped: the parameters are no argument of the function."""
    row, weights = jnp.asarray(X[0]), jnp.asarray(PARAMS["V"][:, 0])

    def given(v):
        own = PARAMS | {"V": v[:, None]}
        return xj.shapley_values(network, row, DONORS, params=own)[1, 0] ** 2

    def closed(v):
        def f(rows):
            return jnp.tanh(rows @ PARAMS["W"]) @ v

        return xj.shapley_values(f, row, DONORS)[1] ** 2

    for derivative in (jax.grad, jax.jacfwd, jax.hessian):
        wanted = derivative(given)(weights)
        assert np.abs(wanted).max() > 0.01
        np.testing.assert_allclose(derivative(closed)(weights), wanted, **TOLERANCE)
        mapped = jax.jit(jax.vmap(derivative(closed)))(jnp.stack([0 * weights, weights]))
        np.testing.assert_allclose(mapped[1], wanted, **TOLERANCE)


def test_one_row_and_one_output_lose_their_axes_and_rows_may_have_any_shape():
    def picture(rows):
        return network(PARAMS, rows.reshape(len(rows), P))[:, 0]

    found = xj.shapley_values(picture, X[0].reshape(2, 2), DONORS.reshape(-1, 2, 2))
    assert found.shape == (P,)
    np.testing.assert_allclose(found, wanted(X[0], DONORS, PARAMS)[:, 0], **TOLERANCE)


@pytest.mark.slow
def test_many_rows_and_donors_are_cut_into_steps_that_change_nothing():
    # 12 players: two pairs fill a step, so that 3 rows and 5 donors leave padding at both ends.
    rng = np.random.default_rng(1)
    W = rng.normal(size=(12, H)).astype(np.float32)
    x, donors = rng.normal(size=(2, 5, 12)).astype(np.float32)
    params = {"W": W, "V": PARAMS["V"]}
    found = xj.shapley_values(network, x[:3], donors, params=params)
    model = xj.as_model(network, params)
    explained = xj.Explainer(model, donors)(x[:3], progress=False)
    np.testing.assert_allclose(found, explained.values, rtol=0, atol=1e-5)


def moved(given, name, place, by):
    """The same arguments in float64, one number moved."""
    given = {key: np.array(value, np.float64) for key, value in given.items()}
    given[name][place] += by
    return given


@pytest.mark.slow
@pytest.mark.parametrize("orders", [None, 3])
def test_derivatives_are_those_of_finite_differences(orders):
    key = None if orders is None else KEY
    given = {"x": X[0], "donors": DONORS, **PARAMS}
    ends = np.array([[1.0, -2.0], [0.5, 1.0], [-1.0, 0.3], [2.0, 0.1]])  # weighs the values

    def loss(given):
        params = {"W": given["W"], "V": given["V"]}
        args = {"params": params, "orders": orders, "key": key}
        return jnp.sum(xj.shapley_values(network, given["x"], given["donors"], **args) * ends)

    drawn = (
        None if key is None else [jax.random.permutation(k, P) for k in jax.random.split(key, 3)]
    )

    def loss64(given):
        params = {"W": given["W"], "V": given["V"]}
        if drawn is None:
            return np.sum(wanted(given["x"], given["donors"], params) * ends)
        v = oracles.coalition_values(
            partial(network64, params),
            given["x"],
            given["donors"],
            np.full(B, 1 / B),
            [[j] for j in range(P)],
        )
        pairs = [oracles_pair(v, [int(i) for i in order]) for order in drawn]
        return np.sum(np.mean(pairs, axis=0) * ends)

    found = jax.jit(jax.grad(loss))(given)
    for name, place in [("x", 0), ("x", 3), ("donors", (2, 1)), ("W", (1, 2)), ("V", (4, 1))]:
        up, down = (loss64(moved(given, name, place, by)) for by in (STEP, -STEP))
        np.testing.assert_allclose(found[name][place], (up - down) / (2 * STEP), **TOLERANCE)


def oracles_pair(v, order):
    """The mean over an order and its reverse, [P, K]."""
    phi = np.zeros((len(order), 2))
    for one in (order, order[::-1]):
        for place, i in enumerate(one):
            phi[i] += (v[frozenset(one[: place + 1])] - v[frozenset(one[:place])]) / 2
    return phi


@pytest.mark.slow
def test_forward_derivatives_and_vmap():
    def value(x):
        return xj.shapley_values(network, x, DONORS, params=PARAMS)

    forward, backward = jax.jacfwd(value)(X[0]), jax.jacrev(value)(X[0])
    np.testing.assert_allclose(forward, backward, **TOLERANCE)
    np.testing.assert_allclose(jax.vmap(value)(X), value(X), **TOLERANCE)


@pytest.mark.slow
def test_orders_add_up_to_the_answer_and_come_near_the_exact_values():
    ask = partial(xj.shapley_values, network, X, DONORS, params=PARAMS)
    sampled, exact = ask(orders=2, key=KEY), ask()
    np.testing.assert_allclose(sampled.sum(axis=1), exact.sum(axis=1), **TOLERANCE)
    assert np.abs(sampled - exact).max() > 1e-3  # two orders are not all
    # Independent halves: the mean over many keys is the exact value, by 6 standard errors, that is
    # 2e-9 for each of 24 values. Reverses that are not the orders' would fail here.
    keys = jax.random.split(jax.random.key(1), 400)
    runs = np.asarray(jax.vmap(lambda key: ask(orders=1, key=key))(keys), np.float64)
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert (np.abs(runs.mean(axis=0) - exact) <= 6 * error + 1e-5).all()


@pytest.mark.slow
def test_sampled_orders_serve_more_players_than_can_be_enumerated():
    w = np.arange(40, dtype=np.float32)
    x, donors = np.ones(40, np.float32), np.zeros((2, 40), np.float32)
    found = xj.shapley_values(lambda rows: rows @ w, x, donors, orders=1, key=KEY)
    # A sum of 40 numbers up to 39 is 780: a rounding of it is 6e-5, and each value differs two.
    np.testing.assert_allclose(found, w, rtol=0, atol=5e-4)


def memory(function, *arguments):
    """Bytes that a compiled program needs beside its arguments."""
    return jax.jit(function).lower(*arguments).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.slow
@pytest.mark.parametrize("what", ["params", "x"])
def test_the_memory_of_a_derivative_does_not_grow_with_orders(what):
    def loss(given, orders):
        params, x = (given, X) if what == "params" else (PARAMS, given)
        values = xj.shapley_values(network, x, DONORS, params=params, orders=orders, key=KEY)
        return jnp.sum(values**2)

    given = PARAMS if what == "params" else X
    few, many = (memory(jax.grad(partial(loss, orders=orders)), given) for orders in (8, 256))
    # Beside the steps there are the orders themselves and what names a step: 7 numbers of 4 bytes
    # in a few copies. A scan that keeps its answers would keep 72 rows of 9 numbers for each.
    assert many - few <= 248 * 4 * 7 * 8


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    table=st.lists(st.floats(-2, 2, width=32), min_size=8, max_size=8),
    scale=st.floats(-2, 2, width=32),
)
def test_axioms(table, scale):
    """Efficiency, a null player and linearity, on every game of three players and a null one."""
    answers = jnp.asarray(table, jnp.float32)

    def game(params, rows):
        corner = (rows[:, :3] > 0.5).astype(jnp.int32) @ jnp.asarray([1, 2, 4])
        return params * answers[corner]

    ones, zeros = jnp.ones(4), jnp.zeros((1, 4))
    one = xj.shapley_values(game, ones, zeros, params=jnp.float32(1))
    # Sums of 16 numbers up to 2.
    np.testing.assert_allclose(one.sum(), table[7] - table[0], rtol=0, atol=1e-5)
    np.testing.assert_allclose(one[3], 0, rtol=0, atol=1e-5)
    scaled = xj.shapley_values(game, ones, zeros, params=jnp.float32(scale))
    np.testing.assert_allclose(scaled, scale * one, rtol=0, atol=1e-5)


WRONG = {
    "too many players": (
        xj.EnumerationLimitError,
        "13 players",
        {"x": np.ones(13), "background": np.zeros((1, 13))},
    ),
    "no key": (xj.InputError, "orders needs key=", {"orders": 2}),
    "no orders": (xj.InputError, "key is used with orders= only", {"key": KEY}),
    "no row": (xj.InputError, "at least one row", {"x": X[:0]}),
    "other shape": (xj.InputError, r"\(5,\)", {"x": np.ones(5)}),
    "background of one row": (xj.InputError, r"row\[None\]", {"background": DONORS[0]}),
    "words": (xj.InputTypeError, "arrays of numbers", {"x": np.array(["a"] * P)}),
    "no function": (xj.InputTypeError, "JAX function", {"f": 3}),
    "index": (xj.InputError, "index must be", {"index": "core"}),
    "index of orders": (xj.InputError, "'shapley'", {"index": "banzhaf", "orders": 2, "key": KEY}),
    "part of an order": (xj.InputTypeError, "orders must be", {"orders": 2.5, "key": KEY}),
    "one number": (xj.ModelOutputError, r"\[R\] or \[R, K\]", {"f": lambda rows: rows.sum()}),
    "two arrays": (xj.ModelOutputError, "tuple", {"f": lambda rows: (rows, rows)}),
    "no key of jax": (xj.InputTypeError, "jax.random.key", {"orders": 2, "key": "seed"}),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_refused(case):
    error, words, given = WRONG[case]
    given = {"f": lambda rows: rows.sum(axis=1), "x": X[0], "background": DONORS, **given}
    with pytest.raises(error, match=words):
        xj.shapley_values(given.pop("f"), given.pop("x"), given.pop("background"), **given)


LARGE = {
    "sums": (lambda rows: 3e38 * jnp.sign(rows[:, 0]), "too large for float32"),
    "x": (lambda rows: jnp.log(rows[:, 0]), "answer to x row 1 is not finite"),
    "background": (lambda rows: jnp.sqrt(-rows[:, 0]), "answer to background row 0 is not finite"),
    "hybrids": (lambda rows: 1 / (rows[:, 0] - rows[:, 1]), "an answer to a hybrid"),
}


@pytest.mark.slow
@pytest.mark.parametrize("orders", [None, 2])
@pytest.mark.parametrize("case", LARGE)
def test_values_that_are_not_finite_are_refused(case, orders):
    """3e38 less -3e38 is beyond float32. x's column 0 is the donor's column 1 in "hybrids"."""
    f, message = LARGE[case]
    x = jnp.array([[1.0, 5.0], [-1.0, 5.0]] if case != "background" else [[-1.0, 5.0]])
    donors = jnp.array([[2.0, -1.0]] if case != "sums" else [[-2.0, -1.0]])
    if case == "hybrids":
        x = x[1:]
    drawn = {} if orders is None else {"orders": orders, "key": KEY}
    with pytest.raises(xj.ModelOutputError, match=message):
        xj.shapley_values(f, x, donors, **drawn)
    # Where the call is traced nothing can be raised.
    traced = jax.jit(lambda x: xj.shapley_values(f, x, donors, **drawn))(x)
    assert not np.isfinite(traced).all()
    if case == "sums" and orders is None:  # numbers, whatever is traced around the call
        with pytest.raises(xj.ModelOutputError, match=message):
            jax.jit(lambda z: z + xj.shapley_values(f, x, donors, **drawn))(x)


@pytest.mark.slow
def test_models_on_the_host_are_told_what_to_do():
    host = xj.as_model(lambda rows: np.asarray(rows).sum(axis=1), backend="host")
    with pytest.raises(xj.InputTypeError, match=r"got Model. Say xaijax.as_jax\(model\)"):
        xj.shapley_values(host, X[0], DONORS)
    with pytest.raises(xj.InputTypeError, match="Write it with jax.numpy"):
        xj.shapley_values(lambda rows: np.asarray(rows).sum(axis=1), X[0], DONORS)
    asked = xj.as_jax(host)
    found = xj.shapley_values(asked, X[0], DONORS)
    np.testing.assert_allclose(found, X[0] - DONORS.mean(axis=0), **TOLERANCE)
    with pytest.raises(xj.InputError, match="is a host model and has no derivative"):
        jax.grad(lambda x: xj.shapley_values(asked, x, DONORS)[0])(X[0])
