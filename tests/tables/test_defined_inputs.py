"""Odd inputs with a defined result, row by row of the list of bad inputs (rows 1 to 42).

The number in each id is that of the row. Values are held to the definitions in float64, or to
another explanation; where the list says so, one warning is given at the caller's own line.
"""

import os
import re
import subprocess
import sys
import textwrap
import tracemalloc
import warnings
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pandas as pd
import pytest
from small_case import ATOL, BACKENDS, FUNCTIONS, B, X, as_jax, explain, f, f64, put

import xaijax as xj
from xaijax.core import checks
from xaijax.games.engine.plan import MemoryPlan, plan_sizes

FRAME = pd.DataFrame(X, columns=list("abcd"))
BACKGROUND_FRAME = pd.DataFrame(B, columns=list("abcd"))


@dataclass
class Defined:
    """Arguments that are explained, and what is warned of and recorded."""

    row: str
    X: Any = field(default_factory=lambda: X)
    background: Any = field(default_factory=lambda: B)
    explainer: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    backends: tuple[str, ...] = ("jax", "host")
    kinds: tuple[str, ...] = ("numpy",)
    warns: str | None = None
    stats: dict[str, Any] = field(default_factory=dict)


IMAGES = np.random.default_rng(1).normal(size=(5, 2, 2)).astype(np.float32)
BOOLS = X > 0
LARGE = np.array([[2**24 + 1, 3], [5, -(2**30) - 1], [2**24, 2**40]])
CONSTANT = np.full((5, 4), 1.5, np.float32)
MIXED = pd.DataFrame({"a": [True, False, True], "b": [1, 2, 3], "c": [0.5, 1.5, -1.0]})

# fmt: off
DEFINED = [
    Defined("5", IMAGES[:2], IMAGES[2:], model={"input_shape": (2, 2)}),
    Defined("15", BOOLS, B > 0, kinds=("numpy", "jax"), stats={"input_dtype": "bool"}),
    Defined("15 bool beside float", MIXED, MIXED[::-1], backends=("jax",)),
    Defined("16", LARGE, np.zeros((1, 2), np.float32), model={"precision": "float32"},
        backends=("jax",), warns="X: 2 whole numbers change in float32"),
    Defined("16 frame", pd.DataFrame(LARGE).assign(c=0.5), np.zeros((1, 3), np.float32),
        backends=("jax",), warns="X: 2 whole numbers change in float32"),
    Defined("16 host", LARGE, np.zeros((1, 2), np.int64), backends=("host",)),
    Defined("18 float16", X.astype(np.float16), B.astype(np.float16), backends=("jax",),
        stats={"input_dtype": "float16"}),
    Defined("18 bfloat16", X.astype(jnp.bfloat16), B.astype(jnp.bfloat16),
        stats={"input_dtype": "bfloat16"}, kinds=("numpy", "jax")),
    Defined("21 strides", np.repeat(X, 2, axis=1)[::-1, ::-2], np.asfortranarray(B)),
    Defined("21 byte order", X.astype(">f8"), B.astype(">f4"), backends=("jax",)),
    Defined("21 byte order of X", X.astype(">f4"), B),
    Defined("21 byte order of both", X.astype(">f4"), B.astype(">f8"), backends=("host",)),
    Defined("30", X, B[:1], kinds=("numpy", "jax")),
    Defined("32", X, B, {"weights": [1.0, 2.0, 0.0, 4.0, 1.0]}, stats={"weights_sum": 8.0}),
    Defined("32 huge", X, B[:2], {"weights": [1e308, 1.5e308]}, stats={"weights_sum": np.inf}),
    Defined("33", X[:, :1], B[:, :1]),
    Defined("38", X, B, {"budget": 14}, warns="budget=14 covers all 14 coalitions of 4 players"),
    Defined("42", X, B, {"batch_size": 10**9}),
]
# fmt: on


