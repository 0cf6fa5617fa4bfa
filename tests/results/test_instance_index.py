"""The index of a frame that is explained: kept by results, files, sweeps and merged parts."""

import copy
import dataclasses
import pickle

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import xaijax as xj

RNG = np.random.default_rng(0)
N = 6
PLAIN = pd.DataFrame(RNG.normal(size=(N, 3)).astype(np.float32), columns=list("abc"))
INDEXES = {
    "shuffled": pd.Index([4, 0, 5, 1, 3, 2], name="row"),
    "texts": pd.Index(list("zyxwvu")),
    "dates": pd.date_range("2026-01-01", periods=N, tz="Europe/Berlin", name="day"),
    "periods": pd.period_range("2026-01", periods=N, freq="M"),
    "levels": pd.MultiIndex.from_product([["u", "v"], [3, 1, 2]], names=["who", "n"]),
    "twice": pd.Index([7, 7, 8, 8, 9, 9]),
    "mixed": pd.Index(["a", 1, 2.5, None, "b", True], dtype=object),
    "categories": pd.CategoricalIndex(list("abcabc")),
    "part of a range": pd.RangeIndex(10, 10 + N),
}
MODELS = {
    "jax": xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2]),
    "estimator": xj.as_model(LinearRegression().fit(PLAIN, [0, 1, 3, 2, 5, 1]), backend="host"),
}


def same(found, wanted, **how):
    """Equal labels, names and dtypes; that dates follow each other at even steps is not kept."""
    pd.testing.assert_index_equal(found, wanted, check_freq=False, **how)


def framed(index):
    return PLAIN.set_axis(index)


def texts(index):
    if index.nlevels > 1:
        return tuple(", ".join(map(str, label)) for label in index)
    return tuple(map(str, index))


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kind", INDEXES)
def test_results_keep_the_index(kind, model, tmp_path):
    index, X = INDEXES[kind], framed(INDEXES[kind])
    explainer = xj.Explainer(MODELS[model], PLAIN[:2])
    found = explainer(X)
    assert found.instance_names == texts(index)
    same(found.to_dataframe().index, index)
    if index.is_unique:  # what a person does with it
        joined = X.join(found.to_dataframe().add_suffix("_phi"))
        np.testing.assert_array_equal(joined["a_phi"], found.values[:, 0])
    long = found.to_dataframe(long=True)["instance"]
    wanted = index if index.nlevels == 1 else index.to_flat_index()
    assert long.tolist() == wanted.repeat(3).tolist()
    if index.nlevels == 1:
        assert long.dtype == index.dtype
    some = found[[3, 0]]
    same(some.to_dataframe().index, index[[3, 0]])
    same(found[1:4].instance_index, index[1:4])
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        same(again.instance_index, index)
    found.save(tmp_path / "one.npz")
    loaded = xj.load(tmp_path / "one.npz")
    same(loaded.to_dataframe().index, index)
    assert loaded.instance_names == found.instance_names
    top = found.top(2).to_dataframe()["instance"]
    assert top.tolist() == wanted.repeat(2).tolist()


@pytest.mark.parametrize("kind", ["shuffled", "levels"])
def test_interactions_keep_the_index(kind, tmp_path):
    index = INDEXES[kind]
    found = xj.Explainer(MODELS["jax"], PLAIN[:2]).interactions(framed(index))
    same(found.to_dataframe().index, index)
    assert len(found.to_dataframe(long=True)["instance"].unique()) == N
    found.save(tmp_path / "one.npz")
    same(xj.load(tmp_path / "one.npz")[2:].instance_index, index[2:])


def test_other_explainers_keep_the_index():
    index, X = INDEXES["texts"], framed(INDEXES["texts"])
    gradients = xj.GradientExplainer(MODELS["jax"], PLAIN[:2])(X)
    same(gradients.instance_index, index)
    scored = {"quantity": "individual", "outcome": "score", "bounds": (-50, 50)}
    qii = xj.QII(MODELS["jax"], X, **scored)
    for found in (qii.explain(), qii.unary(), qii.game().interactions()):
        same(found.instance_index, index)
    assert qii.explain(PLAIN).instance_index is None
    same(qii.explain(X[1:3]).instance_index, index[1:3])


