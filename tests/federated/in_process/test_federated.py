"""Federated Shapley values: the quotient game, the interaction's identity, the authors' digits."""

from __future__ import annotations

import importlib.util
import os

import jax.numpy as jnp
import numpy as np
import oracles
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xaijax as xj

F = 5
# float64 sums of at most 2^7 products of numbers of a few units: 2^7 x 2^-53 x 100 is 1.4e-12.
CLOSE = {"rtol": 0, "atol": 2e-12}


def small(z):
    """The small case of the reading, 5.4."""
    step = (z[:, 4] > 0.5) & (z[:, 0] > 0)
    return (
        z[:, 0]
        + 2 * z[:, 1]
        - z[:, 2] * z[:, 3]
        + z[:, 0] * z[:, 2] * z[:, 4]
        + 0.5 * z[:, 1] * z[:, 3]
        + step
    )


x, r = np.array([[1.0, 2, 3, -1, 1]]), np.array([0, 0.5, 1, 1, 0])


def explainer(guests, f=small, reference=r, **options):
    model = xj.as_model(f, backend="host")
    return xj.FederatedExplainer(model, reference[None], guests, reference=reference, **options)


def test_the_small_case():
    alone = explainer({})(x)
    np.testing.assert_allclose(alone.values, [[8 / 3, 3, 2 / 3, 2.75, 5 / 3]], **CLOSE)
    fed = explainer({"guest": [2, 3, 4]})
    found = fed(x)
    np.testing.assert_allclose(found.values, [[3, 3, 4.75]], **CLOSE)
    assert found.feature_names == ("x0", "x1", "guest")
    np.testing.assert_allclose(fed.interaction_, [[4.75 - (2 / 3 + 2.75 + 5 / 3)]], **CLOSE)
    assert found.base_values[0] == small(r[None])[0]
    assert found.exact
    assert found.stats["model_rows"] == 8


def test_the_product_of_three():
    fed = explainer({"guest": [1, 2]}, lambda z: z[:, 0] * z[:, 1] * z[:, 2], np.zeros(3))
    found = fed(np.ones((1, 3)))
    np.testing.assert_allclose(found.values, [[1 / 2, 1 / 2]], **CLOSE)
    np.testing.assert_allclose(fed.interaction_, [[1 / 2 - 2 / 3]], **CLOSE)


def test_banzhaf_is_algorithm_1_read_literally():
    """Majority of four: the plain mean is 0.375 each, Shapley's value 0.25."""
    zeros, ones = np.zeros(4), np.ones((1, 4))

    def majority(z):
        return (z.sum(axis=1) >= 3).astype(float)

    literal = explainer({}, majority, zeros, index="banzhaf")(ones)
    np.testing.assert_allclose(literal.values, np.full((1, 4), 0.375), **CLOSE)
    np.testing.assert_allclose(explainer({}, majority, zeros)(ones).values, [[0.25] * 4], **CLOSE)


def tables(P):
    """Any game on P columns that are 0 or 1, as the answers to its 2^P rows."""
    entry = st.floats(-4, 4, allow_nan=False, width=32)
    return st.lists(entry, min_size=1 << P, max_size=1 << P).map(np.array)


def owners():
    """A list of guests, each a list of columns, with column 0 the host's."""
    return st.lists(st.integers(0, 2), min_size=F - 1, max_size=F - 1).map(
        lambda whose: [[c + 1 for c, w in enumerate(whose) if w == g] for g in (1, 2)]
    )


TABLE = np.zeros(1 << F)


def f_of_table(z):
    return TABLE[(z @ (1 << np.arange(F))).astype(int)]


BY_TABLE = xj.as_model(f_of_table, backend="host")  # one, so that what it compiled serves all games


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(table=tables(F), guests=owners())
def test_the_quotient_game_and_the_identity(table, guests):
    """United values are those of the quotient game; 5.2's sum of dividends is the interaction."""
    guests = [own for own in guests if own]
    TABLE[:], f = table, f_of_table
    named = {f"guest {g}": own for g, own in enumerate(guests)}
    fed = xj.FederatedExplainer(BY_TABLE, np.zeros((1, F)), named)
    found = fed(np.ones((1, F)))
    host = [[c] for c in range(F) if not any(c in own for own in guests)]
    expected, base, _ = oracles.explain(
        f,
        np.ones((1, F)),
        np.zeros((1, F)),
        oracles.shapley_weight(len(host + guests)),
        host + guests,
    )
    np.testing.assert_allclose(found.values, expected, **CLOSE)
    np.testing.assert_allclose(found.base_values, base, **CLOSE)
    v = oracles.coalition_values(f, np.ones(F), np.zeros((1, F)), [1.0], [[c] for c in range(F)])
    expected = oracles.united_less_single(v, F, guests)
    np.testing.assert_allclose(fed.interaction_, expected[None].reshape(1, -1), **CLOSE)


