"""Frames of mixed types: they reach a host model unchanged, and a JAX model as numbers or not."""

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest

import xaijax as xj
from xaijax.tables.rows import rows_of

COLOURS = ["blue", "green", "red", "unused"]


def mixed(rows, seed):
    """pandas: category, str, int, float, bool and nullable columns, with missing values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "colour": pd.Categorical(rng.choice(COLOURS[:3], rows), categories=COLOURS),
            "word": rng.choice(["x", "y", "z"], rows),
            "count": rng.integers(0, 3, rows),
            "size": rng.normal(size=rows).round(1),
            "flag": rng.integers(0, 2, rows) == 1,
            "grade": pd.array(rng.integers(0, 3, rows), "Int64"),
        }
    )
    frame.loc[0, ["colour", "word"]] = None
    return frame


def to_polars(frame):
    """The same in polars, column by column; missing values become null."""
    kinds = {"category": pl.Categorical, "str": pl.String, "Int64": pl.Int64, "boolean": pl.Boolean}
    kinds |= {"Float32": pl.Float32, "object": None}
    columns = []
    for name in frame.columns:
        values = [None if v is pd.NA or v != v else v for v in frame[name].astype(object)]
        kind = kinds.get(str(frame[name].dtype))
        columns.append(pl.Series(name, values, kind))
    return pl.DataFrame(columns)


X, B = mixed(4, 0), mixed(6, 1)


def score(frame):
    """A number per row, from the values of every column; refuses other dtypes than the mixed()."""
    columns = {c: list(frame[c]) for c in frame.columns}
    out = np.zeros(len(frame))
    for r in range(len(frame)):
        row = {c: columns[c][r] for c in columns}
        colour, word = row["colour"], row["word"]
        hue = COLOURS.index(colour) if isinstance(colour, str) else -1
        letter = ord(word) - 119 if isinstance(word, str) else -2
        out[r] = (1 + hue) * letter + row["count"] * row["size"] * (2 if row["flag"] else 1)
        out[r] += int(row["grade"]) * hue
    return out


def by_position(frame):
    """The oracle's rows are objects; here they become frames again."""
    return lambda rows: score(pd.DataFrame(rows, columns=frame.columns))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_mixed_frames_come_through_unchanged(library):
    seen = []
    rows, background = (X, B) if library == "pandas" else (to_polars(X), to_polars(B))

    def model(frame):
        seen.append((type(frame), list(frame.columns), list(frame.dtypes)))
        return score(frame)

    explanation = xj.Explainer(xj.as_model(model, backend="host"), background)(rows)
    as_given = (type(background), list(background.columns), list(background.dtypes))
    assert all(each == as_given for each in seen)
    values, base, full = oracles.explain(
        by_position(B), X.to_numpy(object), B.to_numpy(object), oracles.shapley_weight(6)
    )
    np.testing.assert_allclose(explanation.values, values, rtol=0, atol=1e-12)
    np.testing.assert_allclose(explanation.base_values, base, rtol=0, atol=1e-12)
    np.testing.assert_allclose(score(X), full, rtol=0, atol=1e-12)
    differ = (X.map(repr).to_numpy()[:, None] != B.map(repr).to_numpy()).sum(axis=2)
    assert explanation.stats["model_rows"] == (2**differ).sum() < 4 * 6 * 2**6


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_missing_number_is_nan(library):
    background = pd.DataFrame({"a": [1.0, 2.0], "b": pd.array([1, 2], "Int64")})
    for column in ("a", "b"):
        rows = background.copy()
        rows.loc[1, column] = None
        given = [rows, background]
        if library == "polars":
            given = [to_polars(one) for one in given]
        host = xj.as_model(lambda frame: np.zeros(len(frame)), backend="host")
        jax = xj.as_model(lambda array: array[:, 0])
        with pytest.raises(xj.InputError, match=f"X, column '{column}', contains NaN at row 1"):
            xj.Explainer(host, given[1])(given[0])
        with pytest.raises(xj.InputError, match="X contains NaN at row 1"):
            xj.Explainer(jax, given[1])(given[0])
        for model in (host, jax):
            with pytest.raises(xj.InputError, match="contains NaN at row 1"):
                model.predict(given[0])
        taking = host.replace(allow_nan=True)
        assert (xj.Explainer(taking, given[1])(given[0]).values == 0).all()


def test_objects_of_many_types_keep_their_types():
    """pandas takes 1, 1.0 and True for one value, and None and NaN."""
    objects = [1, 1.0, True, None, float("nan"), "1", -1]
    frame = pd.DataFrame({"a": pd.Series(objects, dtype=object), "b": [0.0, -0.0] * 3 + [1.0]})
    seen = set()

    def model(rows):
        seen.update((type(v).__name__, repr(v)) for v in rows["a"])
        return np.copysign(1.0, rows["b"].to_numpy()) * [len(repr(v)) for v in rows["a"]]

    background = pd.DataFrame({"a": pd.Series(["0"], dtype=object), "b": [2.0]})
    explanation = xj.Explainer(xj.as_model(model, backend="host"), background)(frame)
    assert {(type(v).__name__, repr(v)) for v in objects} <= seen
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, model(frame), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "background", "error", "match"),
    [
        (X[["word", "colour", "count", "size", "flag", "grade"]], B, xj.InputError,
         "column 0 is 'word', expected 'colour'"),
        (X.to_numpy(), B, xj.InputTypeError, "X must be a pandas frame.*ndarray"),
        (to_polars(X), B, xj.InputTypeError, "X must be a pandas frame"),
        (X, to_polars(B), xj.InputTypeError, "X must be a polars frame"),
        (X, np.zeros((1, 6)), xj.InputTypeError, "X is a data frame, but the background is an"),
        (X.iloc[:0], B, xj.InputError, "X has 0 rows"),
        (X[[]], B, xj.InputError, "X has 0 columns"),
        (X.assign(word=1), B, xj.InputTypeError, r"X, column 'word' has dtype int64.*astype"),
        (X.assign(colour=pd.Categorical(["pink"] * 4)), B, xj.InputError,
         r"categories \['pink'\] are unknown"),
        (to_polars(X).with_columns(pl.col("count").cast(pl.String)), to_polars(B),
         xj.InputTypeError, "column 'count' has dtype String, but the background has Int64"),
        (X.assign(word=[[1]] * 4), B.assign(word=[[1]] * 6), xj.InputTypeError,
         "column 'word' holds values that cannot be told apart"),
        (pl.DataFrame({"a": [[1]]}), pl.DataFrame({"a": [[1]]}), xj.InputTypeError,
         "column 'a' has dtype List"),
    ],
)  # fmt: skip
def test_frames_that_are_refused(rows, background, error, match):
    calls = []
    model = xj.as_model(lambda frame: calls.append(1) or score(frame), backend="host")
    with pytest.raises(error, match=match) as caught:
        xj.Explainer(model, background)(rows)
    assert type(caught.value) is error
    assert not calls


