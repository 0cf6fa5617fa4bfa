"""What rows may be: dates and sparse columns on the host, frames beside arrays, weighted rows."""

import datetime

import jax.numpy as jnp
import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest

import xaijax as xj

DAY = pd.Timestamp("2026-01-01")
DAYS = np.array([0, 3, 10, 31, 45, 60, 75])
NUMBERS = np.linspace(-1.0, 2.0, 7)


def series(kind):
    """(seven days in this dtype, a column -> days since the first of them)."""
    dates = pd.Series(DAY + pd.to_timedelta(DAYS, unit="D"))
    if kind == "datetime":
        return dates, lambda c: (c - DAY).dt.days
    if kind == "zone":
        start = DAY.tz_localize("UTC")
        return dates.dt.tz_localize("UTC"), lambda c: (c - start).dt.days
    if kind == "timedelta":
        return dates - DAY, lambda c: c.dt.days
    if kind == "period":
        return dates.dt.to_period("D"), lambda c: c.dt.day_of_year - 1
    if kind == "arrow date":
        arrow = pytest.importorskip("pyarrow")
        given = pd.Series(pd.array(dates.dt.date, dtype=pd.ArrowDtype(arrow.date32())))
        return given, lambda c: (pd.to_datetime(c.astype("str")) - DAY).dt.days
    if kind == "arrow timestamp":
        arrow = pytest.importorskip("pyarrow")
        given = dates.astype(pd.ArrowDtype(arrow.timestamp("us")))
        return given, lambda c: (pd.to_datetime(c.astype("str")) - DAY).dt.days
    return dates.astype(object), lambda c: (pd.to_datetime(c) - DAY).dt.days


DTYPES = ["datetime", "zone", "timedelta", "period", "arrow date", "arrow timestamp", "object"]


@pytest.mark.parametrize("kind", DTYPES)
def test_dates_of_a_frame_reach_a_host_model(kind, tmp_path):
    column, days = series(kind)
    frame = pd.DataFrame({"when": column, "n": NUMBERS})
    seen = set()

    def model(rows):
        seen.add(str(rows["when"].dtype))
        return (days(rows["when"]) * rows["n"] + rows["n"] ** 2).to_numpy(np.float64)

    X, background = frame[:4], frame[4:]
    found = xj.Explainer(xj.as_model(model, backend="host"), background)(X)
    assert seen == {str(column.dtype)}
    numbers = np.column_stack([DAYS, NUMBERS])
    values, base, _ = oracles.explain(
        lambda z: z[:, 0] * z[:, 1] + z[:, 1] ** 2,
        numbers[:4],
        numbers[4:],
        oracles.shapley_weight(2),
    )
    # Float64 on the host: sums of 3 donors of at most 150.
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=1e-12)
    if not kind.startswith("arrow") and kind != "object":
        found.save(tmp_path / "one.npz")
        pd.testing.assert_frame_equal(xj.load(tmp_path / "one.npz").data, found.data)
    with pytest.raises(xj.InputTypeError, match="column 'when'.*numbers"):
        xj.Explainer(xj.as_model(lambda z: z[:, 0]), background)


def test_missing_dates_are_values_of_their_own():
    column = pd.Series([DAY, pd.NaT, DAY + pd.Timedelta(days=2)])
    frame = pd.DataFrame({"when": column, "n": [1.0, 2.0, 3.0]})
    model = xj.as_model(
        lambda rows: (rows["when"].isna() * 5.0 + rows["n"]).to_numpy(), backend="host"
    )
    found = xj.Explainer(model, frame[:1])(frame[1:])
    np.testing.assert_allclose(found.values, [[5, 1], [0, 2]], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["date", "datetime", "duration", "time"])
