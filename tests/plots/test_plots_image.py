"""The picture of one image: the values at the right pixels, and what cannot be drawn."""

from __future__ import annotations

import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import xaijax as xj
from xaijax import plots
from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.explanation import Explanation

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


def make_image(H=4, W=6, players=None, channels=(), **changes):
    """One image with a value for each pixel, or for each player of an integer array [H, W]."""
    rng = np.random.default_rng(5)
    data = rng.random((1, H, W, *channels))
    columns = np.arange(data.size) if players is None else np.asarray(players).reshape(-1)
    P = columns.max() + 1
    given = tuple(tuple(map(int, np.flatnonzero(columns == p))) for p in range(P))
    fields = {
        "values": rng.normal(size=(1, P)),
        "base_values": np.zeros(1),
        "data": data,
        "provenance": {"player_columns": given},
    }
    return Explanation(**(fields | changes))


PATCHES = np.arange(6).reshape(2, 3).repeat(2, axis=0).repeat(2, axis=1)  # [4, 6]


def pixels_of(ax):
    (picture,) = ax.images
    return np.ma.filled(picture.get_array(), np.nan)


def hatched_in(ax):
    """bool [H, W], from the corners of the squares that are hatched."""
    chosen = np.zeros(pixels_of(ax).shape, bool)
    for patch in ax.patches:
        corners = patch.get_path().vertices.reshape(-1, 5, 2)[:, 0] + 0.5
        chosen[tuple(corners[:, ::-1].astype(int).T)] = True
        assert patch.get_hatch()
    return chosen


def test_image_has_the_values_at_their_pixels():
    explanation = make_image()
    ax = plots.image(explanation)
    np.testing.assert_array_equal(pixels_of(ax), explanation.values.reshape(4, 6))
    limit = np.abs(explanation.values).max()
    assert ax.images[0].get_clim() == (-limit, limit)
    assert ax.yaxis_inverted() and not ax.patches and ax.get_xlabel() == ""
    assert [a.get_ylabel() for a in ax.figure.axes] == ["", "Shapley value"]
    low, middle, high = ax.images[0].cmap([0.0, 0.5, 1.0])
    assert low[2] > low[0] and high[0] > high[2] and middle[:3].min() > 0.98


def test_image_of_patches_and_of_some_players():
    explanation = make_image(players=PATCHES)
    np.testing.assert_array_equal(
        pixels_of(plots.image(explanation)), explanation.values[0][PATCHES]
    )
    some = pixels_of(plots.image(explanation[0, [4, 1]]))
    kept = np.isin(PATCHES, [4, 1])
    np.testing.assert_array_equal(np.isnan(some), ~kept)
    np.testing.assert_array_equal(some[kept], explanation.values[0][PATCHES][kept])


def test_image_sums_the_players_of_a_pixel():
    explanation = make_image(channels=(3,))
    by_channel = explanation.values.reshape(4, 6, 3)
    np.testing.assert_allclose(pixels_of(plots.image(explanation)), by_channel.sum(axis=2))
    # All channels of a patch are one player: its value, not three times its value.
    explanation = make_image(channels=(3,), players=np.repeat(PATCHES[..., None], 3, axis=2))
    np.testing.assert_array_equal(
        pixels_of(plots.image(explanation)), explanation.values[0][PATCHES]
    )


@pytest.mark.slow
def test_image_from_an_explainer():
    weights = np.arange(24, dtype=np.float32).reshape(4, 6) - 9
    model = xj.as_model(lambda X: (X * weights).sum(axis=(1, 2)), input_shape=(4, 6))
    background = xj.Baseline(np.zeros((4, 6), np.float32))
    X = np.ones((2, 4, 6), np.float32)
    explanation = xj.Explainer(model, background, players=PATCHES)(X, progress=False)
    sums = weights.reshape(2, 2, 3, 2).sum(axis=(1, 3)).reshape(-1)
    np.testing.assert_allclose(pixels_of(plots.image(explanation[1])), sums[PATCHES], atol=1e-4)


