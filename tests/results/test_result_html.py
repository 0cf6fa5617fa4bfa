"""What notebooks show of results, models and explainers: small, escaped, and their own numbers."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest
from example_explanation import make
from html_page import Page

import xaijax as xj
from xaijax.core.html import LIMIT
from xaijax.results.private_explanation import PrivateExplanation
from xaijax.results.result_html import TOP

SCRIPT = "<script>alert('x')</script>"
RNG = np.random.default_rng(0)


def shown(one) -> Page:
    """The card, of which everything holds that holds of all cards."""
    text = one._repr_html_()
    assert len(text.encode()) < LIMIT
    assert text.isprintable()  # no line break, which Markdown would read, and no surrogate
    page = Page(text)
    assert {tag for tag, _ in page.tags} <= set(
        "div b i p table thead tbody tr th td details summary".split()
    )
    for _, attributes in page.tags:
        assert set(attributes) <= {"style", "scope", "aria-hidden"}
        assert not re.search(r"url|color:#|background:#", attributes.get("style") or "")
    return page


def test_one_instance_has_signed_values_with_intervals_and_its_inputs():
    one = make()[1]
    page = shown(one)
    order = np.argsort(-np.abs(one.values[0]))
    half = one.half_widths()[0]
    assert page.rows[0] == ["player", "", "value", "input", "95 % interval"]
    assert page.rows[1:4] == [
        [
            one.feature_names[j],
            "",
            f"{one.values[0, j]:.4g}",
            str(one.data[0, j]),
            f"{one.values[0, j] - half[j]:.4g} to {one.values[0, j] + half[j]:.4g}",
        ]
        for j in order
    ]
    assert "base value 1.5" in page.text and "sampled, largest standard error 0.12" in page.text


def test_several_instances_have_mean_sizes_and_the_median_interval():
    many = make(stats={"seed": 7}, provenance={"method": "QII", "versions": {"jax": "0.12"}})
    page = shown(many)
    size, half = np.abs(many.values).mean(axis=0), np.median(many.half_widths(), axis=0)
    assert page.rows[1:4] == [
        [many.feature_names[j], "", f"{size[j]:.4g}", f"{half[j]:.2g}"] for j in np.argsort(-size)
    ]
    assert "Explanation (QII, shapley): 4 instances x 3 players" in page.text
    assert ["versions.jax", "0.12"] in page.rows and ["seed", "7"] in page.rows
    assert ("details", {}) in page.tags  # folded: not open


def test_of_many_players_ten_are_shown_and_the_others_counted():
    page = shown(xj.Explanation(RNG.normal(size=(3, 40)), np.zeros(3)))
    assert len(page.rows) == TOP + 1 and "and 30 more" in page.text


def test_several_outputs_stand_side_by_side():
    many = make(K=3)
    page = shown(many)
    size = np.abs(many.values).mean(axis=0)
    first = int(np.argmax(size.sum(axis=1)))
    assert page.rows[0][2:5] == [f"mean |value| of {name}" for name in ("no", "yes", "maybe")]
    assert page.rows[1][2:5] == [f"{value:.4g}" for value in size[first]]
    names = tuple(f"class {k}" for k in range(9))
    page = shown(xj.Explanation(np.ones((1, 2, 9)), np.zeros((1, 9)), output_names=names))
    assert page.rows[0][-1] == "value of class 3 (and 5 more outputs)"


def test_bars_stand_on_one_axis():
    """Values -1 and 3 with intervals of +-1: the axis goes from -2 to 4."""
    errors = np.full((1, 2), 1 / 1.959964)
    one = xj.Explanation([[-1.0, 3.0]], np.zeros(1), std_errors=errors, exact=False)
    text = one._repr_html_()
    assert re.findall(r"#e07b16 ([\d.]+)% ([\d.]+)%", text) == [("33.3", "83.3")]
    assert re.findall(r"#2b6cb0 ([\d.]+)% ([\d.]+)%", text) == [("16.7", "33.3")]
    assert re.findall(r"currentColor ([\d.]+)% ([\d.]+)%", text) == [
        ("66.7", "100.0"),
        ("0.0", "33.3"),
    ]


@pytest.mark.parametrize(
    "values",
    [np.zeros((0, 2)), np.full((2, 2), np.nan), np.full((1, 2), np.inf), np.zeros((1, 2))],
)
def test_there_may_be_nothing_to_rank(values):
    shown(xj.Explanation(values, np.zeros(len(values))))


def test_players_of_each_instance_have_no_mean():
    present = np.array([[True, True, False], [True, True, True]])
    fields = {"present": present, "base_values": np.zeros(2)}
    both = xj.Explanation(np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0]]), **fields)
    assert "players of each instance: 2 to 3" in shown(both).text
    assert [row[0] for row in shown(both[0]).rows] == ["player", "player 1", "player 0"]


def test_a_bound_of_a_row_is_its_interval():
    one = xj.Explanation([[2.0]], np.zeros(1), bounds=[0.5], kind="amortized", exact=False)
    page = shown(one)
    assert page.rows[0][-1] == "interval" and page.rows[1][-1] == "1.5 to 2.5"
    fields = {"bounds": [0.5, 0.7], "kind": "amortized", "provenance": {"confidence": 0.9}}
    told = xj.Explanation([[2.0], [3.0]], np.zeros(2), exact=False, **fields)
    assert shown(told).rows[0][-1] == "median 90 % ± of a value"
    assert shown(told[0]).rows[0][-1] == "90 % interval"


def hostile(N=1, P=12, K=None):
    """Names, texts and facts that are markup, long, broken, or turn the direction of reading."""
    long = "&<\"'" * 5000
    names = tuple(f"{SCRIPT} {long} \u202e\n\ud800 {j}" for j in range(P))
    facts = {f"{SCRIPT}{long}{n}": long for n in range(300)}
    shape = (N, P) if K is None else (N, P, K)
    return {
        "values": RNG.normal(size=shape) * 1e-300,
        "base_values": np.zeros((N,) if K is None else (N, K)),
        "std_errors": np.full(shape, 1e300),
        "exact": False,
        "data": np.full((N, P), long, dtype=object),
        "feature_names": names,
        "output_names": None if K is None else tuple(f"{long}{k}" for k in range(K)),
        "stats": facts,
        "provenance": {**facts, "method": long, "quantity": long, "meaning": long, "link": long},
    }


@pytest.mark.parametrize(("N", "K"), [(1, None), (3, None), (1, 30), (3, 30)])
def test_whatever_the_data_the_card_is_small_and_text_stays_text(N, K):
    page = shown(xj.Explanation(**hostile(N, K=K)))
    assert SCRIPT in page.rows[1][0] and "\u202e" not in page.text
    assert SCRIPT in page.rows[-2][0] and page.rows[-1] == ["and more"]


def test_interactions_and_rules_too():
    fields = hostile(P=4)
    sets = [(0,), (1,), (2,), (3,), (0, 1), (2, 3)]
    fields |= {"values": RNG.normal(size=(1, 6)), "std_errors": None, "sets": sets}
    page = shown(xj.Interactions(**fields))
    assert len(page.rows[1]) == 3 and SCRIPT in page.rows[1][0]
    assert "and 1 more" not in page.text  # of six sets two are of several players
    long = SCRIPT * 300
    rule = xj.Rule([long] * 50, [], long, 0.9, 0.8, 0.1, False, 9, "sar", note=long, target=long)
    page = shown(rule)
    assert SCRIPT in page.text and "AND 42 more" in page.text
    page = shown(xj.Rules((rule,) * 30, (), fields["stats"], fields["provenance"]))
    assert re.search(r"and 2\d more", page.text)


def test_interactions_show_sets_of_several_players_first():
    game = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2]), np.zeros((1, 3)))
    found = game.interactions(np.array([[2.0, 3.0, 1.0]]))
    page = shown(found)
    assert (
        page.rows[1][0] == "x0 & x1"
        and page.rows[1][2] == f"{found[:, ('x0', 'x1')].values[0, 0]:.4g}"
    )
    assert "absent players from one baseline row" in page.text or "from 1 row" in page.text


def test_a_private_copy_shows_what_it_holds():
    mechanism = {"lattice": 2.0**-20, "scale": 0.1, "noise": "discrete Laplace", "charged": True}
    fields = {"epsilon": 1.0, "noise_error": 0.2, "mechanism": mechanism}
    fields["feature_names"] = ("player 0", "player 1")
    one = PrivateExplanation(np.array([[0.5, -0.25]]), **fields)
    page = shown(one)
    half = one.half_widths()[0, 0]
    assert page.rows[1] == ["player 0", "", "0.5", f"{0.5 - half:.4g} to {0.5 + half:.4g}"]
    assert "charged to a ledger" in page.text and ["noise", "discrete Laplace"] in page.rows
    assert "base value" not in page.text and "input" not in page.rows[0]
    assert (
        len(shown(PrivateExplanation(one.values, 1.0, 0.2, {}, ("a", "b"))).rows[1]) == 3
    )  # no known noise


def calls():
    asked = []

    def f(X):
        asked.append(len(X))
        return X[:, 0] * 1.0

    return xj.as_model(f, backend="host", feature_names=[SCRIPT, "b"]), asked


def test_models_and_explainers_are_shown_without_being_asked():
    model, asked = calls()
    rows = np.eye(2)
    explainer = xj.Explainer(model, rows)
    labels = xj.as_model(lambda X: X[:, 0] > 0, output="label", classes=[False, True])
    all_of_them = [
        model,
        explainer,
        xj.Explainer(xj.as_model(lambda X: X[:, 0]), xj.Baseline(lambda X: X)),
        xj.QII(labels, rows),
        xj.AnchorExplainer(labels, rows),
        xj.GradientExplainer(xj.as_model(lambda X: X[:, 0]), rows),
        xj.AmortizedExplainer(explainer),
    ]
    for one in all_of_them:
        page = shown(one)
        told = repr(one).partition("(")[2][:40]
        assert type(one).__name__ in page.text and told in page.text
        assert ("summary", {}) in page.tags or isinstance(one, xj.AmortizedExplainer)
    assert not asked
    assert html.escape(SCRIPT) in explainer._repr_html_()


def test_the_printed_text_is_what_it_was():
    assert repr(make(stats={"model_rows": 7})) == (
        "Explanation (shapley): 4 instances x 3 players\n"
        "  sampled, largest standard error 0.32\n"
        "  mean |value|: c 171, b 161, a 151\n"
        "  7 model rows"
    )