def test_dates_of_polars_reach_a_host_model(kind):
    day = datetime.date(2026, 1, 1)
    dates = [day + datetime.timedelta(days=int(n)) for n in DAYS]
    column = pl.Series("when", dates)
    if kind == "datetime":
        column = column.cast(pl.Datetime("us"))
    elif kind == "duration":
        column = pl.Series("when", [datetime.timedelta(days=int(n)) for n in DAYS])
    elif kind == "time":
        column = pl.Series("when", [datetime.time(minute=int(n) % 60) for n in DAYS])
    frame = pl.DataFrame({"when": column, "n": NUMBERS})

    def days(c):
        if kind == "time":
            return c.dt.minute()
        return c.dt.total_days() if kind == "duration" else (c.cast(pl.Date) - day).dt.total_days()

    def model(rows):
        return (days(rows["when"]).cast(pl.Float64) * rows["n"]).to_numpy()

    found = xj.Explainer(xj.as_model(model, backend="host"), frame[4:])(frame[:4])
    numbers = np.column_stack([DAYS % 60 if kind == "time" else DAYS, NUMBERS])
    weight = oracles.shapley_weight(2)
    values, _, _ = oracles.explain(lambda z: z[:, 0] * z[:, 1], numbers[:4], numbers[4:], weight)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-12)
    with pytest.raises(xj.InputTypeError, match="column 'when'.*numbers"):
        xj.Explainer(xj.as_model(lambda z: z[:, 0]), frame)


def test_anchors_and_sweeps_of_dates(tmp_path):
    column, days = series("datetime")
    frame = pd.DataFrame({"when": column.repeat(4).reset_index(drop=True)})
    frame["n"] = np.tile([0.0, 1.0, 2.0, 3.0], 7)
    asked = xj.as_model(
        lambda rows: (days(rows["when"]) > 20).to_numpy().astype(float),
        backend="host",
        threshold=0.5,
    )
    (rule,) = xj.AnchorExplainer(asked, frame).explain(frame[:1])
    assert rule.features == (0,) and "2026-01-01" in rule.rule[0]
    explainer = xj.Explainer(asked, frame[::7])
    run = xj.sweep(explainer, frame, tmp_path / "run", rows_per_part=10)
    np.testing.assert_array_equal(run.explanation().values, explainer(frame).values)


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_sparse_columns_of_a_frame_reach_a_host_model(fill):
    dense = pd.DataFrame({"a": [0.0, 2.0, 0.0, -0.0], "b": [1.0, 0.0, 0.0, 3.0]})
    sparse = dense.astype(pd.SparseDtype("float64", fill))
    seen = set()

    def model(rows):
        seen.update(map(str, rows.dtypes))
        return np.asarray(rows["a"]) * np.asarray(rows["b"]) + np.asarray(rows["a"])

    model = xj.as_model(model, backend="host")
    found = xj.Explainer(model, sparse[:2])(sparse[2:])
    assert all(one.startswith("Sparse") for one in seen)
    wanted = xj.Explainer(model, dense[:2])(dense[2:])
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.player_data(), wanted.player_data())
    for rows, others in ((sparse[2:], dense[:2]), (dense[2:], sparse[:2])):  # dense, if one is
        np.testing.assert_array_equal(xj.Explainer(model, others)(rows).values, wanted.values)
    with pytest.raises(xj.InputTypeError, match="column 'a' is sparse.*to_dense"):
        xj.Explainer(xj.as_model(lambda z: z[:, 0]), sparse)


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("library", [pd, pl])
def test_a_frame_with_an_array_background(backend, library):
    X, background = np.arange(8.0).reshape(4, 2), np.ones((2, 2))
    frame = library.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    model = xj.as_model(lambda z: z[:, 0] * z[:, 1], backend=backend)
    explainer = xj.Explainer(model, background)
    np.testing.assert_array_equal(explainer(frame).values, explainer(X).values)
    named = xj.Explainer(model.replace(feature_names=("b", "a")), background)
    with pytest.raises(xj.InputError, match="another order"):
        named(frame)
    with pytest.raises(xj.InputError, match="shape"):
        explainer(library.DataFrame({"a": X[:, 0]}))
    with pytest.raises(xj.InputTypeError, match="column 'b'.*takes numbers"):
        explainer(library.DataFrame({"a": X[:, 0], "b": list("uvwx")}))


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize("widths", [(2, 3), (2, 2)])
def test_one_row_of_a_tuple_is_a_baseline(backend, widths):
    one, two = np.ones(widths[0]), np.full(widths[1], 2.0)
    rows = tuple(np.arange(3.0 * w).reshape(3, w) for w in widths)
    model = xj.as_model(lambda z: z[0].sum(axis=1) * z[1][:, 0] + z[1][:, 1], backend=backend)
    found = xj.Explainer(model, xj.Baseline((one, two)))(rows)
    wanted = xj.Explainer(model, (one[None], two[None]))(rows)
    np.testing.assert_array_equal(found.values, wanted.values)
    assert found.provenance["replacement"] == "baseline"


