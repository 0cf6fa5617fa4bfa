"""`AmortizedExplainer`: sums, fallback rows, seeds, kinds of rows and models, what it costs."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from progress_bar import Bar

import xaijax as xj
from xaijax.methods.amortized import explainer as fitting
from xaijax.methods.amortized import inputs
from xaijax.methods.amortized.fitted import Cost
from xaijax.methods.amortized.predictor import TILE

RNG = np.random.default_rng(0)
X = RNG.normal(size=(260, 3)).astype(np.float32)
MORE = RNG.normal(size=(40, 3)).astype(np.float32)
SMALL = {"judge": 60, "steps": 60}
quiet = pytest.mark.filterwarnings(
    "ignore:.*rows have been explained by a network:xaijax.XaiWarning"
)


def f(rows):
    return rows[:, 0] * rows[:, 1] + rows[:, 2]


def explainer(**options):
    return xj.Explainer(xj.as_model(f), X[:5], **options)


def fit(own=None, rows=X, **options):
    made = {k: options.pop(k) for k in ("hidden", "seed", "network") if k in options}
    taught = xj.AmortizedExplainer(own or explainer(), **{"hidden": (16,), **made})
    return taught.fit(rows, **{**SMALL, "progress": False, **options})


@pytest.fixture(scope="module")
def amortized():
    return fit()


@pytest.mark.slow
@quiet
def test_a_result_says_what_it_is(amortized):
    found = amortized(MORE, fallback=0.1)
    assert found.kind == "amortized" and not found.exact and found.std_errors is None
    assert found.values.shape == (40, 3) and found.bounds.shape == (40,)
    assert found.stats["fallback_rows"].sum() == found.stats["exact_rows"].sum() == 4
    assert found.provenance["method"] == "AmortizedExplainer"
    assert "bounds of a row" in repr(found) and "4 of 40 instances exact" in repr(found)
    assert found.feature_names == explainer().players.names
    np.testing.assert_array_equal(found.data, MORE)


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("link", ["identity", "logit"])
def test_base_and_values_add_up_to_the_link_of_the_answer(link):
    # Probabilities, so that the logit is finite.
    model = xj.as_model(lambda rows: jax.nn.sigmoid(f(rows)))
    own = xj.Explainer(model, X[:5], link=link)
    found = fit(own, steps=5)(MORE, fallback=0.0)
    answers = model.predict(MORE)
    wanted = np.log(answers) - np.log1p(-answers) if link == "logit" else answers
    total = found.base_values + found.values.sum(axis=1)
    # Sums of float64 numbers below 10: some ten roundings of 1e-15 each.
    np.testing.assert_allclose(total, wanted, rtol=0, atol=1e-13)
    assert (found.stats["efficiency_residual"] <= found.stats["efficiency_bound"]).all()
    np.testing.assert_allclose(found.base_values, own(MORE[:1]).base_values[0], rtol=1e-5)


@pytest.mark.slow
@given(seed=st.integers(0, 2**31), size=st.sampled_from([1e-6, 1.0, 1e6]), rows=st.integers(1, 9))
@settings(max_examples=25, deadline=None)
def test_sums_are_set_right_whatever_a_network_says(amortized, seed, size, rows):
    rng = np.random.default_rng(seed)
    predictor = amortized._predictor
    params = jax.tree.map(
        lambda one: size * rng.normal(size=one.shape).astype(np.float32), predictor.network.params
    )
    read, full = rng.normal(size=(rows, 3)).astype(np.float32), size * rng.normal(size=(rows, 1))
    values, _ = predictor.of(params, np.zeros(1 + predictor.feature_count), read, full)
    residual = np.abs(predictor.base + values.sum(axis=1) - full)
    # Four sums in float64, of terms that are no larger than these.
    bound = 8 * np.finfo(np.float64).eps * (np.abs(values).sum(axis=1) + np.abs(full) + 1)
    assert (residual <= bound).all()


@pytest.mark.slow
@quiet
def test_fallback_rows_are_those_of_the_largest_bounds_and_the_explainers_own(amortized):
    plain, found = amortized(MORE, fallback=0.0), amortized(MORE, fallback=0.25)
    sent = found.stats["fallback_rows"]
    assert sent.sum() == 10 and plain.bounds[sent].min() >= plain.bounds[~sent].max()
    np.testing.assert_array_equal(found.values[sent], explainer()(MORE[sent]).values)
    np.testing.assert_array_equal(found.values[~sent], plain.values[~sent])
    np.testing.assert_array_equal(found.bounds[~sent], plain.bounds[~sent])
    assert (found.bounds[sent] == 0).all() and (plain.bounds > 0).all()
    assert found.stats["model_rows"] > plain.stats["model_rows"] == 40
    every = amortized(MORE, fallback=1.0)
    assert every.exact and (every.bounds == 0).all()
    assert amortized(MORE[:9], fallback=0.1).stats["fallback_rows"].sum() == 0  # rounded down


@pytest.mark.slow
@quiet
def test_sampled_fallback_rows_are_bounded_by_their_own_errors():
    model = xj.as_model(lambda rows: f(rows) * rows[:, 3:].sum(axis=1))
    wide = RNG.normal(size=(120, 8)).astype(np.float32)
    own = xj.Explainer(model, wide[:3], estimator="permutation", budget=60)
    amortized = fit(own, wide, judge=20, steps=5)
    assert amortized.stats_["judge_exact"]  # by "auto", for which 8 players are few
    found = amortized(wide[:40], fallback=0.1)
    sent, alone = found.stats["fallback_rows"], own(wide[:40][found.stats["fallback_rows"]])
    np.testing.assert_array_equal(found.values[sent], alone.values)
    np.testing.assert_array_equal(found.std_errors[sent], alone.std_errors)
    assert np.isnan(found.std_errors[~sent]).all()
    # All 8 values of a row at 90 %: each at 1 - 0.1 / 8.
    np.testing.assert_allclose(found.bounds[sent], alone.half_widths(1 - 0.1 / 8).max(axis=1))
    assert not found.stats["exact_rows"].any()


@pytest.mark.slow
@quiet
def test_the_seed_settles_everything(amortized):
    again, other = fit(), fit(seed=1)
    for one, two in zip(amortized._fitted.leaves, again._fitted.leaves, strict=True):
        np.testing.assert_array_equal(one, two)
    assert amortized._fitted.quantile == again._fitted.quantile
    assert not np.array_equal(amortized._fitted.leaves[0], other._fitted.leaves[0])
    np.testing.assert_array_equal(amortized(MORE).values, again(MORE).values)


@pytest.mark.slow
@quiet
def test_values_do_not_hang_on_other_rows_or_tiles(amortized):
    many = np.repeat(MORE, 60, axis=0)  # more than a tile
    assert len(many) > TILE
    traces = amortized._predictor.traces
    whole, one = amortized(many, fallback=0.0), amortized(MORE[7:8], fallback=0.0)
    np.testing.assert_array_equal(whole.values[7 * 60 : 8 * 60], np.repeat(one.values, 60, axis=0))
    assert amortized._predictor.traces == traces == 1


def test_the_judges_rows_are_never_seen(amortized):
    """Whatever stands in them: what was learned is the same to the bit, only the bounds move."""
    judge = np.random.default_rng([0, 0]).permutation(len(X))[:60]
    changed = X.copy()
    changed[judge] = 100 * changed[judge] ** 2
    found, wanted = fit(rows=changed)._fitted, amortized._fitted
    for one, two in zip(found.leaves, wanted.leaves, strict=True):
        np.testing.assert_array_equal(one, two)
    for name in ("base", "centre", "scale", "known", "line", "ends"):
        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
    np.testing.assert_array_equal(found.inputs.mean, wanted.inputs.mean)
    assert found.quantile > 10 * wanted.quantile


def test_the_judges_labels_are_never_seen(amortized, monkeypatch):
    explained = fitting.questions.Teacher.explained

    def corrupted(question, rows, *rest):
        labels = explained(question, rows, *rest)
        return replace(labels, values=labels.values + 7.0) if len(rows) == 60 else labels

    monkeypatch.setattr(fitting.questions.Teacher, "explained", corrupted)
    found = fit()._fitted
    for one, two in zip(found.leaves, amortized._fitted.leaves, strict=True):
        np.testing.assert_array_equal(one, two)
    assert found.quantile > 7 * 0.9 / np.exp(found.ends[1])


@quiet
def test_it_pays_from_the_row_it_says():
    cost = Cost(1, 6.0, 4.0, explained_seconds=0.02, use_seconds=0.002)
    assert cost.break_even(0.0) == 556  # 10 s / 0.018
    assert cost.break_even(0.4) == 1000  # 10 s / (0.02 * 0.6 - 0.002)
    assert cost.break_even(0.95) == np.inf
    spent = 10.0
    rows = cost.break_even(0.0)
    assert spent + rows * 0.002 <= rows * 0.02 and spent + (rows - 1) * 0.002 > (rows - 1) * 0.02


@pytest.mark.slow
def test_below_break_even_it_warns_and_counts_all_rows():
    amortized = fit(steps=5)
    amortized._fitted = replace(
        amortized._fitted, cost=Cost(9, 1.0, 1.0, explained_seconds=0.04, use_seconds=0.0)
    )  # 50 rows
    with pytest.warns(xj.XaiWarning, match=r"40 rows have been .* pays from 50 rows"):
        first = amortized(MORE, fallback=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = amortized(MORE, fallback=0.0)
    assert first.stats["rows_so_far"] == 40 and second.stats["rows_so_far"] == 80
    assert first.stats["break_even"] == 50 and first.stats["label_model_rows"] == 9
    never = Cost(9, 1.0, 1.0, explained_seconds=0.01, use_seconds=0.02)
    amortized._fitted = replace(amortized._fitted, cost=never)
    with pytest.warns(xj.XaiWarning, match="as fast for any number of rows"):
        amortized(MORE)


@pytest.mark.slow
def test_a_bar_counts_the_steps(monkeypatch):
    bars = []

    def drawn(progress, total, *words):
        bars.append(Bar())
        bars[-1].total = total
        return bars[-1]

    monkeypatch.setattr(fitting, "progress_bar", drawn)
    fit(steps=101)
    assert len(bars) == 1 and bars[0].n == bars[0].total == 102  # of 34 checks, 3 steps each


@quiet
def test_it_is_pickled_with_its_explainer(amortized):
    again = pickle.loads(pickle.dumps(amortized))
    np.testing.assert_array_equal(again(MORE).values, amortized(MORE).values)


@quiet
def test_slices_and_merged_parts_keep_their_bounds(amortized, tmp_path):
    found = amortized(MORE, fallback=0.1)
    parts = [found[:10], found[10:]]
    np.testing.assert_array_equal(parts[1].bounds, found.bounds[10:])
    np.testing.assert_array_equal(xj.merge(parts).bounds, found.bounds)
    np.testing.assert_array_equal(xj.merge(parts).stats["exact_rows"], found.stats["exact_rows"])
    assert found[3, "x1"].bounds == found.bounds[3]
    found.save(tmp_path / "found.npz")
    np.testing.assert_array_equal(xj.load(tmp_path / "found.npz").bounds, found.bounds)
    plain = explainer()(MORE[:4])
    assert plain.bounds is None and plain[:2].bounds is None
    assert xj.merge([plain[:2], plain[2:]]).bounds is None
    plain.save(tmp_path / "plain.npz")
    assert xj.load(tmp_path / "plain.npz").bounds is None
    with pytest.raises(xj.InputError, match="bounds"):
        xj.Explanation(np.zeros((2, 3)), np.zeros(2), bounds=np.zeros(3))


def test_parts_without_bounds_are_zero_where_exact_and_unknown_elsewhere():
    def part(**options):
        return xj.Explanation(np.zeros((2, 3)), np.zeros(2), kind="amortized", **options)

    parts = [part(bounds=np.ones(2), exact=False), part(), part(exact=False)]
    np.testing.assert_array_equal(xj.merge(parts).bounds, [1, 1, 0, 0, np.nan, np.nan])


class Timed:
    """A question whose second call takes 1 ms a row, and the first one, which compiles, a second.

    Of labels by groups it would be slower still.
    """

    def __init__(self):
        self.asked = []

    def explained(self, rows, progress, seed=None):
        assert seed is None
        first = len(rows) not in self.asked
        self.asked.append(len(rows))
        return SimpleNamespace(seconds=1.0 if first else 1e-3 * len(rows))


def test_the_explainer_is_timed_by_a_warm_call_of_its_own():
    question = Timed()
    found = fitting._seconds_of_explaining(question, np.zeros((5_000, 2)))
    assert found == pytest.approx(1e-3)
    assert question.asked == [64, 64, 256, 256]  # until a call takes a tenth of a second
    few = Timed()
    assert fitting._seconds_of_explaining(few, np.zeros((30, 2))) == pytest.approx(1e-3)
    assert few.asked == [30, 30]


def test_texts_of_single_rows_are_no_inputs():
    column = ["often"] * 5 + [f"Person {n}" for n in range(200)]
    assert inputs._levels(np.array(column, object)) == ("often",)


WIDE = np.random.default_rng(3).normal(size=(130, 8)).astype(np.float32)
KEPT = ("dof", "pairs", "whole_pairs", "coalitions", "certain")


@pytest.fixture(scope="module", params=[{"budget": 60}, {"tolerance": 0.5, "budget": 120}])
def with_draws(request):
    """(result with sampled fallback rows, those rows by the explainer alone, the network alone)."""
    model = xj.as_model(lambda rows: f(rows) * rows[:, 3:].sum(axis=1))
    own = xj.Explainer(model, WIDE[:3], estimator="permutation", **request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)
        amortized = fit(own, WIDE[:60], judge=20, steps=5)
        found = amortized(WIDE[60:90], fallback=0.3)
        alone = own(WIDE[60:90][found.stats["fallback_rows"]])
        return found, alone, amortized(WIDE[90:], fallback=0.0)


def as_of_the_explainer(found, alone):
    """Whether the fallback rows say of themselves what the explainer says of them."""
    sent = found.stats["fallback_rows"]
    for name in ("bound", "checks", "tolerance"):
        told = found.stats.get(name)  # merged with the network's rows: a list with None of these
        told = [one for one in told if one is not None][0] if isinstance(told, list) else told
        assert told == alone.stats.get(name), name
    for name in KEPT:
        assert (name in found.stats) == (name in alone.stats)
        if name in alone.stats:
            np.testing.assert_array_equal(found.stats[name][sent], alone.stats[name])
    np.testing.assert_array_equal(found.half_widths()[sent], alone.half_widths())
    ours, theirs = found.top(2), alone.top(2)
    assert ours.holds == theirs.holds
    np.testing.assert_array_equal(ours.players[sent], theirs.players)
    np.testing.assert_array_equal(ours.certain[sent], theirs.certain)
    assert not ours.certain[~sent].any()


@pytest.mark.slow
def test_sampled_fallback_rows_keep_what_their_intervals_need(with_draws, tmp_path):
    found, alone, network = with_draws
    as_of_the_explainer(found, alone)
    found.save(tmp_path / "found.npz")
    as_of_the_explainer(xj.load(tmp_path / "found.npz"), alone)
    as_of_the_explainer(xj.merge([found[:11], found[11:]]), alone)
    as_of_the_explainer(xj.merge([found, network]), alone)
    as_of_the_explainer(xj.merge([network, found]), alone)
    own = found[found.stats["fallback_rows"]]
    as_of_the_explainer(own, alone)
    other = replace(own, values=own.values + 1.0)
    widths = [
        xj.compare(one, replace(one, values=other.values, data=one.data)).high
        for one in (own, replace(alone, kind="amortized"))
    ]
    np.testing.assert_allclose(widths[0], widths[1], rtol=1e-4)  # float32's rounding apart


@pytest.mark.slow
def test_bounds_of_fallback_rows_are_those_of_their_rule(with_draws):
    """Of draws that a rule ended, wider than those of one look at as many draws."""
    found, alone, _ = with_draws
    sent = found.stats["fallback_rows"]
    one_look = alone.half_widths(1 - 0.1 / 8).max(axis=1)
    if "bound" not in alone.stats:
        np.testing.assert_allclose(found.bounds[sent], one_look)
    else:
        assert alone.stats["bound"] == "asymptotic" and (found.bounds[sent] > one_look).all()


def test_exact_fallback_rows_are_certain(amortized):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)
        found = amortized(MORE, fallback=0.25)
    sent, sure = found.stats["fallback_rows"], found.top(1).certain[:, 0]
    assert found.std_errors is None and sure[sent].all() and not sure[~sent].any()
    half = found.half_widths()
    assert (half[sent] == 0).all() and np.isnan(half[~sent]).all()