def test_the_identity_for_one_guest():
    """- sum a_R h (k - 1) / ((h + 1) (h + k)), as the reading prints it, on the small case."""
    own = {2, 3, 4}
    v = oracles.coalition_values(small, x[0], r[None], [1.0], [[c] for c in range(F)])
    total = 0.0
    for R, a in oracles.dividends(v, F).items():
        h, k = len(R - own), len(R & own)
        if k:
            total -= a * h * (k - 1) / ((h + 1) * (h + k))
    fed = explainer({"guest": sorted(own)})
    fed(x)
    np.testing.assert_allclose(fed.interaction_, [[total]], **CLOSE)


def test_no_interaction_where_the_reading_says_so():
    """Linear models, interactions inside the guest, and one guest column with any hosts."""

    def f(z):
        return 3 * z[:, 0] + z[:, 1] * z[:, 2] ** 2 + z[:, 0] * z[:, 3] * z[:, 4] - z[:, 2]

    fed = explainer({"a": [1, 2], "b": [3]}, f, np.zeros(F))
    fed(np.array([[1.0, 2, 3, 4, 5]]))
    np.testing.assert_allclose(fed.interaction_, [[0, 0]], **CLOSE)


def test_the_authors_least_squares():
    """Their digits to rounding; Shapley's value and efficiency only nearly."""
    guests = {"guest": [3, 4]}
    found = explainer(guests, estimator="wls")(x)
    groups = [[0], [1], [2], [3, 4]]
    v = oracles.coalition_values(small, x[0], r[None], [1.0], groups)
    values, base = oracles.authors_least_squares(v, 4, 10_000)
    np.testing.assert_allclose(found.values, values[None], **CLOSE)
    np.testing.assert_allclose(found.base_values, [base], **CLOSE)
    assert "efficiency_bound" not in found.stats
    assert not found.exact
    assert found.std_errors is None
    assert found.stats["estimator"] == "wls"
    exact = explainer(guests)(x).values
    error = np.abs(found.values - exact).max()
    assert 0 < np.abs(found.stats["efficiency_residual"][0]) < 1e-2
    assert error < 1e-3
    closer = explainer(guests, estimator="wls", end_weight=1e7)(x).values
    assert np.abs(closer - exact).max() < error / 100 + 1e-9


@pytest.mark.slow
def test_outputs_traced_models_and_frames_alike():
    """[N, P, K] of a JAX model; a frame on the host gives the values of its array."""

    def both(z):
        return jnp.stack([z[:, 0] * z[:, 1] * z[:, 2], z[:, 3] + z[:, 4]], axis=1)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, F))
    background = rng.normal(size=(9, F))
    model = xj.as_model(lambda _, z: both(z), params=np.zeros(1), output_names=["a", "b"])
    fed = xj.FederatedExplainer(model, background, {"g": [1, 2]})
    found = fed(X)
    assert found.shape == (6, 4, 2)
    assert fed.interaction_.shape == (6, 1, 2)
    np.testing.assert_array_equal(fed.reference_, np.median(background, axis=0))

    names = list("abcde")
    frame, rows = (pd.DataFrame(a, columns=names) for a in (X, background))
    host = xj.as_model(lambda z: small(np.asarray(z)), backend="host", feature_names=names)
    by_name = xj.FederatedExplainer(host, rows, {"g": ["b", "c"]})(frame)
    by_place = xj.FederatedExplainer(host, background, {"g": [1, 2]})(X)
    assert by_name.feature_names == ("a", "d", "e", "g") == by_place.feature_names
    np.testing.assert_array_equal(by_name.values, by_place.values)
    assert list(by_name.data.columns) == ["a", "d", "e"]
    np.testing.assert_array_equal(by_place.data, X[:, [0, 3, 4]])


