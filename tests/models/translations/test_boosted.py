"""Boosters of XGBoost, LightGBM and CatBoost in JAX. The oracles are the libraries themselves."""

from __future__ import annotations

import itertools
import json
import math
import types
from typing import Any

import numpy as np
import pandas as pd
import pytest

import xaijax as xj
from xaijax.models.translations.columns import Columns, ColumnSource
from xaijax.models.translations.families import boosters
from xaijax.tables.table import Untranslatable

# What the libraries themselves warn of.
pytestmark = pytest.mark.filterwarnings(
    "ignore:X does not have valid feature names",
    "ignore:The argument 'eval_set' is deprecated",
    "ignore:.*booster=(dart|gblinear). is deprecated",
    "ignore:.XGBRF\\w+. is deprecated",
)

RNG = np.random.default_rng(3)
N = 240
X = np.round(RNG.normal(size=(N, 4)), 2)
X[:, 3] = np.round(X[:, 3])  # with zeros
GAPS = np.where(RNG.random(X.shape) < 0.15, np.nan, X)
VALUE = X[:, 0] * X[:, 1] + X[:, 2] - X[:, 3]
TWO, THREE = (VALUE > 0).astype(int), np.digitize(VALUE, [-0.6, 0.6])
TARGETS = np.stack([VALUE, -VALUE, VALUE**2], axis=1)
KIND = RNG.integers(0, 6, N)
BY_KIND = VALUE + np.array([2.0, -1.0, 0.0, 3.0, -2.0, 1.0])[KIND]
CODED = np.column_stack([X[:, :3], KIND])
FRAME = pd.DataFrame(
    {
        "a": X[:, 0],
        "c": pd.Categorical(np.array(list("uvwxyz"))[KIND], categories=list("zyxwvuq")),
        "n": pd.Categorical(RNG.integers(0, 3, N) * 10),
        "d": X[:, 2],
    }
)
FRAME.loc[::7, "c"] = np.nan

FEW = {"n_estimators": 6, "n_jobs": 1}
XGB = FEW | {"max_depth": 4}
LGB = FEW | {"num_leaves": 9, "min_child_samples": 4, "verbose": -1}
LGB |= {"cat_smooth": 0.1, "cat_l2": 0.1, "min_data_per_group": 2}
CAT = {"n_estimators": 6, "depth": 4, "verbose": 0, "thread_count": 1, "allow_writing_files": False}

