"""Translates boosters of XGBoost, LightGBM and CatBoost from their libraries' own dumps.

XGBoost and CatBoost take rows in float32: XGBoost tests x < t, CatBoost x > t. LightGBM tests x <=
t in float64. All become x <= t of `trees.Tree`, and every row reaches the same leaf. Columns of
categories become codes on the host, with one code for missing values. No library is imported: only
the booster's methods are called.

Letters: m nodes, T trees, K outputs, c splits by categories, R rows.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Categories, Columns
from xaijax.models.translations.families.trees import Tree, TreeScores, folded_trees, of_scores
from xaijax.models.translations.registry import (
    Head,
    Translation,
    logistic,
    only,
    place,
    translates,
    two,
)
from xaijax.tables.table import Untranslatable

Answer = Callable[[Any], Any]  # sums [R, K] -> [R] or [R, K]
# XLA treats float32 numbers between these two as 0; x < 0 is x <= -SMALLEST, which stays correct.
SMALLEST, TINY = (
    float(getattr(np.finfo(np.float32), name)) for name in ("smallest_subnormal", "tiny")
)


def _logistic(x: Any) -> Any:
    return jax.nn.sigmoid(only(x))


def _softmax(x: Any) -> Any:
    return jax.nn.softmax(x, axis=1)


def _exponential(x: Any) -> Any:
    return jnp.exp(only(x))


@dataclass(frozen=True)
class Gaps:
    """Values of one column that a library treats as missing: low <= x <= high."""

    column: int
    low: float
    high: float


@dataclass(frozen=True)
class Ensemble:
    """A booster's trees, before they are folded."""

    trees: list[Tree]  # thresholds in float64
    guess: np.ndarray  # float64 [K]
    seen: Any  # dtype to which the library casts rows
    link: Answer  # sums -> output of the booster's `predict`
    gaps: tuple[Gaps, ...] = ()


def _translated(ensemble: Ensemble, columns: Columns, heads: dict[str, Answer]) -> Translation:
    """The translation of a booster's trees, whose columns of categories are known by now."""
    for source in columns:
        if source is not None and source.categories is None:
            source.read_as("value")
    K, trees = len(ensemble.guess), ensemble.trees
    if not trees:
        none = np.zeros(1)
        trees = [Tree(none.astype(int) - 1, none.astype(int), none.astype(int), none,
                      none != 0, np.zeros((1, K)), cover=none)]  # fmt: skip
    for tree in trees:
        cuts = np.abs(tree.threshold[tree.left >= 0])
        if ((cuts > SMALLEST) & (cuts < TINY)).any():
            raise Untranslatable("a threshold is too small for the numbers of JAX")
    for gap in ensemble.gaps:
        _reads_gaps(gap, columns)
    folded = folded_trees(trees, columns, ensemble.seen)
    translation = of_scores(TreeScores(folded, True, ensemble.guess, heads), columns)
    if not ensemble.gaps:
        return translation
    opened = _opened(ensemble.gaps, len(columns), columns.dtype)

    def behind(head: Head) -> Head:
        return lambda params, rows: head(params, opened(rows))

    heads_behind = {word: behind(head) for word, head in translation.heads.items()}
    return replace(translation, heads=heads_behind, tree_scores=None)


def _reads_gaps(gap: Gaps, columns: Columns) -> None:
    source = columns[gap.column]
    if source is None or columns.maps[gap.column] is not None:
        raise Untranslatable("a step makes a column in which a number stands for missing values")
    if source.categories is not None:
        raise Untranslatable("a number stands for missing values of a column of categories")
    below = np.nextafter(gap.low, -np.inf)
    if gap.low < gap.high:  # read in float64, so that rows keep their side of both
        source.cuts.append(np.array([below, gap.high]))


def _opened(gaps: Sequence[Gaps], width: int, dtype: np.dtype) -> Callable[[Any], Any]:
    low, high = np.full(width, np.inf, dtype), np.full(width, -np.inf, dtype)
    for gap in gaps:
        low[gap.column], high[gap.column] = gap.low, gap.high
    return lambda rows: jnp.where((rows >= low) & (rows <= high), jnp.nan, rows)