def test_image_of_flat_rows():
    explanation = make_image()
    flat = make_image(data=explanation.data.reshape(1, -1))
    np.testing.assert_array_equal(
        pixels_of(plots.image(flat, shape=(4, 6))), pixels_of(plots.image(explanation))
    )
    pd = pytest.importorskip("pandas")
    names = [f"pixel {j}" for j in range(24)]
    frame = pd.DataFrame(explanation.data.reshape(1, -1), columns=names)
    order = np.random.default_rng(0).permutation(24)  # players in another order than the columns
    shuffled = explanation.values[:, order]
    by_name = make_image(
        values=shuffled, data=frame, feature_names=tuple(np.array(names)[order]), provenance={}
    )
    np.testing.assert_array_equal(
        pixels_of(plots.image(by_name, shape=(4, 6))), explanation.values.reshape(4, 6)
    )


def test_image_hatches_what_is_not_known():
    values = np.full((1, 24), 1.0)
    errors = np.full((1, 24), 0.1)
    values[0, 3], errors[0, 3] = 0.0, 0.0  # certain: nothing hangs on it
    errors[0, 8] = 0.4  # normal: within 0.78, t of 3 degrees: 1.27
    errors[0, 9] = 0.6
    errors[0, 10] = np.nan
    fields = {"values": values, "std_errors": errors, "exact": False}
    ax = plots.image(make_image(**fields))
    assert np.flatnonzero(hatched_in(ax)).tolist() == [9, 10] and "95 %" in ax.get_xlabel()
    ax = plots.image(make_image(**fields, stats={"dof": np.array([3.0])}))
    assert np.flatnonzero(hatched_in(ax)).tolist() == [8, 9, 10]
    certain = plots.image(make_image(values=values, std_errors=0 * values + 0.1, exact=False)[:, 5])
    assert not certain.patches and certain.get_xlabel() == ""


def test_image_outline_goes_around_the_bright_pixels():
    data = np.zeros((1, 4, 6))
    data[0, 1, 2] = data[0, 1, 3] = 1.0
    ax = plots.image(make_image(data=data))
    lines, _ = ax.collections  # the second is the rim of the first
    found = {tuple(map(tuple, np.sort(s, axis=0).tolist())) for s in lines.get_segments()}
    expected = {((1.5, 0.5), (1.5, 1.5)), ((3.5, 0.5), (3.5, 1.5))}
    expected |= {((x - 0.5, y), (x + 0.5, y)) for x in (2.0, 3.0) for y in (0.5, 1.5)}
    assert found == expected
    assert not plots.image(make_image(data=data), outline=False).collections
    assert not plots.image(make_image(data=None), shape=(4, 6)).collections


def test_image_limit_map_and_output():
    ax = plots.image(make_image(), limit=7, cmap="RdBu_r", colorbar=False)
    assert ax.images[0].get_clim() == (-7, 7) and ax.images[0].cmap.name == "RdBu_r"
    assert len(ax.figure.axes) == 1
    two = np.random.default_rng(1).normal(size=(1, 24, 2))
    explanation = make_image(
        values=two, base_values=np.zeros((1, 2)), output_names=("cat", "dog"), instance_names=("a",)
    )
    ax = plots.image(explanation, output="dog")
    np.testing.assert_array_equal(pixels_of(ax), two[0, :, 1].reshape(4, 6))
    assert ax.get_title(loc="left") == "instance: a, output: dog"
    with pytest.raises(InputError, match=r"pass output= \('cat', 'dog'\)"):
        plots.image(explanation)
    zeros = plots.image(make_image(values=np.zeros((1, 24))))
    assert zeros.images[0].get_clim() == (-1, 1)


def test_image_draws_into_a_given_axes():
    ax = matplotlib.figure.Figure().add_subplot()
    assert plots.image(make_image(), ax) is ax
    assert plt.get_fignums() == []


TABLE = Explanation(values=np.ones((30, 5)), base_values=np.zeros(30), data=np.ones((30, 5)))


