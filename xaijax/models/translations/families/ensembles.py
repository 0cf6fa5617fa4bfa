"""Translates scikit-learn's ensembles of translated members: bags, votes, stacks, one model per
target or class, and calibrated classifiers.

If every member is a function of sums over trees, so is the ensemble: all trees form one forest,
with a block of sums per member.

Letters: R rows, K classes or targets, T members.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.identity.patched import of_sklearn
from xaijax.models.translations.columns import Columns
from xaijax.models.translations.families.trees import (
    FORESTS,
    TREES,
    Tree,
    TreeScores,
    mean_of_trees,
    of_scores,
    takes_nan,
    trees_with,
)
from xaijax.models.translations.registry import (
    Head,
    Translation,
    logistic,
    only,
    place,
    translates,
    translation,
    two,
)
from xaijax.tables.table import Untranslatable

# How an ensemble combines its members' outputs for one word, one array per member.
Joined = Callable[[list[Any]], Any]


def joined(
    members: Sequence[Translation],
    columns: Columns,
    heads: Mapping[str, tuple[Sequence[str], Joined]],
    places: Sequence[Any] | None = None,
) -> Translation:
    """The translation of an ensemble.

    heads: by word, the word for each member and the function of their outputs. places: the columns
    of each member; None: all.
    """
    for words, _ in heads.values():
        for member, word in zip(members, words, strict=True):
            if word not in member.heads:
                raise Untranslatable(f"a member of it has no translation of {word!r}")
    gaps = all(member.takes_nan for member in members)
    columns_of = [np.arange(len(columns))] * len(members) if places is None else places
    if all(member.tree_scores is not None for member in members):
        scores = _one_forest([member.tree_scores for member in members], columns_of)
        cuts = np.cumsum([member.tree_scores.width for member in members])[:-1].tolist()
        inner = [member.tree_scores.heads for member in members]
        of_sums = {word: _of_blocks(inner, cuts, *head) for word, head in heads.items()}
        scores = dataclasses.replace(scores, missing=gaps, heads=of_sums)
        return of_scores(scores, columns)
    params = tuple(member.params for member in members)
    kinds = {member.kind for member in members}
    kind = kinds.pop() if len(kinds) == 1 else "function"
    picked = None if places is None else [np.asarray(chosen) for chosen in places]
    made = {word: _of_members(members, picked, *head) for word, head in heads.items()}
    ties = [member.undecided for member in members]
    if any(tie is not None for tie in ties):
        raise Untranslatable("a member's answer may depend on which of equals comes first")
    return Translation(params, made, kind, gaps)


def _one_forest(scores: list[TreeScores], places: Sequence[Any]) -> TreeScores:
    widths = [forest.width for forest in scores]
    first, K = np.cumsum([0, *widths]), sum(widths)
    trees: list[Tree] = []
    guess = np.zeros(K)
    for forest, read, start in zip(scores, places, first, strict=False):
        block = slice(start, start + forest.width)
        if forest.guess is not None:
            guess[block] = forest.guess
        for tree in forest.trees:
            value = np.zeros((len(tree.left), K))
            value[:, block] = tree.value
            feature = np.asarray(read)[tree.feature]
            trees.append(dataclasses.replace(tree, feature=feature, value=value))
    return TreeScores(trees, False, guess, {})


def _of_blocks(
    inner: Sequence[Mapping[str, Any]], cuts: list[int], words: Sequence[str], made: Joined
) -> Callable[[Any], Any]:
    def head(sums: Any) -> Any:
        blocks = jnp.split(sums, cuts, axis=1)
        answers = [
            heads[word](block) for heads, word, block in zip(inner, words, blocks, strict=True)
        ]
        return made(answers)

    return head


def _of_members(
    members: Sequence[Translation], places: Any, words: Sequence[str], made: Joined
) -> Head:
    def head(params: Any, rows: Any) -> Any:
        read = [rows] * len(members) if places is None else [rows[:, chosen] for chosen in places]
        calls = zip(members, words, params, read, strict=True)
        return made([member.heads[word](p, x) for member, word, p, x in calls])

    return head


def _members(
    estimators: Any, columns: Columns, places: Sequence[Any] | None = None
) -> list[Translation]:
    """The members' translations; outputs are not centred, because not all ensembles are means."""
    whole = Columns(columns, columns.dtype, columns.gaps, columns.maps, columns.lazy)
    if places is None:
        return [translation(member, whole) for member in estimators]
    return [
        translation(member, whole.chosen(at)) for member, at in zip(estimators, places, strict=True)
    ]


def _shared(columns: Columns) -> None:
    """A column that several members read is not shifted for one of them."""
    for source in columns:
        if source is not None:
            source.shared = True