# (library, class, options, what is fitted)
CASES: dict[str, tuple[str, str, dict[str, Any], Any]] = {
    "XGBoost": ("xgboost", "XGBRegressor", XGB, VALUE),
    "XGBoost dart": ("xgboost", "XGBRegressor", XGB | {"booster": "dart", "rate_drop": 0.4}, VALUE),
    "XGBoost exact": ("xgboost", "XGBRegressor", XGB | {"tree_method": "exact"}, VALUE),
    "XGBoost Poisson": ("xgboost", "XGBRegressor", XGB | {"objective": "count:poisson"}, TWO),
    "XGBoost forest": ("xgboost", "XGBRFClassifier", XGB, THREE),
    "XGBoost 0 missing": ("xgboost", "XGBRegressor", XGB | {"missing": 0.0}, VALUE),
    "XGBoost vectors": (
        "xgboost", "XGBRegressor", XGB | {"multi_strategy": "multi_output_tree"}, TARGETS,
    ),
    "XGBoost targets": ("xgboost", "XGBRegressor", XGB, TARGETS),
    "XGBoost, 2": ("xgboost", "XGBClassifier", XGB | {"base_score": 0.3}, TWO),
    "XGBoost, 3": ("xgboost", "XGBClassifier", XGB, THREE),
    "XGBoost hinge": ("xgboost", "XGBClassifier", XGB | {"objective": "binary:hinge"}, TWO),
    "LightGBM": ("lightgbm", "LGBMRegressor", LGB, VALUE),
    "LightGBM dart": ("lightgbm", "LGBMRegressor", LGB | {"boosting_type": "dart"}, VALUE),
    "LightGBM Poisson": ("lightgbm", "LGBMRegressor", LGB | {"objective": "poisson"}, TWO),
    "LightGBM root": ("lightgbm", "LGBMRegressor", LGB | {"reg_sqrt": True}, VALUE),
    "LightGBM forest": (
        "lightgbm", "LGBMClassifier",
        LGB | {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1}, THREE,
    ),
    "LightGBM 0 missing": ("lightgbm", "LGBMRegressor", LGB | {"zero_as_missing": True}, VALUE),
    "LightGBM no missing": ("lightgbm", "LGBMRegressor", LGB | {"use_missing": False}, VALUE),
    "LightGBM, 2": ("lightgbm", "LGBMClassifier", LGB | {"sigmoid": 2.0}, TWO),
    "LightGBM, 3": ("lightgbm", "LGBMClassifier", LGB, THREE),
    "LightGBM each": ("lightgbm", "LGBMClassifier", LGB | {"objective": "multiclassova"}, THREE),
    "CatBoost": ("catboost", "CatBoostRegressor", CAT, VALUE),
    "CatBoost max": ("catboost", "CatBoostRegressor", CAT | {"nan_mode": "Max"}, VALUE),
    "CatBoost leaves": ("catboost", "CatBoostRegressor", CAT | {"grow_policy": "Lossguide"}, VALUE),
    "CatBoost Poisson": ("catboost", "CatBoostRegressor", CAT | {"loss_function": "Poisson"}, TWO),
    "CatBoost, 2": ("catboost", "CatBoostClassifier", CAT, TWO),
    "CatBoost, 3": ("catboost", "CatBoostClassifier", CAT, THREE),
    "CatBoost each": (
        "catboost", "CatBoostClassifier", CAT | {"loss_function": "MultiClassOneVsAll"}, THREE,
    ),
    "CatBoost itself": ("catboost", "CatBoost", CAT | {"loss_function": "MultiClass"}, THREE),
}  # fmt: skip
MARGIN = {
    "xgboost": {"output_margin": True},
    "lightgbm": {"raw_score": True},
    "catboost": {"prediction_type": "RawFormulaVal"},
}


def made(library: str, name: str, options: dict[str, Any]) -> Any:
    kind = getattr(pytest.importorskip(library), name)
    return kind(options) if name == "CatBoost" else kind(**options)


def near(cuts: np.ndarray) -> np.ndarray:
    """The numbers themselves, and on either side the nearest of float32 and of float64."""
    narrow = cuts.astype(np.float32)
    sides = [np.nextafter(narrow, np.float32(way)).astype(float) for way in (-np.inf, np.inf)]
    return np.concatenate([cuts, *sides, *(np.nextafter(cuts, way) for way in (-np.inf, np.inf))])


def assert_close(found: np.ndarray, wanted: Any, roundings: int = 64) -> None:
    """Within so many roundings of float32: sums of some ten leaves, and a function of them."""
    wanted = np.asarray(wanted, np.float64).reshape(found.shape)
    size = max(1.0, np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=roundings * 2.0**-24 * size)


def in_jax(fitted: Any, rows: Any, output: Any = None) -> np.ndarray:
    model = xj.as_model(fitted, output=output, allow_nan=True, backend="jax")
    return model.predict(rows)


@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_those_of_the_library(name):
    library, kind, options, target = CASES[name]
    missing = "0 missing" not in name or library == "lightgbm"
    rows = np.concatenate([GAPS if missing else X, X + 1e-9, np.where(X == 0, 1e-36, X)])
    fitted = made(library, kind, options).fit(GAPS if missing else X, target)
    assert_close(in_jax(fitted, rows, "decision"), fitted.predict(rows, **MARGIN[library]))
    if hasattr(fitted, "predict_proba"):
        assert_close(in_jax(fitted, rows), fitted.predict_proba(rows))
        labels = xj.as_model(fitted, allow_nan=True, backend="jax").labels(rows)
        np.testing.assert_array_equal(labels, np.ravel(fitted.predict(rows)))
    else:
        assert_close(in_jax(fitted, rows, "value"), fitted.predict(rows))