@pytest.mark.parametrize("kind", ["shuffled", "texts", "dates", "levels", "twice"])
def test_rules_keep_the_index(kind, tmp_path):
    index = INDEXES[kind]
    model = xj.as_model(lambda X: X[:, 0] + X[:, 1], threshold=0.0)
    rules = xj.AnchorExplainer(model, PLAIN).explain(framed(index))
    same(rules.to_dataframe().index, index)
    assert rules.instance_names == texts(index)
    same(rules[1:3].instance_index, index[1:3])
    same(pickle.loads(pickle.dumps(rules)).instance_index, index)
    picked = rules.pick(2, PLAIN)
    wanted = index[list(picked.stats["picked"])]
    same(picked.instance_index, wanted, exact="equiv")
    rules.save(tmp_path / "rules.json")
    loaded = xj.Rules.load(tmp_path / "rules.json").to_dataframe().index
    if kind == "dates":  # of a zone: texts
        assert loaded.tolist() == [str(one) for one in index]
    else:
        same(loaded, index)


def test_rules_of_days_and_of_another_number_of_labels():
    red = xj.Rule(["c = red"], [(0, ("red",))], "stop", 1.0, None, 0.5, True, 2, "exact")
    for index in (pd.DatetimeIndex(["2026-02-03"]), pd.TimedeltaIndex(["3 days"])):
        index = index.as_unit("ns")
        rules = xj.Rules.from_json(xj.Rules((red,), ("c",), instance_index=index).to_json())
        same(rules.instance_index, index)
    text = xj.Rules((red,), ("c",), instance_index=pd.Index([3])).to_json()
    with pytest.raises(xj.InputError, match=r"instances\[0\].labels"):
        xj.Rules.from_json(text.replace('"labels": [3]', '"labels": [3, 4]'))
    with pytest.raises(xj.InputError, match=r"instances\[0\].dtype"):
        xj.Rules.from_json(text.replace('"dtype": "int64"', '"dtype": "O8"'))


@pytest.mark.parametrize(
    "index", [None, pd.Index(range(N)), pd.RangeIndex(N), pd.Index(range(N), dtype="int32")]
)
def test_an_index_that_counts_from_0_is_none(index):
    X = PLAIN if index is None else framed(index)
    found = xj.Explainer(MODELS["jax"], PLAIN[:2])(X)
    assert found.instance_names is None and found.instance_index is None
    assert found.to_dataframe().index.tolist() == list(range(N))
    arrays = xj.Explainer(MODELS["jax"], PLAIN.to_numpy()[:2])(X.to_numpy())
    assert arrays.instance_index is None


def test_a_slice_keeps_the_places_of_its_rows_in_a_frame():
    found = xj.Explainer(MODELS["jax"], PLAIN[:2])(PLAIN)
    assert found[3:5].to_dataframe().index.tolist() == [3, 4]
    assert found[[4, 0]].instance_names == ("4", "0") and found[:2].instance_names is None
    joined = PLAIN.join(found[[4, 0]].to_dataframe()[["base_value"]])
    assert joined["base_value"].notna().tolist() == [row in (0, 4) for row in range(N)]


def test_merge_of_parts_of_one_frame():
    explainer = xj.Explainer(MODELS["jax"], PLAIN[:2])
    whole = xj.merge([explainer(PLAIN[:2]), explainer(PLAIN[2:])])
    assert whole.instance_names is None and whole.instance_index is None
    swapped = xj.merge([explainer(PLAIN[4:]), explainer(PLAIN[:2])])
    # Rows without names have their places in their own part, which are their labels in the frame.
    assert swapped.instance_names == ("4", "5", "0", "1")
    X = framed(INDEXES["levels"])
    parts = xj.merge([explainer(X[:2]), explainer(X[2:])])
    same(parts.instance_index, X.index)
    named = xj.Explanation(whole.values, whole.base_values, feature_names=tuple("abc"))
    texts_given = xj.Explanation(
        named.values, named.base_values, feature_names=tuple("abc"), instance_names=tuple("uvwxyz")
    )
    assert xj.merge([named, texts_given]).instance_names == (*map(str, range(N)), *"uvwxyz")