@dataclass
class CategoryCodes:
    """The codes of one column of categories, in the library's order."""

    places: np.ndarray  # int [n], the code of each category
    missing: int  # the code of a missing value


def _codes(columns: Columns, j: int, values: Iterable[Any], how: Categories) -> CategoryCodes:
    """Makes column j one of categories."""
    source = columns[j]
    if source is None or columns.maps[j] is not None:
        raise Untranslatable("a step makes a column that its booster reads as categories")
    source.read_by(how)
    places = np.array([source.code(value) for value in values], np.int64)
    missing = source.code(np.nan)
    source.codes.setdefault(None, missing)
    return CategoryCodes(places, missing)


def _table(chosen: list[np.ndarray], codes: list[CategoryCodes], missing: list[bool]) -> np.ndarray:
    """bool [c, width], whether a code is among the chosen categories of a split; the last: none.

    chosen: the numbers of the categories of each split. missing: whether a missing value counts as
    chosen.
    """
    width = max(int(max(code.places.max(initial=0), code.missing)) for code in codes) + 2
    if len(chosen) * width > 1 << 28:
        raise Untranslatable("its splits by categories need a table of more than 256 MB")
    table = np.zeros((len(chosen), width), bool)
    for row, numbers, code, gap in zip(table, chosen, codes, missing, strict=True):
        row[code.places[numbers[numbers < len(code.places)]]] = True
        row[code.missing] = gap
    return table


# XGBoost

_IDENTITY = (
    *("reg:squarederror", "reg:squaredlogerror", "reg:pseudohubererror", "reg:absoluteerror"),
    *("reg:quantileerror", "reg:expectileerror", "binary:logitraw"),
    *("rank:pairwise", "rank:ndcg", "rank:map"),
)
_LOGARITHMS = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:cox", "survival:aft")
XGBOOST_LINKS: dict[str, Answer] = {
    **dict.fromkeys(_IDENTITY, only),
    **dict.fromkeys(("binary:logistic", "reg:logistic"), _logistic),
    **dict.fromkeys(_LOGARITHMS, _exponential),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), _softmax),
    "binary:hinge": lambda x: (only(x) > 0).astype(x.dtype),
}
XGBOOST = (
    *("XGBClassifier", "XGBRegressor", "XGBRanker", "XGBRFClassifier", "XGBRFRegressor"),
    "Booster",
)


@translates(*XGBOOST, mixed=True, thresholds=True, library="xgboost")
def xgboost_trees(estimator: Any, columns: Columns) -> Translation:
    """The sum of its trees; a classifier's margins by the logistic function or by softmax."""
    name = type(estimator).__name__
    booster = estimator if name == "Booster" else estimator.get_booster()
    saved = json.loads(bytes(booster.save_raw("json")))
    if saved.get("version", [0])[0] != 3:
        raise Untranslatable(f"models of XGBoost {saved.get('version')} are not read, 3 is")
    learner = saved["learner"]
    objective = learner["objective"]["name"]
    if objective not in XGBOOST_LINKS:
        raise Untranslatable(f"its objective, {objective}, has no translation")
    rounds = None if name == "Booster" else getattr(estimator, "best_iteration", None)
    ensemble = _of_xgboost(learner, rounds, columns)
    if name != "Booster" and (missing := getattr(estimator, "missing", None)) is not None:
        ensemble = replace(ensemble, gaps=_missing_number(missing, len(columns)))
    heads: dict[str, Answer] = {"decision": only}
    if not name.endswith("Classifier"):
        return _translated(ensemble, columns, heads | {"value": ensemble.link})
    link, K = ensemble.link, len(ensemble.guess)
    if link is _logistic and K > 1:  # a class of several targets each
        return _translated(ensemble, columns, heads | {"proba": link})
    if link is _softmax or objective in ("binary:logistic", "binary:hinge"):
        proba = link if K > 1 else lambda x: two(link(x))
        return _translated(
            ensemble, columns, heads | {"proba": proba, "label": lambda x: place(only(x))}
        )
    raise Untranslatable(f"the probabilities of its objective, {objective}, have no translation")


