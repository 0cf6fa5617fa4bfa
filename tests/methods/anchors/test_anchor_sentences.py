"""Sentences of rules: they say of every row what the mask says, whatever the digits."""

from __future__ import annotations

import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from often import some_slow

import xaijax as xj

RNG = np.random.default_rng(3)
ROWS = 120
# Numbers whose first six digits are alike, and some that differ in all sizes.
LONG = {
    "dates": 20230101.0 + RNG.integers(0, 28, ROWS),
    "seconds": 1.7e9 + RNG.integers(0, 5_000, ROWS),
    "incomes": 1e6 + RNG.normal(size=ROWS).round(2),
    "close": 1e6 + 0.2 * RNG.normal(size=ROWS),
    "half": 20230101.0 + RNG.integers(0, 4, ROWS) / 2,
    "tiny": 1e-7 * RNG.normal(size=ROWS),
    "huge": 1e17 * (1 + 1e-9 * RNG.normal(size=ROWS)),
    "plain": RNG.normal(size=ROWS),
    "negative": -20230101.0 - RNG.integers(0, 28, ROWS),
}


def holds(sentence, column):
    """Which numbers satisfy one condition, by its text alone."""
    number = r"(-?[\d.]+(?:e[+-]\d+)?)"
    if found := re.fullmatch(rf"{number} < v <= {number}", sentence):
        return (float(found[1]) < column) & (column <= float(found[2]))
    if found := re.fullmatch(rf"v (<=|>|=) {number}", sentence):
        cut = float(found[2])
        return {"<=": column <= cut, ">": column > cut, "=": column == cut}[found[1]]
    raise AssertionError(sentence)


def explained(column, rows, **options):
    """Rules about the one column that matters; a host model, so that rows are not rounded."""
    middle = np.median(column)
    data = np.column_stack([column, np.zeros(len(column))])
    model = xj.as_model(lambda X: (X[:, 0] > middle) * 1, output="label", backend="host")
    anchors = xj.AnchorExplainer(model, data, ["v", "w"], search_space(options), **options)
    return anchors.explain(data[rows], search="kl-lucb", batch_size=20), data


def search_space(options):
    return [0] if options.get("bins", "quartile") is None else None


@pytest.mark.parametrize("bins", some_slow(["quartile", "decile", None]))
@pytest.mark.parametrize("kind", sorted(LONG))
def test_a_sentence_and_the_mask_agree_on_every_row(kind, bins):
    column = LONG[kind]
    rules, data = explained(column, slice(0, 25), bins=bins)
    texts = {}
    page, frame = unescape(rules.to_html()), rules.to_dataframe()
    for n, rule in enumerate(rules):
        assert rule.rule, "the answers depend on v, so a rule says something"
        said = np.logical_and.reduce([holds(one, data[:, 0]) for one in rule.rule])
        np.testing.assert_array_equal(said, rule.applies(data))
        assert said[n]
        assert texts.setdefault(tuple(rule.rule), rule.predicates) == rule.predicates
        assert frame["rule"][n] == " AND ".join(rule.rule)
        assert all(f"<b>{one}</b>" in page for one in rule.rule)
    assert len(texts) == len({tuple(map(tuple, rule.predicates)) for rule in rules})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*float32 keeps fewer than four digits")
@pytest.mark.parametrize("perturbation", ["row", "row_bin", "conditional", "joint"])
@pytest.mark.parametrize("bins", ["quartile", None])
def test_a_model_in_float32_is_explained_by_rows_as_given(bins, perturbation):
    """float32 takes 20230107 for 20230108; bins, sentences and masks do not."""
    days = 20230101.0 + np.arange(56) % 14
    frame = pd.DataFrame({"v": days, "w": np.zeros(56)})
    model = xj.as_model(lambda X: (X[:, 0] > np.float32(20230107)).astype(int), output="label")
    for data in (frame.to_numpy(), frame):
        anchors = xj.AnchorExplainer(model, data, bins=bins, perturbation=perturbation)
        rules = anchors.explain(data[:14])
        name = "v" if data is frame else "x0"
        for n, rule in enumerate(rules):
            said = [holds(one.replace(name, "v"), days) for one in rule.rule] or [days > 0]
            said = np.logical_and.reduce(said)
            assert said[n], (rule, days[n])
            np.testing.assert_array_equal(said, rule.applies(data))
            if rule.coverage is not None:
                assert rule.coverage == pytest.approx(said.mean(), abs=1e-12)
        assert len(anchors.check(rules, data[:14], samples=8)) == 14