def test_names_of_ones_own_take_the_place_of_the_index():
    found = xj.Explainer(MODELS["jax"], PLAIN[:2])(framed(INDEXES["texts"]))
    mine = dataclasses.replace(found, instance_names=tuple("ABCDEF"))
    assert mine.instance_index is None
    assert mine.to_dataframe().index.tolist() == list("ABCDEF")
    with pytest.raises(xj.InputError, match="instance_index"):
        xj.Explanation(np.ones((2, 1)), np.ones(2), instance_index=pd.Index(["a"]))
    with pytest.raises(xj.InputTypeError, match="instance_index.*list"):
        xj.Explanation(np.ones((1, 1)), np.ones(1), instance_index=["a"])


def test_compare_looks_at_rows_and_not_at_names_alone():
    explainer = xj.Explainer(MODELS["jax"], PLAIN[:2])
    first, other = framed(INDEXES["texts"]), (PLAIN + 1).set_axis(INDEXES["texts"])
    again = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), PLAIN[:2])
    assert xj.compare(explainer(first), again(first)).paired
    assert not xj.compare(explainer(first), explainer(other)).paired


@pytest.mark.parametrize("backend", ["jax", "estimator"])
@pytest.mark.parametrize("kind", ["shuffled", "levels"])
def test_sweeps_keep_the_index(kind, backend, tmp_path):
    index = INDEXES[kind]
    explainer, X = xj.Explainer(MODELS[backend], PLAIN[:2]), framed(index)
    run = xj.sweep(explainer, X, tmp_path / "run", rows_per_part=4)
    for lazy in (False, True):
        found = xj.open_run(tmp_path / "run").explanation(lazy=lazy)
        same(found.to_dataframe().index, index)
        np.testing.assert_array_equal(found.values, explainer(X).values)
    if backend == "estimator":
        same(found.data.index, index)
    table = pd.read_parquet(run.to_parquet(tmp_path / "rows.parquet"))
    if kind == "levels":
        assert table["instance_who"].tolist() == list("uuuvvv")
        assert table["instance_n"].tolist() == [3, 1, 2, 3, 1, 2]
    else:
        assert table["instance"].tolist() == index.tolist()
    with pytest.raises(xj.InputError, match="index"):
        xj.sweep(explainer, X.set_axis(INDEXES["texts"]), tmp_path / "run")


def test_sweeps_of_rows_that_repeat_and_of_rules_keep_the_index(tmp_path):
    X = PLAIN.iloc[[0, 1] * 10].set_axis(pd.Index([f"p{n}" for n in range(20)]))
    explainer = xj.Explainer(MODELS["jax"], PLAIN[:2])
    run = xj.sweep(explainer, X, tmp_path / "run", rows_per_part=1)
    assert run.parts == 2  # distinct rows alone
    found = run.explanation()
    same(found.instance_index, X.index)
    np.testing.assert_array_equal(found["p7"].values, explainer(PLAIN.iloc[[1]]).values)
    table = pd.read_parquet(run.to_parquet(tmp_path / "rows.parquet"))
    assert table["instance"].tolist() == X.index.tolist()
    model = xj.as_model(lambda X: jnp.sin(X[:, 0]), threshold=0.0)
    anchors = xj.AnchorExplainer(model, PLAIN)
    rules = xj.sweep(anchors, X[:4], tmp_path / "rules", rows_per_part=2).rules()
    same(rules.instance_index, X.index[:4])


def test_private_copies_drop_the_index():
    public = (PLAIN + 1).set_axis(INDEXES["texts"])
    model = xj.as_model(lambda X: 1 / (1 + jnp.exp(-X.sum(axis=1))))
    found = xj.QII(model, PLAIN, quantity="individual", outcome="score").explain(public[:1])
    assert found.instance_names == ("z",)
    private = xj.privacy.release(found, epsilon=5.0)
    assert private.instance_names is None and private.instance_index is None


def test_reports_name_instances_by_the_index(tmp_path):
    found = xj.Explainer(MODELS["jax"], PLAIN[:2])(
        framed(pd.Index([f"person {n}" for n in "uvwxyz"]))
    )
    page = xj.report(found, tmp_path / "page.html").read_text()
    assert "person u" in page
