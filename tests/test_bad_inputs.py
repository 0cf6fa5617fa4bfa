"""Bad inputs, row by row: what raises, what warns, and what has a defined result.

The number in each id is that of the row in the list of bad inputs. E: an error of the family that
names the argument; for the rows 1 to 42 the model is not even traced before it. W: a warning.
D: a defined result, held to the definitions in float64.
"""

import os
import subprocess
import sys
import textwrap
import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from jax.experimental import sparse
from small_case import ATOL, BACKENDS, FUNCTIONS, B, X, as_jax, explain, f, f64, put

import xaijax as xj
from xaijax import _checks
from xaijax.games._device import plan_sizes

FRAME = pd.DataFrame(X, columns=list("abcd"))
BACKGROUND_FRAME = pd.DataFrame(B, columns=list("abcd"))


class Asked:
    """A function that counts how often it is traced or called."""

    def __init__(self, function=f):
        self.function, self.times = function, 0

    def __call__(self, rows):
        self.times += 1
        return self.function(rows)


# E, rows 1 to 42: before the model is asked anything.


@dataclass
class Refused:
    """Arguments, and the error that they get."""

    row: str
    error: type[Exception]
    match: str  # in the message, with the argument's name
    X: Any = field(default_factory=lambda: X)
    background: Any = field(default_factory=lambda: B)
    explainer: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    backends: tuple[str, ...] = ("jax", "host")
    kinds: tuple[str, ...] = ("numpy", "jax")  # of X and background


E, T = xj.InputError, xj.InputTypeError
WIDE = np.zeros((1, 25), np.float32)

