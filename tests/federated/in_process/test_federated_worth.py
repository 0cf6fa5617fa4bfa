"""What guests' columns are worth: against the same numbers made by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import xaijax as xj

rng = np.random.default_rng(0)
X, BACKGROUND = rng.normal(size=(40, 4)), rng.normal(size=(11, 4))
COEFFICIENTS = np.array([2.0, -1, 0.5, 3])
Y = (X @ COEFFICIENTS > 0.3).astype(int)
CLOSE = {"rtol": 1e-12}  # float64 sums of 40 numbers in another order


def scores(rows):
    return 1 / (1 + np.exp(-np.asarray(rows, float) @ COEFFICIENTS))


def wrapped(function=scores, **options):
    return xj.as_model(function, backend="host", output="proba", **options)


def test_by_hand():
    fed = xj.FederatedExplainer(wrapped(), BACKGROUND, {"near": [1, 2], "far": [3]})
    refit = xj.as_model(
        lambda rows: 1 / (1 + np.exp(-rows @ COEFFICIENTS[:3])), backend="host", output="proba"
    )
    worth = fed.worth(X, Y, refitted={"far": refit})
    values = fed(X).values
    each = np.stack([values[:, 0], values[:, 1], values[:, 2]], axis=1)
    assert worth.parties == ("host", "near", "far")
    np.testing.assert_allclose(worth.mean_absolute, np.abs(each).mean(axis=0), **CLOSE)
    np.testing.assert_allclose(worth.mean_value, each.mean(axis=0), **CLOSE)
    expected = np.abs(each).std(axis=0, ddof=1) / np.sqrt(40)
    np.testing.assert_allclose(worth.standard_errors, expected, **CLOSE)
    assert worth.score == np.mean((scores(X) > 0.5) == Y)
    median = np.median(BACKGROUND, axis=0)
    for g, columns in enumerate(([1, 2], [3])):
        off = X.copy()
        off[:, columns] = median[columns]
        assert worth.score_without[g] == np.mean((scores(off) > 0.5) == Y)
    assert np.isnan(worth.score_refitted[0])
    assert worth.score_refitted[1] == np.mean((X[:, :3] @ COEFFICIENTS[:3] > 0) == Y)
    assert "far: mean |value|" in repr(worth)
    frame = worth.to_dataframe()
    assert frame.loc["far", "score_without"] == worth.score_without[1]


def test_the_host_is_the_sum_of_its_columns():
    fed = xj.FederatedExplainer(wrapped(), BACKGROUND, {"far": [3]})
    worth = fed.worth(X, Y)
    expected = np.abs(fed(X).values[:, :3].sum(axis=1)).mean()
    np.testing.assert_allclose(worth.mean_absolute[0], expected, **CLOSE)


def test_a_metric_of_ones_own():
    def squared(y, answers):
        return ((y - answers) ** 2).mean()

    fed = xj.FederatedExplainer(wrapped(), BACKGROUND, {"far": [3]})
    worth = fed.worth(X, Y, metric=squared)
    assert worth.score == ((Y - scores(X)) ** 2).mean()
    assert worth.metric == "squared"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(library):
    """Columns of any dtype are set to the reference; the values are those of the array."""
    frames = pytest.importorskip(library)
    names = list("abcd")

    def model(rows):
        return scores(np.stack([np.asarray(rows[c], float) for c in names], axis=1))

    table, background = (
        frames.DataFrame(dict(zip(names, a.T, strict=True))) for a in (X, BACKGROUND)
    )
    by_frame = xj.FederatedExplainer(wrapped(model), background, {"far": ["b", "d"]}).worth(
        table, Y
    )
    by_array = xj.FederatedExplainer(wrapped(), BACKGROUND, {"far": [1, 3]}).worth(X, Y)
    np.testing.assert_array_equal(by_frame.mean_absolute, by_array.mean_absolute)
    np.testing.assert_array_equal(by_frame.score_without, by_array.score_without)


def test_text_columns_and_an_index_that_is_not_0_to_n():
    frame = pd.DataFrame({"n": [1.0, -2, 3], "t": ["a", "b", "a"]}, index=[7, 7, 1])
    seen = []

    def model(rows):
        seen.append(rows["t"].tolist())
        return (rows["n"] > 0) * 0.5 + (rows["t"] == "a") * 0.4

    fed = xj.FederatedExplainer(wrapped(model), frame, {"g": ["t"]})
    worth = fed.worth(frame, [1, 0, 1])
    assert worth.score == 1.0
    assert worth.score_without[0] == 1.0
    assert ["a", "a", "a"] in seen


@pytest.mark.slow
def test_frames_and_arrays_mixed_and_lists():
    """A JAX model takes either; what is switched off is the same."""
    names = list("abcd")

    def f(params, rows):
        return 1 / (1 + jnp.exp(-rows @ params))

    model = xj.as_model(f, COEFFICIENTS, output="proba", feature_names=names)
    frame, background = pd.DataFrame(X, columns=names), pd.DataFrame(BACKGROUND, columns=names)
    worths = [
        xj.FederatedExplainer(model, rows, {"far": [1, 3]}).worth(given, Y)
        for rows in (background, BACKGROUND)
        for given in (frame, X, X.tolist())
    ]
    for worth in worths[1:]:
        np.testing.assert_array_equal(worth.score_without, worths[0].score_without)


def test_a_row_as_an_array_of_one_row():
    fed = xj.FederatedExplainer(wrapped(), BACKGROUND, {"far": [3]}, reference=BACKGROUND[:1])
    assert fed.worth(X, Y).score_without.shape == (1,)
    fed(X[:7])
    fed.worth(X, Y)
    assert fed.interaction_.shape == (7, 1)  # of the call


def test_one_row_and_several_outputs():
    fed = xj.FederatedExplainer(wrapped(), BACKGROUND, {"far": [3]})
    assert np.isnan(fed.worth(X[:1], Y[:1]).standard_errors).all()
    two = xj.as_model(lambda rows: np.stack([scores(rows)] * 2, axis=1), backend="host")
    fed = xj.FederatedExplainer(two, BACKGROUND, {"far": [3]})
    with pytest.raises(xj.InputError, match="one output"):
        fed.worth(X, Y)


def test_the_picture():
    axes = pytest.importorskip("matplotlib.axes")
    fed = xj.FederatedExplainer(wrapped(), BACKGROUND, {"near": [1, 2], "far$": [3]})
    refit = xj.as_model(
        lambda rows: scores(np.c_[rows, 0 * rows[:, 0]]), backend="host", output="proba"
    )
    found = fed.worth(X, Y, refitted={"far$": refit})
    ax = xj.plots.worth(found)
    assert isinstance(ax, axes.Axes)
    assert [bar.get_width() for bar in ax.patches] == list(found.mean_absolute)
    texts = [text.get_text() for text in ax.texts]
    assert f"{found.score_without[0]:.4f}" in texts[1]
    assert f"refitted {found.score_refitted[1]:.4f}" in texts[2]
    assert "refitted" not in texts[1]
    assert f"{found.score:.4f}" in ax.get_title(loc="left")
    with pytest.raises(xj.InputTypeError, match="FederatedExplainer.worth"):
        xj.plots.worth(fed(X))
    with pytest.raises(xj.InputTypeError, match="ax"):
        xj.plots.worth(found, ax=3)
