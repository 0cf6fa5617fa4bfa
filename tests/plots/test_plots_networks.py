"""Pictures of networks: a grid of images, a line of words, what a rule keeps."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax import plots
from xaijax.core.errors import InputError, InputTypeError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

RNG = np.random.default_rng(8)
N, H, W, K = 3, 4, 6, 3
IMAGES = RNG.random((N, H, W))
VALUES = RNG.normal(size=(N, H * W, K))
BASE = RNG.normal(size=(N, K))
SEGMENTS = np.stack([np.arange(H * W).reshape(H, W) // 8 + n % 2 for n in range(N)])


def explained(**changes):
    fields = {"values": VALUES, "base_values": BASE, "data": IMAGES, "output_names": tuple("abc")}
    return xj.Explanation(**(fields | changes))


def drawn(axes):
    return np.ma.filled(axes.images[0].get_array(), np.nan)


def test_a_grid_has_each_image_beside_the_values_of_each_output():
    figure = plots.images(explained(instance_names=("one", "two", "three")))
    grid = np.array(figure.axes[: N * (1 + K)]).reshape(N, 1 + K)
    limit = np.abs(VALUES).max()
    for n in range(N):
        np.testing.assert_array_equal(drawn(grid[n, 0]), IMAGES[n])
        assert grid[n, 0].get_title() == ("one", "two", "three")[n]
        for k in range(K):
            np.testing.assert_array_equal(drawn(grid[n, 1 + k]), VALUES[n, :, k].reshape(H, W))
            assert grid[n, 1 + k].images[0].get_clim() == (-limit, limit)
            answer = BASE[n, k] + VALUES[n, :, k].sum()
            assert grid[n, 1 + k].get_title() == f"{'abc'[k]}: {answer:.3g}".replace("-", "−")
    assert figure.axes[-1].get_ylabel() == "Shapley value"


@pytest.mark.slow
def test_a_grid_of_chosen_outputs_of_colours_and_of_one_output():
    figure = plots.images(explained(), outputs=["c", 0])
    np.testing.assert_array_equal(drawn(figure.axes[1]), VALUES[0, :, 2].reshape(H, W))
    np.testing.assert_array_equal(drawn(figure.axes[2]), VALUES[0, :, 0].reshape(H, W))
    colours = xj.Explanation(
        RNG.normal(size=(1, H * W * 3)), np.zeros(1), data=RNG.normal(size=(1, H, W, 3))
    )
    figure = plots.images(colours)
    shown = drawn(figure.axes[0])
    assert shown.shape == (H, W, 3) and shown.min() == 0 and shown.max() == 1
    summed = colours.values.reshape(H, W, 3).sum(axis=2)
    np.testing.assert_allclose(drawn(figure.axes[1]), summed)
    with pytest.raises(InputError, match="leave it out"):
        plots.images(colours, outputs=[0])


def edges(axes):
    """The lines that are drawn between pixels, as ((row, column), "down" or "right")."""
    found = set()
    for (x0, y0), (x1, _) in axes.collections[0].get_segments():
        found.add(((y0 + 0.5, x0 + 0.5), "down" if x0 == x1 else "right"))
    return found


def test_players_of_each_image_have_their_values_and_outlines():
    P = SEGMENTS.max() + 1
    values = RNG.normal(size=(N, P))
    own = {"player_columns": ((),) * P}
    explanation = xj.Explanation(values, np.zeros(N), data=IMAGES, provenance=own)
    with pytest.raises(InputError, match="players="):
        plots.images(explanation)
    figure = plots.images(explanation, players=SEGMENTS)
    for n in range(N):
        axes = figure.axes[2 * n + 1]
        np.testing.assert_array_equal(drawn(axes), values[n][SEGMENTS[n]])
        inner = {
            ((y, x), "right")
            for y in range(1, H)
            for x in range(W)
            if SEGMENTS[n][y, x] != SEGMENTS[n][y - 1, x]
        }
        assert inner <= edges(axes)
        within = {e for e in edges(axes) if e[1] == "right" and 0 < e[0][0] < H}
        assert within == inner
    nobody = np.where(SEGMENTS == 1, -1, SEGMENTS)
    assert np.isnan(
        drawn(plots.images(explanation, players=nobody).axes[1])[SEGMENTS[0] == 1]
    ).all()
    for numbers in (SEGMENTS[1], SEGMENTS[1][..., None].repeat(3, axis=-1)):
        alone = plots.image(explanation[1], players=numbers)
        np.testing.assert_array_equal(drawn(alone), values[1][SEGMENTS[1]])
    channels = SEGMENTS[1][..., None] == np.arange(3)
    with pytest.raises(InputError, match="channels of a pixel have different players"):
        plots.image(explanation[1], players=channels.astype(int))


@pytest.mark.slow
def test_each_image_is_titled_with_the_output_chosen_for_it():
    weights = RNG.normal(size=(H * W, K))
    model = xj.as_model(lambda z: z.reshape(len(z), -1) @ weights, output_names=["a", "b", "c"])
    halves = np.arange(H * W).reshape(H, W) // (H * W // 2)
    chosen = xj.Explainer(model, np.zeros((1, H, W)), players=halves)(IMAGES, outputs=[2, 0, 2])
    answers = (IMAGES.reshape(N, -1) @ weights)[np.arange(N), [2, 0, 2]]
    titles = [axes.get_title() for axes in plots.images(chosen).axes[1 : 2 * N : 2]]
    wanted = [f"{k}: {y:.3g}".replace("-", "−") for k, y in zip("cac", answers, strict=True)]
    assert titles == wanted
    assert plots.image(chosen[1]).get_title(loc="left") == "output: a"


def test_outlines_are_whole_at_the_border_and_seen_on_dark_pixels():
    """All rims below all lines: one that crosses a line would cut it into dashes."""
    axes = plots.image(explained()[0, :, "a"], players=SEGMENTS[0])
    line, rim = axes.collections
    assert not line.get_clip_on() and not rim.get_clip_on()
    np.testing.assert_array_equal(line.get_segments(), rim.get_segments())
    assert rim.get_zorder() < line.get_zorder() and rim.get_linewidth() > line.get_linewidth()
    assert matplotlib.colors.to_hex(rim.get_color()[0]) == "#ffffff"


REFUSED = [
    ({"explanation": xj.Explanation(np.zeros((21, 4)), np.zeros(21), data=np.zeros((21, 2, 2)))},
     InputError, r"explanation\[:20\]"),
    ({"explanation": xj.Explanation(np.zeros((1, 4)), np.zeros(1))}, InputError, "no data"),
    ({"outputs": "a"}, InputTypeError, "outputs"),
    ({"outputs": []}, InputError, "outputs"),
    ({"outputs": ["d"]}, InputError, "d"),
    ({"shape": (3, 3)}, InputError, "shape"),
    ({"players": np.zeros((H, W))}, InputTypeError, "whole numbers"),
    ({"players": np.zeros((W, H), int)}, InputError, "players"),
    ({"players": np.full((H, W), 99)}, InputError, "99"),
    ({"limit": 0}, InputError, "limit"),
    ({"cmap": "no such"}, InputError, "cmap"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "error", "said"), REFUSED)
def test_grids_that_are_refused(changes, error, said):
    given = {"explanation": explained()} | changes
    with pytest.raises(error, match=said):
        plots.images(**given)


def spoken(axes):
    return [text.get_text() for text in axes.texts]


def test_words_have_the_colours_of_their_values():
    values = np.array([[1.0, -1.0, 0.25, 0.0]])
    errors = np.array([[0.1, 0.1, 0.5, 0.1]])
    one = xj.Explanation(values, np.array([2.0]), std_errors=errors, exact=False)
    axes = plots.tokens(one, ["good", "bad", "perhaps", None])
    half = one.half_widths()[0]
    assert spoken(axes) == [
        "good", f"+1\n±{half[0]:.2g}", "bad", f"−1\n±{half[1]:.2g}",
        "perhaps", f"+0.25\n±{half[2]:.2g}",
    ]  # fmt: skip
    good, bad, perhaps = (np.array(patch.get_facecolor()) for patch in axes.patches)
    assert good[0] > good[2] and bad[2] > bad[0] and perhaps[:3].min() > good[:3].min()
    inks = [text.get_color() for text in axes.texts[::2]]
    assert inks[2] != inks[0], "a word whose interval contains 0 is grey"
    assert "base value 2" in axes.get_title(loc="left") and "2.25" in axes.get_title(loc="left")


def test_long_sentences_are_wrapped_and_do_not_overlap():
    P = 60
    one = xj.Explanation(RNG.normal(size=(1, P)), np.zeros(1))
    axes = plots.tokens(one, ["word" * (1 + p % 3) for p in range(P)])
    boxes = [patch.get_bbox() for patch in axes.patches]
    assert len(boxes) == P and max(box.x1 for box in boxes) <= axes.get_xlim()[1]
    for a, b in zip(boxes, boxes[1:], strict=False):
        assert b.x0 >= a.x1 or b.y0 > a.y0
    # A word is not wider than its ground.
    axes.figure.canvas.draw()
    for patch, text in zip(axes.patches, axes.texts[::2], strict=True):
        assert text.get_window_extent().width <= patch.get_window_extent().width


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ("abcd", InputTypeError, "words"),
        (["a"], InputError, "words"),
        ([None] * 4, InputError, "None"),
    ],
)
def test_other_words_are_refused(words, error, said):
    one = xj.Explanation(np.ones((1, 4)), np.zeros(1))
    with pytest.raises(error, match=said):
        plots.tokens(one, words)
    with pytest.raises(InputError, match="choose one"):
        plots.tokens(xj.Explanation(np.ones((2, 4)), np.zeros(2)))


@pytest.fixture(scope="module")
def rule():
    model = xj.as_model(lambda z: (z[:, 1] + z[:, 3] > 1.5) * 1, output="label")
    data = np.array(
        [[a, b, c, d] for a in (0, 1) for b in (0, 1) for c in (0, 1) for d in (0, 1.0)]
    )
    (found,) = xj.AnchorExplainer(model, data, bins=None).explain(np.ones((1, 4)))
    assert found.features == (1, 3)
    return found


def test_what_a_rule_keeps_of_a_sentence_is_bold(rule):
    axes = plots.kept(rule, words=["a", "very", None, "film"])
    assert [(t.get_text(), t.get_weight()) for t in axes.texts] == [
        ("a", "normal"), ("very", "bold"), ("film", "bold"),
    ]  # fmt: skip
    assert axes.get_title(loc="left") == "1: precision 100%"
    with pytest.raises(InputError, match="player 3"):
        plots.kept(rule, words=["a", "b"])
    with pytest.raises(InputError, match="one of the two"):
        plots.kept(rule)
    with pytest.raises(InputTypeError, match="rule"):
        plots.kept("rule", words=["a"])


def test_what_a_rule_keeps_of_an_image_is_as_it_is(rule):
    image = np.arange(16.0).reshape(4, 4)
    players = np.arange(16).reshape(4, 4) // 4
    axes = plots.kept(rule, image, players)
    inside = np.isin(players, [1, 3])
    shown = drawn(axes)
    np.testing.assert_array_equal(shown[inside], image[inside])
    assert np.ptp(shown[~inside]) < 0.2 * np.ptp(image[~inside])
    assert ((1.0, 0.0), "right") in edges(axes)
    colours = plots.kept(rule, RNG.random((4, 4, 3)), players)
    assert drawn(colours).shape == (4, 4, 3)
    with pytest.raises(InputError, match="players"):
        plots.kept(rule, RNG.random((4, 4, 3)))
    with pytest.raises(InputError, match="player 3"):
        plots.kept(rule, image, np.minimum(players, 2))


def test_pictures_of_a_network_that_was_explained():
    model = xj.as_model(lambda z: jnp.stack([z.sum(axis=(1, 2)), z[:, 0, 0] ** 2], axis=1))
    found = xj.Explainer(model, np.zeros((1, H, W)), players=SEGMENTS)(IMAGES)
    figure = plots.images(found, players=SEGMENTS)
    # A sum over pixels: each segment has the sum of its own.
    for n in range(N):
        own = [IMAGES[n][SEGMENTS[n] == p].sum() for p in range(SEGMENTS.max() + 1)]
        np.testing.assert_allclose(
            drawn(figure.axes[n * 3 + 1]), np.array(own)[SEGMENTS[n]], rtol=0, atol=1e-5
        )
