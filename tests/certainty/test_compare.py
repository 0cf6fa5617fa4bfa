"""`compare`: shifts against plain means, what it pairs, what the data and what the model did."""

from __future__ import annotations

import dataclasses

import hypothesis
import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest

import xaijax as xj

RNG = np.random.default_rng(5)
BACKGROUND = np.zeros((1, 3))


def explained(values, **more):
    return xj.Explanation(values, np.zeros(values.shape[:1] + values.shape[2:]), **more)


def explainer(weights):
    w = np.asarray(weights, float)
    return xj.Explainer(xj.as_model(lambda X: X @ w, backend="host"), BACKGROUND)


def test_shifts_are_differences_of_means():
    a, b = RNG.normal(size=(40, 3)), RNG.normal(size=(50, 3)) + 1
    found = xj.compare(explained(a), explained(b))
    assert not found.paired and found.instances == (40, 50) and found.rows is None
    for j in range(3):
        assert found.shift[j] == pytest.approx(sum(b[:, j]) / 50 - sum(a[:, j]) / 40)
        sizes = sum(map(abs, b[:, j])) / 50 - sum(map(abs, a[:, j])) / 40
        assert found.size_shift[j] == pytest.approx(sizes)
    np.testing.assert_allclose(found.high - found.shift, found.shift - found.low)
    # Welch's standard errors; the quantile of the largest of six |t| lies between that of one and
    # Bonferroni's, with 80 to 90 degrees of freedom.
    error = np.sqrt(a.var(axis=0, ddof=1) / 40 + b.var(axis=0, ddof=1) / 50)
    factor = (found.high - found.shift) / error
    assert np.ptp(factor) < 1e-12 and 1.99 < factor[0] < 2.75
    assert found.changed == found.feature_names and "player 0" in repr(found)


@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(hnp.arrays(float, (5, 3), elements=st.floats(-100, 100)))
def test_an_explanation_is_as_itself(values):
    one = explained(values)
    found = xj.compare(one, one, paired=True)
    zero = np.zeros(3)
    for name in ("shift", "low", "high", "size_shift", "size_low", "size_high"):
        np.testing.assert_array_equal(getattr(found, name), zero)
    assert found.changed == () and not found.row_shift.any()


@pytest.mark.slow
@hypothesis.settings(max_examples=25, deadline=None)
@hypothesis.given(st.floats(0.01, 100), st.booleans())
def test_units_scale_what_is_found_and_sides_turn_it(scale, both):
    a, b = RNG.normal(size=(12, 3)), RNG.normal(size=(12, 3))
    found = xj.compare(explained(a), explained(b), paired=both)
    scaled = xj.compare(explained(scale * a), explained(scale * b), paired=both)
    np.testing.assert_allclose(scaled.high, scale * found.high, rtol=1e-9)
    turned = xj.compare(explained(b), explained(a), paired=both)
    np.testing.assert_allclose(turned.low, -found.high, rtol=1e-9)


def test_the_same_instances_are_found_and_paired():
    X = RNG.normal(size=(30, 3))
    old, new = explainer([1, 2, 3])(X), explainer([1, 2, 3.1])(X)
    found = xj.compare(old, new)
    assert found.paired and found.changed in (("x2",), ()) and found.rows is not None
    np.testing.assert_allclose(found.row_shift, np.abs(0.1 * X[:, 2]), atol=1e-12)
    assert found.rows[0] == np.abs(X[:, 2]).argmax()
    # What no row changed is there to rounding: values below 10, in float64.
    assert abs(found.low[0]) < 1e-12 and abs(found.high[0]) < 1e-12
    turned = explainer([1, 2, 3.1])(X[::-1].copy())
    assert not xj.compare(old, turned).paired
    assert not xj.compare(old, new, paired=False).paired
    names = tuple(f"n{i}" for i in range(4))
    values = np.ones((4, 2))
    one, other = explained(values, instance_names=names), explained(values, instance_names=names)
    assert xj.compare(one, other).paired
    frames = pytest.importorskip("pandas")
    frame = frames.DataFrame({"u": [1.0, 2], "v": ["a", "b"]})
    given = [explained(np.ones((2, 2)), data=frame, feature_names=("u", "v")) for _ in "ab"]
    assert xj.compare(*given).paired


