"""What all pictures share: dark styles, titles, and errors that are not known."""

from __future__ import annotations

import numpy as np
import pytest
from often import some_slow

import xaijax as xj
from xaijax.plots import style

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
VALUES = np.array([[3.0, -2.0, 1.0], [1.0, -1.0, 0.5]])
DATA = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def explained(**changes):
    fields = {"values": VALUES, "base_values": np.zeros(2), "data": DATA}
    return xj.Explanation(**fields | changes)


PAIRS = xj.CoalitionTable([0, 1, 1, 4, 0, 1, 1, 5], ["age", "pay", "sex"]).interactions()
RULE = xj.Rule(["age > 30"], [(0, 30.0, np.inf)], "yes", 0.97, 0.92, 0.2, True, 8, "sar")
WORTH = xj.GuestWorth(
    parties=("host", "bank"),
    mean_absolute=np.array([0.5, 0.25]),
    mean_value=np.array([0.5, 0.25]),
    standard_errors=np.array([0.1, 0.1]),
    metric="accuracy",
    score=0.75,
    score_without=np.array([0.5]),
    score_refitted=np.array([0.6]),
    instances=4,
)
SPREAD = xj.BackgroundSpread(
    np.array([5, 50]), 4, "random", np.array([1.0, 0.1]), np.array([1.0, 0.01]),
    np.ones((2, 1)), ("x",),
)  # fmt: skip


def sampled(budget=64):
    return explained(std_errors=np.full((2, 3), 0.1), exact=False, stats={"budget": budget})


def effects():
    X = np.random.default_rng(0).normal(size=(40, 3)).cumsum(axis=1)
    return xj.AEC().fit(X, y=X[:, 0]).explanation_


def judged():
    explainer = xj.Explainer(xj.as_model(lambda rows: rows.sum(axis=1)), np.zeros((1, 3)))
    return xj.judge({"right": DATA, "turned": -DATA}, explainer, DATA, curves=True)


def pairs_of_rows():
    sets = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    values = np.arange(12.0).reshape(2, 6)
    return xj.Interactions(values, np.zeros(2), sets, data=DATA, order=2)


DRAWN = {
    "bar": lambda: xj.plots.bar(explained()),
    "bar of outputs": lambda: xj.plots.bar(
        explained(values=np.stack([VALUES, -VALUES], axis=2), base_values=np.zeros((2, 2)))
    ),
    "beeswarm": lambda: xj.plots.beeswarm(explained()),
    "waterfall": lambda: xj.plots.waterfall(explained()[0]),
    "profile": lambda: xj.plots.profile(explained(instance_names=("Ada", "Ben"))),
    "tokens": lambda: xj.plots.tokens(explained()[0], ["not", "so", "bad"]),
    "heatmap": lambda: xj.plots.heatmap(explained()),
    "scatter": lambda: xj.plots.scatter(explained(), 0, by=1),
    "force": lambda: xj.plots.force(explained()[0]),
    "groups": lambda: xj.plots.groups(explained(), ["women", "men"]),
    "methods": lambda: xj.plots.methods({"one": explained(), "another": sampled()}),
    "convergence": lambda: xj.plots.convergence([sampled(64)[:1], sampled(256)[:1]]),
    "rules": lambda: xj.plots.rules([RULE]),
    "kept": lambda: xj.plots.kept(RULE, words=["not", "so", "bad"]),
    "kept of an image": lambda: xj.plots.kept(RULE, np.eye(3), np.arange(9).reshape(3, 3) // 3),
    "compare": lambda: xj.plots.compare(xj.compare(explained(), sampled(), paired=True)),
    "correlation": lambda: xj.plots.correlation(effects()),
    "worth": lambda: xj.plots.worth(WORTH),
    "faithfulness": lambda: xj.plots.faithfulness(judged()),
    "background_spread": lambda: xj.plots.background_spread(SPREAD),
    "image": lambda: xj.plots.image(explained()[0], shape=(1, 3)),
    "images": lambda: xj.plots.images(explained(), shape=(1, 3)).axes[0],
    "dependence": lambda: xj.plots.dependence(pairs_of_rows(), 0),
    "interactions": lambda: xj.plots.interactions(PAIRS),
    "network": lambda: xj.plots.network(PAIRS),
    "pairs": lambda: xj.plots.pairs(PAIRS),
}


def contrast(one, other):
    """As WCAG 2 defines it: from 1 to 21."""

    def luminance(colour):
        rgb = np.array(matplotlib.colors.to_rgb(colour))
        linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def texts_of(ax):
    """Texts beside the axes, and those on them unless they stand on a patch or a cell."""
    found = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.xaxis.label, ax.yaxis.label]
    found += [ax.title, ax._left_title]
    if ax.get_legend() is not None:
        found += ax.get_legend().get_texts()
    inside = [] if ax.images or not ax.axison else list(ax.texts)
    return [text for text in found + inside if text.get_text() and text.get_visible()]