@pytest.mark.slow
def test_rows_of_float32_are_explained_by_data_of_float64():
    data = np.repeat([[0.1], [0.6], [0.7], [0.9]], 4, axis=0)
    model = xj.as_model(lambda X: (X[:, 0] > 0.65) * 1, output="label")
    anchors = xj.AnchorExplainer(model, data, ["v"], bins=None)
    given = data[::4].astype(np.float32)
    for n, rule in enumerate(anchors.explain(given)):
        assert rule.rule == [f"v = {data[4 * n, 0]}"]
        assert rule.coverage == 0.25
        np.testing.assert_array_equal(rule.applies(given), np.arange(4) == n)
        np.testing.assert_array_equal(rule.applies(data), np.arange(16) // 4 == n)


@pytest.mark.slow
def test_cuts_that_float32_cannot_tell_apart():
    cuts = {"v": [999999.9999, 1000000.0001]}
    data = np.array([[999999.0], [1000000.0], [1000001.0]] * 4)
    model = xj.as_model(lambda X: (X[:, 0] == 1e6).astype(int), output="label")
    rules = xj.AnchorExplainer(model, data, ["v"], bins=cuts).explain(data[:3])
    for n, rule in enumerate(rules):
        np.testing.assert_array_equal(rule.applies(data), np.arange(12) % 3 == n)
        said = np.logical_and.reduce([holds(one, data[:, 0]) for one in rule.rule])
        np.testing.assert_array_equal(said, rule.applies(data))
    with pytest.raises(xj.InputError, match="increase in float32, the dtype of the data"):
        xj.AnchorExplainer(model, data.astype(np.float32), ["v"], bins=cuts)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*float32 keeps fewer than four digits")
@pytest.mark.parametrize("bins", ["quartile", "decile"])
@pytest.mark.parametrize("first", [20230100.0, 20230101.0, 1.7e9])
def test_a_sentence_agrees_with_a_model_that_reads_float32(first, bins):
    """Neighbouring dates are one number there, and a cut may lie on a tie of its rounding."""
    days = first + np.arange(56) % 28 * (1 if first < 1e9 else 40)
    data = np.column_stack([days, np.zeros(56)])
    model = xj.as_model(lambda X: (X[:, 0] > np.float32(first + 14)).astype(int), output="label")
    anchors = xj.AnchorExplainer(model, data, ["v", "w"], bins=bins)
    for rule in anchors.explain(data[:28]):
        said = np.logical_and.reduce(
            [holds(one, data[:, 0]) for one in rule.rule] or [data[:, 1] == 0]
        )
        np.testing.assert_array_equal(said, rule.applies(data))


@pytest.mark.slow
def test_an_instance_between_the_data_and_a_cut_is_on_the_right_side():
    """Six digits tell the cut 0.5000004 from the data, and not from this instance."""
    data = np.array([[0.0], [0.1], [0.9], [1.0]])
    model = xj.as_model(lambda X: (X[:, 0] > 0.5) * 1, output="label", backend="host")
    anchors = xj.AnchorExplainer(model, data, ["v"], bins={"v": [0.50000042]})
    for x in (0.5000003, 0.50000042, 0.5000005, 0.1):
        rule = anchors.evaluate([0], np.array([x]))
        assert holds(rule.rule[0], np.array([x])) == rule.applies(np.array([[x]])) == [True]
    assert anchors.evaluate([0], data[0]).rule == ["v <= 0.5"]


def test_digits_stay_few_where_few_tell():
    rules, _ = explained(LONG["plain"], slice(0, 25))
    numbers = re.findall(r"\d[\d.]*", " ".join(" ".join(rule.rule) for rule in rules))
    assert max(len(one.replace(".", "").lstrip("0")) for one in numbers) <= 6


@pytest.mark.slow
def test_float32_cuts_are_those_of_the_user():
    """A cut of 0.6 reads 0.6, and the row 0.6 is below it, in float64 and in float32."""
    data = np.array([[0.1], [0.6], [0.7], [0.9]])
    model = xj.as_model(lambda X: X[:, 0] > 0.65, output="label")
    anchors = xj.AnchorExplainer(model, data, ["v"], bins={"v": [0.6]})
    rule = anchors.evaluate([0], data[1])
    assert rule.rule == ["v <= 0.6"]
    np.testing.assert_array_equal(rule.applies(data), holds("v <= 0.6", data[:, 0]))
    assert anchors.evaluate([("v", 0.1, 0.7)], data[1]).rule == ["0.1 < v <= 0.7"]


@pytest.mark.slow
def test_classes_and_predictions_keep_the_digits_that_tell_them_apart():
    data = np.arange(8.0)[:, None]
    classes = np.array([1234567.25, 1234567.75])
    model = xj.as_model(
        lambda X: np.stack([X[:, 0] < 4, X[:, 0] >= 4], 1) * 1.0,
        output="proba",
        classes=classes.tolist(),
        backend="host",
    )
    rules = xj.AnchorExplainer(model, data, ["v"]).explain(data[[0, 7]])
    assert [rule.predicted for rule in rules] == ["1234567.25", "1234567.75"]
    number = xj.as_model(lambda X: 1234567.25 + X[:, 0], backend="host")
    close = xj.AnchorExplainer(number, data, ["v"], tolerance=0.5).explain(data[:1])[0]
    assert close.predicted == "1234567.25 +- 0.5"
    wide = xj.AnchorExplainer(number, data, ["v"], tolerance=1e6).explain(data[:1])[0]
    assert wide.predicted == "1234570 +- 1000000"


# Categories.


def tag_model(wanted):
    def f(frame):
        return np.array([type(v) is type(wanted) and v == wanted for v in frame["v"]]) * 1

    return xj.as_model(f, output="label", backend="host")


SHOPS = RNG.integers(1, 9, 160)


@pytest.mark.parametrize(
    "column",
    [
        pd.Categorical(SHOPS),
        pd.Categorical(SHOPS.astype(float)),
        pd.Categorical(SHOPS, ordered=True),
        pd.Categorical(SHOPS, categories=range(20)),
        pd.Categorical(np.where(SHOPS == 8, np.nan, SHOPS.astype(float))),
    ],
    ids=["integers", "floats", "ordered", "unused levels", "missing"],
)
def test_a_categorical_column_of_numbers_goes_by_equality(column):
    frame = pd.DataFrame({"v": column, "w": RNG.normal(size=len(SHOPS))})
    model = xj.as_model(
        lambda X: (X["v"].astype(float) == 7).to_numpy() * 1,
        output="label",
        backend="host",
        allow_nan=True,
    )
    anchors = xj.AnchorExplainer(model, frame)
    rows = frame[SHOPS == 7][:2]
    rules = anchors.explain(rows)
    assert [rule.rule for rule in rules] == [["v = 7"]] * 2 and rules[0].precision == 1
    np.testing.assert_array_equal(rules[0].applies(frame), SHOPS == 7)
    with pytest.raises(xj.InputTypeError, match="bins: column 'v' is categorical"):
        xj.AnchorExplainer(model, frame, bins={"v": [3]})


@pytest.mark.slow
def test_a_nullable_bool_is_a_category_whether_or_not_some_are_missing():
    flags = pd.array([True, False, None, True] * 10, dtype="boolean")
    frame = pd.DataFrame({"v": flags, "w": np.arange(40.0)})
    model = xj.as_model(
        lambda X: X["v"].fillna(False).to_numpy(bool) * 1, output="label", backend="host",
        allow_nan=True,
    )  # fmt: skip
    rule = xj.AnchorExplainer(model, frame).explain(frame[:1])[0]
    assert rule.features == (0,) and len(rule.predicates[0]) == 2 and rule.precision == 1
    np.testing.assert_array_equal(rule.applies(frame), frame["v"].fillna(False).to_numpy(bool))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["string", object])