def test_the_split_adds_up_and_knows_who_did_it():
    X, Y = RNG.normal(size=(300, 3)), RNG.normal(size=(200, 3)) + [0, 0, 1.0]
    old, new = explainer([1, 2, 3]), explainer([1, 4, 3])
    a, b = old(X), new(Y)
    found = xj.compare(a, b, explainers=(old, new))
    split = found.split
    assert split is not None
    np.testing.assert_allclose(found.of_data + found.of_model, found.shift, atol=1e-12)
    np.testing.assert_allclose(
        split.size_data.shift + split.size_model.shift, found.size_shift, atol=1e-12
    )
    w, u = np.array([1, 2, 3.0]), np.array([1, 4, 3.0])
    data = (w + u) / 2 * (Y.mean(axis=0) - X.mean(axis=0))
    model = (u - w) * (Y.mean(axis=0) + X.mean(axis=0)) / 2
    np.testing.assert_allclose(found.of_data, data, atol=1e-12)
    np.testing.assert_allclose(found.of_model, model, atol=1e-12)
    assert split.data.low[2] > 0 and abs(split.model.low[2]) + abs(split.model.high[2]) < 1e-11
    assert split.size_model.low[1] > 0
    same = xj.compare(a, new(X), explainers=(old, new))
    np.testing.assert_array_equal(same.of_data, 0)
    np.testing.assert_array_equal(same.of_model, same.shift)
    frame = pytest.importorskip("pandas") and found.to_dataframe()
    assert frame.loc["x2", "of_data_low"] == split.data.low[2]


def test_several_outputs():
    a, b = RNG.normal(size=(30, 2, 3)), RNG.normal(size=(30, 2, 3))
    b[:, 1, 2] += 5
    found = xj.compare(explained(a), explained(b), paired=True)
    assert found.shift.shape == (2, 3) and found.changed == ("player 1",)
    frame = pytest.importorskip("pandas") and found.to_dataframe()
    assert frame.index.names == ["player", "output"] and len(frame) == 6


def test_the_text_says_of_which_output_a_shift_is():
    values = RNG.normal(size=(60, 2, 2))
    names = {"feature_names": ("age", "pay"), "output_names": ("no", "yes")}
    a, b = (explained(v, **names) for v in (values, values + [[5.0, 0.0], [0.0, -7.0]]))
    lines = repr(xj.compare(a, b, paired=True)).split("\n")
    assert lines[1] == "  changed: age (no), pay (yes)"
    assert lines[2].startswith("  pay, output 'yes': -7 (-7 to -7); mean |value| +")
    assert lines[3].startswith("  age, output 'no': +5 (5 to 5); mean |value| +")
    # One number of two outputs is of one: that of the shift of the size, too.
    size = np.abs(b.values[:, 0, 0]).mean() - np.abs(a.values[:, 0, 0]).mean()
    assert f"mean |value| {size:+.3g} (" in lines[3]
    one = xj.compare(a[:, :, "no"], b[:, :, "no"], paired=True)
    assert one.provenance["selected_output"] == "no" and "output 'no'" in repr(one)
    assert "output" not in repr(xj.compare(explained(values[..., 0]), explained(values[:9, :, 0])))


def test_draws_widen_intervals():
    a, b = RNG.normal(size=(40, 3)), RNG.normal(size=(40, 3))
    exact = xj.compare(explained(a), explained(b), paired=False)
    drawn = {"std_errors": np.full((40, 3), 0.5), "exact": False}

    def width(first, second):
        return xj.compare(explained(a, **first), explained(b, **second), paired=False).high

    apart = [drawn | {"stats": {"seed": s}} for s in (0, 1, 1)]
    assert (width(apart[0], apart[1]) > exact.high).all()
    assert (width(apart[1], apart[2]) > width(apart[0], apart[1])).all()


