"""A transparency report says only what holds: for each index, difference, outcome and pool."""

from __future__ import annotations

import html

import numpy as np
import pytest

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")

import xaijax as xj  # noqa: E402

D = np.random.default_rng(0).integers(0, 3, (12, 3)).astype(float)


def chance(r):
    return (r[:, 0] + r[:, 1] * r[:, 2]) / 6


YES = xj.as_model(
    lambda r: np.stack([1 - chance(r), chance(r)], 1), backend="host", output="proba",
    classes=["no", "yes"], feature_names=["age", "job", "town"],
)  # fmt: skip
X = D[[chance(D).argmax()]]
LABEL = {"quantity": "individual"}
PROBA = {"quantity": "individual", "outcome": "proba"}
SUMS = "add up to what replacing all of them changes."


def page(found, tmp_path):
    path = xj.transparency_report(found, tmp_path / "page.html")
    return html.unescape(path.read_text("utf-8"))


def qii(**options):
    return xj.QII(YES, D, **options)


def test_shapley_adds_up(tmp_path):
    found = qii(**LABEL).explain(X)
    text = page(found, tmp_path)
    assert SUMS in text and "The influences of all inputs add up to the difference." in text
    gap = found.stats["quantity"][0] - found.base_values[0]
    assert abs(found.values.sum() - gap) <= found.stats["efficiency_bound"][0]
    assert "Not all inputs are shown" in page(found[:, :2], tmp_path)
    drawn = page(qii(**LABEL, samples=50).explain(X), tmp_path)
    assert "add up to the difference, but for the error of sampling." in drawn
    assert "changes, but for the error of sampling." in drawn


@pytest.mark.parametrize("index", ["unary", "banzhaf", xj.SizeLimited(1), np.full(8, 1 / 8)])
def test_others_do_not(index, tmp_path):
    """A model with an interaction, whose influences by these do not add up."""
    asked = qii(**LABEL, pool=D[1:])
    found = (
        asked.unary(X) if isinstance(index, str) and index == "unary" else asked.explain(X, index)
    )
    gap = found.stats["quantity"][0] - found.base_values[0]
    assert abs(found.values.sum() - gap) > 0.01
    text = page(found, tmp_path)
    assert "need not add up to the difference." in text and SUMS not in text
    assert "account for" not in text and "inputs add up" not in text
    together = "several of them together and from one and the same person" in text
    assert together == (found.kind != "unary")
    if found.kind == "unary":
        assert (
            "each input was replaced by itself, by that of a random person of 11 in a pool" in text
        )


def test_deegan_packel_has_no_direction_and_no_amount(tmp_path):
    found = qii(**LABEL).explain(X, index="deegan-packel", threshold=0.2)
    text = page(found, tmp_path)
    assert found.values.sum() == pytest.approx(1)
    assert "whose replacement lowers what was measured by at least 0.2." in text
    assert "has an index of" in text and "The longer the bar" in text
    for wrong in ("raises", "lowers it", "account for", "add up to the difference", "right:"):
        assert wrong not in text
    margin = found.stats["margin"][0]
    assert f"a set {margin:.2g} from it" in text
    both = page(qii(**LABEL).explain(X, "deegan-packel", threshold=0.2, absolute=True), tmp_path)
    assert "moves what was measured by at least 0.2, up or down." in both
    none = page(qii(**LABEL).explain(X, "deegan-packel", threshold=0.99), tmp_path)
    assert "No set of inputs does that." in none
    assert xj.plots.profile(found).get_xlabel() == "Deegan-Packel index"


@pytest.mark.slow
@pytest.mark.parametrize("difference", ["js", "l1", "tv"])
def test_a_distance_has_no_direction(difference, tmp_path):
    found = qii(**PROBA, difference=difference).explain(X)
    text = page(found, tmp_path)
    assert "the probabilities of all classes for this person" in text
    assert "It says how far, not which way." in text
    assert "the difference" in text and "raises" not in text and "lowers" not in text
    assert f"With all inputs replaced the difference is {found.values.sum():.3g}." in text
    assert "adds to the difference" in xj.plots.profile(found).get_xlabel()
    alone = page(qii(**PROBA, difference=difference).unary(X), tmp_path)
    assert "replaced alone makes a difference of" in alone


def test_a_vector_is_told_by_its_class(tmp_path):
    found = qii(**PROBA).explain(X)
    for draw in (lambda e: page(e, tmp_path), xj.plots.profile):
        with pytest.raises(xj.InputError, match=r"Choose it: explanation\[:, :, 'yes'\]"):
            draw(found)
    text = page(found[:, :, "no"], tmp_path)
    assert "the chance of no for this person, as the model gives it" in text
    assert "positive outcome" not in text


@pytest.mark.filterwarnings("ignore:scores of outcome")  # bounds=(0, 0.5) cuts them
def test_scores_and_two_people(tmp_path):
    asked = qii(quantity="individual", outcome="score", bounds=(0, 0.5))
    text = page(asked.explain(X), tmp_path)
    assert "the model's score of yes for this person, cut to 0 to 0.5" in text
    assert "chance" not in text
    two = page(qii().explain(D[:2]), tmp_path)
    assert "the chance that each of the two people keeps the outcome received" in two


def test_pools(tmp_path):
    weighted = page(qii(**LABEL, pool_weights=np.arange(12.0)).explain(X), tmp_path)
    assert "a person drawn from 12 in the data by given weights" in weighted
    assert "random person" not in weighted
    fixed = page(qii(**LABEL, pool=xj.Baseline("median", D)).explain(X), tmp_path)
    assert "one chosen row, another person or a reference" in fixed
    assert "compared with the chosen row's" in fixed

    def draw(rng, n):
        return D[rng.integers(0, 12, n)]

    drawn = page(qii(**LABEL, pool=draw, samples=40).explain(X), tmp_path)
    assert "rows that a given sampler drew" in drawn and "With all inputs replaced: about" in drawn
