"""Pictures of interactions: what they show, and what they refuse."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import xaijax as xj

X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
NAMES = ["age", "pay", "$sex$", "hours"]


def found(order: int = 2, K: int = 1) -> xj.Interactions:
    def f(X):
        one = X[:, 0] * X[:, 1] + X[:, 2] - 0.3 * X[:, 1] * X[:, 3]
        return one if K == 1 else np.stack([one, -one], axis=1)

    model = xj.as_model(f, backend="host", feature_names=NAMES)
    return xj.Explainer(model, X[:3]).interactions(X, order=order)


DRAWN = {
    "interactions": xj.plots.interactions,
    "network": xj.plots.network,
    "pairs": xj.plots.pairs,
    "dependence": lambda given, **more: xj.plots.dependence(given, "age", **more),
}
PAIRS = ["interactions", "network", "dependence"]


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_it_draws_on_the_axes_given_and_takes_one_output(name):
    ax = plt.figure().add_subplot()
    assert DRAWN[name](found(), ax=ax) is ax
    assert DRAWN[name](found(K=2), output=1) is not None
    with pytest.raises(xj.InputError, match="output"):
        DRAWN[name](found(K=2))
    with pytest.raises(xj.InputError, match="output"):
        DRAWN[name](found(), output=0)
    with pytest.raises(xj.InputTypeError, match=r"pass what explainer\.interactions"):
        DRAWN[name](xj.Explanation(np.zeros((1, 2)), np.zeros(1)))
    with pytest.raises(xj.InputError, match="no instances"):
        DRAWN[name](found()[:0])
    with pytest.raises(xj.InputTypeError, match="colour"):
        DRAWN[name](found(), colour=1)


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_only(name):
    with pytest.raises(xj.InputError, match="draws pairs, but there are sets of 3 players"):
        DRAWN[name](found(order=3))
    with pytest.raises(xj.InputError, match="order=2 for pairs"):
        DRAWN[name](found(order=1))


def test_the_heatmap_holds_the_matrix():
    given = found()
    one = xj.plots.interactions(given[0])
    np.testing.assert_allclose(np.asarray(one.images[0].get_array()), given.matrix[0])
    mean = xj.plots.interactions(given)
    wanted = np.abs(given.matrix).mean(axis=0)
    np.testing.assert_allclose(np.asarray(mean.images[0].get_array()), wanted)
    few = xj.plots.interactions(given, max_display=2)
    assert [label.get_text() for label in few.get_yticklabels()] == ["age", "pay"]


def test_the_network_joins_who_acts_together():
    ax = xj.plots.network(found())
    assert len(ax.lines) == 2  # age with pay, pay with hours
    assert {text.get_text() for text in ax.texts} >= set(NAMES)
    widths = sorted(line.get_linewidth() for line in ax.lines)
    assert widths[-1] == 9.0


def test_bars_are_the_largest_sets_with_intervals():
    given = found(order=3)
    ax = xj.plots.pairs(given, max_display=2)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["age & pay", "pay & hours"]
    wanted = np.abs(given[:, [("age", "pay"), ("pay", "hours")]].values).mean(axis=0)
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], wanted)
    errors = np.full(given.shape, 0.1)
    sampled = xj.Interactions(
        given.values, given.base_values, given.sets, errors, exact=False, order=3
    )
    assert "95 % intervals" in xj.plots.pairs(sampled).get_xlabel()


@pytest.mark.slow
def test_dependence_takes_the_strongest_partner():
    given = found()
    ax = xj.plots.dependence(given, "age")
    assert ax.figure.axes[-1].get_ylabel() == "pay"
    dots = ax.collections[0]
    np.testing.assert_allclose(dots.get_offsets()[:, 0], X[:, 0])
    np.testing.assert_allclose(dots.get_offsets()[:, 1], given[:, "age"].values[:, 0])
    np.testing.assert_allclose(np.asarray(dots.get_array()), X[:, 1])
    assert xj.plots.dependence(given, 0, partner="hours").figure.axes[-1].get_ylabel() == "hours"
    with pytest.raises(xj.InputError, match="the player itself"):
        xj.plots.dependence(given, 0, partner=0)
    with pytest.raises(xj.InputError, match="there is no player 4"):  # sets go on; players end
        xj.plots.dependence(given, 4)
    with pytest.raises(xj.InputError, match="have no data"):
        table = xj.CoalitionTable(np.arange(4.0)).interactions()
        xj.plots.dependence(table, 0)
    united = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 2]), X[:2], players={"both": [0, 1]})
    with pytest.raises(xj.InputError, match="not one column of numbers"):
        xj.plots.dependence(united.interactions(X), "both")


@pytest.mark.parametrize("name", DRAWN)
def test_pictures_name_the_class_and_the_scale(name):
    """As pictures of values do."""

    def titled(given, **more):
        title = DRAWN[name](given, **more).get_title(loc="left")
        plt.close("all")
        return " ".join(title.split())

    facts = {"method": "Explainer", "quantity": "proba", "link": "logit"}
    sets = ((0,), (1,), (0, 1))
    values = np.random.default_rng(1).normal(size=(3, 3, 2))
    two = xj.Interactions(
        values, np.zeros((3, 2)), sets, feature_names=("age", "pay"), provenance=facts,
        output_names=("seto", "virg"), data=np.ones((3, 2)), instance_names=("Ann", "Bob", "Eva"),
    )  # fmt: skip
    told = "logit of the probability of virg"
    assert titled(two, output="virg") == told == titled(two[:, :, "virg"])
    assert titled(two[1], output="virg") == f"instance: Bob, {told}"
    mine = xj.Explanation(
        values[:, :2], np.zeros((3, 2)), feature_names=("age", "pay"), provenance=facts,
        output_names=("seto", "virg"),
    )  # fmt: skip
    values_say = xj.plots.beeswarm(mine, output="virg").get_title(loc="left")
    assert " ".join(values_say.split()) == told
    own = {"output_names": np.array(["seto", "virg", "virg"])}
    one = xj.Interactions(
        values[..., 0], np.zeros(3), sets, feature_names=("age", "pay"), provenance=facts,
        data=np.ones((3, 2)), stats=own,
    )  # fmt: skip
    expected = "output: each instance's own (virg 2, seto 1) (logit of the probability)"
    shown = titled(one).split("…")  # two squares have not the room for it all
    assert expected.startswith(shown[0]) and expected.endswith(shown[-1]) and len(shown[0]) > 30
    plain = xj.Interactions(
        values[..., 0], np.zeros(3), sets, feature_names=("age", "pay"), data=np.ones((3, 2))
    )
    assert titled(plain) == ""


@pytest.mark.slow
def test_a_report_has_a_section_of_interactions(tmp_path):
    pytest.importorskip("jinja2")
    given = found()
    explanation = xj.Explanation(
        given[:, :4].values, given.base_values, feature_names=given.feature_names
    )
    page = xj.report(explanation, tmp_path / "page.html", given).read_text()
    for title in ("Interactions", "Who acts with whom", "The largest pairs"):
        assert title in page
    with pytest.raises(xj.InputError, match="in players"):
        other = xj.CoalitionTable(np.arange(4.0)).interactions()
        xj.report(explanation, tmp_path / "page.html", other)
    with pytest.raises(xj.InputTypeError, match=r"explainer\.interactions"):
        xj.report(explanation, tmp_path / "page.html", explanation)


def test_lines_and_dots_of_a_network_are_scaled_by_what_is_drawn():
    """Five players: e has the widest line of all, with d, and neither is shown of the three."""
    sets = [(p,) for p in range(5)] + [(a, b) for a in range(5) for b in range(a + 1, 5)]
    joined = {(0, 1): 3.0, (0, 2): 3.0, (1, 2): -2.0, (3, 4): -4.0}
    values = np.array([[9.0 if one == (4,) else 1.0 if len(one) == 1 else joined.get(one, 0.0)
                        for one in sets]])  # fmt: skip
    given = xj.Interactions(values, np.zeros(1), sets, feature_names=tuple("abcde"), order=2)
    ax = xj.plots.network(given, max_display=3)
    assert max(line.get_linewidth() for line in ax.lines) == 9.0 and len(ax.lines) == 3
    assert any("widest line +3" in text.get_text() for text in ax.texts)


@pytest.mark.parametrize(("values", "shown"), [([0, 1, 1, 4], 1), ([0, 1, 1, 2], 2)])
def test_a_network_without_lines_names_no_widest_one(values, shown):
    table = xj.CoalitionTable(values, ["age", "pay"])
    ax = xj.plots.network(table.interactions(), max_display=shown)
    assert not ax.lines
    assert ax.texts[-1].get_text() == "Shapley interaction; no lines"
    assert np.allclose(ax.collections[0].get_sizes(), 940.0)