def _weighted(weights: Any, T: int) -> Joined:
    share = np.ones(T) if weights is None else np.asarray(weights, np.float64)
    share = share / share.sum()
    return lambda answers: sum(float(w) * answer for w, answer in zip(share, answers, strict=True))


def _side_by_side(answers: list[Any]) -> Any:
    columns = [answer[:, None] if answer.ndim == 1 else answer for answer in answers]
    return jnp.concatenate(columns, axis=1)


def _wide(classes: Any, K: int) -> Callable[[Any], Any]:
    """Probabilities of a subset of the classes (positions among K) as one column per class."""
    places = np.asarray(classes, np.int64)
    if len(places) == K:
        return lambda answer: answer
    chosen = np.eye(K)[places]
    return lambda answer: answer @ jnp.asarray(chosen, answer.dtype)


def _trees_of(estimators: Any) -> list[list[Any]] | None:
    """The trees of each member if all are trees, or forests of the same size; otherwise None."""
    trees = []
    for member in estimators:
        name = type(member).__name__
        if name not in (*TREES, *FORESTS) or not of_sklearn(type(member)):
            return None
        trees.append([member] if name in TREES else list(member.estimators_))
    return trees if len({len(group) for group in trees}) == 1 else None


def _mean_bag(estimator: Any, columns: Columns, classes: Any) -> Translation | None:
    """A bag of trees as one forest; None: it is not one, or its members know different classes."""
    members, places = estimator.estimators_, estimator.estimators_features_
    trees = _trees_of(members)
    if trees is None:
        return None
    if classes is not None and any(len(member.classes_) != len(classes) for member in members):
        return None
    flat = [tree for group in trees for tree in group]
    columns_of = [np.asarray(at) for at, inner in zip(places, trees, strict=True) for _ in inner]
    return mean_of_trees(flat, columns, classes, members[0], columns_of)


@translates("BaggingRegressor", mixed=True, thresholds=True)
def bagging_regressor(estimator: Any, columns: Columns) -> Translation:
    """The mean of its members, each on its own columns."""
    bag = _mean_bag(estimator, columns, None)
    if bag is not None:
        return bag
    places, T = estimator.estimators_features_, len(estimator.estimators_)
    _shared(columns)
    translated = _members(estimator.estimators_, columns, places)
    return joined(translated, columns, {"value": (["value"] * T, _weighted(None, T))}, places)


@translates("BaggingClassifier", mixed=True, thresholds=True)
def bagging_classifier(estimator: Any, columns: Columns) -> Translation:
    """The mean of its members' probabilities, or the share of their votes."""
    classes, members = estimator.classes_, estimator.estimators_
    bag = _mean_bag(estimator, columns, classes)
    if bag is not None:
        return bag
    places, T, K = estimator.estimators_features_, len(members), len(classes)
    _shared(columns)
    translated = _members(members, columns, places)
    # Members are fitted on positions of classes. A bootstrap draw may lack some.
    wide, mean = [_wide(member.classes_, K) for member in members], _weighted(None, T)
    votes = not hasattr(members[0], "predict_proba")
    word = "label" if votes else "proba"

    def proba(answers: list[Any]) -> Any:
        if votes:
            kinds = [len(member.classes_) for member in members]
            answers = [jax.nn.one_hot(a, n) for a, n in zip(answers, kinds, strict=True)]
        return mean([widen(a) for widen, a in zip(wide, answers, strict=True)])

    heads: dict[str, tuple[Sequence[str], Joined]] = {
        "proba": ([word] * T, proba),
        "label": ([word] * T, lambda answers: place(proba(answers))),
    }
    if hasattr(members[0], "decision_function") and all(len(o.classes_) == K for o in members):
        heads["decision"] = (["decision"] * T, mean)
    return joined(translated, columns, heads, places)


@translates("VotingRegressor", mixed=True, thresholds=True)
def voting_regressor(estimator: Any, columns: Columns) -> Translation:
    """The weighted mean of its members."""
    T = len(estimator.estimators_)
    _shared(columns)
    mean = _weighted(estimator._weights_not_none, T)
    translated = _members(estimator.estimators_, columns)
    return joined(translated, columns, {"value": (["value"] * T, mean)})


@translates("VotingClassifier", mixed=True, thresholds=True)
def voting_classifier(estimator: Any, columns: Columns) -> Translation:
    """The weighted mean of probabilities, or the class with most votes."""
    T, K = len(estimator.estimators_), len(estimator.classes_)
    _shared(columns)
    mean = _weighted(estimator._weights_not_none, T)
    translated = _members(estimator.estimators_, columns)
    if estimator.voting == "soft":
        label = lambda answers: place(mean(answers))  # noqa: E731
        words = ["proba"] * T
        return joined(translated, columns, {"proba": (words, mean), "label": (words, label)})
    if any(len(member.classes_) != K for member in estimator.estimators_):
        raise Untranslatable("its members know different classes")

    def most(answers: list[Any]) -> Any:
        return place(mean([jax.nn.one_hot(answer, K) for answer in answers]))

    return joined(translated, columns, {"label": (["label"] * T, most)})