@pytest.mark.parametrize("context", ["default", "dark_background", "Solarize_Light2"])
@pytest.mark.parametrize("name", some_slow(DRAWN, 5))
def test_texts_can_be_read_in_every_style(name, context):
    with plt.style.context(context):
        axes = DRAWN[name]()
        ground = matplotlib.rcParams["figure.facecolor"]
        axes.figure.canvas.draw()
    found = [text for ax in axes.figure.axes for text in texts_of(ax)]
    assert found or not axes.axison
    for text in found:
        assert contrast(text.get_color(), ground) > 4, text.get_text()


def test_a_dark_style_gives_its_colours():
    assert (style.ink(), style.faint()) == (style.TEXT, style.LINE)
    with plt.style.context("dark_background"):
        assert style.ink() == "#ffffff"
        assert 1.2 < contrast(style.faint(), style.ground()) < 4  # seen, and not loud
        axes = xj.plots.bar(explained())
        assert axes.spines["bottom"].get_edgecolor()[:3] != (1.0, 1.0, 1.0)
    for ground in ("#ffffff", "#000000", style.UP, style.DOWN):
        assert contrast(style.on(ground), ground) > 4


def test_words_on_dark_grounds_and_cells_can_be_read():
    ax = xj.plots.interactions(PAIRS)
    image, cells = ax.images[0], [text for text in ax.texts]
    assert len(cells) == 9
    for text in cells:
        x, y = (int(place) for place in text.get_position())
        ground = image.to_rgba(image.get_array())[y, x]
        assert contrast(text.get_color(), ground) > 4, text.get_text()


@pytest.mark.parametrize("draw", ["bar", "profile", "waterfall", "beeswarm"])
def test_errors_that_are_not_known_are_said(draw):
    some = np.array([[0.1, np.nan, 0.1]])

    def label(errors):
        one = explained()[0]
        sampled = xj.Explanation(one.values, one.base_values, errors, exact=False)
        return getattr(xj.plots, draw)(sampled).get_xlabel()

    assert label(some).endswith("lines: 95 % intervals, unknown for 1")
    assert label(np.full((1, 3), 0.1)).endswith("lines: 95 % intervals")
    assert label(some * np.nan).endswith("; 95 % intervals unknown")


@pytest.mark.parametrize("draw", ["force", "heatmap"])
def test_where_intervals_have_no_room_their_widths_are_said(draw):
    def label(errors):
        one = explained()[0]
        sampled = xj.Explanation(one.values, one.base_values, errors, exact=errors is None)
        return getattr(xj.plots, draw)(sampled).get_xlabel().replace("\n", " ")

    assert "95 %" not in label(None)
    assert label(np.array([[0.1, 0.05, 0.2]])).endswith("; 95 % intervals: ±0.39 or less")
    assert label(np.array([[0.1, np.nan, 0.2]])).endswith("±0.39 or less, unknown for 1")
    assert label(np.full((1, 3), np.nan)).endswith("; 95 % intervals unknown")


def test_unknown_errors_of_pairs_and_words_are_said():
    unknown = xj.Interactions(
        PAIRS.values, PAIRS.base_values, PAIRS.sets, PAIRS.values * np.nan, exact=False, order=3
    )
    assert "95 % intervals unknown" in xj.plots.pairs(unknown).get_xlabel()
    errors = np.array([[0.1, np.nan, 0.1]])
    one = xj.Explanation(VALUES[:1], np.zeros(1), errors, exact=False)
    assert "−2\n±?" in {text.get_text() for text in xj.plots.tokens(one).texts}