def _missing_number(missing: Any, width: int) -> tuple[Gaps, ...]:
    if not isinstance(missing, int | float | np.number):
        raise Untranslatable(f"missing={missing!r} is no number")
    number = float(np.float32(missing))
    return () if number != number else tuple(Gaps(j, number, number) for j in range(width))


def _of_xgboost(learner: Any, rounds: int | None, columns: Columns) -> Ensemble:
    booster, settings = learner["gradient_booster"], learner["learner_model_param"]
    kind = booster["name"]
    if kind not in ("gbtree", "dart"):
        raise Untranslatable(f"booster={kind!r} has no trees")
    model = booster["gbtree"]["model"] if kind == "dart" else booster["model"]
    count = len(model["trees"]) if rounds is None else model["iteration_indptr"][rounds + 1]
    # Weights of dart, which XGBoost 3.4 stores in the model of a "gbtree".
    weights = booster.get("weight_drop") or model.get("weight_drop") or np.ones(count)
    base = np.float32(json.loads(settings["base_score"])).astype(np.float64).ravel()
    K = max(int(settings["num_class"]), int(settings["num_target"]), len(base), 1)
    codes = _xgboost_categories(learner, model, columns)
    trees = [
        _xgboost_tree(tree, int(group), K, float(weight), codes)
        for tree, group, weight in zip(
            model["trees"][:count], model["tree_info"], weights[:count], strict=False
        )
    ]
    objective = learner["objective"]["name"]
    if objective in _LOGARITHMS:
        base = np.log(base)
    elif objective in ("binary:logistic", "reg:logistic", "binary:logitraw"):
        base = -np.log(1 / base - 1)
    guess = np.broadcast_to(base, (K,)).copy()
    return Ensemble(trees, guess, np.float32, XGBOOST_LINKS[objective])


def _xgboost_categories(
    learner: Any, model: Mapping[str, Any], columns: Columns
) -> dict[int, CategoryCodes]:
    """Codes by column: of a frame's categories, or of numbers that an array holds."""
    known: dict[int, CategoryCodes] = {}
    saved = model.get("cats", {}).get("enc", [])
    for j, kind in enumerate(learner["feature_types"]):
        if kind != "c":
            continue
        values = _saved_categories(saved[j]) if j < len(saved) else []
        if values:
            known[j] = _codes(columns, j, values, Categories(True, known=True))
            continue
        used = [np.asarray(tree["categories"], np.int64) for tree in model["trees"]]
        most = max((int(numbers.max(initial=-1)) for numbers in used), default=-1)
        how = Categories(False, "float32", True)
        known[j] = _codes(columns, j, range(most + 1), how)
    return known


def _saved_categories(saved: Any) -> list[Any]:
    """The categories of a frame's column: texts, end to end in bytes, or numbers."""
    if "offsets" not in saved:
        return list(saved["values"])
    letters = np.asarray(saved["values"], np.int64).astype(np.uint8).tobytes()
    offsets = saved["offsets"]
    return [letters[a:b].decode() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]


