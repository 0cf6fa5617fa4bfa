"""The pictures: what they draw equals the numbers, and it fits whatever the names."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from drawn import lengths_of, make, names_of, segments_of_error_bars

import xaijax as xj
from xaijax import plots
from xaijax.core.errors import InputError, InputTypeError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")


def first_waterfall(explanation, ax=None, **settings):
    return plots.waterfall(explanation, ax, instance=0, **settings)


PLOTS = [plots.bar, plots.beeswarm, first_waterfall]


# bar


def test_bar_lengths_are_mean_absolute_values():
    explanation = make()
    ax = plots.bar(explanation)
    size = np.abs(explanation.values).mean(axis=0)
    order = np.argsort(-size)
    np.testing.assert_allclose(lengths_of(ax), size[order])
    assert names_of(ax) == [f"player {j}" for j in order]
    assert ax.yaxis_inverted()  # the largest on top
    assert [t.get_text() for t in ax.texts] == [f"{size[j]:.3g}" for j in order]
    assert "Shapley" in ax.get_xlabel() and "30 instances" in ax.get_xlabel()


def test_bar_sums_the_rest():
    explanation = make(P=60)
    ax = plots.bar(explanation)
    size = np.sort(np.abs(explanation.values).mean(axis=0))[::-1]
    assert len(names_of(ax)) == 13 and names_of(ax)[-1] == "sum of 48 others"
    np.testing.assert_allclose(lengths_of(ax), size[:12])
    assert ax.texts[-1].get_text() == f"{size[12:].sum():,.0f}, not to scale"
    assert ax.get_xlim()[1] < 1.2 * size[0]  # no bar is dwarfed


@pytest.mark.parametrize("plot", PLOTS)
def test_a_single_other_is_shown_by_its_name(plot):
    ax = plot(make(P=5), max_display=4)
    assert sorted(n.partition(" =")[0] for n in names_of(ax)) == [f"player {j}" for j in range(5)]


def test_bar_intervals():
    explanation = make(sampled=True)
    errors = np.array(explanation.std_errors)
    errors[0, 4] = np.nan  # one unknown: the mean error of that player is unknown
    ax = plots.bar(make(sampled=True, std_errors=errors))
    segments = segments_of_error_bars(ax)
    assert len(segments) == 4
    length = lengths_of(ax)[names_of(ax).index("player 3")]
    row = names_of(ax).index("player 3")
    (segment,) = [s for s in segments if s[0, 1] == row]
    np.testing.assert_allclose(segment[:, 0], length + 1.959964 * 0.05 * np.array([-1, 1]))
    assert "95 %" in ax.get_xlabel()
    assert "95 %" not in plots.bar(make()).get_xlabel()


def test_bar_stacks_outputs():
    explanation = make(K=3)
    ax = plots.bar(explanation)
    size = np.abs(explanation.values).mean(axis=0)
    order = np.argsort(-size.sum(axis=1))
    np.testing.assert_allclose(lengths_of(ax), size[order].T.ravel())
    tops = [patch.get_x() for patch in ax.patches][10:]
    np.testing.assert_allclose(tops, size[order, :2].sum(axis=1))
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["class 0", "class 1", "class 2"]


def test_bar_of_many_outputs_sums_the_smaller_ones():
    explanation = make(K=20)
    ax = plots.bar(explanation)
    texts = [t.get_text() for t in ax.get_legend().get_texts()]
    assert len(texts) == 7 and texts[-1] == "sum of 14 others"
    total = np.abs(explanation.values).mean(axis=0).sum()
    np.testing.assert_allclose(sum(lengths_of(ax)), total)


def test_bar_of_one_output():
    ax = plots.bar(make(K=3), output="class 2")
    np.testing.assert_allclose(
        lengths_of(ax), np.sort(np.abs(make(K=3).values[..., 2]).mean(axis=0))[::-1]
    )
    assert ax.get_title(loc="left") == "output: class 2"


def test_intervals_follow_student_s_t():
    # 3 degrees of freedom: t of 97.5 % is 3.182446 (from a table); infinite: 1.959964.
    dof = np.full(30, 3.0)
    explanation = make(sampled=True, stats={"dof": dof})
    half = 3.182446 * 0.05
    np.testing.assert_allclose(
        [np.ptp(s[:, 0]) for s in segments_of_error_bars(plots.bar(explanation))], 2 * half
    )
    ax = plots.waterfall(explanation, instance=7)
    np.testing.assert_allclose([np.ptp(s[:, 0]) for s in segments_of_error_bars(ax)], 2 * half)
    mixed = make(sampled=True, stats={"dof": np.where(np.arange(30) < 10, 3.0, np.inf)})
    np.testing.assert_allclose(
        [np.ptp(s[:, 0]) for s in segments_of_error_bars(plots.bar(mixed))],
        2 * 0.05 * (3.182446 + 2 * 1.959964) / 3,
        rtol=1e-6,
    )


# beeswarm


def dots_of(ax):
    return [np.asarray(c.get_offsets()) for c in ax.collections if c.get_offsets().shape[0] > 1]


def test_beeswarm_dots_are_the_values():
    explanation = make()
    ax = plots.beeswarm(explanation)
    order = np.argsort(-np.abs(explanation.values).mean(axis=0))
    assert names_of(ax) == [f"player {j}" for j in order]
    for row, (dots, j) in enumerate(zip(dots_of(ax), order, strict=True)):
        np.testing.assert_array_equal(dots[:, 0], explanation.values[:, j])
        assert np.abs(dots[:, 1] - row).max() < 0.5  # dots stay in their row


def test_beeswarm_sets_equal_values_apart():
    values = np.tile([[0.0], [1.0], [0.0]], (10, 2))  # 20 zeros and 10 ones in each column
    (dots, _) = dots_of(plots.beeswarm(make(P=2, values=values)))
    for value, count in ((0, 20), (1, 10)):
        heights = np.sort(dots[dots[:, 0] == value, 1])
        assert len(heights) == count
        np.testing.assert_allclose(np.diff(heights), 0.8 / 20)
        np.testing.assert_allclose(heights.mean(), 0, atol=1e-12)


def test_beeswarm_colours():
    pd = pytest.importorskip("pandas")
    number = np.linspace(0, 1, 30)
    number[3] = np.nan
    data = pd.DataFrame(
        {
            "number": number,
            "constant": 7.0,
            "text": ["a", "b", "c"] * 10,
            "flag": [True] + [False] * 29,
        }
    )
    values = np.ones((30, 5)) * [5, 4, 3, 2, 1]
    names = ("number", "constant", "text", "flag", "a group")
    ax = plots.beeswarm(make(values=values, data=data, feature_names=names))
    colours = [c.get_facecolor() for c in ax.collections if len(c.get_offsets()) > 1]
    grey = colours[4][0]
    for row in (1, 2, 4):
        assert (colours[row] == grey).all()
    red_of_numbers = np.delete(colours[0][:, 0], 3)
    assert (np.diff(red_of_numbers) >= 0).all() and red_of_numbers[-1] > red_of_numbers[0]
    np.testing.assert_array_equal(colours[0][3], grey)
    assert not np.array_equal(colours[3][0], colours[3][1])  # a rare flag still has two colours
    assert "grey" in ax.get_xlabel()
    assert [a.get_ylabel() for a in ax.figure.axes] == ["", "own value"]


def test_beeswarm_without_data_has_no_colour_bar():
    assert len(plots.beeswarm(make(data=None)).figure.axes) == 1


def test_beeswarm_of_many_says_what_it_leaves_out():
    ax = plots.beeswarm(make(N=9_000, P=15))
    assert "4,000 of 9,000 instances" in ax.get_xlabel()
    assert "3 players of smaller values are not shown" in ax.get_xlabel()
    assert {len(dots) for dots in dots_of(ax)} == {4_000}


def test_beeswarm_intervals_only_where_they_can_be_seen():
    def segments(N):
        ax = plots.beeswarm(make(N=N, P=1, sampled=True))
        return [s for c in ax.collections if hasattr(c, "get_segments") for s in c.get_segments()]

    few = segments(10)
    assert len(few) == 10 and segments(100) == []
    np.testing.assert_allclose([s[1, 0] - s[0, 0] for s in few], 2 * 1.959964 * 0.05)


@pytest.mark.parametrize("kind", ["aec", "unary", "deegan-packel"])
def test_no_sum_where_it_means_nothing(kind):
    found = make(P=60, N=1, kind=kind)
    for draw, count in ((plots.bar, 12), (plots.profile, 14)):
        ax = draw(found)
        assert len(names_of(ax)) == count == len(ax.patches)
        assert f"\n{60 - count} players of smaller values are not shown" in ax.get_xlabel()
    ax = plots.profile(make(P=60, N=2))
    total = make(P=60, N=2).values
    order = np.argsort(-np.abs(total).max(axis=0))[14:]
    told = [text.get_text() for text in ax.texts]
    sums = total[:, order].sum(axis=1)
    assert (np.abs(sums) > 1000).all() and (np.abs(sums) < 9999).all()  # without an exponent
    wanted = [f"{one:+.0f}, not to scale".replace("-", "−") for one in sums]
    assert told == wanted and names_of(ax)[-1] == "sum of 46 others"


# all three


LONG = tuple(f"a very long name of a measured quantity, the one in column {j}" for j in range(60))


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize(
    "explanation",
    [
        make(P=3),
        make(P=60, sampled=True),
        make(P=60, feature_names=LONG, instance_names=tuple("x" * 300 for _ in range(30))),
        make(P=2, feature_names=("$a_1$ {", "tab\tand\nline")),
        make(N=1, P=1),
        make(N=1, values=np.zeros((1, 5))),
        make(values=1e9 * make().values, sampled=True),
    ],
    ids=["3", "60", "long", "odd", "one", "zeros", "large"],
)
def test_nothing_is_cut_off_or_overlaps(plot, explanation):
    ax = plot(explanation)
    figure = ax.figure
    figure.canvas.draw()
    frame = figure.bbox.padded(1)
    labels = [t.get_window_extent() for t in ax.get_yticklabels()]
    texts = [*labels, *(t.get_window_extent() for t in [*ax.texts, ax.xaxis.label])]
    for box in texts:
        assert box.x0 >= frame.x0 and box.x1 <= frame.x1, "cut off at the side"
        assert box.y0 >= frame.y0 and box.y1 <= frame.y1, "cut off above or below"
    for upper, lower in zip(labels, labels[1:], strict=False):
        assert lower.y1 <= upper.y0, "names overlap"
    for box in labels:
        for text in ax.texts:
            assert not box.overlaps(text.get_window_extent()), "a number overlaps a name"
    assert ax.get_window_extent().width > figure.bbox.width * 0.4, "names crowd out the picture"


def test_long_names_keep_both_ends():
    name = names_of(plots.bar(make(P=2, feature_names=LONG[:2])))[0]
    assert name.startswith("a very long") and name.endswith("column 1") and "…" in name
    assert len(name) <= 30


@pytest.mark.parametrize("plot", PLOTS)
def test_a_given_axes_is_used_and_no_figure_made(plot):
    figure = matplotlib.figure.Figure()
    ax = figure.add_subplot()
    assert plot(make(), ax) is ax
    assert plt.get_fignums() == []


@pytest.mark.parametrize("plot", [plots.beeswarm, first_waterfall])
def test_outputs_must_be_chosen(plot):
    with pytest.raises(InputError, match=r"pass output= \('class 0', 'class 1'\)"):
        plot(make(K=2))


@pytest.mark.parametrize("plot", PLOTS)
@pytest.mark.parametrize(
    ("explanation", "settings", "error", "text"),
    [
        (np.zeros((2, 2)), {}, InputTypeError, "ndarray"),
        (make()[:0], {}, InputError, "no instances"),
        (make(values=np.full((30, 5), np.nan)), {}, InputError, "30 of 30 instances.*not finite"),
        (make(), {"max_display": 0}, InputError, "max_display"),
        (make(), {"max_display": True}, InputTypeError, "max_display"),
        (make(), {"max_display": 2.5}, InputTypeError, "max_display"),
        (make(), {"output": "yes"}, InputError, "one output"),
        (make(K=2), {"output": "yes"}, InputError, "'yes' is unknown"),
        (make(K=2), {"output": [0, 1]}, InputTypeError, "output"),
        (make(), {"ax": "here"}, InputTypeError, "ax"),
    ],
)
def test_what_cannot_be_drawn(plot, explanation, settings, error, text):
    with pytest.raises(error, match=text):
        plot(explanation, **settings)
    assert plt.get_fignums() == []


def test_a_missing_matplotlib_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(ImportError, match=r'pip install "xaijax\[plots\]"'):
        plots.bar(make())


def cohorts():
    women, men = (
        xj.Explanation(np.array(v), np.zeros(2), feature_names=("x0", "x1"))
        for v in ([[1.0, -3], [1, 1]], [[4.0, 0], [0, 2]])
    )
    turned = xj.Explanation(men.values[:, ::-1], np.zeros(2), feature_names=("x1", "x0"))
    return {"women": women, "men": turned}


def test_bars_of_cohorts_stand_side_by_side_with_a_legend():
    ax = xj.plots.bar(cohorts())
    names = [label.get_text() for label in ax.get_yticklabels()]
    lengths = [[bar.get_width() for bar in bars] for bars in ax.containers if len(bars) == 2]
    expected = {"x0": (1, 2), "x1": (2, 1)}  # of women, of men; in other columns of the men
    assert lengths == [[expected[name][k] for name in names] for k in (0, 1)]
    assert {"1", "2"} == {text.get_text() for text in ax.texts}
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["women (2)", "men (2)"]
    with pytest.raises(xj.InputError, match="pass 2 to 7 of them"):
        xj.plots.bar({"all": cohorts()["women"]})


def test_dots_of_cohorts_have_their_colours_and_rows():
    ax = xj.plots.beeswarm(cohorts())
    dots = [dots.get_offsets()[:, 0].tolist() for dots in ax.collections]
    rows = [float(dots.get_offsets()[:, 1].mean()) for dots in ax.collections]
    names = [label.get_text() for label in ax.get_yticklabels()]
    expected = {"x0": ([1, 1], [4, 0]), "x1": ([-3, 1], [0, 2])}
    assert dots == [expected[name][k] for k in (0, 1) for name in names]
    assert rows[0] < 0 < rows[2] < rows[1] < 1 < rows[3]
    colours = [tuple(dots.get_facecolor()[0]) for dots in ax.collections]
    assert colours[0] == colours[1] != colours[2] == colours[3]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["women (2)", "men (2)"]
