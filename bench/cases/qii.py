"""T11, T12: quantitative input influence against the authors' algorithm.

The paper's four classifiers on Adult: fitted by scikit-learn, and the same written in JAX. The
protocol of the authors: 13 inputs one-hot, a missing value an all-zero block, 40 % for training;
data and pool are the rest. `pipeline` is the same estimator behind the encoder and the scaler, for
rows of one code for each input: what a user of scikit-learn holds.

Measured once and not repeated by the cases, all on 2026-11-28. At commit bd038fca96: at 37,000
samples the authors' algorithm takes 0.609 (tree) and 0.909 (forest) of the time of ours; questions
that are made anew are 1.57 (logistic), 1.22 (tree) and 2.84 (forest) times as fast as the authors'
algorithm, where the answers to all full rows alone would give 18.9, 15.8 and 25.1; ShaRP takes
2,700 times as long as ours for 20 people and 12 inputs, with equal values; a table of all sets of
13 continuous inputs (pool of 600) takes 1.03 times as long as the plain forward pass of its rows,
of Adult's 12 codes 1.41 times (goal 1.25; 0.99 to 1.29 in six other runs). At commit f5c78c14c2:
the kernel machine is 25.8 times as fast at 37,000 samples, and 55.2 times by questions made anew,
where full rows alone would give 1,317.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import xaijax
from bench.baselines import qii_authors
from bench.frame import (
    LEAST,
    Agreement,
    Case,
    Contender,
    Duel,
    NotRun,
    Ratio,
    Results,
    Several,
    Size,
)
from bench.models import adult_table

OURS, AUTHORS = "xaijax", "authors' algorithm"
MACHINE = "kernel svm"
GOALS = {
    MACHINE: (1_000, 20_000),
    "logistic": (60, 500),
    "forest": (25, 200),
    "tree": (8, 100),
}
POOL = ORDERS = 600
SAMPLES = 37_000
SIGMAS = 6.0
FLIPS = 0.01
FLIPPED = "rows within float32 rounding of the decision"
SAMPLED = (
    "6 standard errors of the authors' estimate, and 0.01 for rows within float32 rounding of the "
    "decision"
)


KINDS = ("logistic", "kernel svm", "tree", "forest")


@dataclass(frozen=True)
class Classifier:
    """One classifier with its data."""

    kind: str
    data: np.ndarray  # float32 [R, F]
    women: np.ndarray  # bool [R]
    players: dict[str, list[int]]
    predict: Callable[[np.ndarray], np.ndarray]  # scikit-learn's own, -> bool [R]
    model: Any  # from as_model: the same in JAX
    codes: np.ndarray  # float32 [R, P], numbers, and places of texts; -1: missing
    pipeline: Pipeline  # codes -> the same classes

    @property
    def groups(self) -> list[np.ndarray]:
        """Columns of each player."""
        return [np.array(columns) for columns in self.players.values()]


def classifiers(train: int | None = None, kinds: tuple[str, ...] = KINDS) -> list[Classifier]:
    """All of them; train: rows to fit on, None: 40 %."""
    frame, y = adult_table("raw")
    frame = frame.drop(columns="fnlwgt")
    blocks, players, width = [], {}, 0
    codes, steps = [], []
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "if":
            block = column.to_numpy(np.float64)[:, None]
            codes.append(block[:, 0])
            steps.append((str(name), "passthrough", [len(steps)]))
        else:
            values = sorted(set(column) - {"?"})
            codes.append(column.map({v: i for i, v in enumerate(values)}).fillna(-1))
            values = values[:1] if len(values) == 2 else values
            known = np.arange(len(values), dtype=np.float32)
            encoder = OneHotEncoder(
                categories=cast("Any", [known]), handle_unknown="ignore", sparse_output=False
            )
            steps.append((str(name), encoder, [len(steps)]))
            block = np.stack([(column == value).to_numpy(np.float64) for value in values], axis=1)
        players[str(name)] = list(range(width, width + block.shape[1]))
        width += block.shape[1]
        blocks.append(block)
    rows, labels = np.concatenate(blocks, axis=1), y.to_numpy()
    cut = int(0.4 * len(rows))
    used = cut if train is None else min(train, cut)
    scaler = StandardScaler().fit(rows[:cut])
    scaled = np.asarray(scaler.transform(rows)).astype(np.float32)
    coded = np.stack(codes, axis=1).astype(np.float32)
    encode = ColumnTransformer(steps).fit(coded[:cut])
    if not np.array_equal(encode.transform(coded), rows):
        raise AssertionError("the encoder makes other columns than the authors'")
    women = (frame["sex"] == "Female").to_numpy()[cut:]
    classifiers = []
    for kind in kinds:
        fitted: Any = _estimator(kind).fit(scaled[:used], labels[:used])
        model = xaijax.as_model(_in_jax(fitted), output="decision", classes=[False, True])
        pipeline = make_pipeline(encode, scaler, fitted)
        classifiers.append(
            Classifier(
                *(kind, scaled[cut:], women, players, fitted.predict, model, coded[cut:], pipeline)
            )
        )
    return classifiers


def _estimator(kind: str) -> Any:
    return {
        "logistic": lambda: LogisticRegression(max_iter=1_000),
        "kernel svm": lambda: SVC(),
        "tree": lambda: DecisionTreeClassifier(max_depth=2, random_state=0),
        "forest": lambda: GradientBoostingClassifier(
            n_estimators=20, max_depth=2, learning_rate=1.0, random_state=0
        ),
    }[kind]()


def _in_jax(fitted: Any) -> Callable[[jax.Array], jax.Array]:
    """Rows [R, F] -> the decision [R], positive for the second class."""
    name = type(fitted).__name__
    if name == "LogisticRegression":
        weight, bias = fitted.coef_[0].astype(np.float32), np.float32(fitted.intercept_[0])
        return lambda rows: rows @ weight + bias
    if name == "SVC":
        return _kernel(fitted)
    if name == "DecisionTreeClassifier":
        share = fitted.tree_.value[:, 0, :]
        return _trees([fitted.tree_], [share[:, 1] - share[:, 0]], 0.0)
    if name == "GradientBoostingClassifier":
        trees = [stage.tree_ for stage in fitted.estimators_[:, 0]]
        start = np.log(fitted.init_.class_prior_[1] / fitted.init_.class_prior_[0])
        leaves = [fitted.learning_rate * tree.value[:, 0, 0] for tree in trees]
        return _trees(trees, leaves, float(start))
    raise NotRun(f"no JAX form of {name}")


def _kernel(fitted: Any) -> Callable[[jax.Array], jax.Array]:
    vectors = fitted.support_vectors_.astype(np.float32)
    dual, bias = fitted.dual_coef_[0].astype(np.float32), np.float32(fitted.intercept_[0])
    gamma, norms = np.float32(fitted._gamma), (vectors**2).sum(axis=1)

    def decision(rows: jax.Array) -> jax.Array:
        distance = (rows**2).sum(axis=1)[:, None] + norms - 2 * rows @ vectors.T
        return jnp.exp(-gamma * distance) @ dual + bias

    return decision


def _trees(trees: list[Any], leaves: list[np.ndarray], start: float) -> Callable[..., jax.Array]:
    """Trees of depth 2: three comparisons each, four leaves."""
    tests: list[tuple[int, np.float32]] = []
    tables = []
    for tree, value in zip(trees, leaves, strict=True):
        places = []
        for path in range(4):
            node, places = 0, places
            for step in (path >> 1, path & 1):
                if tree.children_left[node] >= 0:
                    node = (tree.children_right if step else tree.children_left)[node]
            places.append(value[node])
        tables.append(places)
        for node in (0, tree.children_left[0], tree.children_right[0]):
            inner = node >= 0 and tree.children_left[node] >= 0
            column = int(tree.feature[node]) if inner else 0
            tests.append((column, _below(tree.threshold[node]) if inner else np.float32(np.inf)))
    columns = np.array([column for column, _ in tests])
    bounds = np.array([bound for _, bound in tests], np.float32)
    table = np.array(tables, np.float32)  # [trees, 4]

    def decision(rows: jax.Array) -> jax.Array:
        right = (rows[:, columns] > bounds).reshape(len(rows), -1, 3)
        low = jnp.where(right[:, :, 1], table[:, 1], table[:, 0])
        high = jnp.where(right[:, :, 2], table[:, 3], table[:, 2])
        return jnp.where(right[:, :, 0], high, low).sum(axis=1) + np.float32(start)

    return decision


def _below(threshold: float) -> np.float32:
    """The largest float32 up to a threshold, so that float32 inputs fall on the same side."""
    near = np.float32(threshold)
    return near if near <= threshold else np.nextafter(near, np.float32(-np.inf))


def _fitted(size: Size) -> list[Classifier]:
    return classifiers(300 if size == "smoke" else None)


def setup_individual(size: Size) -> Several:
    """Measures QII of one person on Adult, Shapley and Banzhaf values, against the authors'
    algorithm.

    Exact Shapley and Banzhaf values of one person against 600 orders and 600 sets.
    """
    return Several({classifier.kind: _individual(classifier, size) for classifier in _fitted(size)})


def _individual(classifier: Classifier, size: Size) -> Duel:
    pool = classifier.data[: POOL if size == "full" else 20]
    x = classifier.data[POOL + 1 :][:1]
    orders = ORDERS if size == "full" else 20
    qii = xaijax.QII(
        classifier.model, pool, players=classifier.players, quantity="individual", positive=True
    )

    def ours(count: int) -> Any:
        del count
        table = qii.game(x)
        return table.shapley()[0], table.banzhaf()[0]

    def authors(count: int) -> Any:  # a unit is two orders, so that their spread is known
        return tuple(
            draw(classifier.predict, x[0], pool, classifier.groups, 2 * count, 0)
            for draw in (qii_authors.shapley, qii_authors.banzhaf)
        )

    def check(results: Results) -> list[Agreement]:
        sample = classifier.data[:2_000]
        apart = float((classifier.model.labels(sample) != classifier.predict(sample)).mean())
        agreements = [
            Agreement(f"{classifier.kind}: labels, JAX and scikit-learn", apart, FLIPS / 5, FLIPPED)
        ]
        pairs = zip(("Shapley", "Banzhaf"), results[OURS], results[AUTHORS], strict=True)
        for name, exact, drawn in pairs:
            # Few orders do not know their own spread; a marginal influence is in [-1, 1].
            spread = drawn.std(axis=0, ddof=1) if len(drawn) >= 30 else 1.0
            gap = np.abs(drawn.mean(axis=0) - exact) - SIGMAS * spread / np.sqrt(len(drawn))
            label = f"{classifier.kind}, {name}: beyond the sampling error"
            agreements.append(Agreement(label, float(max(0.0, gap.max())), FLIPS, SAMPLED))
        return agreements

    return Duel(
        [Contender(OURS, ours, 1), Contender(AUTHORS, authors, orders // 2, LEAST[size])],
        check,
        [Ratio("authors' algorithm / ours", AUTHORS, OURS, *GOALS[classifier.kind])],
        # Two of the authors' orders of the SVM take a minute.
        rounds=1 if size == "smoke" or classifier.kind == MACHINE else 3,
    )


def setup_data(size: Size) -> Several:
    """Measures average and disparity QII of all inputs on Adult against the authors' algorithm at
    37,000 samples.

    Ours answers all pairs exactly; the logistic model also at as many samples.

    Missed: A warm question is bound by 19 million hybrids and the host's own steps, while the
    authors' side is 26 predictions of scikit-learn on columns that are encoded already
    (docs/performance.md).
    """
    fitted = {
        classifier.kind: classifier for classifier in _fitted(size) if classifier.kind != MACHINE
    }
    jobs = {f"logistic, {SAMPLES:,} samples": _sampled(fitted["logistic"], size)}
    return Several(
        jobs
        | {f"{kind}, all pairs": _pairs(classifier, size) for kind, classifier in fitted.items()}
    )


def setup_machine(size: Size) -> Several:
    """Measures the same for a kernel machine, all pairs against 37,000 samples, in a quarter of an
    hour.
    """
    fitted = [classifier for classifier in _fitted(size) if classifier.kind == MACHINE]
    return Several(
        {f"{classifier.kind}, all pairs": _pairs(classifier, size) for classifier in fitted}
    )


def _authors_of_data(classifier: Classifier, samples: int) -> Any:
    place = np.random.default_rng(1).integers(0, len(classifier.data), samples)
    rows, women = classifier.data[place], classifier.women[place]

    def authors(count: int) -> tuple[np.ndarray, np.ndarray]:
        players = classifier.groups[:count]
        return (
            qii_authors.average(classifier.predict, rows, players, 0),
            qii_authors.disparity(classifier.predict, rows, women, players, 0),
        )

    return authors


def _against_authors(
    classifier: Classifier, questions: Any, size: Size, goal: float, people: int
) -> Duel:
    """Ours asks the pipeline on 13 columns of codes, theirs its estimator on 103 encoded columns.

    questions: made before and asked again in each turn, so that the model's answers to the people
    themselves are kept. people: rows that the questions are about, or draws.
    """
    samples = SAMPLES if size == "full" else 400
    authors = _authors_of_data(classifier, samples)

    def check(results: Results) -> list[Agreement]:
        count = len(results[AUTHORS][0])
        gaps = [
            np.abs(a[:count] - b).max()
            for a, b in zip(results[OURS], results[AUTHORS], strict=True)
        ]
        smallest = min(classifier.women.mean(), 1 - classifier.women.mean())
        # Both sides are means of samples in [-1, 1]; the disparity's smaller group has fewer.
        bound = SIGMAS * 2 / np.sqrt(min(samples, people) * smallest) + FLIPS
        return [Agreement(f"{classifier.kind}: average and disparity", max(gaps), bound, SAMPLED)]

    return Duel(
        [
            Contender(
                OURS, lambda count: [question.unary().values[0] for question in questions], 1
            ),
            Contender(AUTHORS, authors, len(classifier.players), LEAST[size]),
        ],
        check,
        [Ratio("authors' algorithm / ours", AUTHORS, OURS, goal)],
        rounds=2 if size == "full" and classifier.kind != MACHINE else 1,
    )


def _questions(classifier: Classifier, model: Any, people: int, **options: Any) -> tuple[Any, Any]:
    """Both quantities of the first people, by the model of the pipeline and 13 columns of codes."""
    players = {name: [i] for i, name in enumerate(classifier.players)}
    shared = {"players": players, "pool": classifier.codes, **options}
    rows, women = classifier.codes[:people], classifier.women[:people]
    average = xaijax.QII(model, rows, quantity="average", **shared)
    gap = xaijax.QII(model, rows, quantity="disparity", members=women, positive=True, **shared)
    return average, gap


def _sampled(classifier: Classifier, size: Size) -> Duel:
    samples, model = SAMPLES if size == "full" else 400, xaijax.as_model(classifier.pipeline)
    made = _questions(classifier, model, len(classifier.data), samples=samples)
    return _against_authors(classifier, made, size, 80, samples)


def _pairs(classifier: Classifier, size: Size) -> Duel:
    """Every person with every donor, exactly."""
    people = len(classifier.data) if size == "full" else 60
    made = _questions(classifier, xaijax.as_model(classifier.pipeline), people)
    goal = {MACHINE: 50, "logistic": 40}.get(classifier.kind, 5)
    return _against_authors(classifier, made, size, goal, people)


CASES = (
    Case("T11", setup_individual, long=True),
    Case("T12", setup_data),
    Case("T12-svm", setup_machine, long=True),
)