def test_texts_that_are_missing(dtype):
    column = pd.Series(["a", pd.NA, "b", "a"] * 10, dtype=dtype)
    frame = pd.DataFrame({"v": column, "w": np.arange(40.0)})
    model = xj.as_model(lambda X: X["v"].isna().to_numpy() * 1, output="label", backend="host")
    anchors = xj.AnchorExplainer(model, frame)
    rules = anchors.explain(frame[:3])
    assert [rule.rule for rule in rules] == [["v = a"], ["v is missing"], ["v = b"]]
    again = xj.Rules.from_json(rules.to_json())
    holding = (column == "a", column.isna(), column == "b")
    for rule, back, value in zip(rules, again, holding, strict=True):
        wanted = value.fillna(False).to_numpy(bool)
        np.testing.assert_array_equal(rule.applies(frame), wanted)
        np.testing.assert_array_equal(back.applies(frame), wanted)
    own = anchors.evaluate([("v", ["b", None])], frame[1:2])
    assert own.rule == ["v in (missing, b)"] and own.coverage == 0.5
    assert anchors.evaluate([("v", [pd.NA])], frame[1:2]).rule == ["v is missing"]


@pytest.mark.slow
def test_values_that_python_takes_for_equal_or_that_read_alike():
    """True is not 1, the text '1' neither; -0.0 is 0.0. Each rule has a text of its own."""
    values = [1, True, "1", 0.0, False, -0.0, "true"]
    frame = pd.DataFrame({"v": pd.Series(values * 6, dtype=object), "w": np.arange(42.0)})
    said = ["v = 1", "v = true", "v = '1'", "v = 0", "v = false", "v = 0", "v = 'true'"]
    for n, (wanted, text) in enumerate(zip(values, said, strict=True)):
        anchors = xj.AnchorExplainer(tag_model(wanted), frame)
        rule = anchors.evaluate([0], frame[n : n + 1])
        assert rule.rule == [text] and rule.precision == 1
        same = [type(v) is type(wanted) and v == wanted for v in frame["v"]]
        np.testing.assert_array_equal(rule.applies(frame), same)
        assert rule.coverage == np.mean(same)
        back = xj.Rules.from_json(xj.Rules((rule,), ("v", "w")).to_json())[0]
        np.testing.assert_array_equal(back.applies(frame), same)
        own = anchors.evaluate([("v", [wanted])], frame[n : n + 1])
        assert own.rule == [text] and own.coverage == rule.coverage


