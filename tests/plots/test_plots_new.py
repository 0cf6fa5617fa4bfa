"""Pictures of many instances, of one, and of several explanations: what they draw and refuse."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import xaijax as xj
from xaijax import plots

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
RNG = np.random.default_rng(5)
DATA = RNG.normal(size=(12, 4))
VALUES = DATA * [1.0, 2.0, 3.0, 4.0]
NAMES = ("age", "pay", "$sex$", "hours")


def explained(N=12, **changes):
    fields = {"values": VALUES[:N], "base_values": np.full(N, 0.5), "data": DATA[:N]}
    return xj.Explanation(**fields | {"feature_names": NAMES} | changes)


def outputs(N=12):
    two = np.stack([VALUES[:N], -VALUES[:N]], axis=2)
    return explained(N, values=two, base_values=np.zeros((N, 2)), output_names=("no", "yes"))


def at(budget, error, value=VALUES[:1]):
    return xj.Explanation(
        value, np.zeros(1), np.full((1, 4), error), exact=False, stats={"budget": budget}
    )


GROUPS = ["women", "men"] * 6
CONDITIONS = ["age > 1", "pay <= 3"], [(0, 1, np.inf), (1, -np.inf, 3)]
RULE = xj.Rule(*CONDITIONS, "adult", 0.9, 0.8, 0.25, True, 8, "sar")
WRONG = (xj.InputError, xj.InputTypeError)
DRAWN = {
    "scatter": lambda one, **more: plots.scatter(one, "age", **more),
    "heatmap": plots.heatmap,
    "force": lambda one, **more: plots.force(one, instance=0, **more),
    "groups": lambda one, **more: plots.groups(one, GROUPS[: len(one)], **more),
    "methods": lambda one, **more: plots.methods({"a": one, "b": one}, **more),
    "convergence": lambda one, **more: plots.convergence(
        [
            xj.Explanation(one.values, one.base_values, np.full(one.shape, 0.1), exact=False,
                           output_names=one.output_names, stats={"budget": budget})
            for budget in (10, 20)
        ],
        instance=0,
        **more,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_axes_outputs_and_refusals(name):
    draw, ax = DRAWN[name], matplotlib.figure.Figure().add_subplot()
    assert draw(explained(), ax=ax) is ax and plt.get_fignums() == []
    assert draw(outputs(), output="yes").get_title(loc="left").endswith("output: yes")
    with pytest.raises(xj.InputError, match=r"pass output= \('no', 'yes'\)"):
        draw(outputs())
    with pytest.raises(xj.InputError, match="leave output out"):
        draw(explained(), output="yes")
    with pytest.raises(xj.InputTypeError, match="Axes"):
        draw(explained(), ax="here")
    with pytest.raises(xj.InputError, match="not finite"):
        draw(explained(values=VALUES * np.nan))


@pytest.mark.parametrize("name", [name for name in DRAWN if name != "scatter"])
def test_how_many_are_shown_is_checked(name):
    with pytest.raises(xj.InputError, match="max_display"):
        DRAWN[name](explained(), max_display=0)


def test_pictures_say_the_output_of_each_instance():
    words = np.array(["no", "yes", "no"] * 4)
    one = explained(stats={"output_names": words}, provenance={"quantity": "proba"})
    told = "output: each instance's own (no 8, yes 4) (the probability)"
    for draw in (plots.bar, plots.beeswarm, plots.heatmap, DRAWN["groups"], DRAWN["scatter"]):
        title = draw(one).get_title(loc="left")
        assert " ".join(title.split()) == told
        own = draw(one[::3]).get_title(loc="left")
        assert " ".join(own.split()) == "probability of no"
        plt.close("all")
    people = plots.profile(one[:2])
    labels = [text.get_text() for text in people.get_legend().get_texts()]
    assert labels == ["person A (output: no)", "person B (output: yes)"]
    assert plots.profile(one[1]).get_title(loc="left").startswith("probability of yes")
    plt.close("all")


def test_scatter_draws_values_over_data():
    ax = plots.scatter(explained(), "pay", by="hours")
    dots = ax.collections[0]
    np.testing.assert_array_equal(dots.get_offsets(), np.stack([DATA[:, 1], VALUES[:, 1]], axis=1))
    np.testing.assert_array_equal(dots.get_array(), DATA[:, 3])
    assert ax.get_xlabel() == "pay" and ax.figure.axes[1].get_ylabel() == "hours"
    assert len(plots.scatter(explained(), 1).figure.axes) == 1
    for wrong in (4, "height", [0, 1]):
        with pytest.raises(WRONG, match="player"):
            plots.scatter(explained(), wrong)
    with pytest.raises(xj.InputError, match="not one column"):
        plots.scatter(explained(data=None), 0)


def test_scatter_of_texts_orders_them_by_mean_value():
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    data = pd.DataFrame({"age": ["b", "a", None] * 4, "pay": DATA[:, 1]})
    values = np.tile([[2.0, 0], [1.0, 0], [3.0, 0]], (4, 1))
    one = explained(values=values, data=data, feature_names=("age", "pay"))
    ax = plots.scatter(one, "age", by="pay")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["a", "b", "missing"]
    places = np.asarray(ax.collections[0].get_offsets())[:, 0]
    np.testing.assert_array_equal(np.round(places), np.tile([1, 0, 2], 4))
    coloured = plots.scatter(one, "pay", by="age")
    kinds = [text.get_text() for text in coloured.get_legend().get_texts()]
    assert kinds == ["a", "b", "missing"] and coloured.get_legend().get_title().get_text() == "age"
    drawn = [np.asarray(dots.get_offsets())[:, 0] for dots in coloured.collections]
    for place, first in enumerate((1, 0, 2)):  # the rows of "a", of "b", and without a text
        np.testing.assert_array_equal(drawn[place], DATA[first::3, 1])


def test_scatter_of_many_texts_joins_those_that_are_rare():
    """14 texts: text n occurs 14 - n times, so that the last three share the last place."""
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    own = np.repeat(np.arange(14), 14 - np.arange(14))
    data = pd.DataFrame({"age": [f"text {n:02}" for n in own], "pay": np.arange(len(own)) * 1.0})
    values = np.stack([own, own], axis=1) * 1.0
    one = xj.Explanation(values, np.zeros(len(own)), data=data, feature_names=("age", "pay"))
    ax = plots.scatter(one, "age")
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert ticks == [f"text {n:02}" for n in range(11)] + ["other (3 texts)"]
    places = np.round(np.asarray(ax.collections[0].get_offsets())[:, 0])
    np.testing.assert_array_equal(places, np.minimum(own, 11))
    coloured = plots.scatter(one, "pay", by="age")
    kinds = [text.get_text() for text in coloured.get_legend().get_texts()]
    assert kinds == [f"text {n:02}" for n in range(6)] + ["other (8 texts)"]
    assert [len(dots.get_offsets()) for dots in coloured.collections] == [14, 13, 12, 11, 10, 9, 36]


def test_scatter_of_many_says_what_it_leaves_out():
    N = 5_000
    data = np.arange(N, dtype=float)[:, None]
    data[0] = np.nan
    ax = plots.scatter(xj.Explanation(np.ones((N, 1)), np.zeros(N), data=data), 0)
    assert "4,000 of 5,000 instances are drawn" in ax.get_xlabel()
    assert "1 instances without an entry are not drawn" in ax.get_xlabel()


def test_heatmap_puts_instances_in_order():
    given = np.asarray(plots.heatmap(explained(), order="given").images[0].get_array())
    order = np.argsort(-np.abs(VALUES).mean(axis=0))
    np.testing.assert_array_equal(given, VALUES[:, order].T)
    answers = VALUES.sum(axis=1)
    by_output = np.asarray(plots.heatmap(explained(), order="output").images[0].get_array())
    np.testing.assert_array_equal(by_output, VALUES[np.argsort(answers)][:, order].T)
    apart = np.concatenate([np.full((3, 4), 5.0), np.full((3, 4), -5.0)])[[0, 3, 1, 4, 2, 5]]
    alike = plots.heatmap(explained(6, values=apart + VALUES[:6] / 50))
    signs = np.sign(np.asarray(alike.images[0].get_array())[0])
    assert (np.diff(signs) != 0).sum() == 1  # two blocks
    with pytest.raises(xj.InputError, match="order"):
        plots.heatmap(explained(), order="size")


def test_heatmap_shows_answers_where_they_are_sums():
    ax = plots.heatmap(explained(), order="output", max_display=2)
    answers = 0.5 + VALUES.sum(axis=1)
    ends = {f"{one:.3g}".replace("-", "−") for one in (answers.min(), answers.max())}
    assert ends <= {t.get_text() for t in ax.texts}
    assert "2 players of smaller values are not shown" in ax.get_xlabel()
    assert not plots.heatmap(explained(kind="unary")).texts
    many = explained(values=np.tile(VALUES, (100, 1)), base_values=np.zeros(1200), data=None)
    ax = plots.heatmap(many, order="output")
    assert ax.images[0].get_array().shape == (4, 1000) and "1,000 of 1,200" in ax.get_xlabel()


def test_force_parts_meet_at_the_answer():
    values = np.array([[3.0, -1.0, 2.0, -0.5]])
    ax = plots.force(explained(1, values=values, data=None))
    answer = 0.5 + 3.5
    parts = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    assert parts == [(answer - 3, answer), (answer - 5, answer - 3), (answer, answer + 1),
                     (answer + 1, answer + 1.5)]  # fmt: skip
    texts = [text.get_text() for text in ax.texts]
    assert texts[:2] == ["$sex$  +2", "age  +3"] and texts[2:4] == ["hours  −0.5", "pay  −1"]
    assert "base value + all values = 4" in texts


def test_force_cuts_others_that_would_dwarf_the_parts():
    values = np.array([[2.0, -1.0, *[0.5] * 30, *[-0.1] * 3]])
    ax = plots.force(xj.Explanation(values, np.zeros(1)), max_display=2)
    widths = [patch.get_width() for patch in ax.patches]
    np.testing.assert_allclose(widths, [2.0, 2.0, 1.0, 0.3])
    texts = {text.get_text() for text in ax.texts}
    assert {"30 others  +15, not to scale", "3 others  −0.3"} <= texts
    for wrong in (explained(), explained(1, kind="unary"), explained(1, values=np.zeros((1, 4)))):
        with pytest.raises(xj.InputError, match="explanation"):
            plots.force(wrong)


def test_groups_draw_means_and_their_disparity():
    ax = plots.groups(explained(), GROUPS)
    mean = np.stack([VALUES[1::2].mean(axis=0), VALUES[::2].mean(axis=0)])  # men, women
    order = np.argsort(-np.ptp(mean, axis=0))
    for line, wanted in zip(ax.lines[1:], mean, strict=True):
        np.testing.assert_allclose(line.get_xdata(), wanted[order])
    told = [text.get_text() for text in ax.texts]
    assert told == [f"{one:.3g}" for one in np.ptp(mean, axis=0)[order]]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["men (6)", "women (6)"]
    # Student's t of 97.5 % and 5 degrees of freedom is 2.570582, from a table.
    segment = np.asarray(ax.collections[1].get_segments()[0])
    error = VALUES[1::2, order[0]].std(ddof=1) / np.sqrt(6)
    np.testing.assert_allclose(np.ptp(segment[:, 0]), 2 * 2.570582 * error, rtol=1e-6)


@pytest.mark.parametrize("groups", [["a"] * 12, list("ab"), list("abcdefghijkl"), "a" * 12, 3])
def test_groups_are_checked(groups):
    with pytest.raises(WRONG, match="groups"):
        plots.groups(explained(), groups)


def test_methods_find_players_by_name():
    turned = explained(values=2 * VALUES[:, ::-1], feature_names=NAMES[::-1], data=None)
    ax = plots.methods({"a": explained(), "b": turned})
    size = np.abs(VALUES).mean(axis=0)
    order = np.argsort(-size)
    np.testing.assert_allclose(ax.lines[1].get_xdata(), size[order])
    np.testing.assert_allclose(ax.lines[2].get_xdata(), 2 * size[order])
    share = plots.methods({"a": explained(), "b": turned}, relative=True)
    np.testing.assert_allclose(share.lines[2].get_xdata(), size[order] / size.sum())
    assert share.get_xlabel() == "mean |Shapley value|, share of each explanation's sum"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"a": explained()}, "pass 2 to 7"),
        ([explained()] * 2, "pass a dict"),
        ({"a": explained(), "b": explained(feature_names=("x", *NAMES[1:]))}, "other players"),
    ],
)
def test_methods_are_checked(given, error):
    with pytest.raises(WRONG, match=error):
        plots.methods(given)


def test_rule_cards_show_precision_and_coverage():
    long = xj.Rule([f"c{j} > 1" for j in range(9)], [(0, 1, np.inf)], "child", 0.5, None, None,
                   False, 8, "sar")  # fmt: skip
    ax = plots.rules([RULE, long, RULE], max_display=2)
    texts = [text.get_text() for text in ax.texts]
    assert texts[0] == "IF age > 1 AND pay <= 3" and texts[1] == "THEN adult"
    assert {"precision 90%", "coverage 25%", "precision 50%"} <= set(texts)
    assert "THEN child (not accepted)" in texts and texts[-1] == "1 more rules are not shown"
    assert any("3 more conditions" in text for text in texts)
    full, own = ax.patches[1].get_width(), ax.patches[2].get_width()
    np.testing.assert_allclose(own / full, 0.9)
    for wrong in ("rule", [], [3], 3):
        with pytest.raises(WRONG, match="rules"):
            plots.rules(wrong)


def test_convergence_draws_bands_and_the_exact_value():
    exact = xj.Explanation(VALUES[:1], np.zeros(1))
    ax = plots.convergence([at(100, 0.1), at(10, np.nan), exact, at(50, 0.2)], max_display=2)
    top = np.argsort(-np.abs(VALUES[0]))[:2]
    order = top[np.argsort(-VALUES[0, top])]
    for row, j in enumerate(order):
        np.testing.assert_array_equal(ax.lines[2 * row].get_xdata(), [10, 50, 100])
        assert (ax.lines[2 * row].get_ydata() == VALUES[0, j]).all()
    assert "bands: 95 % intervals, unknown for 2; dashed: exact" in ax.get_xlabel()
    assert "2 players of smaller values are not shown" in ax.get_xlabel()
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose(np.ptp(heights), 2 * 1.959964 * 0.2, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "settings", "error"),
    [
        (at(10, 0.1), {}, "pass a list"),
        ([at(10, 0.1)], {}, "2 different budgets"),
        ([at(10, 0.1)] * 2, {}, "2 different budgets"),
        ([at(None, 0.1), at(20, 0.1)], {}, "has the budget None"),
        ([at(10, 0.1), at(20, 0.1)], {"max_display": 8}, "7 colours"),
        ([at(10, 0.1), at(20, 0.1)], {"instance": 3}, "instance"),
        ([at(10, 0.1), at(20, 0.1)[:, :2]], {}, "players differ"),
    ],
)
def test_convergence_is_checked(given, settings, error):
    with pytest.raises(WRONG, match=error):
        plots.convergence(given, **settings)


def test_convergence_joins_answers_to_one_question():
    X = np.arange(16.0).reshape(4, 4)

    def model(weight):
        return xj.as_model(lambda rows: rows[:, 0] * rows[:, 1] + weight * rows[:, 2])

    def found(weight, background, row, budget):
        how = {"estimator": "permutation", "budget": budget}
        return xj.Explainer(model(weight), X[background], **how)(X[row:][:1], progress=False)

    first = found(1.0, [0, 1], 3, 6)
    second = found(1.0, [0, 1], 3, 12)
    plots.convergence([first, second])
    digest = second.stats["model_fingerprint"].rpartition(":")[2]
    released = replace(second, stats={**second.stats, "model_fingerprint": f"jax 9: {digest}"})
    for other, word in (
        (released, "models"),  # another release digests a model in its own way: it is not known
        (found(1.0, [0, 1], 2, 12), "instances"),
        (found(1.0, [1, 2], 3, 12), "backgrounds"),
        (found(2.0, [0, 1], 3, 12), "models"),
    ):
        with pytest.raises(xj.InputError, match=f"their {word} differ"):
            plots.convergence([first, other])


def test_the_title_of_two_people_stands_above_their_names():
    one = explained(2, provenance={"selected_output": "yes"})
    ax = plots.profile(one)
    figure = ax.figure
    figure.canvas.draw()
    title = ax._left_title.get_window_extent()
    legend = ax.get_legend().get_window_extent()
    assert ax.get_title(loc="left") == "output: yes" and title.y0 >= legend.y1


def test_heatmap_of_many_shows_the_players_of_the_largest_means():
    """Of 2,001 instances 1,000 are drawn: the large values are of the others."""
    values = np.tile([3.0, 2.0, 1.0, 0.0], (2_001, 1))
    drawn = np.linspace(0, 2_000, 1_000).astype(int)
    values[np.setdiff1d(np.arange(2_001), drawn), 3] = 50.0
    one = xj.Explanation(values, np.zeros(2_001), feature_names=NAMES)
    ax = plots.heatmap(one, max_display=2, order="given")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["hours", "age"]
    assert ax.images[0].get_array().shape == (2, 1_000)


@pytest.mark.parametrize("limit", [0.02, 0.1, 1.0, 2.0, 5.0, 9.99, 10.0, 99.0, 150.0])
def test_tokens_are_rounded_to_a_hundredth_of_the_limit(limit):
    """The text is at most half a hundredth of the limit off."""
    values = limit * np.array([[1.0, 0.987, -0.456, 0.123, 0.0049, -0.03217]])
    ax = plots.tokens(xj.Explanation(values, np.zeros(1)), list("abcdef"))
    under = [text.get_text() for text in ax.texts[1::2]]
    found = np.array([float(text.replace("−", "-")) for text in under])
    assert np.abs(found - values[0]).max() <= 0.005 * limit * (1 + 1e-9)


def test_a_scatter_counts_its_data_at_the_bottom():
    data = np.repeat([[0.0], [1.0], [2.0]], [10, 20, 30], axis=0)
    explanation = xj.Explanation(data, np.zeros(60), data=data)
    bars = xj.plots.scatter(explanation, 0).patches
    heights = [bar.get_height() for bar in bars if bar.get_height()]
    np.testing.assert_allclose(heights, [0.05, 0.1, 0.15])  # as shares of the height of the axes
    assert not xj.plots.scatter(explanation[:29], 0).patches


def test_tokens_and_networks_explain_their_colours():
    explanation = xj.Explanation(np.array([[0.5, -2.0, 0.25]]), np.zeros(1))
    legend = xj.plots.tokens(explanation, ["not", "bad", "film"]).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["−2", "0", "2"]
    assert legend.get_title().get_text() == "Shapley value"
    table = xj.CoalitionTable([0, 1, 1, 4, 0, 1, 1, 2.5], ["age", "pay", "sex"])
    legend = xj.plots.network(table.interactions()).get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["above 0", "below 0"]