def explained(case, backend, kind="numpy"):
    """The explanation of a case, its model and how often that was asked."""
    model = xj.as_model(FUNCTIONS[backend], backend=backend, **case.model)
    rows, background = case.X, case.background
    if kind == "jax":
        rows, background = as_jax(rows), as_jax(background)
    return xj.Explainer(model, background, **case.explainer)(rows)


@pytest.mark.parametrize(
    ("case", "backend", "kind"),
    [
        pytest.param(case, backend, kind, id=f"{case.row}-{backend}-{kind}")
        for case in DEFINED
        for backend in case.backends
        for kind in case.kinds
    ],
)
def test_defined(case, backend, kind):
    if case.warns:
        with pytest.warns(xj.XaiWarning, match=case.warns) as given:
            explanation = explained(case, backend, kind)
        assert len(given) == 1
        assert given[0].filename == __file__
    else:
        explanation = explained(case, backend, kind)
    # A float32 model is asked about the float32 nearest to what was given.
    through = np.float32 if backend == "jax" else np.float64
    rows, donors = (
        np.asarray(given).astype(through).astype(np.float64).reshape(len(given), -1)
        for given in (case.X, case.background)
    )
    weight = oracles.shapley_weight(rows.shape[1])
    weights = case.explainer.get("weights")
    if weights is not None:
        weights = np.asarray(weights) / max(weights)
    values, base, full = oracles.explain(f, rows, donors, weight, weights=weights)
    atol = ATOL[backend] * max(1.0, np.abs(values).max() / 64)
    np.testing.assert_allclose(explanation.values, values, rtol=0, atol=atol)
    np.testing.assert_allclose(explanation.base_values, base, rtol=0, atol=atol)
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, full, rtol=0, atol=atol)
    for key, value in case.stats.items():
        assert explanation.stats[key] == value
    assert explanation.exact


@BACKENDS
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_row_20_read_only_memory_map(backend, dtype, tmp_path, monkeypatch):
    rows, background = (100 * X).astype(dtype), (100 * B).astype(dtype)
    np.save(tmp_path / "X.npy", rows)
    np.save(tmp_path / "B.npy", background)
    maps = [np.load(tmp_path / name, mmap_mode="r") for name in ("X.npy", "B.npy")]
    monkeypatch.setattr(checks, "CHUNK_BYTES", 1)  # one row at a time
    wanted = explain(backend, rows, background)
    mapped = explain(backend, *maps)
    np.testing.assert_array_equal(mapped.values, wanted.values)
    np.testing.assert_array_equal(mapped.base_values, wanted.base_values)
    model = xj.as_model(
        FUNCTIONS[backend], backend=backend, max_rows=2 if backend == "host" else None
    )
    np.testing.assert_array_equal(model.predict(maps[0]), model.predict(rows))
    with pytest.raises(xj.InputError, match="X contains NaN at row 2, column 1"):
        bad = np.lib.format.open_memmap(tmp_path / "bad.npy", "w+", np.float32, (3, 4))
        bad[2, 1] = np.nan
        explain(backend, bad, B)


@pytest.mark.slow
def test_row_20_a_memory_map_is_never_read_whole(tmp_path, monkeypatch):
    rows = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (20_000, 250))
    monkeypatch.setattr(checks, "CHUNK_BYTES", 1 << 20)
    background = np.full((1, 250), 0.1)
    limits = {"max_memory": 4 << 20}  # of a tile and what it needs: a tenth of the map
    explainer = xj.Explainer(xj.as_model(f), background, players=[range(250)], **limits)
    explainer(rows[:1])
    tracemalloc.start()
    explanation = explainer(rows, progress=False)  # a bar's own memory is not meant
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 4  # a copy in float32 would be half of it; measured: a tenth
    assert np.ptp(explanation.values) == 0


@BACKENDS
def test_row_21_identical_whatever_the_strides(backend):
    wanted = explain(backend, X, B).values
    backwards = np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]
    spread = np.zeros((3, 8), np.float32)
    spread[:, ::2] = X
    locked = X.copy()
    locked.flags.writeable = False
    for same in (backwards, spread[:, ::2], np.asfortranarray(X), locked, X.tolist()):
        if isinstance(same, list) and backend == "host":
            same = np.asarray(same, np.float32)
        np.testing.assert_array_equal(explain(backend, same, B).values, wanted)