def test_whole_numbers_may_be_wider_than_the_backgrounds():
    seen = set()

    def model(frame):
        seen.add(str(frame["a"].dtype))
        return frame["a"].to_numpy() * 2.0

    background = pd.DataFrame({"a": np.array([1, 2], np.int32)})
    explainer = xj.Explainer(xj.as_model(model, backend="host"), background)
    assert explainer(pd.DataFrame({"a": [2**40]})).values[0, 0] == 2.0 * 2**40 - 3.0
    assert "int64" in seen


def test_numbers_of_every_kind_reach_a_jax_model():
    frame = pd.DataFrame(
        {
            "a": [True, False],
            "b": np.array([3, -2], np.int8),
            "c": [0.5, 1.25],
            "d": pd.array([1, 2], "Int64"),
            "e": pd.array([0.5, 0.25], "Float32"),
            "f": pd.array([True, False], "boolean"),
        }
    )
    model = xj.as_model(lambda rows: rows @ np.array([1, 2, 4, 8, 16, 32], np.float32))
    wanted = np.array([1 + 6 + 2 + 8 + 8 + 32, -4 + 5 + 16 + 4])
    for given in (frame, to_polars(frame)):
        np.testing.assert_array_equal(model.predict(given), wanted)
        explanation = xj.Explainer(model, given)(given)
        assert explanation.feature_names == tuple("abcdef")
        total = explanation.base_values + explanation.values.sum(axis=1)
        np.testing.assert_allclose(total, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("how", ["median", "mean"])
@pytest.mark.parametrize("library", ["array", "pandas", "polars"])
def test_a_baseline_leaves_missing_numbers_out(library, how):
    """polars sorts NaN above all numbers and counts it: the median of 1, NaN, 3 and 7 was 5."""
    rows = np.array([[1.0, 2.0], [np.nan, 4.0], [3.0, 0.0], [7.0, 1.0]])
    made = {
        "array": lambda: rows,
        "pandas": lambda: pd.DataFrame(rows, columns=["a", "b"]),
        "polars": lambda: pl.DataFrame(dict(zip("ab", rows.T, strict=True))),
    }[library]()
    model = xj.as_model(lambda X: np.asarray(X, float)[:, 0] * 2, backend="host", allow_nan=True)
    found = xj.Explainer(model, xj.Baseline(how, made))(made[2:3])
    wanted = 2 * (np.median if how == "median" else np.mean)([1.0, 3.0, 7.0])
    np.testing.assert_allclose(found.base_values, [wanted], rtol=1e-15)


def first_column(rows):
    return np.nan_to_num(rows_of(rows).column(0).astype(np.float64), nan=7.0)


@pytest.mark.parametrize("library", ["pandas", "nullable", "arrow", "polars"])
@pytest.mark.parametrize("missing", [False, True])
def test_signed_zeros_stay_two_values_when_others_come(library, missing):
    values = [1.0, None] if missing else [1.0, -0.0]
    background = pd.DataFrame({"a": [-0.0, 0.0, 2.0, 5.0]})  # float64, without missing entries
    if library == "polars":
        background, X = pl.from_pandas(background), pl.DataFrame({"a": values})
    else:
        if library == "arrow":
            pytest.importorskip("pyarrow")
            background = background.astype("double[pyarrow]")
        dtype = {"pandas": "float64", "nullable": "Float64", "arrow": "double[pyarrow]"}[library]
        X = pd.DataFrame({"a": pd.array(values, dtype=dtype)})
    model = xj.as_model(first_column, backend="host", allow_nan=True)
    found = xj.Explainer(model, background)(X)
    # Sums of four exact numbers: the mean of the background, and x less it.
    np.testing.assert_array_equal(found.base_values, [1.75, 1.75])
    wanted = [1.0 - 1.75, (7.0 if missing else 0.0) - 1.75]
    np.testing.assert_array_equal(found.values[:, 0], wanted)


@pytest.mark.parametrize("library", [pd, pl])
def test_integers_that_no_float_tells_apart(library):
    background = library.DataFrame({"a": [2**53, 2**53 + 1, 5]})
    model = xj.as_model(first_column, backend="host")
    with pytest.raises(xj.InputError, match="column 'a' has dtype .*keeps all values.*apart"):
        xj.Explainer(model, background)(library.DataFrame({"a": [1.5, 2.0]}))
    found = xj.Explainer(model, background[1:])(library.DataFrame({"a": [1.5, 2.0]}))
    np.testing.assert_array_equal(found.base_values, np.full(2, (2.0**53 + 5) / 2))
