"""`judge`: what it measures, against plain loops; what it refuses."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import oracles
import pytest

import xaijax as xj

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 5))
B = RNG.normal(size=(4, 5))
NOISE = RNG.normal(size=(7, 5))


def f(rows):
    """Interactions, and a column (the last) that plays no part."""
    return rows[:, 0] * rows[:, 1] + rows[:, 2] * rows[:, 3] * rows[:, 0] + rows[:, 3]


def two(rows):
    return rows.__array_namespace__().stack([f(rows), rows.sum(axis=1)], axis=1)


MODEL = xj.as_model(lambda rows: f(np.asarray(rows, float)), backend="host")
EXPLAINER = xj.Explainer(MODEL, B)


def worth(x, kept):
    """v(S) from the definition; kept bool [P]."""
    return float(np.mean([f(np.where(kept, x, b)[None])[0] for b in B]))


def true_values():
    table = np.array(
        [[worth(x, [bool(s >> j & 1) for j in range(5)]) for s in range(32)] for x in X]
    )
    return np.array([oracles.semivalue_of_table(t, oracles.shapley_weight(5)) for t in table])


TRUE = true_values()


def test_the_measures_are_those_of_the_definition():
    values = TRUE + 0.3 * NOISE
    judged = xj.judge(values, EXPLAINER, X)
    squared = [sum((values[i] - TRUE[i]) ** 2) for i in range(7)]
    size = [sum(TRUE[i] ** 2) for i in range(7)]
    top = {
        k: [
            len({*np.argsort(-abs(values[i]))[:k]} & {*np.argsort(-abs(TRUE[i]))[:k]}) / k
            for i in range(7)
        ]
        for k in (1, 3)
    }
    flips, large = 0, 0
    for i in range(7):
        span = max(0, *TRUE[i]) - min(0, *TRUE[i])
        for j in range(5):
            if abs(TRUE[i, j]) >= 0.1 * span:
                large += 1
                flips += values[i, j] * TRUE[i, j] < 0
    sums = [values[i].sum() - (f(X)[i] - worth(X[i], np.zeros(5, bool))) for i in range(7)]
    # The host answers in float64: some hundred roundings of numbers below 10.
    near = {"rel": 1e-10}
    assert judged.relative_error == pytest.approx(np.divide(squared, size).mean(), **near)
    assert judged.pooled_error == pytest.approx(sum(squared) / sum(size), **near)
    assert judged.p95 == pytest.approx(np.quantile(np.sqrt(squared), 0.95), **near)
    assert judged.top1 == np.mean(top[1]) and judged.top3 == pytest.approx(np.mean(top[3]))
    assert 0 < judged.sign_flips == flips / large
    assert judged.efficiency == pytest.approx(np.mean(np.abs(sums)), **near)
    np.testing.assert_allclose(judged.row_errors[:, 0], np.sqrt(squared), rtol=1e-9)
    spread = np.divide(squared, size).std(ddof=1) / np.sqrt(7)
    assert judged.relative_std_error == pytest.approx(spread, **near)


def test_a_dict_becomes_a_table_with_what_each_cost():
    explanation = EXPLAINER(X)
    judged = xj.judge({"exact": explanation, "half": TRUE / 2}, EXPLAINER, X)
    assert list(judged) == ["exact", "half"] and isinstance(judged, xj.Judgements)
    assert judged["exact"].relative_error == 0 and judged["exact"].top3 == 1
    assert judged["half"].relative_error == pytest.approx(0.25)
    assert judged["exact"].model_rows == explanation.stats["model_rows"]
    assert judged["half"].model_rows is None
    assert "exact" in repr(judged) and len(repr(judged).splitlines()) == 4
    assert isinstance(xj.judge({"values": TRUE}, EXPLAINER, X), xj.Judgements)
    frame = pytest.importorskip("pandas") and judged.to_dataframe()
    assert list(frame.index) == ["exact", "half"] and frame.loc["half", "sign_flips"] == 0


@hypothesis.settings(max_examples=20, deadline=None)
@hypothesis.given(st.floats(-3, 3), st.integers(0, 6))
def test_a_scaled_truth_is_off_by_the_square_of_its_scale(scale, row):
    """|c phi - phi|^2 / |phi|^2 = (c - 1)^2, of each row alone too."""
    own = xj.judge(scale * TRUE[row : row + 1], EXPLAINER, X[row : row + 1])
    assert own.relative_error == pytest.approx((scale - 1) ** 2, abs=1e-9)
    assert own.relative_error == own.pooled_error or own.relative_error == pytest.approx(
        own.pooled_error
    )


@pytest.mark.slow
def test_several_outputs_and_one_for_each_instance():
    explainer = xj.Explainer(xj.as_model(two), B)
    explanation = explainer(X)
    judged = xj.judge(explanation, explainer, X)
    assert judged.relative_error == 0 and judged.row_errors.shape == (7, 2)
    chosen = explainer(X, outputs="predicted")
    assert xj.judge(chosen, explainer, X, outputs="predicted").p95 == 0
    with pytest.raises(xj.InputError, match="the model has 2 outputs"):
        xj.judge(chosen.values, explainer, X)


def test_what_others_hold_is_read():
    pandas = pytest.importorskip("pandas")
    shap = pytest.importorskip("shap")
    names = EXPLAINER.players.names
    given = {
        "shap": shap.Explanation(values=TRUE, feature_names=list(names)),
        "frame": pandas.DataFrame(TRUE, columns=names),
        "list": TRUE.tolist(),
        "one output": TRUE[..., None],
    }
    judged = xj.judge(given, EXPLAINER, X)
    assert all(one.relative_error < 1e-20 for one in judged.values())
    turned = pandas.DataFrame(TRUE, columns=names[::-1])
    with pytest.raises(xj.InputError, match="same order"):
        xj.judge(turned, EXPLAINER, X)


def test_images_are_read_in_their_own_shape():
    explainer = xj.Explainer(
        xj.as_model(lambda rows: rows[:, 0, 0] * rows[:, 1, 1]), np.zeros((1, 2, 2))
    )
    images = RNG.normal(size=(3, 2, 2))
    values = explainer(images).values
    assert xj.judge(values.reshape(3, 2, 2), explainer, images).p95 == 0


def test_a_rows_of_zeros_is_left_out_and_ties_count():
    explainer = xj.Explainer(xj.as_model(lambda rows: rows[:, 0] + rows[:, 1]), np.zeros((1, 3)))
    rows = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    judged = xj.judge(np.array([[0.0, 0, 0], [0.0, 2.0, 0]]), explainer, rows)
    assert judged.relative_error == pytest.approx(2 / 2) and judged.top1 == 1
    nothing = xj.judge(np.zeros((1, 3)), explainer, rows[:1])
    assert np.isnan(nothing.relative_error) and np.isnan(nothing.sign_flips)
    assert nothing.p95 == 0 and nothing.efficiency == 0


def test_banzhaf_values_have_no_sum_to_be_off_by():
    explainer = xj.Explainer(MODEL, B, index="banzhaf")
    judged = xj.judge(explainer(X), explainer, X)
    assert judged.relative_error == 0 and np.isnan(judged.efficiency)


@pytest.mark.parametrize(
    ("values", "match"),
    [
        (TRUE[:3], "is needed"),
        (TRUE[:, :4], "is needed"),
        (np.where(NOISE > 2, np.nan, np.nan), "finite"),
        ({}, "empty"),
    ],
)
def test_what_is_no_attribution_is_refused(values, match):
    with pytest.raises(xj.InputError, match=match):
        xj.judge(values, EXPLAINER, X)


def test_what_is_no_explainer_is_refused():
    with pytest.raises(xj.InputTypeError, match=r"xaijax\.Explainer"):
        xj.judge(TRUE, MODEL, X)  # pyright: ignore[reportArgumentType]


def test_outputs_before_players_are_refused_and_not_read_as_players():
    explainer = xj.Explainer(
        xj.as_model(lambda rows: two(np.asarray(rows, float)), backend="host"), B
    )
    true = explainer(X).values  # [7, 5, 2]
    assert xj.judge(true, explainer, X).relative_error < 1e-12
    with pytest.raises(xj.InputError, match=r"values.transpose\(0, 2, 1\)"):
        xj.judge(true.transpose(0, 2, 1), explainer, X)