def _xgboost_tree(
    tree: Any, group: int, K: int, weight: float, codes: dict[int, CategoryCodes]
) -> Tree:
    left, right = (np.asarray(tree[f"{side}_children"], np.int64) for side in ("left", "right"))
    leaf, m = left < 0, len(left)
    conditions = np.asarray(tree["split_conditions"], np.float32)
    value = np.zeros((m, K))
    if int(tree["tree_param"]["size_leaf_vector"]) <= 1:
        value[:, group] = conditions
    elif "leaf_weights" in tree:  # an entry per leaf, counted by its right child
        vectors = np.asarray(tree["leaf_weights"], np.float32).reshape(-1, K)
        value[leaf] = vectors[right[leaf]]
    else:
        value[:] = np.asarray(tree["base_weights"], np.float32).reshape(m, K)
    # x < t in float32 is x <= the next number below t.
    threshold = np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64)
    feature = np.asarray(tree["split_indices"], np.int64)
    missing = np.asarray(tree["default_left"], np.int64) != 0
    made = Tree(left, right, feature, threshold, missing, weight * value,
                cover=np.asarray(tree["sum_hessian"], np.float64))  # fmt: skip
    if not tree["categories_nodes"]:
        return made
    split, chosen = np.full(m, -1), []
    nodes = np.asarray(tree["categories_nodes"], np.int64)
    split[nodes] = np.arange(len(nodes))
    every = np.asarray(tree["categories"], np.int64)
    for start, size in zip(tree["categories_segments"], tree["categories_sizes"], strict=True):
        chosen.append(every[start : start + size])
    # The chosen categories go right, all others left: the children are swapped.
    left[nodes], right[nodes] = right[nodes], left[nodes]
    missing[nodes] = ~missing[nodes]
    table = _table(chosen, [codes[j] for j in feature[nodes]], missing[nodes].tolist())
    return replace(made, category_split=split, goes_left=table)


# LightGBM

ZERO = float(np.float32(1e-35))  # numbers up to this size are 0 for LightGBM
LIGHTGBM_LINKS: dict[str, Callable[[float], Answer]] = {
    **dict.fromkeys(
        ("regression", "regression_l1", "huber", "fair", "quantile", "mape", "custom"),
        lambda _: only,
    ),
    **dict.fromkeys(("lambdarank", "rank_xendcg"), lambda _: only),
    **dict.fromkeys(("poisson", "gamma", "tweedie"), lambda _: _exponential),
    "binary": lambda scale: lambda x: jax.nn.sigmoid(scale * only(x)),
    "multiclass": lambda _: _softmax,
    "multiclassova": lambda scale: lambda x: jax.nn.sigmoid(scale * x),
    "cross_entropy": lambda _: _logistic,
    "cross_entropy_lambda": lambda _: lambda x: jnp.log1p(jnp.exp(only(x))),
}
LIGHTGBM = ("LGBMClassifier", "LGBMRegressor", "LGBMRanker", "Booster")