@pytest.mark.parametrize(
    ("explanation", "settings", "error", "text"),
    [
        (TABLE, {}, InputError, r"30; choose one, explanation\[0\]"),
        (TABLE[:1], {}, InputError, r"shape \(5,\), which is no image.*pass shape="),
        (TABLE[:1], {"shape": (4, 6)}, InputError, r"\(4, 6\) has 24 entries.*has 5"),
        (TABLE[:1], {"shape": (5,)}, InputError, r"shape: got \(5,\)"),
        (TABLE[:1], {"shape": (5, 1, 2)}, InputError, r"shape: got \(5, 1, 2\)"),
        (TABLE[:1], {"shape": (0, 5)}, InputError, "shape"),
        (TABLE[:1], {"shape": 5}, InputTypeError, "shape"),
        (TABLE[:1], {"shape": (2.5, 2)}, InputTypeError, "shape"),
        (make_image(data=None), {}, InputError, "holds no data; pass shape="),
        (make_image(data=None), {"shape": (2, 2)}, InputError, "fewer than the players cover"),
        (make_image(players=PATCHES, provenance={}), {}, InputError, "player_columns.*missing"),
        (make_image(data=np.full((1, 4, 6), "a")), {}, InputError, "outline=False"),
        (make_image(), {"limit": 0}, InputError, "limit"),
        (make_image(), {"limit": "1"}, InputTypeError, "limit"),
        (make_image(), {"cmap": "no such map"}, InputError, "cmap"),
        (make_image(), {"output": "yes"}, InputError, "one output"),
        (make_image(), {"ax": "here"}, InputTypeError, "ax"),
        (np.zeros((2, 2)), {}, InputTypeError, "ndarray"),
    ],
)
def test_image_of_what_is_none(explanation, settings, error, text):
    with pytest.raises(error, match=text):
        plots.image(explanation, **settings)
    assert plt.get_fignums() == []


def test_channels_first_are_drawn_as_channels_last():
    last = make_image(channels=(3,))
    data = np.moveaxis(last.data, -1, 1)  # [1, 3, 4, 6]
    values = last.values.reshape(1, 4, 6, 3).transpose(0, 3, 1, 2).reshape(1, -1)
    wanted = pixels_of(plots.image(last))
    for provenance in ({}, {"player_columns": tuple((j,) for j in range(72))}):
        first = make_image(data=data, values=values, provenance=provenance)
        np.testing.assert_allclose(pixels_of(plots.image(first)), wanted)
        flat = make_image(data=data.reshape(1, -1), values=values, provenance=provenance)
        np.testing.assert_allclose(pixels_of(plots.image(flat, shape=(3, 4, 6))), wanted)
    ours, theirs = plots.images(first).axes, plots.images(last).axes
    for place in (0, 1):
        np.testing.assert_allclose(
            np.asarray(ours[place].images[0].get_array()),
            np.asarray(theirs[place].images[0].get_array()),
        )
    owner = np.repeat(PATCHES[None], 3, axis=0)  # as an Explainer takes them, [C, H, W]
    six = make_image(data=data, values=np.arange(6.0)[None], provenance={})
    np.testing.assert_array_equal(pixels_of(plots.image(six, players=owner)), PATCHES)
    rule = xj.Rule(["patch 1"], [(1, 0.5, np.inf)], "cat", 0.97, 0.92, 0.2, True, 8, "sar")
    a, b = (plots.kept(rule, one, PATCHES).images[0] for one in (data[0], last.data[0]))
    np.testing.assert_array_equal(a.get_array(), b.get_array())
    with pytest.raises(InputError, match=r"\(C, H, W\)"):
        plots.image(make_image(data=np.zeros((1, 5, 4, 6)), values=np.zeros((1, 120))))


def test_images_are_shown_once_in_a_notebook(monkeypatch):
    """A notebook shows pyplot's open figures at the end of a cell, and what a cell returns."""
    shown, cell = [], SimpleNamespace(execution_count=1)
    display = SimpleNamespace(display=shown.append, Image=lambda data: data)
    notebook = SimpleNamespace(display=display, get_ipython=lambda: cell)
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    figure = plots.images(make_image())
    figure._ipython_display_()  # as the cell's value
    figure._ipython_display_()  # as an open figure, at the end of the cell
    assert len(shown) == 1 and shown[0].startswith(b"\x89PNG")
    cell.execution_count = 2
    figure._ipython_display_()  # in a later cell
    assert len(shown) == 2
    monkeypatch.undo()
    again = pickle.loads(pickle.dumps(figure))
    assert len(again.axes) == len(figure.axes)