@pytest.mark.parametrize("name", ["XGBoost, 3", "XGBoost Poisson", "XGBoost dart", "LightGBM, 2"])
def test_boosters_without_their_estimator(name):
    library, kind, options, target = CASES[name]
    fitted = made(library, kind, options).fit(GAPS, target)
    if library == "xgboost":
        booster, data = fitted.get_booster(), pytest.importorskip("xgboost").DMatrix(GAPS)
    else:
        booster, data = fitted.booster_, GAPS
    assert_close(in_jax(booster, GAPS), booster.predict(data))
    assert_close(in_jax(booster, GAPS, "decision"), booster.predict(data, **MARGIN[library]))


@pytest.mark.parametrize("library", MARGIN)
def test_the_rounds_of_early_stopping(library):
    first, last = slice(0, 120), slice(120, N)
    held = [(X[last], THREE[last])]
    if library == "lightgbm":
        stop = pytest.importorskip(library).early_stopping(2, verbose=False)
        fitted = made(library, "LGBMClassifier", LGB | {"n_estimators": 60, "learning_rate": 0.7})
        fitted.fit(X[first], THREE[first], eval_set=held, callbacks=[stop])
        assert 0 < fitted.best_iteration_ < 58
    else:
        options = {"n_estimators": 60, "learning_rate": 0.7, "early_stopping_rounds": 2}
        kind, more = ("XGBClassifier", XGB) if library == "xgboost" else ("CatBoostClassifier", CAT)
        fitted = made(library, kind, more | options)
        fitted.fit(X[first], THREE[first], eval_set=held, verbose=False)
    assert_close(in_jax(fitted, X), fitted.predict_proba(X))


def cuts_of(library: str, fitted: Any) -> list[np.ndarray]:
    """The numbers that each column is compared with."""
    if library == "catboost":
        return [np.array(fitted.get_borders().get(j, []), np.float64) for j in range(4)]
    booster = fitted.get_booster() if library == "xgboost" else fitted.booster_
    names, column, cut = booster.feature_names if library == "xgboost" else (
        booster.feature_name()), *(("Feature", "Split") if library == "xgboost" else (
            "split_feature", "threshold"))  # fmt: skip
    table = booster.trees_to_dataframe()
    names = names or [f"f{j}" for j in range(4)]
    return [table.loc[table[column] == one, cut].dropna().unique().astype(float) for one in names]


@pytest.mark.parametrize(
    ("library", "kind", "options"),
    [
        ("xgboost", "XGBRegressor", {"n_estimators": 1, "max_depth": 8, "learning_rate": 1.0}),
        ("lightgbm", "LGBMRegressor", LGB | {"n_estimators": 1, "num_leaves": 120}),
        ("catboost", "CatBoostRegressor", CAT | {"n_estimators": 1, "depth": 7}),
    ],
)
def test_every_row_reaches_the_leaf_of_the_library(library, kind, options):
    """One tree, whose leaves differ by more than a rounding; rows on and next to its thresholds."""
    rng = np.random.default_rng(0)
    given = rng.normal(size=(900, 4))
    target = given[:, 0] * given[:, 1] + given[:, 2]
    fitted = made(library, kind, options).fit(given, target)
    near_cuts = [near(np.append(cuts, 0.0)) for cuts in cuts_of(library, fitted)]
    rows = np.stack([rng.choice(some, 20_000) for some in near_cuts], axis=1)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    wanted = np.asarray(fitted.predict(rows), np.float64)
    leaves = np.unique(wanted)
    assert len(leaves) > 20
    place = np.abs(in_jax(fitted, rows)[:, None] - leaves).argmin(axis=1)
    assert np.diff(leaves).min() > 2.0**-20
    assert (leaves[place] != wanted).sum() == 0


# Categories.