def test_references():
    """NA for a model that takes it, rows as a mean, and text columns by their most frequent."""

    def filled(z):
        return small(np.where(np.isnan(z), 7.0, z))

    model = xj.as_model(filled, backend="host", allow_nan=True)
    fed = xj.FederatedExplainer(model, np.zeros((3, F)), {"g": [3, 4]}, reference="na")
    as_sevens = explainer({"g": [3, 4]}, reference=np.full(F, 7.0))(x)
    np.testing.assert_array_equal(fed(x).values, as_sevens.values)
    assert np.isnan(fed.reference_).all()

    rows = np.random.default_rng(1).normal(size=(4, F))
    plain = xj.as_model(small, backend="host")
    several = xj.FederatedExplainer(
        plain, rows, {"g": [3, 4]}, reference=rows, weights=[1, 1, 1, 5]
    )
    expected, *_ = oracles.explain(
        small, x, rows, oracles.shapley_weight(4), [[0], [1], [2], [3, 4]], [1, 1, 1, 5]
    )
    np.testing.assert_allclose(several(x).values, expected, **CLOSE)

    frame = pd.DataFrame({"n": [1.0, 2, 9], "t": ["b", "a", "a"], "u": ["z", "z", "y"]})
    texts = xj.as_model(lambda z: z["n"] * (z["t"] == "a") * (z["u"] == "z"), backend="host")
    fed = xj.FederatedExplainer(texts, frame, {"g": ["t", "u"]})
    assert fed.reference_.iloc[0].tolist() == [2.0, "a", "z"]
    np.testing.assert_allclose(fed(frame).values[0], [-1.0 * 0.5 - 0.5 * 0, -1.5], **CLOSE)


def test_merged_sliced_and_saved(tmp_path):
    """Explanations of parties that share no rows are merged; nothing of a guest's rows is kept."""
    fed = explainer({"guest": [2, 3, 4]})
    X = np.random.default_rng(0).normal(size=(5, F)) + 1e3
    whole = fed(X)
    parts = xj.merge([fed(X[:2]), fed(X[2:])])
    np.testing.assert_array_equal(parts.values, whole.values)
    assert whole.provenance["guests"] == {"guest": 3}
    path = tmp_path / "explanation.npz"
    whole[1:, "guest"].save(path)
    back = xj.load(path)
    np.testing.assert_array_equal(back.values, whole.values[1:, [2]])
    assert back.data.shape == (4, 2)


def test_what_the_caller_changes_afterwards_changes_nothing():
    X, own, guests = np.random.default_rng(0).normal(size=(4, F)), r.copy(), {"g": [2, 4]}
    fed = xj.FederatedExplainer(xj.as_model(small, backend="host"), X, guests, reference=own)
    fed(X)
    expected = fed.interaction_.copy()
    fed(X)
    X[:], own[:] = 0, 9
    np.testing.assert_array_equal(fed.interaction_, expected)
    np.testing.assert_array_equal(fed.reference_, r)
    fed(X)
    assert not np.array_equal(fed.interaction_, expected)


def test_a_guests_columns_stay_out_of_files_and_pictures(tmp_path):
    secret = 123.456789
    X = np.random.default_rng(0).normal(size=(5, F))
    X[:, 2] = secret
    found = explainer({"guest": [2, 3]})(X)
    found.save(tmp_path / "one.npz")
    with np.load(tmp_path / "one.npz", allow_pickle=False) as stored:
        arrays = [np.asarray(a) for a in stored.values()]
    assert not any(secret in a for a in arrays if a.dtype.kind == "f")
    assert found.player_data()[-1] is None
    np.testing.assert_array_equal(found.player_data()[2], X[:, 4])
    if importlib.util.find_spec("matplotlib"):
        xj.report(found, str(tmp_path / "report.html"))
        assert "123.4" not in (tmp_path / "report.html").read_text("utf-8")


@pytest.mark.parametrize("end_weight", [1.0, 1e4, 1e9, 1e15, 1e300])
def test_the_regression_with_any_end_weight(end_weight):
    v = oracles.coalition_values(small, x[0], r[None], [1.0], [[c] for c in range(F)])
    values, base = oracles.authors_least_squares(v, F, end_weight)
    found = explainer({}, estimator="wls", end_weight=end_weight)(x)
    np.testing.assert_allclose(found.values, values[None], **CLOSE)
    np.testing.assert_allclose(found.base_values, [base], **CLOSE)


def test_different_references_are_not_merged():
    one, other = explainer({"g": [2]})(x), explainer({"g": [2]}, reference=r + 1)(x)
    with pytest.raises(xj.InputError, match="baselines differ"):
        xj.merge([one, other])