@pytest.mark.slow
def test_row_22_another_device():
    script = """
        import warnings
        import jax, numpy as np, xaijax as xj

        here, there = jax.devices()
        model = xj.as_model(lambda rows: rows[:, 0] * rows[:, 1])
        X, B = np.array([[1.0, 2.0]]), np.array([[3.0, 5.0]])
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            plain = xj.Explainer(model, jax.device_put(B, here), devices=[here])
            wanted = plain(jax.device_put(X, here)).values
            assert not given, given[0].message
            spread = xj.Explainer(model, jax.device_put(B, there))(jax.device_put(X, here))
            assert not given, given[0].message
            explainer = xj.Explainer(model, jax.device_put(B, there), devices=[here])
            moved = explainer(jax.device_put(X, there)).values
        assert (moved == wanted).all() and (spread.values == wanted).all()
        for warning in given:
            assert issubclass(warning.category, xj.XaiWarning)
            print(warning.message)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={
            **os.environ,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.split(" is on ")[0] for line in lines] == ["background", "X"]


@BACKENDS
def test_row_26_changed_after_the_call_starts(backend):
    rows, background, wanted = X.copy(), B.copy(), explain(backend, X, B)

    def changing(given):
        rows[:], background[:] = np.nan, np.nan
        return FUNCTIONS[backend](given)

    model = xj.as_model(changing, backend=backend)
    explanation = xj.Explainer(model, background)(rows)
    assert np.isnan(rows).all() and np.isnan(background).all()
    np.testing.assert_array_equal(explanation.values, wanted.values)
    np.testing.assert_array_equal(explanation.data, X)


def test_row_26_frames():
    rows, background = FRAME.assign(t="x"), BACKGROUND_FRAME.assign(t=list("xyxyx"))

    def changing(frame):
        assert set(frame["t"]) <= {"x", "y"}
        rows.loc[:, "a"] = 0.0
        background.loc[:, "t"] = "z"
        frame.loc[:, "b"] = 99.0  # its own copy
        return f64(frame[["a", "b", "c", "d"]])

    def plain(frame):
        return f64(frame[["a", "b", "c", "d"]].assign(b=99.0))

    wanted = xj.Explainer(xj.as_model(plain, backend="host"), background.copy())(rows.copy())
    explanation = xj.Explainer(xj.as_model(changing, backend="host"), background)(rows)
    assert (rows["a"] == 0).all() and (background["t"] == "z").all()
    np.testing.assert_array_equal(explanation.values, wanted.values)
    pd.testing.assert_frame_equal(explanation.data, FRAME.assign(t="x"))


@BACKENDS
def test_row_27_equal_features_are_exactly_zero_and_cost_nothing(backend):
    background = B.copy()
    background[:, 2] = X[0, 2]
    rows = X[:1].repeat(2, axis=0)
    rows[1, 0] = background[0, 0]
    explanation = explain(backend, rows, background)
    assert (explanation.values[:, 2] == 0).all()
    assert (explanation.values[:, [0, 1, 3]] != 0).all()
    assert explanation.stats["model_rows"] == 5 * 2**3 + (4 * 2**3 + 2**2)


@BACKENDS
def test_row_28_and_34_zeros_where_nothing_differs(backend):
    for rows, background in ((CONSTANT[:2], CONSTANT), (X[:1], X[:1]), (X[:1], X[[0, 0]])):
        explanation = explain(backend, rows, background)
        assert (explanation.values == 0).all()
        atol = ATOL[backend]
        np.testing.assert_allclose(explanation.base_values, f64(rows), rtol=0, atol=atol)
        assert explanation.stats["model_rows"] == len(rows) * len(background)


@BACKENDS
def test_row_29_duplicates_are_weights(backend):
    twice = explain(backend, X, B[[0, 1, 1, 2, 2, 2]])
    weighted = explain(backend, X, B[:3], weights=[1, 2, 3])
    np.testing.assert_allclose(twice.values, weighted.values, rtol=0, atol=1e-6)


@BACKENDS
@pytest.mark.parametrize("P", [31, 64, 100])
def test_row_36_many_players_few_of_which_differ(backend, P):
    differ = [0, 3, P // 2, P - 2, P - 1]
    background = np.random.default_rng(2).normal(size=(3, P)).astype(np.float32) / P
    rows = background[:1].repeat(2, axis=0)
    background[1:] = background[0]
    rows[:, differ] += np.array([[0.5], [-0.25]], np.float32)
    explanation = explain(backend, rows, background)
    assert explanation.stats["model_rows"] == 2 * 3 * 2**5

    def few(some):  # the players that are equal everywhere drop out of Shapley's value
        whole = background[:1].repeat(len(some), axis=0).astype(np.float64)
        whole[:, differ] = some
        return f64(whole)

    weight = oracles.shapley_weight(5)
    values, base, _ = oracles.explain(few, rows[:, differ], background[:, differ], weight)
    np.testing.assert_allclose(explanation.values[:, differ], values, rtol=0, atol=ATOL[backend])
    np.testing.assert_allclose(explanation.base_values, base, rtol=0, atol=ATOL[backend])
    assert (np.delete(explanation.values, differ, axis=1) == 0).all()


@BACKENDS
def test_row_42_batch_size_beyond_the_rows_changes_nothing(backend):
    usual, cut = explain(backend, X, B), explain(backend, X, B, batch_size=10**9)
    np.testing.assert_array_equal(cut.values, usual.values)
    assert cut.stats["tile"] == usual.stats["tile"]


def test_row_42_tiles_are_cut_to_what_is_asked_and_fits():
    facts = {
        "width": 4, "itemsize": 4, "platform": "cpu", "shape": (4,), "P": 4, "outputs": 1,
        "dtype": "float32", "donors": 5, "columns": 4, "devices": 1, "tile": 256, "instances": 1,
    }  # fmt: skip

    def tiles(batch_rows, most_rows, max_memory=1 << 40):
        return plan_sizes(
            batch_rows=batch_rows, most_rows=most_rows, memory=MemoryPlan(max_memory), **facts
        ).tiles

    assert tiles(10**9, 240) == 32
    assert tiles(10**9, 100 * 256) == 100
    assert tiles(300, 100 * 256) == 2
    assert tiles(10**9, 10**9, 256 * 2 * 4 * 4 * 40) == 40


@BACKENDS
def test_missing_numbers_where_they_are_allowed(backend):
    rows, background = put(X, (1, 2), np.nan), put(put(B, (0, 2), np.nan), (1, 0), np.nan)
    # Another NaN by its bits is the same NaN.
    background.view(np.uint32)[0, 2] = 0xFFC00123

    def taking_nan(given):
        xp = jnp if backend == "jax" else np
        return FUNCTIONS[backend](xp.where(xp.isnan(given), 7.0, given))

    explanation = explain(backend, rows, background, {"allow_nan": True}, taking_nan)
    filled = explain(backend, np.nan_to_num(rows, nan=7), np.nan_to_num(background, nan=7))
    np.testing.assert_allclose(explanation.values, filled.values, rtol=0, atol=ATOL[backend])
    assert explanation.stats["model_rows"] == 3 * 5 * 2**4 - 2**3


TABLE = np.random.default_rng(2).normal(size=(7, 3))


def digits(X, table):
    """What is only right of whole numbers: a look-up, and a remainder of numbers of 31 bits."""
    return table[X % 7].sum((1, 2)) + ((X[:, 0] + X[:, 1]) % 3) * (X[:, 2] % 2)


def whole(dtype, largest, rows):
    """Rows [rows, 4] of whole numbers from 0 to the largest."""
    return np.random.default_rng(rows).integers(0, largest, (rows, 4), dtype, endpoint=True)


@pytest.mark.parametrize(
    ("dtype", "largest", "background"),
    [
        ("int64", 6, 6),
        ("int8", 60, 60),
        ("uint8", 120, 120),
        ("int64", 2**30 - 1, 2**30 - 1),  # more digits than the codes, which are float32
        ("int64", 2**30 - 1, 6),
        ("int32", 6, 2**30 - 1),
    ],
)
def test_whole_numbers_reach_a_jax_function_as_such(dtype, largest, background):
    rows, donors = whole(dtype, largest, 3), whole(dtype, background, 2)
    table = jnp.asarray(TABLE, jnp.float32)
    model = xj.as_model(lambda X: digits(X, table))
    explanation = xj.Explainer(model, donors)(rows)
    weight = oracles.shapley_weight(4)
    values, base, _ = oracles.explain(
        lambda X: digits(X.astype(np.int64), TABLE), rows, donors, weight
    )
    # Sums of 12 float32 numbers of at most 3, and of one of 2.
    np.testing.assert_allclose(explanation.values, values, rtol=0, atol=1e-5)
    np.testing.assert_allclose(explanation.base_values, base, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        model.predict(rows), digits(rows.astype(np.int64), TABLE), rtol=0, atol=1e-5
    )


def test_whole_numbers_of_a_frame_and_of_a_baseline_of_each():
    rows = whole("int64", 6, 3)
    table = jnp.asarray(TABLE, jnp.float32)
    model = xj.as_model(lambda X: digits(X, table))
    wanted = xj.Explainer(model, np.ones((1, 4), int))(rows).values
    frame = pd.DataFrame(rows, columns=list("abcd"))
    ones = pd.DataFrame(np.ones((1, 4), int), columns=list("abcd"))
    np.testing.assert_array_equal(xj.Explainer(model, ones)(frame).values, wanted)
    each = xj.Explainer(model, xj.Baseline(np.ones_like))
    np.testing.assert_allclose(each(rows).values, wanted, rtol=0, atol=1e-5)
    # A numbering for each instance.
    own = xj.Explainer(model, np.ones((1, 4), int), players=np.tile(np.arange(4), (3, 1)))
    np.testing.assert_allclose(own(rows).values, wanted, rtol=0, atol=1e-5)


def test_bools_stay_bools():
    rows, donors = BOOLS[:3], B > 0

    def of(X):
        return 1.0 * (X[:, 0] & ~X[:, 1]) + (X[:, 2] ^ X[:, 3])

    explanation = xj.Explainer(xj.as_model(of), donors)(rows)
    values, _, _ = oracles.explain(of, rows, donors, oracles.shapley_weight(4))
    np.testing.assert_allclose(explanation.values, values, rtol=0, atol=1e-6)


def test_whole_numbers_beside_floats_are_floats():
    """The dtype of a hybrid is NumPy's of both, whatever was explained before."""
    rows, donors = whole("int64", 6, 3), whole("int64", 6, 2)
    seen = []

    def of(X):
        seen.append(X.dtype)
        return (X[:, 0] // 2) * X[:, 1] + X[:, 2] / 2 + X[:, 3]

    def exact(X):
        return (X[:, 0] // 2) * X[:, 1] + X[:, 2] / 2 + X[:, 3]

    model, weight = xj.as_model(of), oracles.shapley_weight(4)
    explainer = xj.Explainer(model, donors)
    first = explainer(rows).values
    assert set(map(str, seen)) == {"int32"}
    seen.clear()
    halves = explainer(rows + 0.5).values
    assert set(map(str, seen)) == {"float32"}
    np.testing.assert_array_equal(explainer(rows).values, first)
    for given, found in ((rows, first), (rows + 0.5, halves)):
        values, _, _ = oracles.explain(exact, given * 1.0, donors * 1.0, weight)
        np.testing.assert_allclose(found, values, rtol=0, atol=1e-5)
    seen.clear()
    beside = xj.Explainer(model, donors.astype(np.float32))(rows).values
    assert set(map(str, seen)) <= {"float32"}
    np.testing.assert_allclose(beside, first, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_whole_numbers_to_a_network_have_the_values_of_floats():
    rows, donors = whole("int64", 6, 5), whole("int64", 6, 4)
    weights = np.random.default_rng(3).normal(size=(4, 6)).astype(np.float32)
    model = xj.as_model(lambda X: jnp.tanh(X @ weights).sum(axis=1))
    own = xj.Explainer(model, donors)(rows)
    floats = xj.Explainer(model, donors.astype(np.float32))(rows.astype(np.float32))
    np.testing.assert_array_equal(own.values, floats.values)
    assert own.stats["structure"] == floats.stats["structure"] == "first layer"


def test_whole_numbers_to_a_convolution_are_floats():
    """lax takes rows and weights of one dtype only."""
    images, ones = whole("uint8", 255, 6).reshape(6, 1, 2, 2), jnp.ones((1, 1, 2, 2))

    def of(X):
        return jax.lax.conv(X, ones, (1, 1), "VALID").sum((1, 2, 3)) ** 2 / 1000

    model = xj.as_model(of, input_shape=(1, 2, 2))
    own = xj.Explainer(model, images[:2])(images[2:])
    floats = xj.Explainer(model, images[:2].astype(np.float32))(images[2:].astype(np.float32))
    np.testing.assert_array_equal(own.values, floats.values)
    np.testing.assert_array_equal(model.predict(images), model.predict(images.astype(np.float32)))


@pytest.mark.parametrize("where", ["X", "background", "predict"])
def test_whole_numbers_beyond_those_of_jax_are_refused(where):
    calls = []

    def of(X):
        calls.append(X.shape)
        return X[:, 0] % 2 + X[:, 1]

    model, small, large = xj.as_model(of), np.ones((2, 2), np.int64), np.full((1, 2), 2**31)
    with pytest.raises(xj.InputError, match=r"2147483648 at row 0, column 0, beyond int32"):
        if where == "predict":
            model.predict(large)
        else:
            xj.Explainer(model, large if where == "background" else small)(large)


def total(X):
    return X.sum(axis=1)


def float_difference(X):
    return (X[:, 0] - X[:, 1]) * 1.0


NEAR = np.array([[2**31 + 1, 1], [2**31 + 2, 0]], np.uint32)
CROSSED = np.array([[1, 2]], np.uint8), np.array([[99, 5], [3, 7]], np.uint8)
LOST = {
    "uint32": (total, NEAR, NEAR[:1] + np.uint32(2), "whole numbers .uint32. of up to"),
    "uint64": (total, NEAR.astype(np.uint64), NEAR[:1].astype(np.uint64), "rounded to float32"),
    "later": (total, np.ones((1, 2), int), np.eye(20, 2, -18, int) * 2**25 + 1, "33,554,432"),
    "background": (total, NEAR, np.ones((1, 2), np.uint32), "by up to 128"),
    "int32": (total, np.ones((1, 2), np.int32), np.full((1, 2), 2**30, np.int32), "beyond int32"),
    "int64": (
        lambda X: X @ jnp.array([4, 1]),
        np.ones((1, 2), int),
        np.full((1, 2), 2**29),
        "wrap",
    ),
    "uint8": (float_difference, np.ones((1, 2), np.uint8), np.eye(2, dtype=np.uint8), "uint8"),
    "int8": (lambda X: (X * 2).sum(1), np.ones((1, 2), int), np.full((1, 2), 99, np.int8), None),
    "of int8": (lambda X: (X * 2).sum(1), *(np.full((1, 2), n, np.int8) for n in (1, 99)), "int8"),
    "jit": (jax.jit(total), np.full((2, 2), 2**30), np.ones((1, 2), int), "beyond int32"),
    "kept": (total, np.ones((1, 2), np.uint8), np.full((1, 2), 255, np.uint8), None),
    "places": (lambda X: jnp.arange(9.0)[X].sum(1), np.ones((1, 2), int), np.full((1, 2), 8), None),
    "floats": (total, np.ones((1, 2)), np.full((1, 2), 2.0**30), None),
    "mean by shift": (
        lambda X: ((X[:, 0] + X[:, 1]) >> 1).astype(jnp.float32) + X[:, 0],
        *(np.full((1, 2), n, np.uint8) for n in (1, 200)),
        "beyond uint8",
    ),
    "remainder of a hash": (
        lambda X: jnp.arange(64.0)[(X[:, 0].astype(jnp.uint32) * np.uint32(2654435761)) % 64],
        *CROSSED,
        None,
    ),
    "shift of a hash": (lambda X: (X[:, 0].astype("uint32") * 2**30 >> 26) * 1.0, *CROSSED, None),
    "difference": (
        lambda X: jnp.where(X[:, 0] > X[:, 1], X[:, 0] - X[:, 1], X[:, 1] - X[:, 0]) * 1.0,
        *CROSSED,
        None,
    ),
    "wrong difference": (
        lambda X: jnp.where(X[:, 0] > X[:, 1], X[:, 1] - X[:, 0], X[:, 0] - X[:, 1]) * 1.0,
        *CROSSED,
        "beyond uint8",
    ),
    "bits": (
        lambda X: ((X.astype(jnp.uint32) * 40503 * 65537) >> 7 ^ X).sum(1) % 9 * 1.0,
        np.ones((1, 2), np.uint32),
        np.full((1, 2), 2**20, np.uint32),
        None,
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_row_16_whole_numbers_that_a_model_loses_are_told(case):
    """Answers beyond 2^24 in float32, and sums beyond the dtype of the rows, each warned of."""
    of, donors, rows, told = LOST[case]
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        xj.Explainer(of, donors)(rows)
    texts = [str(one.message) for one in given]
    assert len(set(texts)) == len(texts)
    if told is None:
        assert not texts
    else:
        assert any(re.search(told, text) for text in texts), texts
        assert all(issubclass(one.category, xj.XaiWarning) for one in given)


@pytest.mark.parametrize("method", ["expected", "anchors", "qii"])
def test_other_methods_take_whole_numbers(method):
    rows = whole("int64", 6, 12)
    table = jnp.asarray(TABLE, jnp.float32)
    if method == "expected":  # between whole numbers there are floats only

        def smooth(X):
            return X[:, 0] * X[:, 1] + jnp.sin(X).sum(axis=1)

        model = xj.as_model(smooth)
        given = [rows, rows.astype(np.float32)]
        own, floats = (xj.GradientExplainer(model, one[:4])(one[4:]) for one in given)
        np.testing.assert_array_equal(own.values, floats.values)
    elif method == "anchors":
        model = xj.as_model(lambda X: digits(X, table), threshold=0.0)
        rules = xj.AnchorExplainer(model, rows).explain(rows[:2])
        assert len(rules) == 2
    else:
        model = xj.as_model(lambda X: digits(X, table))
        qii = xj.QII(
            model, rows, quantity="individual", pool=rows[:3], outcome="score", bounds=(-20, 20)
        )
        found = qii.explain(rows[:2])
        wanted = digits(rows[:2], TABLE) - digits(rows[:3], TABLE).mean()
        np.testing.assert_allclose(found.values.sum(axis=1), wanted, rtol=0, atol=1e-4)


def test_floats_beside_whole_numbers_that_a_function_needs_are_named():
    table = jnp.arange(12.0).reshape(4, 3)
    whole = np.array([[1, 2, 3], [0, 1, 2]])

    def looked_up(rows):
        return table[rows].sum(axis=(1, 2))

    for background in (xj.Baseline(np.zeros(3)), np.zeros((2, 3))):
        with pytest.raises(xj.InputTypeError, match=r"background= must both be whole.*astype\(int"):
            xj.Explainer(xj.as_model(looked_up), background)(whole)
    found = xj.Explainer(xj.as_model(looked_up), xj.Baseline(np.zeros(3, int)))(whole)
    np.testing.assert_array_equal(found.values, 9.0 * whole)  # 9 a step: a table of 3 columns