def test_a_tuple_of_numbers_is_a_row():
    model = xj.as_model(lambda z: z[:, 0] * z[:, 1])
    X = np.array([[2.0, 3.0]])
    found = xj.Explainer(model, xj.Baseline((0.0, 1.0)))(X)
    np.testing.assert_array_equal(
        found.values, xj.Explainer(model, xj.Baseline([0.0, 1.0]))(X).values
    )


FRAME = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (FRAME.iloc[0], r"frame.iloc\[\[0\]\]"),
        (FRAME["a"], r"frame.iloc\[\[0\]\]"),
        (pl.Series("a", [1.0, 2.0]), r"frame\[0:1\]"),
        (np.array([1.0, 2.0]), r"x\[None\]|row\[None\]"),
    ],
)
@pytest.mark.parametrize("background", [FRAME, FRAME.to_numpy()])
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_one_row_is_refused_with_the_way_to_say_it(given, text, background, backend):
    calls = []

    def f(z):
        calls.append(len(z))
        return (z.to_numpy() if hasattr(z, "to_numpy") else z)[:, 0]

    model = xj.as_model(f, backend=backend)
    explainer = xj.Explainer(model, background)
    for ask in (explainer, explainer.plan, lambda rows: xj.Explainer(model, rows)):
        with pytest.raises(xj.XaiError, match=text) as said:
            ask(given)
        assert isinstance(said.value, xj.InputError | xj.InputTypeError)
    if not isinstance(given, np.ndarray):
        with pytest.raises(xj.InputError, match=text):
            model.predict(given)
    assert not calls


class DenseData:
    """What shap.kmeans returns: rows as `data`, with weights."""

    def __init__(self, data, weights):
        self.data, self.weights = data, weights


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_chosen_rows_bring_their_weights(backend, tmp_path):
    rows = np.random.default_rng(0).normal(size=(20, 3))
    X = rows[:4] + 1
    chosen = xj.background(rows, 5)
    asked = jnp if backend == "jax" else np
    model = xj.as_model(lambda z: asked.tanh(z[:, 0] * z[:, 1]) + z[:, 2], backend=backend)
    wanted = xj.Explainer(model, chosen.rows, weights=chosen.weights)(X).values
    for given in (chosen, DenseData(chosen.rows, chosen.weights)):
        explainer = xj.Explainer(model, given)
        np.testing.assert_array_equal(explainer(X).values, wanted)
        with pytest.raises(xj.InputError, match="weights of its own"):
            xj.Explainer(model, given, weights=chosen.weights)
    run = xj.sweep(explainer, X, tmp_path / "run", rows_per_part=2)
    again = DenseData(chosen.rows.copy(), chosen.weights.copy())
    xj.sweep(xj.Explainer(model, again), X, tmp_path / "run")  # the same question
    np.testing.assert_array_equal(run.explanation().values, wanted)
    scored = {"quantity": "individual", "outcome": "score", "bounds": (-20, 20)}
    qii = xj.QII(model, rows, pool=chosen, **scored).explain(X)
    whole = xj.QII(model, rows, pool=chosen.rows, pool_weights=chosen.weights, **scored).explain(X)
    np.testing.assert_array_equal(qii.values, whole.values)
    if backend == "jax":
        own = xj.GradientExplainer(model, chosen)(X).values
        both = xj.GradientExplainer(model, chosen.rows, weights=chosen.weights)(X).values
        np.testing.assert_array_equal(own, both)


def test_rows_of_shap_kmeans():
    shap = pytest.importorskip("shap")
    rows = np.random.default_rng(0).normal(size=(20, 3))
    chosen = shap.kmeans(rows, 4)
    model = xj.as_model(lambda z: z[:, 0] * z[:, 1] + z[:, 2])
    found = xj.Explainer(model, chosen)(rows[:3])
    wanted = xj.Explainer(model, chosen.data, weights=chosen.weights)(rows[:3])
    np.testing.assert_array_equal(found.values, wanted.values)