def test_one_reference_is_merged_where_base_values_differ():
    """The regression's intercept hangs on the row, and a random model's base on its noise."""
    X = np.random.default_rng(0).normal(size=(4, F))
    fed = explainer({"g": [2]}, estimator="wls")
    parts = [fed(X[:1]), fed(X[1:])]
    assert parts[0].base_values[0] != parts[1].base_values[0]
    np.testing.assert_array_equal(xj.merge(parts).values, fed(X).values)

    rng = np.random.default_rng(1)
    noisy = xj.as_model(
        lambda z: small(z) + rng.normal(size=len(z)), backend="host", deterministic=False
    )
    random = xj.FederatedExplainer(noisy, r[None], {"g": [2]}, reference=r)
    assert xj.merge([random(X[:2]), random(X[2:])]).shape == (4, 5)


@pytest.mark.parametrize("dtype", ["int64", "Int64", "polars"])
def test_whole_number_columns_and_their_median(dtype):
    columns = {"a": [1, 2, 4, 7], "b": [3, 1, 1, 2]}
    if dtype == "polars":
        frame = pytest.importorskip("polars").DataFrame(columns)
    else:
        frame = pd.DataFrame(columns, dtype=dtype)

    def product(z):
        return np.asarray(z["a"], float) * np.asarray(z["b"], float)

    found = xj.FederatedExplainer(xj.as_model(product, backend="host"), frame, {"g": ["b"]})(frame)
    a, b = (np.array(c, float) for c in columns.values())
    expected = (a - 3.0) * (b + 1.5) / 2  # the medians are 3 and 1.5
    np.testing.assert_allclose(found.values[:, 0], expected, **CLOSE)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_missing_values(library):
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"n": [1.0, 2.0], "t": ["a", "b"]})

    def model(z):
        missing = np.array([one is None or one != one for one in z["t"].to_list()])
        return np.nan_to_num(np.asarray(z["n"], float), nan=10.0) + 100.0 * missing

    wrapped = xj.as_model(model, backend="host", allow_nan=True)
    found = xj.FederatedExplainer(wrapped, frame, {"g": ["t"]}, reference="na")(frame)
    np.testing.assert_allclose(found.values, [[-9, -100], [-8, -100]], **CLOSE)


@pytest.mark.slow
def test_sampled_interactions_have_bounds():
    """Many columns: both games are sampled, and the bound is the sum of the errors."""
    weights = np.random.default_rng(3).normal(size=30)

    def f(z):
        return np.tanh(z @ weights) * z[:, 0] * z[:, 29]

    fed = explainer({"guest": range(20, 30)}, f, np.zeros(30), budget=400, estimator="permutation")
    found = fed(np.ones((2, 30)))
    assert found.std_errors is not None
    bound = fed.interaction_std_errors_
    assert bound is not None
    assert (bound > found.std_errors[:, -1:]).all()
    exact = explainer({"guest": [2, 3]})
    exact(x)
    assert exact.interaction_std_errors_ is None


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("XAIJAX_DATA"), reason="needs the tables: XAIJAX_DATA")
def test_a_row_of_adult():
    """The reading's worked row: fractions of a 5-neighbour vote, with 3 and 5 guest columns."""
    from sklearn.model_selection import train_test_split  # noqa: PLC0415
    from sklearn.neighbors import KNeighborsClassifier  # noqa: PLC0415

    X, y = xj.datasets.adult(reading="shap")
    train, _, labels, _ = train_test_split(X, y, test_size=0.2, random_state=7)
    rows = ((train - train.mean()) / train.std()).to_numpy()
    model = KNeighborsClassifier().fit(rows, labels)
    names = list(X.columns)
    expected = dict.fromkeys(names, 0.0) | {
        "Age": -1 / 30,
        "Country": -1 / 15,
        "Marital Status": -11 / 60,
        "Relationship": -19 / 300,
        "Sex": -1 / 30,
        "Occupation": -1 / 50,
    }
    work = ["Workclass", "Occupation", "Hours per week"]
    for guests in ([], work, [*work, "Capital Gain", "Capital Loss"]):
        wrapped = xj.as_model(model, output=True, feature_names=names)
        fed = xj.FederatedExplainer(wrapped, rows, {"Federated": guests} if guests else {})
        found = fed(rows[:1])
        assert found.base_values[0] == 0.4
        for name, value in zip(found.feature_names, found.values[0], strict=True):
            # Float64 sums of 2^12 products of at most 1; the spec's promise is 1e-12.
            assert abs(value - expected.get(name, -0.02)) < 1e-12, name
