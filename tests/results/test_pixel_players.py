"""Instances of rank above 1 whose players are single pixels: every form of the result has them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax import plots
from xaijax.core.errors import InputError
from xaijax.results.explanation import Explanation

H, W = 2, 3
X = np.arange(4 * H * W, dtype=np.float32).reshape(4, H, W)
PLACES = tuple(f"x{h},{w}" for h in range(H) for w in range(W))


def weighted(rows):
    return (rows * jnp.arange(1.0, H * W + 1).reshape(H, W)).sum((1, 2))


@pytest.fixture(scope="module")
def pixels():
    return xj.Explainer(xj.as_model(weighted, input_shape=(H, W)), xj.Baseline(0 * X[0]))(X)


def test_each_pixel_is_a_player_named_by_its_place_with_its_own_data(pixels):
    assert pixels.feature_names == PLACES
    for name, own in zip(PLACES, pixels.player_data(), strict=True):
        h, w = map(int, name[1:].split(","))
        np.testing.assert_array_equal(own, X[:, h, w])


def test_some_pixels_keep_their_data(pixels):
    last, first = pixels[1:, ["x1,2", "x0,0"]].player_data()
    np.testing.assert_array_equal(last, X[1:, 1, 2])
    np.testing.assert_array_equal(first, X[1:, 0, 0])


def test_pixels_without_player_columns_stand_in_order():
    one = Explanation(values=np.zeros((4, H * W)), base_values=np.zeros(4), data=X)
    np.testing.assert_array_equal(np.stack(one.player_data(), 1), X.reshape(4, -1))
    np.testing.assert_array_equal(one[:, 4].player_data()[0], X[:, 1, 1])


def test_pixels_in_the_long_table(pixels):
    pytest.importorskip("pandas")
    table = pixels.to_dataframe(long=True)
    np.testing.assert_array_equal(table["data"], X.reshape(-1))
    assert tuple(table["player"][: H * W]) == PLACES


def test_pixels_in_shap_s_form(pixels):
    pytest.importorskip("shap")
    np.testing.assert_array_equal(pixels.to_shap().data, X.reshape(4, -1))


def test_pixels_are_drawn_and_reported(pixels, tmp_path):
    matplotlib = pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    matplotlib.use("Agg")
    pytest.importorskip("matplotlib.pyplot")
    labels = [text.get_text() for text in plots.waterfall(pixels[1]).get_yticklabels()]
    assert labels[0] == "x1,2 = 11"  # the largest weight; row 1 has 6 + 5 there
    assert "x1,2" in {text.get_text() for text in plots.beeswarm(pixels).get_yticklabels()}
    assert "x1,2" in xj.report(pixels, tmp_path / "page.html").read_text()


def test_one_pixel_images_with_channels_and_single_entries():
    one = Explanation(values=np.zeros((4, 1)), base_values=np.zeros(4), data=X[:, :1, :1])
    np.testing.assert_array_equal(one.player_data()[0], X[:, 0, 0])
    none = Explanation(values=np.zeros((0, H * W)), base_values=np.zeros(0), data=X[:0])
    assert [own.shape for own in none.player_data()] == [(0,)] * (H * W)


@pytest.mark.parametrize(
    "columns",
    [((0,), (6,), (1,)), ((0,), (1,)), ((0,), (-1,), (2,)), (0, 1, 2), 7, ("a", "b", "c")],
)
def test_player_columns_that_do_not_fit_are_refused(columns):
    wrong = Explanation(
        values=np.zeros((4, 3)),
        base_values=np.zeros(4),
        data=X,
        provenance={"player_columns": columns},
    )
    for read in (wrong.player_data, lambda: wrong[:, [0]]):
        with pytest.raises(InputError, match=r"provenance\['player_columns'\].*leave it out"):
            read()