@pytest.mark.parametrize("most", [1, 100])  # sets of categories, or one against the others
@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_categories_of_a_frame(library, most):
    if library == "xgboost":
        fitted = made(library, "XGBRegressor", XGB | {"max_cat_to_onehot": most})
        fitted.set_params(enable_categorical=True)
    else:
        fitted = made(library, "LGBMRegressor", LGB | {"max_cat_to_onehot": most})
    fitted.fit(FRAME, BY_KIND)
    other = FRAME.assign(c=FRAME["c"].cat.set_categories(list("uvwxyz")))  # in another order
    assert_close(in_jax(fitted, FRAME), fitted.predict(FRAME))
    assert_close(in_jax(fitted, other), fitted.predict(FRAME))
    gone = FRAME.assign(c=pd.Categorical([None] * N, categories=list("zyxwvuq")))
    assert_close(in_jax(fitted, gone), fitted.predict(gone))
    assert np.abs(fitted.predict(gone) - fitted.predict(FRAME)).max() > 0.1


def test_unseen_categories_of_lightgbm_are_missing():
    fitted = made("lightgbm", "LGBMRegressor", LGB).fit(FRAME, BY_KIND)
    new = FRAME.assign(c=pd.Categorical(["new"] * N))
    assert_close(in_jax(fitted, new), fitted.predict(new))


def test_unseen_categories_of_xgboost_are_for_xgboost():
    """It refuses some, and takes others for a category that is there."""
    fitted = made("xgboost", "XGBRegressor", XGB | {"enable_categorical": True})
    fitted.fit(FRAME, BY_KIND)
    model = xj.as_model(fitted, allow_nan=True)
    model.predict(FRAME)
    assert model.backend == "jax"
    with pytest.raises(Exception, match="Found a category not in the training set"):
        model.predict(FRAME.assign(c=pd.Categorical(["zz"] * N)))
    assert model.backend == "host" and "not seen in training" in model.reason


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_categories_by_their_numbers(library):
    """In arrays they are cut to whole numbers; those of no split, and gaps, go their own way."""
    if library == "xgboost":
        options = {"enable_categorical": True, "feature_types": ["q", "q", "q", "c"]}
        fitted = made(library, "XGBRegressor", XGB | options | {"max_cat_to_onehot": 1})
        fitted.fit(CODED, BY_KIND)
    else:
        fitted = made(library, "LGBMRegressor", LGB | {"max_cat_to_onehot": 1})
        fitted.fit(CODED, BY_KIND, categorical_feature=[3])
    rows = CODED.copy()
    rows[::5, 3], rows[1::5, 3] = np.nan, 9
    rows[2::5, 3] += 0.4
    rows[3::9, 3] = np.nextafter(2.0, 0)
    if library == "lightgbm":
        rows[4::9, 3] = -0.5
    assert_close(in_jax(fitted, rows), fitted.predict(rows))
    assert np.abs(fitted.predict(rows) - fitted.predict(CODED)).max() > 0.1


def test_an_array_for_a_model_of_a_frame_goes_to_the_host():
    fitted = made("lightgbm", "LGBMRegressor", LGB).fit(FRAME, BY_KIND)
    model, rows = xj.as_model(fitted), CODED[:, [0, 3, 3, 2]]
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(rows))
    assert model.backend == "host" and "not categories of a frame" in model.reason


# What is not read.


@pytest.mark.parametrize(
    ("library", "kind", "options", "reason"),
    [
        ("xgboost", "XGBRegressor", {"booster": "gblinear"}, "has no trees"),
        ("lightgbm", "LGBMRegressor", LGB | {"linear_tree": True}, "linear models"),
        ("lightgbm", "LGBMRegressor", LGB | {"pred_early_stop": True}, "pred_early_stop="),
        ("catboost", "CatBoostRegressor", CAT | {"loss_function": "RMSEWithUncertainty"},
         "its loss, RMSEWithUncertainty"),
    ],
)  # fmt: skip
def test_the_host_answers_for_what_is_not_read(library, kind, options, reason):
    model = xj.as_model(made(library, kind, options).fit(X, VALUE))
    assert model.backend == "host" and reason in model.reason


def test_columns_of_text_stay_with_catboost():
    rows = FRAME[["a", "c", "d"]].assign(c=FRAME["c"].astype(object).fillna("none"))
    fitted = made("catboost", "CatBoostRegressor", CAT).fit(rows, BY_KIND, cat_features=["c"])
    model = xj.as_model(fitted)
    assert model.backend == "host" and "categorical columns" in model.reason
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(rows))