@pytest.mark.slow
def test_long_whole_numbers_by_equality_are_told_apart():
    column = 2**60 + np.arange(40) % 4
    frame = pd.DataFrame({"v": column, "w": np.arange(40.0)})
    model = xj.as_model(
        lambda X: (X["v"].to_numpy() == 2**60 + 1) * 1, output="label", backend="host"
    )
    rule = xj.AnchorExplainer(model, frame, categories=["v"]).evaluate([0], frame[1:2])
    assert rule.rule == [f"v = {2**60 + 1}"] and rule.coverage == 0.25 and rule.precision == 1


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        (None, xj.InputTypeError, r"names of column 'v' must be a list .*categories=\['v'\]"),
        (5, xj.InputTypeError, "names of column 'v' must be a list by code or"),
        ("red", xj.InputTypeError, "names of column 'v' must be a list by code or"),
        (["red", "red", "blue"], xj.InputError, "names of column 'v' hold 'red' more than once"),
        ({0: "red", 1: "red"}, xj.InputError, "hold 'red' more than once"),
        ({0: "1"}, xj.InputError, "'1' is the name of several values of column 'v'"),
    ],
)
def test_names_of_categories_that_are_refused(names, error, words):
    def never(rows):
        raise AssertionError("no model call")

    data = np.column_stack([np.arange(12) % 3, np.arange(12.0)])
    model = xj.as_model(never, output="label", backend="host")
    with pytest.raises(error, match=words):
        xj.AnchorExplainer(model, data, ["v", "w"], categories={"v": names})


@pytest.mark.slow
def test_names_may_be_left_out_or_be_few():
    data = np.column_stack([np.arange(12) % 3, np.arange(12.0)])
    model = xj.as_model(lambda X: (X[:, 0] == 1) * 1, output="label", backend="host")
    for names, text in (({}, "v = 1"), (["no", "yes"], "v = yes"), ({1: "yes"}, "v = yes")):
        anchors = xj.AnchorExplainer(model, data, ["v", "w"], categories={"v": names})
        assert anchors.explain(data[1:2])[0].rule == [text]


@pytest.mark.slow
@pytest.mark.parametrize("as_frame", [False, True])
def test_quartiles_and_coverage_have_the_same_rows(as_frame):
    """Rows of weight zero are in neither: explaining is as if they were not there."""
    column = np.r_[np.arange(20.0), 100 + np.arange(20.0)]
    data = np.column_stack([column, RNG.normal(size=40)])
    weights = np.r_[np.ones(20), np.zeros(20)]

    def made(rows, **options):
        rows = pd.DataFrame(rows, columns=["v", "w"]) if as_frame else rows
        model = xj.as_model(lambda X: (np.asarray(X)[:, 0] > 9) * 1, output="label", backend="host")
        names = None if as_frame else ["v", "w"]
        return xj.AnchorExplainer(model, rows, names, **options).explain(rows[:5])

    with_zeros, without = made(data, weights=weights), made(data[:20])
    assert [str(rule) for rule in with_zeros] == [str(rule) for rule in without]
    low, high = np.percentile(column[:20], (25, 50))
    assert with_zeros[0].rule == [f"v <= {low:g}"] and with_zeros[0].coverage == 0.25
    assert high < 10


@pytest.mark.parametrize(
    "names", [["red", None, "blue"], {0: "red", 1: np.nan}, ["red", "green", "blue", pd.NA]]
)
def test_no_value_is_called_by_what_is_missing(names):
    data = np.repeat([[0.0], [1.0], [2.0]], 3, axis=0)
    model = xj.as_model(lambda X: (X[:, 0] > 0) * 1, output="label", backend="host")
    with pytest.raises(xj.InputError, match="'c' hold .* for the value .*{code: name}"):
        xj.AnchorExplainer(model, data, ["c"], categories={"c": names})