@translates("MultiOutputRegressor", "MultiOutputClassifier", mixed=True, thresholds=True)
def several_targets(estimator: Any, columns: Columns) -> Translation:
    """The values, or the probabilities, of one member per target, concatenated."""
    _shared(columns)
    translated = _members(estimator.estimators_, columns)
    kind = "proba" if hasattr(estimator, "classes_") else "value"
    return joined(translated, columns, {kind: ([kind] * len(translated), _side_by_side)})


@translates("OneVsRestClassifier", mixed=True, thresholds=True)
def one_for_each_class(estimator: Any, columns: Columns) -> Translation:
    """One member per class: its probability, divided by the sum of all."""
    members, multilabel = estimator.estimators_, estimator.multilabel_
    T = len(members)
    _shared(columns)
    translated = _members(members, columns)

    def proba(answers: list[Any]) -> Any:
        chances = jnp.stack([answer[:, 1] for answer in answers], axis=1)
        if T == 1:
            return two(chances[:, 0])
        total = chances.sum(axis=1, keepdims=True)
        return chances if multilabel else chances / jnp.where(total == 0, 1, total)

    def scores(answers: list[Any]) -> Any:
        return answers[0] if T == 1 else jnp.stack(answers, axis=1)

    heads: dict[str, tuple[Sequence[str], Joined]] = {}
    decides = all(hasattr(member, "decision_function") for member in members)
    if all(hasattr(member, "predict_proba") for member in members):
        heads["proba"] = (["proba"] * T, proba)
    if decides:
        heads["decision"] = (["decision"] * T, scores)
    if not multilabel:
        # Like `predict`: by decisions if members have them, otherwise by probabilities.
        word, cut = ("decision", scores) if decides else ("proba", proba)
        heads["label"] = ([word] * T, lambda answers: place(cut(answers)))
    return joined(translated, columns, heads)


@translates("StackingRegressor", "StackingClassifier", mixed=True, thresholds=True)
def stack(estimator: Any, columns: Columns) -> Translation:
    """The final estimator on its members' outputs."""
    if estimator.passthrough:
        raise Untranslatable("its last estimator sees the rows too (passthrough=True)")
    methods = {"predict_proba": "proba", "decision_function": "decision", "predict": "value"}
    words = [methods[name] for name in estimator.stack_method_]
    if hasattr(estimator, "classes_") and "value" in words:
        raise Untranslatable("its last estimator sees class labels")
    _shared(columns)
    translated = _members(estimator.estimators_, columns)
    parts = _side_by_side
    if hasattr(estimator, "classes_") and len(estimator.classes_) == 2:  # the second's column alone
        parts = lambda answers: _side_by_side(  # noqa: E731
            [answer if answer.ndim == 1 else answer[:, 1] for answer in answers]
        )
    width = int(estimator.final_estimator_.n_features_in_)
    last = translation(estimator.final_estimator_, Columns([None] * width, columns.dtype))
    made = joined(translated, columns, {"parts": (words, parts)})

    def behind(head: Head) -> Head:
        return lambda params, rows: head(params[1], made.heads["parts"](params[0], rows))

    heads = {word: behind(head) for word, head in last.heads.items()}
    return Translation((made.params, last.params), heads, last.kind, made.takes_nan)


@translates("CalibratedClassifierCV", mixed=True, thresholds=True)
def calibrated(estimator: Any, columns: Columns) -> Translation:
    """The mean of its classifiers' probabilities, each a function of one score of a member."""
    pairs, K = estimator.calibrated_classifiers_, len(estimator.classes_)
    members = [pair.estimator for pair in pairs]
    if any(len(member.classes_) != K for member in members):
        raise Untranslatable("a member of it does not know all classes")
    decides = all(hasattr(member, "decision_function") for member in members)
    word, T = "decision" if decides else "proba", len(members)
    _shared(columns)
    translated = _members(members, columns)
    curves = [[_curve(calibrator) for calibrator in pair.calibrators] for pair in pairs]
    mean = _weighted(None, T)

    def one_pair(by_class: list[Callable[[Any], Any]], answer: Any) -> Any:
        if K == 2:
            return two(by_class[0](answer if answer.ndim == 1 else answer[:, 1]))
        chances = jnp.stack([curve(answer[:, k]) for k, curve in enumerate(by_class)], axis=1)
        total = chances.sum(axis=1, keepdims=True)
        return jnp.where(total == 0, 1 / K, chances / jnp.where(total == 0, 1, total))

    def proba(answers: list[Any]) -> Any:
        return mean([one_pair(by_class, a) for by_class, a in zip(curves, answers, strict=True)])

    words = [word] * T
    label = lambda answers: place(proba(answers))  # noqa: E731
    return joined(translated, columns, {"proba": (words, proba), "label": (words, label)})