@translates(*LIGHTGBM, mixed=True, thresholds=True, library="lightgbm")
def lightgbm_trees(estimator: Any, columns: Columns) -> Translation:
    """The sum of its trees, or their mean for a random forest."""
    name = type(estimator).__name__
    booster = estimator if name == "Booster" else estimator.booster_
    settings = estimator.get_params() if name != "Booster" else estimator.params
    for setting in ("pred_early_stop", "start_iteration_predict", "num_iteration_predict"):
        if settings.get(setting):
            raise Untranslatable(f"{setting}= changes what it predicts")
    head, *sections = booster.model_to_string().split("\nTree=")
    facts = _pairs(head)
    if facts.get("version") != "v4":
        raise Untranslatable(f"models of LightGBM {facts.get('version')} are not read, v4 is")
    objective, *words = facts.get("objective", "custom").split()
    options = {name: value for name, _, value in (word.partition(":") for word in words)}
    if objective not in LIGHTGBM_LINKS:
        raise Untranslatable(f"its objective, {objective}, has no translation")
    link = LIGHTGBM_LINKS[objective](float(options.get("sigmoid", 1)))
    if "sqrt" in options:
        link = lambda x: jnp.sign(only(x)) * only(x) ** 2  # noqa: E731
    last, _, rest = (sections or [head])[-1].partition("end of trees")
    texts = [_pairs(section) for section in (*sections[:-1], last)] if sections else []
    ensemble = _of_lightgbm(texts, facts, booster, rest, columns)
    if "average_output" in facts:  # a random forest: the margin stays the sum
        mean, count = link, max(1, len(texts) // len(ensemble.guess))
        link = lambda x: mean(x / count)  # noqa: E731
    heads: dict[str, Answer] = {"decision": only}
    if name != "LGBMClassifier":
        return _translated(ensemble, columns, heads | {"value": link})
    if objective == "binary":
        heads |= {"proba": lambda x: two(link(x)), "label": lambda x: place(only(x))}
    elif objective in ("multiclass", "multiclassova"):
        heads |= {"proba": link, "label": lambda x: x.argmax(axis=1)}
    else:
        raise Untranslatable(f"the probabilities of {objective} have no translation")
    return _translated(ensemble, columns, heads)


def _pairs(text: str) -> dict[str, str]:
    """The lines "name=value" of a section, and the names of lines without a value."""
    parts = (line.partition("=") for line in text.splitlines())
    return {name: value for name, _, value in parts}


def _numbers(text: dict[str, str], name: str, dtype: Any) -> np.ndarray:
    return np.array(text.get(name, "").split(), np.float64).astype(dtype)


def _of_lightgbm(
    texts: list[dict[str, str]], facts: dict[str, str], booster: Any, rest: str, columns: Columns
) -> Ensemble:
    K = int(facts["num_tree_per_iteration"])
    if any(text.get("is_linear") == "1" for text in texts):
        raise Untranslatable("its leaves hold linear models (linear_tree=True)")
    codes = _lightgbm_categories(texts, booster, rest, columns)
    trees, zeros, others = [], set(), set()
    for at, text in enumerate(texts):
        tree, of_zero, of_other = _lightgbm_tree(text, at % K, K, codes)
        trees.append(tree)
        zeros |= of_zero
        others |= of_other
    if zeros & others:
        raise Untranslatable("0 is missing in some of its trees, and not in others")
    gaps = tuple(Gaps(j, -ZERO, ZERO) for j in sorted(zeros))
    return Ensemble(trees, np.zeros(K), np.float64, only, gaps)


def _lightgbm_categories(
    texts: list[dict[str, str]], booster: Any, rest: str, columns: Columns
) -> dict[int, CategoryCodes]:
    largest: dict[int, int] = {}  # column -> the largest number that a split chooses
    for text in texts:
        for j, numbers in _chosen(text):
            largest[j] = max(largest.get(j, -1), int(numbers.max(initial=-1)))
    framed = booster.pandas_categorical
    if framed:
        (said,) = [line for line in rest.splitlines() if line.startswith("[categorical_feature:")]
        named = said.partition(":")[2].strip(" ]")
        places = [int(j) for j in named.split(",") if j.strip().isdigit()]
        if len(places) != len(framed) or not largest.keys() <= set(places):
            raise Untranslatable("a frame's ordered categories, or numbers, are categories too")
        how = Categories(True)
        pairs = zip(places, framed, strict=True)
        return {j: _codes(columns, j, values, how) for j, values in pairs}
    how = Categories(False, "float64")
    return {j: _codes(columns, j, range(most + 1), how) for j, most in largest.items()}


def _chosen(text: dict[str, str]) -> list[tuple[int, np.ndarray]]:
    """(the column, the numbers of the categories that go left) of the splits by categories."""
    if int(text.get("num_cat", 0)) == 0:
        return []
    kinds, feature = _numbers(text, "decision_type", int), _numbers(text, "split_feature", int)
    which = _numbers(text, "threshold", int)
    bounds, words = _numbers(text, "cat_boundaries", int), _numbers(text, "cat_threshold", np.int64)
    splits = []
    for node in np.flatnonzero(kinds & 1):
        chosen = words[bounds[which[node]] : bounds[which[node] + 1]]
        bits = (chosen[:, None] >> np.arange(32)) & 1
        splits.append((int(feature[node]), np.flatnonzero(bits)))
    return splits


def _lightgbm_tree(
    text: dict[str, str], k: int, K: int, codes: dict[int, CategoryCodes]
) -> tuple[Tree, set[int], set[int]]:
    """(the tree, columns in which 0 is missing, the other columns): inner nodes, then leaves."""
    inner = int(text["num_leaves"]) - 1
    leaf_value = _numbers(text, "leaf_value", np.float64)
    feature, kinds = _numbers(text, "split_feature", int), _numbers(text, "decision_type", int)
    cuts, m = _numbers(text, "threshold", np.float64), inner + len(leaf_value)
    # Numbers that are 0 for LightGBM are compared as 0, so all are on the same side of a threshold.
    cuts = np.where(np.abs(cuts) > ZERO, cuts, np.where(cuts < 0, np.nextafter(-ZERO, -1), ZERO))
    missing = (kinds >> 2) & 3  # 0: NaN is 0, 1: 0 is NaN, 2: NaN is NaN
    default = (kinds & 2) != 0
    splits = np.concatenate([np.ones(inner, bool), np.zeros(m - inner, bool)])

    def spread(array: Any, rest: Any) -> np.ndarray:
        return np.concatenate([array, np.full(m - inner, rest)])

    def child(name: str) -> np.ndarray:
        children = _numbers(text, name, np.int64)
        return spread(np.where(children < 0, inner + ~children, children), -1)

    value = np.zeros((m, K))
    value[~splits, k] = leaf_value
    categorical = (kinds & 1) != 0
    goes = np.where(missing == 0, cuts >= 0, default) & ~categorical
    cover = np.concatenate([_numbers(text, f"{part}_count", np.float64)
                            for part in ("internal", "leaf")])  # fmt: skip
    cover = cover if len(cover) == m else np.zeros(m)  # a single leaf has none
    tree = Tree(child("left_child"), child("right_child"), spread(feature, 0),
                spread(np.where(categorical, 0, cuts), 0.0), spread(goes, False), value,
                cover=cover)  # fmt: skip
    if categorical.any():
        split = np.full(m, -1)
        split[np.flatnonzero(categorical)] = np.arange(categorical.sum())
        chosen = _chosen(text)
        table = _table([numbers for _, numbers in chosen], [codes[j] for j, _ in chosen],
                       [False] * len(chosen))  # fmt: skip
        tree = replace(tree, category_split=split, goes_left=table)
    numeric = ~categorical
    of_zero = set(feature[numeric & (missing == 1)].tolist())
    return tree, of_zero, set(feature[numeric & (missing != 1)].tolist())


# CatBoost

_OF_TWO = ("Logloss", "CrossEntropy", "Focal")
_OF_LABELS = ("MultiLogloss", "MultiCrossEntropy")
_EXPONENTS = ("Poisson", "Tweedie")
_OTHERS = ("RMSEWithUncertainty", "Cox", "LogNormal")
CATBOOST = ("CatBoostClassifier", "CatBoostRegressor", "CatBoostRanker", "CatBoost")


@translates(*CATBOOST, mixed=True, thresholds=True, library="catboost")
def catboost_trees(estimator: Any, columns: Columns) -> Translation:
    """The sum of its trees, for numeric columns."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.json"
        try:
            estimator.save_model(str(file), format="json")
        except Exception as error:  # an exception class of CatBoost, which is not imported
            raise Untranslatable(f"it does not write itself as JSON ({error})") from error
        saved = json.loads(file.read_text())
    kinds = saved.get("features_info", {})
    for kind in ("categorical_features", "text_features", "embedding_features"):
        if kinds.get(kind):
            raise Untranslatable(f"it reads {kind.replace('_features', '')} columns")
    loss = str(estimator.get_all_params().get("loss_function", "")).partition(":")[0]
    name = type(estimator).__name__
    if loss in _OTHERS:
        raise Untranslatable(f"its loss, {loss}, has no translation")
    ensemble = _of_catboost(saved)
    if name == "CatBoost":
        return _translated(ensemble, columns, _of_plain_catboost(loss))
    if name != "CatBoostClassifier":
        link = _exponential if loss in _EXPONENTS else only
        return _translated(ensemble, columns, {"value": link, "decision": only})
    return _translated(ensemble, columns, _of_plain_catboost(loss) | _label(estimator, loss))


def _of_plain_catboost(loss: str) -> dict[str, Answer]:
    heads: dict[str, Answer] = {"value": only, "decision": only}
    if loss in (*_OF_TWO, "MultiClass"):
        heads["proba"] = lambda x: logistic(only(x))
    elif loss == "MultiClassOneVsAll" or loss in _OF_LABELS:
        heads["proba"] = jax.nn.sigmoid
    return heads


def _label(estimator: Any, loss: str) -> dict[str, Answer]:
    """The head that decides a class; none if the user changed the threshold, or classes are
    independent."""
    if loss in _OF_LABELS:
        return {}
    if loss in _OF_TWO and float(estimator.get_probability_threshold()) != 0.5:
        raise Untranslatable("its probability threshold is not 0.5")
    return {"label": lambda x: place(only(x))}


def _of_catboost(saved: Any) -> Ensemble:
    scale, bias = saved["scale_and_bias"]
    bias = np.atleast_1d(np.asarray(bias, np.float64))
    features = saved["features_info"]["float_features"]
    column = {item["feature_index"]: item["flat_feature_index"] for item in features}
    high = {item["feature_index"]: item["nan_value_treatment"] == "AsTrue" for item in features}
    K = len(bias)
    if "oblivious_trees" in saved:
        trees = [_oblivious(tree, K, column, high) for tree in saved["oblivious_trees"]]
    else:
        trees = [_nested(tree, K, column, high) for tree in saved["trees"]]
    scaled = [replace(tree, value=scale * tree.value) for tree in trees]
    return Ensemble(scaled, bias, np.float32, only)


def _oblivious(tree: Any, K: int, column: dict[int, int], high: dict[int, bool]) -> Tree:
    """A full tree with one split per level; bit i of a leaf's position is x > border of split i."""
    splits, depth = tree["splits"] or [], len(tree["splits"] or [])
    m = 2 ** (depth + 1) - 1
    inner = 2**depth - 1
    node = np.arange(inner)
    level = np.floor(np.log2(node + 1)).astype(int)
    # The last split is at the root, so that leaves are in the order of their positions.
    of_level = splits[::-1]
    feature = [of_level[i]["float_feature_index"] for i in level]
    border = [np.float32(of_level[i]["border"]) for i in level]
    value = np.zeros((m, K))
    value[inner:] = np.asarray(tree["leaf_values"], np.float64).reshape(-1, K)
    cover = np.zeros(m)
    if tree.get("leaf_weights"):
        cover[inner:] = tree["leaf_weights"]
    for i in reversed(range(inner)):
        cover[i] = cover[2 * i + 1] + cover[2 * i + 2]
    rest = np.zeros(m - inner, int)
    return Tree(
        np.concatenate([2 * node + 1, rest - 1]).astype(int),
        np.concatenate([2 * node + 2, rest]).astype(int),
        np.concatenate([[column[j] for j in feature], rest]).astype(int),
        np.concatenate([border, rest]).astype(np.float64),
        np.concatenate([[not high[j] for j in feature], rest]).astype(bool),
        value,
        cover=cover,
    )


def _nested(tree: Any, K: int, column: dict[int, int], high: dict[int, bool]) -> Tree:
    """A tree with leaves at any depth."""
    nodes, waiting, children = [], [(tree, 0, 0)], []
    while waiting:
        node, parent, side = waiting.pop()
        at = len(nodes)
        nodes.append(node)
        children.append([-1, -1])
        if at:
            children[parent][side] = at
        if "split" in node:
            waiting += [(node["right"], at, 1), (node["left"], at, 0)]
    left, right = np.array(children).T
    splits = [node.get("split") for node in nodes]
    value = np.array([np.broadcast_to(node.get("value", 0.0), (K,)) for node in nodes])
    cover = np.array([float(node.get("weight", 0)) for node in nodes])
    for i in reversed(range(len(nodes))):
        if left[i] >= 0:
            cover[i] = cover[left[i]] + cover[right[i]]
    return Tree(
        left,
        right,
        np.array([0 if cut is None else column[cut["float_feature_index"]] for cut in splits]),
        np.array([0.0 if cut is None else float(np.float32(cut["border"])) for cut in splits]),
        np.array([cut is not None and not high[cut["float_feature_index"]] for cut in splits]),
        value.astype(np.float64),
        cover=cover,
    )