def test_a_moved_threshold_of_probability_stays_with_catboost():
    fitted = made("catboost", "CatBoostClassifier", CAT).fit(X, TWO)
    fitted.set_probability_threshold(0.3)
    assert "probability threshold" in xj.as_model(fitted).reason


def columns(count: int) -> Columns:
    sources = [ColumnSource(j, str(j)) for j in range(count)]
    return Columns(sources, np.dtype("float32"))


def stub(**methods: Any) -> Any:
    return type("Booster", (types.SimpleNamespace,), {})(**methods)


def test_boosters_of_other_versions_and_objectives_are_refused():
    """Of texts as another version writes them."""
    learner = {"objective": {"name": "reg:strange"}}
    for saved, reason in (
        ({"version": [2, 1, 0], "learner": learner}, r"XGBoost \[2, 1, 0\]"),
        ({"version": [3, 9, 0], "learner": learner}, "reg:strange"),
    ):
        booster = stub(save_raw=lambda _, saved=saved: json.dumps(saved).encode())
        with pytest.raises(Untranslatable, match=reason):
            boosters.xgboost_trees(booster, columns(2))
    for text, reason in (
        ("tree\nversion=v3\n", "LightGBM v3"),
        ("tree\nversion=v4\nobjective=strange scale:1\n", "strange"),
    ):
        booster = stub(model_to_string=lambda text=text: text, params={})
        with pytest.raises(Untranslatable, match=reason):
            boosters.lightgbm_trees(booster, columns(2))


@pytest.mark.parametrize("given", ["model.json", "boosted.txt"])
def test_a_file_in_place_of_a_model(given):
    with pytest.raises(xj.InputTypeError, match=r"loaded first: xgboost\.Booster"):
        xj.as_model(given)


# Changes.


def continued_xgboost(fitted: Any) -> None:
    library = pytest.importorskip("xgboost")
    fitted.get_booster().update(library.DMatrix(X, label=VALUE), 6)


def loaded_xgboost(fitted: Any, folder: Any) -> None:
    other = made("xgboost", "XGBRegressor", XGB).fit(X, -VALUE)
    other.save_model(folder / "other.json")
    fitted.get_booster().load_model(folder / "other.json")


@pytest.mark.parametrize("how", ["continued", "loaded", "set_params", "settings"])
def test_a_changed_booster_of_xgboost_is_noticed(how, tmp_path):
    fitted = made("xgboost", "XGBRegressor", XGB).fit(X, VALUE)
    model = xj.as_model(fitted)
    model.predict(X)
    model.predict(X[:1])
    if how == "continued":
        continued_xgboost(fitted)
    elif how == "loaded":
        loaded_xgboost(fitted, tmp_path)
    elif how == "settings":
        fitted.get_booster().set_param({"base_score": 0.1})
    else:
        fitted.set_params(missing=0.0)
    with pytest.raises(xj.InputError, match="has changed since as_model"):
        model.predict(X[:1])


@pytest.mark.parametrize("splits", [0, 1])
def test_another_leaf_of_a_tree_without_splits_is_noticed(splits, tmp_path):
    """Neither gains nor settings differ; other trees have splits, or none has."""
    library = pytest.importorskip("xgboost")
    fitted = made("xgboost", "XGBRegressor", XGB | {"gamma": 0 if splits else 1e9}).fit(X, VALUE)
    booster, data = fitted.get_booster(), library.DMatrix(X, label=VALUE + 1)
    booster.set_param({"gamma": 1e9})
    booster.update(data, XGB["n_estimators"])
    assert bool(booster.get_score()) == bool(splits)
    saved = json.loads(bytes(booster.save_raw("json")))
    for number in range(2):
        (tmp_path / f"{number}.json").write_text(json.dumps(saved))
        last = saved["learner"]["gradient_booster"]["model"]["trees"][-1]
        assert last["left_children"] == [-1]
        last["base_weights"][0] = last["split_conditions"][0] = 0.75
    booster.load_model(tmp_path / "0.json")  # settings are then those of any model
    model = xj.as_model(fitted)
    model.predict(X)
    model.predict(X[:1])
    booster.load_model(tmp_path / "1.json")
    with pytest.raises(xj.InputError, match="has changed since as_model"):
        model.predict(X[:1])