@translates("FrozenEstimator", mixed=True, thresholds=True)
def frozen(estimator: Any, columns: Columns) -> Translation:
    """The estimator in it."""
    return translation(estimator.estimator, columns)


def _curve(calibrator: Any) -> Callable[[Any], Any]:
    kind = type(calibrator).__name__
    if kind == "_SigmoidCalibration":
        a, b = float(calibrator.a_), float(calibrator.b_)
        return lambda x: jax.nn.sigmoid(-(a * x + b))
    if kind == "IsotonicRegression" and calibrator.out_of_bounds == "clip":
        x_of, y_of = np.asarray(calibrator.X_thresholds_), np.asarray(calibrator.y_thresholds_)
        return lambda x: jnp.interp(x, x_of.astype(x.dtype), y_of.astype(x.dtype))
    raise Untranslatable(f"its calibration by {kind} has no translation")


@translates("AdaBoostClassifier", mixed=True, thresholds=True)
def boosted_votes(estimator: Any, columns: Columns) -> Translation:
    """The weighted votes of its members."""
    members, K = estimator.estimators_, len(estimator.classes_)
    T = len(members)
    weights = np.asarray(estimator.estimator_weights_[:T], np.float64)
    share = weights / weights.sum()
    _shared(columns)
    translated = _members(members, columns)
    known = [np.eye(K)[np.searchsorted(estimator.classes_, member.classes_)] for member in members]

    def decision(answers: list[Any]) -> Any:
        """1 for the class voted for, -1 / (K - 1) for each other."""
        votes = [jnp.asarray(of)[answer] for of, answer in zip(known, answers, strict=True)]
        total: Any = sum(
            float(w) * (vote - (1 - vote) / (K - 1)) for w, vote in zip(share, votes, strict=True)
        )
        return total[:, 1] - total[:, 0] if K == 2 else total

    def proba(answers: list[Any]) -> Any:
        scores = decision(answers)
        return logistic(scores) if K == 2 else logistic(scores / (K - 1))

    words = ["label"] * T
    return joined(
        translated,
        columns,
        {
            "decision": (words, decision),
            "proba": (words, proba),
            "label": (words, lambda answers: place(decision(answers))),
        },
    )


@translates("AdaBoostRegressor", mixed=True, thresholds=True)
def boosted_median(estimator: Any, columns: Columns) -> Translation:
    """The weighted median of its members."""
    T = len(estimator.estimators_)
    weights = np.asarray(estimator.estimator_weights_[:T], np.float64)
    _shared(columns)
    translated = _members(estimator.estimators_, columns)

    def median(answers: list[Any]) -> Any:
        values = jnp.stack(answers, axis=1)
        order = jnp.argsort(values, axis=1)
        below = jnp.cumsum(jnp.asarray(weights, values.dtype)[order], axis=1)
        first = (below >= 0.5 * below[:, -1:]).argmax(axis=1)[:, None]
        return jnp.take_along_axis(values, jnp.take_along_axis(order, first, 1), 1)[:, 0]

    return joined(translated, columns, {"value": (["value"] * T, median)})


@translates("IsolationForest", mixed=True, thresholds=True)
def isolation_forest(estimator: Any, columns: Columns) -> Translation:
    """The mean path length, and the score and decision as functions of it."""
    members, T = estimator.estimators_, len(estimator.estimators_)
    lengths = zip(
        estimator._decision_path_lengths, estimator._average_path_length_per_tree, strict=True
    )
    values = [(np.asarray(path + leaf, np.float64)[:, None] - 1) / T for path, leaf in lengths]
    drawn = estimator._max_features != len(columns)  # otherwise each tree got all columns
    places = estimator.estimators_features_ if drawn else None
    trees = trees_with(members, values, columns, places)
    n, offset = int(estimator.max_samples_), float(estimator.offset_)
    if n < 2:
        raise Untranslatable("its trees hold one row each")
    whole = 1.0 if n == 2 else 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n

    def decision(x: Any) -> Any:
        return -(2 ** (-x[:, 0] / whole)) - offset

    heads: dict[str, Callable[[Any], Any]] = {
        "path-length": only,
        "decision": decision,
        "label": lambda x: (decision(x) >= 0).astype("int32"),
    }
    return of_scores(TreeScores(trees, takes_nan(estimator), None, heads), columns)