# fmt: off
REFUSED = [
    Refused("1 NaN", E, r"X contains NaN at row 1, column 2\. .*allow_nan", put(X, (1, 2), np.nan)),
    Refused("2 inf", E, r"X contains inf at row 2, column 0\.", put(X, (2, 0), np.inf)),
    Refused("2 -inf", E, r"X contains -inf at row 0, column 3", put(X, (0, 3), -np.inf)),
    Refused("2 inf where NaN is allowed", E, "X contains inf at row 2",
        put(put(X, (0, 0), np.nan), (2, 0), np.inf), model={"allow_nan": True}),
    Refused("3", E, "background contains NaN at row 4", background=put(B, (4, 0), np.nan)),
    Refused("4", E, r"X has shape \(4,\): one row.*x\[None\]", X[0]),
    Refused("4 background", E, r"background has shape \(4,\).*x\[None\]", background=B[0]),
    Refused("5", E, r"X has shape \(1, 3, 4\).*input_shape=", X[None]),
    Refused("5 declared", E, r"X has shape \(3, 4\): one row", X, np.zeros((5, 2, 2), np.float32),
        model={"input_shape": (2, 2)}),
    Refused("6", E, "X has 0 rows", X[:0]),
    Refused("7", E, r"X has 0 columns \(shape \(3, 0\)\)", X[:, :0]),
    Refused("7 background", E, "background has 0 columns", background=B[:, :0]),
    Refused("8", E, "background has 0 rows", background=B[:0]),
    Refused("9", E, r"X has rows of shape \(3,\), but the background has \(4,\)", X[:, :3]),
    Refused("10", T, "X must be .*rows of one length", [[1.0, 2.0], [1.0]], kinds=("numpy",)),
    Refused("10 background", T, "background must be .*one length", background=[[1.0], []],
        kinds=("numpy",)),
    Refused("11 text", T, "X has dtype <U32.*OrdinalEncoder", X.astype(str), kinds=("numpy",)),
    Refused("11 objects", T, "X has dtype object.*Encode", X.astype(object), kinds=("numpy",)),
    Refused("11 background", T, "background has dtype", background=B.astype("S"), kinds=("numpy",)),
    Refused("12", T, "column 'a' has dtype category.*OneHotEncoder",
        FRAME.astype({"a": "category"}), backends=("jax",), kinds=("numpy",)),
    Refused("12 background", T, "background: column 'b' has dtype", FRAME,
        BACKGROUND_FRAME.assign(b="x"), backends=("jax",), kinds=("numpy",)),
    Refused("12 polars", T, "column 'a' has dtype String.*OneHotEncoder",
        pl.DataFrame({"a": ["x"]}), backends=("jax",), kinds=("numpy",)),
    Refused("13", E, "X has the columns of .*another order.*column 0 is 'b', expected 'a'",
        FRAME[["b", "a", "c", "d"]], BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("13 others", E, r"X has other columns.*missing \['c'\], unknown \['z'\]",
        FRAME.rename(columns={"c": "z"}), BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("13 polars", E, "column 2 is 'd', expected 'c'",
        pl.DataFrame(X, list("abcd"))[["a", "b", "d", "c"]], pl.DataFrame(B, list("abcd")),
        kinds=("numpy",)),
    Refused("13 model", E, "background has the columns of the model in another order", FRAME,
        BACKGROUND_FRAME, model={"feature_names": list("dcba")}, kinds=("numpy",)),
    Refused("14", T, "X is complex", X.astype(np.complex64)),
    Refused("14 background", T, "background is complex", background=B.astype(np.complex64)),
    Refused("17", E, r"X contains 1e\+308, infinite in float32, at row 0, column 1",
        put(X.astype(np.float64), (0, 1), 1e308), backends=("jax",), kinds=("numpy",)),
    Refused("19", T, r"X is a sparse matrix.*toarray", scipy.sparse.csr_matrix(X)),
    Refused("19 JAX", T, "X is a sparse matrix", sparse.BCOO.fromdense(jnp.asarray(X))),
    Refused("19 background", T, "background is a sparse", background=scipy.sparse.coo_array(B)),
    Refused("19 frame", T, r"X: column 'a' is sparse", FRAME.astype(pd.SparseDtype(np.float32)),
        BACKGROUND_FRAME.astype(pd.SparseDtype(np.float32)).sparse.to_dense(), kinds=("numpy",)),
    Refused("23", E, "X is a masked array with 1 masked.*filled", np.ma.masked_equal(X, X[0, 0]),
        kinds=("numpy",)),
    Refused("24", T, "X holds dates", np.zeros((3, 4), "datetime64[D]"), kinds=("numpy",)),
    Refused("24 frame", T, "column 'a' has dtype datetime",
        FRAME.assign(a=pd.Timestamp("2020-01-01")), BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("25", E, r"column names occur more than once: \['a'\]", FRAME,
        BACKGROUND_FRAME.set_axis(list("abca"), axis=1), kinds=("numpy",)),
    Refused("25 X", E, r"X: column names occur more than once: \['a'\]",
        FRAME.set_axis(list("abca"), axis=1), BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("31 negative", E, "weights contain -1", explainer={"weights": [1, 1, -1, 1, 1]}),
    Refused("31 zero", E, "weights are all zero", explainer={"weights": np.zeros(5)}),
    Refused("31 NaN", E, "weights contain NaN", explainer={"weights": [1, 1, np.nan, 1, 1]}),
    Refused("31 text", T, "weights has dtype", explainer={"weights": list("abcde")}),
    Refused("32", E, r"weights has shape \(4,\), but the background has 5 rows",
        explainer={"weights": np.ones(4)}),
    Refused("35 pair", xj.EnumerationLimitError,
        "X row 0 and background row 0 differ in 25 players", WIDE + 1, WIDE,
        {"estimator": "exact"}),
    Refused("35 auto", xj.EnumerationLimitError, "estimator='auto': X row 0 needs 131,072",
        WIDE[:, :17] + 1, WIDE[:, :17]),
    Refused("35 auto budget", xj.EnumerationLimitError, r"B \(budget \+ 2\) = 50",
        explainer={"budget": 8}),
    Refused("35 table", xj.EnumerationLimitError, "link='logit'.*2.21 coalitions", WIDE[:, :21] + 1,
        WIDE[:, :21], {"link": "logit"}),
    Refused("37 0", E, "budget must be at least 1, got 0", explainer={"budget": 0}),
    Refused("37 -1", E, "budget must be at least 1, got -1", explainer={"budget": -1}),
    Refused("37 1.5", T, "budget must be a whole number", explainer={"budget": 1.5}),
    Refused("37 True", T, "budget must be a whole number", explainer={"budget": True}),
    Refused("37 text", T, "budget must be a whole number.*'100'", explainer={"budget": "100"}),
    Refused("39", xj.MemoryPlanError, f"X has {1 << 40:,} rows.*{1 << 64:,} model rows",
        np.broadcast_to(np.float32(0), (1 << 40, 24)), WIDE[:, :24], kinds=("numpy",)),
    Refused("40", xj.MemoryPlanError, "max_memory=5,000 bytes, but .* need",
        explainer={"max_memory": 5000, "batch_size": 1}),
    Refused("40 table", xj.MemoryPlanError, "max_memory=50,000.* one table of 2.12 coalitions",
        WIDE[:, :12] + 1, WIDE[:, :12], {"max_memory": 50_000, "link": "logit"}),
    Refused("41 0", E, "batch_size must be at least 1, got 0", explainer={"batch_size": 0}),
    Refused("41 -1", E, "batch_size must be at least 1, got -1", explainer={"batch_size": -1}),
]
# fmt: on


@pytest.mark.parametrize(
    ("case", "backend", "kind"),
    [
        pytest.param(case, backend, kind, id=f"{case.row}-{backend}-{kind}")
        for case in REFUSED
        for backend in case.backends
        for kind in case.kinds
    ],
)
def test_refused_before_the_model_is_asked(case, backend, kind):
    asked = Asked()
    model = xj.as_model(asked, backend=backend, **case.model)
    rows, background = case.X, case.background
    if kind == "jax":
        rows, background = as_jax(rows), as_jax(background)
    with pytest.raises(xj.XaiError, match=case.match) as caught:
        xj.Explainer(model, background, **case.explainer)(rows)
    assert type(caught.value) is case.error
    assert asked.times == 0
    assert not model.compiled


def test_row_35_allocates_no_lattice():
    explainer = xj.Explainer(xj.as_model(f), WIDE, estimator="exact")
    rows = WIDE + 1
    tracemalloc.start()
    with pytest.raises(xj.EnumerationLimitError):
        explainer(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20  # bytes; 2^25 corners would be at least 4 << 25


# W and D, rows 1 to 42: the values by their definition.


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
    Defined("16", LARGE, np.zeros((1, 2), np.int64), model={"precision": "float32"},
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
    monkeypatch.setattr(_checks, "CHUNK_BYTES", 1)  # one row at a time
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


def test_row_20_a_memory_map_is_never_read_whole(tmp_path, monkeypatch):
    rows = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float64, (100_000, 50))
    monkeypatch.setattr(_checks, "CHUNK_BYTES", 1 << 20)
    explainer = xj.Explainer(xj.as_model(f), np.ones((1, 50)), players=[range(50)])
    explainer(rows[:1])
    tracemalloc.start()
    explanation = explainer(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 2
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
        "dtype": "float32", "donors": 5, "columns": 4, "devices": 1, "tile": 256,
        "default_tiles": 32,
    }  # fmt: skip

    def tiles(batch_rows, most_rows, max_memory=1 << 40):
        return plan_sizes(
            batch_rows=batch_rows, most_rows=most_rows, max_memory=max_memory, **facts
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