@pytest.mark.parametrize(
    ("facts", "title"),
    [
        ({}, ""),
        ({"quantity": "model output", "link": "identity"}, ""),
        ({"quantity": "proba", "selected_output": "yes"}, "probability of yes"),
        (
            {
                "quantity": "output a",
                "column_of": "proba",
                "quantity_words": "the output of class a",
            },
            "probability of a",
        ),
        ({"quantity": "proba", "link": "logit"}, "explained: logit of the probability"),
        ({"quantity": "rate", "quantity_words": "the share of people"}, "explained: the share"),
    ],
)
def test_the_title_tells_output_and_unit(facts, title):
    ax = xj.plots.bar(explained(provenance=facts))
    assert ax.get_title(loc="left").startswith(title) and bool(title) == bool(
        ax.get_title(loc="left")
    )


def test_several_outputs_have_their_legend_beside_and_their_sum():
    ax = DRAWN["bar of outputs"]()
    ax.figure.canvas.draw()
    legend = ax.get_legend().get_window_extent()
    assert legend.x0 >= ax.get_window_extent().x1 and legend.x1 <= ax.figure.bbox.x1
    assert [text.get_text() for text in ax.texts] == ["4", "3", "1.5"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "0"), (0.0, "0"), (90210.4, "90,210"), (-1234.5, "−1234"), (999.7, "1000"),
        (9999.6, "10,000"), (0.12345, "0.123"), (-1e-7, "−1e−07"), (2e20, "2e+20"),
        (1e6, "1,000,000"),
    ],
)  # fmt: skip
def test_one_number_format(value, text):
    """Three digits, those before the point in full, no exponent where they fit, no minus at 0."""
    assert style.number(value) == text
    assert style.signed(value) == (text if text.startswith("−") else f"+{text}")


def test_pictures_and_entries_have_one_number_format():
    data = np.array([[90210.0, -0.0, 20230101.5]])
    one = xj.Explanation(np.array([[90210.0, -1.0, 2.0]]), np.zeros(1), data=data)
    drawn = xj.plots.waterfall(one)
    entries = " ".join(label.get_text() for label in drawn.get_yticklabels())
    assert "= 90,210" in entries and "= 0" in entries and "= 20,230,102" in entries
    texts = [text.get_text() for text in drawn.texts]
    assert "+90,210" in texts and "base value + all values = 90,211" in texts
    assert "90,210" in [text.get_text() for text in xj.plots.bar(one).texts]
    assert "person A" not in entries and "-0" not in entries


def test_a_precision_below_one_is_not_shown_as_all():
    rule = xj.Rule(["age > 30"], [(0, 30.0, np.inf)], "yes", 0.9996, 0.92, 0.2, True, 8, "sar")
    title = xj.plots.kept(rule, words=["a", "b"]).get_title(loc="left")
    assert title == "yes: precision 99.9%"


def test_groups_stand_in_the_order_of_numbers_and_texts_are_not_numbers():
    def names(groups):
        N = len(groups)
        values = np.tile(VALUES, (3, 1))[:N]
        one = explained(values=values, base_values=np.zeros(N), data=None)
        drawn = xj.plots.groups(one, groups).get_legend().get_texts()
        return [text.get_text() for text in drawn]

    assert names([10, 9.0, 9, 100, 10]) == ["9 (2)", "10 (2)", "100 (1)"]
    assert names([1, "1", "one", 1, "1"]) == ["1 (2)", "'1' (2)", "one (1)"]
    assert names([0.5, -3, np.float32(0.25)]) == ["-3 (1)", "0.25 (1)", "0.5 (1)"]
    assert names([True, 1, False]) == ["False (1)", "True (1)", "1 (1)"]
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    ages = pd.cut(pd.Series([3.0, 8.0, 12.0]), [0, 5, 10, 20])
    assert names(ages.tolist()) == ["(0, 5] (1)", "(5, 10] (1)", "(10, 20] (1)"]