@pytest.mark.parametrize(
    ("a", "b", "match"),
    [
        (np.ones((3, 2)), np.ones((3, 3)), "different players"),
        (np.ones((1, 2)), np.ones((3, 2)), "at least 2"),
        (np.ones((3, 2)), np.full((3, 2), np.nan), "not finite"),
        (np.ones((3, 2)), np.ones((3, 2)), "Say paired=True"),
    ],
)
def test_what_cannot_be_compared_is_refused(a, b, match):
    with pytest.raises(xj.InputError, match=match):
        xj.compare(explained(a), explained(b))


def test_other_bad_arguments_are_refused():
    one, two = explained(np.ones((3, 2))), explained(np.ones((4, 2)))
    with pytest.raises(xj.InputTypeError, match="pass an xaijax Explanation"):
        xj.compare(one, np.ones((3, 2)))
    with pytest.raises(xj.InputError, match="3 instances and b 4"):
        xj.compare(one, two, paired=True)
    with pytest.raises(xj.InputError, match="confidence must be a number in .0, 1., got 95"):
        xj.compare(one, two, confidence=95)
    with pytest.raises(xj.InputError, match="ask one index"):
        xj.compare(one, explained(np.ones((4, 2)), kind="banzhaf"))
    with pytest.raises(xj.InputError, match="give two"):
        xj.compare(one, two, explainers=one)
    with pytest.raises(xj.InputError, match="no rows to explain"):
        xj.compare(one, two, explainers=(explainer([1, 2, 3]),) * 2)
    unknown = explained(np.ones((3, 2)), exact=False)
    with pytest.raises(xj.InputError, match="no standard errors"):
        xj.compare(unknown, two)


def test_the_split_of_instances_whose_data_changed_asks_both_sides():
    """Paired by name, other data and one model: the data did all of it, in every instance."""
    one, names = explainer([1, 2, 3]), tuple(f"n{i}" for i in range(40))
    X = RNG.normal(size=(40, 3))
    a, b = (dataclasses.replace(one(rows), instance_names=names) for rows in (X, X + [0, 0, 1.0]))
    found = xj.compare(a, b, explainers=(one, one))
    assert found.paired
    np.testing.assert_allclose(found.of_data, [0, 0, 3], atol=1e-12)
    np.testing.assert_allclose(found.of_model, 0, atol=1e-12)


@pytest.mark.slow
def test_explainers_in_the_other_order_are_refused():
    """Where the model's program and parameters can be read, and by the background in any case."""
    X, Y = (RNG.normal(size=(20, 3)).astype(np.float32) for _ in "ab")

    def of(weights, background):
        w = np.asarray(weights, np.float32)
        return xj.Explainer(xj.as_model(lambda Z: (Z @ w) ** 2), background)

    old = of([1, 2, 3], X[:2])
    for new in (of([1, 4, 3], X[:2]), of([1, 2, 3], X[2:4])):
        a, b = old(X), new(Y)
        assert xj.compare(a, b, explainers=(old, new)).split is not None
        with pytest.raises(xj.InputError, match="in this order"):
            xj.compare(a, b, explainers=(new, old))


def test_rounding_that_is_the_same_in_all_rows_is_no_change():
    """A column of one value, whose value is rounded by a float32 model and not by the other."""
    values = np.full((6, 2), 0.3)
    a = explained(values)
    stats = {"efficiency_bound": np.full(6, 1e-6)}
    b = dataclasses.replace(explained(values + [1e-8, 0.0]), stats=stats)
    assert xj.compare(a, b, paired=True).changed == ()
    assert xj.compare(a, explained(values + [1e-2, 0.0]), paired=True).changed == ("player 0",)