@pytest.mark.parametrize("how", ["leaf", "loaded", "continued", "rolled back"])
def test_a_changed_booster_of_lightgbm_is_noticed(how):
    library = pytest.importorskip("lightgbm")
    data = library.Dataset(X, label=VALUE)
    settings = {"verbose": -1, "num_threads": 1}
    booster = library.train(settings, data, 5, keep_training_booster=True)
    model = xj.as_model(booster)
    model.predict(X)
    model.predict(X[:1])
    if how == "leaf":
        booster.set_leaf_output(2, 1, (booster.lower_bound() + booster.upper_bound()) / 10)
    elif how == "loaded":
        other = library.train(settings, library.Dataset(X, label=-VALUE), 5)
        booster.model_from_string(other.model_to_string())
    elif how == "continued":
        booster.update()
    else:
        booster.rollback_one_iter()
        booster.update(library.Dataset(X, label=-VALUE, reference=data))
    with pytest.raises(xj.InputError, match="has changed since as_model"):
        model.predict(X[:1])


@pytest.mark.parametrize("how", ["leaves", "scale", "shrunk", "loaded"])
def test_a_changed_booster_of_catboost_is_noticed(how, tmp_path):
    fitted = made("catboost", "CatBoostRegressor", CAT).fit(X, VALUE)
    model = xj.as_model(fitted)
    model.predict(X)
    model.predict(X[:1])
    if how == "leaves":
        fitted.set_leaf_values(fitted.get_leaf_values() * 1.01)
    elif how == "scale":
        fitted.set_scale_and_bias(2.0, 0.1)
    elif how == "shrunk":
        fitted.shrink(3)
    else:
        other = made("catboost", "CatBoostRegressor", CAT).fit(X, -VALUE)
        other.save_model(str(tmp_path / "other"))
        fitted.load_model(str(tmp_path / "other"))
    with pytest.raises(xj.InputError, match="has changed since as_model"):
        model.predict(X[:1])


# What is made of them.


@pytest.mark.parametrize("name", ["XGBoost", "LightGBM", "CatBoost", "CatBoost leaves"])
def test_covers_are_sums_over_children(name):
    library, kind, options, target = CASES[name]
    model = xj.as_model(made(library, kind, options).fit(X, target))
    assert isinstance(model.comparison.in_jax.translation.tree_scores.trees, list)
    for tree in model.comparison.in_jax.translation.tree_scores.trees:
        assert tree.cover[0] == N
        inner = tree.left >= 0
        below = tree.cover[tree.left[inner]] + tree.cover[tree.right[inner]]
        np.testing.assert_array_equal(tree.cover[inner], below)


@pytest.mark.parametrize("name", ["XGBoost, 2", "LightGBM, 2", "CatBoost, 2"])
def test_values_of_margins_are_those_of_all_subsets(name):
    library, kind, options, target = CASES[name]
    fitted = made(library, kind, options).fit(GAPS, target)
    model = xj.as_model(fitted, output="decision", allow_nan=True)
    background, rows = GAPS[:5], GAPS[5:8]
    found = xj.Explainer(model, background)(rows)
    assert found.stats["backend"] == "jax"

    def share(players: tuple[int, ...], row: np.ndarray) -> float:
        mixed = background.copy()
        mixed[:, players] = row[list(players)]
        return float(np.mean(fitted.predict(mixed, **MARGIN[library]), dtype=np.float64))

    for row, values in zip(rows, found.values, strict=True):
        for j in range(4):
            total = 0.0
            for size in range(4):
                weight = math.factorial(size) * math.factorial(3 - size) / math.factorial(4)
                for some in itertools.combinations([i for i in range(4) if i != j], size):
                    total += weight * (share((*some, j), row) - share(some, row))
            assert abs(total - values[j]) < 2e-6  # 64 roundings at the size of a margin
