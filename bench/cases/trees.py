"""T46 to T51: tree ensembles and sums of products, against the explainers made for them."""

from __future__ import annotations

import json
import math
import multiprocessing
import resource
import signal
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestClassifier
from sklearn.svm import SVC

import xaijax
from bench.definition import efficiency, shapley
from bench.frame import (
    LEAST,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    Outcome,
    Ratio,
    Results,
    Several,
    Size,
    Timings,
    timed,
)
from bench.jobs import MEBI, _peak_above
from bench.peers.installed import installed

OURS, SHAP, WOODELF = "xaijax", "shap TreeExplainer", "woodelf-explainer"
PREDICT, CONTRIBS, KERNEL = "predict", "XGBoost pred_contribs", "kernel estimator"
COLUMNS = (12, 30, 100)
FEW = 12  # columns of a tree that is compared with the definition
SECONDS, SPACE = 60, 8 * 2**30  # of the processor, and bytes, for an explainer by itself
ONCE = 1  # seconds of a call that is not repeated
RELATIVE = "1e-5 of the largest value, the target's own bound"


def explained(model: Any, background: Any, output: Any) -> Callable[[Any], Any]:
    """Rows -> explanation, by xaijax."""
    explainer = xaijax.Explainer(xaijax.as_model(model, output=output), background)
    return lambda rows: explainer(rows, progress=False)


def by_shap(model: Any, background: np.ndarray, output: int | None) -> Callable[[Any], np.ndarray]:
    """Rows -> values [N, P], by shap with this background."""
    shap = installed("shap")
    peer = shap.TreeExplainer(
        model, shap.maskers.Independent(background, max_samples=len(background))
    )

    def values(rows: np.ndarray) -> np.ndarray:
        found = np.asarray(peer.shap_values(rows, check_additivity=False))
        return found if output is None or found.ndim < 3 else found[..., output]

    return values


def by_woodelf(model: Any, background: np.ndarray) -> Callable[[Any], np.ndarray]:
    """Rows -> values [N, P], by woodelf-explainer with this background."""
    woodelf, pandas = installed("woodelf"), installed("pandas")
    names = [f"x{j}" for j in range(background.shape[1])]
    peer = woodelf.WoodelfExplainer(model, pandas.DataFrame(background, columns=names))
    return lambda rows: np.asarray(
        peer.shap_values(pandas.DataFrame(rows, columns=names), verbose=False)
    )


def close(between: str, found: np.ndarray, wanted: np.ndarray, share: float = 1e-5) -> Agreement:
    """Whether values agree to a share of the largest one."""
    off = np.abs(found[: len(wanted)] - wanted).max() / np.abs(wanted).max()
    return Agreement(between, float(off), share, RELATIVE)


def columns_of(tree: Any) -> np.ndarray:
    """The columns that a fitted tree of scikit-learn reads."""
    return np.unique(tree.tree_.feature[tree.tree_.feature >= 0])


def by_definition(trees: list[Any], x: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Shapley values [P] of the mean of trees, each by all coalitions of the columns it reads."""
    values = np.zeros(len(x))
    for tree in trees:
        read = columns_of(tree)

        def predict(hybrids: np.ndarray, tree: Any = tree, read: np.ndarray = read) -> np.ndarray:
            rows = np.zeros((len(hybrids), len(x)), np.float32)
            rows[:, read] = hybrids
            return tree.predict_proba(rows)[:, 1]

        values[read] += shapley(predict, x[read], background[:, read]) / len(trees)
    return values


def by_leaves(booster: Any, x: np.ndarray, background: np.ndarray) -> np.ndarray:
    """Shapley values [P] of a booster of XGBoost, leaf by leaf from its own file: a leaf is a game
    in which one player set has to fail and another must not, whose values depend on their sizes.
    """
    values, B, f = np.zeros(len(x)), len(background), math.factorial
    saved = json.loads(bytes(booster.save_raw("json")))["learner"]["gradient_booster"]
    for tree in saved["model"]["trees"]:
        cuts = np.asarray(tree["split_conditions"], np.float32)
        left, right, column = (
            tree[name] for name in ("left_children", "right_children", "split_indices")
        )
        front: list[tuple[int, dict[int, np.ndarray]]] = [(0, {})]
        while front:
            node, failing = front.pop()  # by column: whether x, then each background row, fails
            if left[node] >= 0:
                j = column[node]
                goes = np.append(x[j], background[:, j]) < cuts[node]
                before = failing.get(j, np.zeros(B + 1, bool))
                front.append((left[node], failing | {j: before | ~goes}))
                front.append((right[node], failing | {j: before | goes}))
                continue
            fails = np.array(list(failing.values())).reshape(-1, B + 1)
            alive = ~(fails[:, :1] & fails[:, 1:]).any(axis=0)
            v, sizes = int(fails[:, 0].sum()), fails[:, 1:].sum(axis=0)
            for j, own in failing.items():
                if own[0]:
                    paid = [-f(u) * f(v - 1) / f(u + v) for u in sizes]
                    values[j] += cuts[node] * np.mean(paid * alive)
                elif own[1:].any():
                    paid = [f(u - 1) * f(v) / f(u + v) if u else 0.0 for u in sizes]
                    values[j] += cuts[node] * np.mean(paid * (alive & own[1:]))
    return values


@dataclass(frozen=True)
class Alone:
    """What an explainer takes for one question in a process of its own, where nothing that was
    freed earlier hides its peak.
    """

    seconds: float = np.nan  # of the processor, the least of up to three calls after that
    peak: float = np.nan  # MiB above the level after a call of two rows
    values: np.ndarray | None = None  # [N, P]
    refused: str = ""  # why there is no answer


def alone(
    make: Callable[..., Callable[[Any], Any]], *arguments: Any, rows: Any, seconds: int = SECONDS
) -> Alone:
    """Explain rows in a fresh process by what `make` returns for the arguments."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["bench.cases.trees", "shap", "woodelf"])  # imported once for all
    with ProcessPoolExecutor(1, server) as pool:
        return pool.submit(_alone, make, arguments, rows, seconds).result()


def _alone(make: Callable[..., Any], arguments: tuple[Any, ...], rows: Any, most: int) -> Alone:
    signal.signal(signal.SIGXCPU, partial(_late, most))
    limits = {resource.RLIMIT_CPU: most, resource.RLIMIT_AS: SPACE}
    for kind, limit in limits.items():
        resource.setrlimit(kind, (limit, resource.getrlimit(kind)[1]))
    try:
        explain = make(*arguments)
        explain(rows[:2])
        peak, (first, found) = _peak_above(lambda: timed(explain, rows, clock=time.process_time))
        seconds = [first]
        while len(seconds) < 3 and sum(seconds) < ONCE:
            seconds.append(timed(explain, rows, clock=time.process_time)[0])
    except MemoryError:
        return Alone(refused=f"more than {SPACE // 2**30} GiB")
    except Exception as error:  # whatever a peer raises of a model that it cannot read
        text = str(error).splitlines()[0] if str(error) else ""
        return Alone(refused=text if isinstance(error, TimeoutError) else type(error).__name__)
    return Alone(min(seconds), peak / MEBI, getattr(found, "values", found))


def _late(most: int, *_: object) -> None:
    raise TimeoutError(f"more than {most} s")


def setup_forest(size: Size) -> Duel:
    """Measures a RandomForestClassifier(100) of default depth on breast cancer, 30 columns, 469
    rows, 100 background rows: shap TreeExplainer / ours; processor time of the first call over
    shap's.

    shap's values differ from ours by 2 % of the largest. Of tree 41, row 223 and background row 3,
    which read 12 columns, all 4,096 hybrids were asked of scikit-learn itself (2026-11-30): ours
    are its Shapley values to 3e-17, shap's miss them by .32, though they add up. So each run
    compares ours with the definition on the trees that read at most `FEW` columns.
    """
    table, target = load_breast_cancer(return_X_y=True)
    data = np.asarray(table)
    count = 5 if size == "smoke" else 100
    depth = 3 if size == "smoke" else None  # so that some of 5 trees read few columns
    forest = RandomForestClassifier(count, max_depth=depth, random_state=0).fit(data, target)
    # shap compares float32 rows with float64 thresholds; such rows stand on neither side of one.
    data = data.astype(np.float32)
    X, background = data[100:], data[:100]
    X = X[:20] if size == "smoke" else X
    outputs = forest.predict_proba(X)[:, 1]
    firsts = []
    for make in (
        partial(explained, forest, background, 1),
        partial(by_shap, forest, background, 1),
    ):
        started = time.process_time()
        make()(X)
        firsts.append(time.process_time() - started)
    explain, peer = explained(forest, background, 1), by_shap(forest, background, 1)

    def check(results: Results) -> list[Agreement]:
        found = results[OURS]
        assert found.exact
        some = [tree for tree in forest.estimators_ if len(columns_of(tree)) <= FEW]
        part = copy(forest)
        part.estimators_, part.n_estimators = some, len(some)
        values = explained(part, background[:5], 1)(X[:2]).values
        wanted = np.array([by_definition(some, x, background[:5]) for x in X[:2]])
        return [
            close("values of some trees and the definition", values, wanted),
            efficiency(found, outputs),
        ]

    def figures(timings: Timings, results: Results) -> list[Figure]:
        found = results[OURS].values
        off = np.abs(found[: len(results[SHAP])] - results[SHAP]).max() / np.abs(found).max()
        return [
            Ratio("shap TreeExplainer / ours", SHAP, OURS, 5, 40).of(timings),
            Figure("largest difference of shap's values, share of the largest", float(off)),
            Figure("first call over shap's, processor time", firsts[0] / firsts[1], 1.5, 1),
        ]

    return Duel(
        [
            Contender(OURS, lambda n: explain(X[:n]), len(X)),
            Contender(SHAP, lambda n: peer(X[:n]), len(X), LEAST[size]),
        ],
        check=check,
        figures=figures,
        clock=time.process_time,
    )


def boosted(library: str, rows: np.ndarray, target: np.ndarray, count: int) -> Any:
    """A fitted regressor of a library, with `count` trees of depth 6 or 31 leaves."""
    if library == "HistGradientBoosting":
        return HistGradientBoostingRegressor(max_iter=count).fit(rows, target)
    if library == "XGBoost":
        made = installed("xgboost").XGBRegressor(n_estimators=count, max_depth=6)
    elif library == "LightGBM":
        made = installed("lightgbm").LGBMRegressor(n_estimators=count, verbose=-1)
    else:
        made = installed("catboost").CatBoostRegressor(
            n_estimators=count, depth=6, verbose=0, allow_writing_files=False
        )
    return made.fit(rows, target)


def problem(P: int, size: Size, N: int, B: int) -> tuple[np.ndarray, np.ndarray, Any, Any]:
    """Instances, background, training rows and their target, of P float32 columns."""
    rng = np.random.default_rng(P)
    rows = rng.normal(size=(500 if size == "smoke" else 10_000, P)).astype(np.float32)
    target = np.sin(2 * rows[:, 0]) + rows[:, 1] * rows[:, 2] + rows[:, 3:8].sum(axis=1) / 2
    target += rng.normal(size=len(rows)) / 2
    X = rng.normal(size=(6 if size == "smoke" else N, P)).astype(np.float32)
    return X, rows[: 5 if size == "smoke" else B], rows, target


def setup_boosted(size: Size) -> Several:
    """Measures 200 boosted trees of four libraries, 12, 30 and 100 columns, 1,000 rows, 100
    background rows: the best of shap TreeExplainer and woodelf-explainer / ours.
    """
    libraries = ("HistGradientBoosting", "XGBoost", "LightGBM", "CatBoost")
    jobs = {}
    for library in libraries[:1] if size == "smoke" else libraries:
        for P in COLUMNS[:1] if size == "smoke" else COLUMNS:
            jobs[f"{library}, {P} columns"] = _boosted(library, P, size)
    return Several(jobs)


def _boosted(library: str, P: int, size: Size) -> Duel:
    X, background, rows, target = problem(P, size, 1_000, 100)
    model = boosted(library, rows, target, 5 if size == "smoke" else 200)
    output = "value" if library == "HistGradientBoosting" else "decision"
    explain, outputs = explained(model, background, output), np.asarray(model.predict(X))
    peers = {SHAP: by_shap(model, background, None)}
    if library != "CatBoost" and size != "smoke":  # woodelf reads the three others
        peers[WOODELF] = by_woodelf(model, background)

    def check(results: Results) -> list[Agreement]:
        found = results[OURS]
        assert found.exact
        wanted = results.get(WOODELF, results[SHAP])
        kept = close("values and a peer's", found.values, wanted)
        return [kept, efficiency(found, outputs)]

    def figures(timings: Timings, results: Results) -> list[Figure]:
        best = min(peers, key=lambda name: timings[name].best)
        return [Ratio("best peer / ours", best, OURS, 3, 20).of(timings)]

    contenders = [Contender(OURS, lambda n: explain(X[:n]), len(X))]
    for name, peer in peers.items():
        # woodelf's time hardly depends on the rows: a share of them would be scaled too far.
        least = ONCE if name == SHAP else None
        contenders.append(Contender(name, lambda n, peer=peer: peer(X[:n]), len(X), least))
    return Duel(contenders, check, figures, rounds=2, clock=time.process_time)


@dataclass(frozen=True)
class Large:
    """The three in turn, then the peaks of ours in processes of their own."""

    duel: Duel
    peaks: dict[str, Callable[[], Alone]]

    def measure(self) -> Outcome:
        """Adds the peaks to the figures of the duel."""
        outcome = self.duel.measure()
        figures = tuple(
            Figure(f"{name}: peak above the start", one().peak, 1e9 / MEBI, unit=" MiB")
            for name, one in self.peaks.items()
        )
        return replace(outcome, figures=outcome.figures + figures)


def setup_large(size: Size) -> Large:
    """Measures 100,000 rows of 100 columns, 1,000 background rows, 200 trees of XGBoost of depth 6:
    woodelf-explainer / ours; ours over `predict` of the same rows; the peak of ours, also of 1,000
    rows against 100,000 background rows.

    woodelf's values of a few rows differ by 1e-3 of the largest and more: a number of theirs is one
    float32 step below a threshold. Of two such rows it misses the values leaf by leaf by .016,
    where ours miss them by 2e-15 (2026-12-01). So all other rows are compared with woodelf's, and
    these with the leaves.
    """
    X, background, rows, target = problem(100, size, 100_000, 1_000)
    model = boosted("XGBoost", rows, target, 5 if size == "smoke" else 200)
    explain, outputs = explained(model, background, "decision"), np.asarray(model.predict(X))
    peer = by_woodelf(model, background)

    booster, cuts = model.get_booster(), thresholds(model)
    next_to = np.zeros(len(X), bool)
    for x, own in zip(X.T, cuts, strict=True):
        next_to |= np.isin(x, np.nextafter(own.astype(np.float32), np.float32(-np.inf)))

    def check(results: Results) -> list[Agreement]:
        found, theirs = results[OURS], results[WOODELF]
        off = np.abs(found.values - theirs).max(axis=1)
        most = np.argsort(off)[-2:]
        wanted = np.array([by_leaves(booster, X[n], background) for n in most])
        return [
            close(f"values and {WOODELF}'s", found.values[~next_to], theirs[~next_to]),
            close(
                f"values that differ most from {WOODELF}'s, by leaves", found.values[most], wanted
            ),
            efficiency(found, outputs),
        ]

    def figures(timings: Timings, results: Results) -> list[Figure]:
        found, theirs = results[OURS].values, results[WOODELF]
        off = float(np.abs(found - theirs).max() / np.abs(found).max())
        return [
            Ratio("woodelf / ours", WOODELF, OURS, 1, 3).of(timings),
            Ratio("ours over predict", OURS, PREDICT, 20, 5).of(timings),
            Figure("largest difference of woodelf's values, share of the largest", off),
        ]

    duel = Duel(
        [
            Contender(OURS, lambda n: explain(X[:n]), len(X)),
            Contender(WOODELF, lambda n: peer(X[:n]), len(X)),
            Contender(PREDICT, lambda n: model.predict(X[:n]), len(X)),
        ],
        check=check,
        figures=figures,
        rounds=1,
        clock=time.process_time,
    )
    few = X[:1_000]
    peaks: dict[str, Callable[[], Alone]] = {
        f"N={len(X):,} B={len(background):,}": partial(
            alone, explained, model, background, "decision", rows=X
        ),
        f"N={len(few):,} B={len(X):,}": partial(alone, explained, model, X, "decision", rows=few),
    }
    return Large(duel, peaks)


def setup_paths(size: Size) -> Duel:
    """Measures path-dependent values, 40,000 training rows, 50 columns, depth 8, 200 rounds, 5,000
    rows explained: ours over XGBoost's own pred_contribs, with the matrix that it needs.
    """
    xgboost = installed("xgboost")
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500 if size == "smoke" else 40_000, 50)).astype(np.float32)
    target = rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + rng.normal(size=len(rows)) / 2
    count = 5 if size == "smoke" else 200
    model = xgboost.XGBRegressor(n_estimators=count, max_depth=8).fit(rows, target)
    X = rows[: 10 if size == "smoke" else 5_000]
    explain = explained(model, xaijax.TreePaths(), "decision")
    booster = model.get_booster()

    def contribs(n: int) -> np.ndarray:
        return booster.predict(xgboost.DMatrix(X[:n]), pred_contribs=True)

    def check(results: Results) -> list[Agreement]:
        found, wanted = results[OURS], results[CONTRIBS]
        return [close(f"values and {CONTRIBS}", found.values, wanted[:, :-1])]

    return Duel(
        [
            Contender(OURS, lambda n: explain(X[:n]), len(X)),
            Contender(CONTRIBS, contribs, len(X), LEAST[size]),
        ],
        check=check,
        figures=[Ratio("ours over pred_contribs", OURS, CONTRIBS, 3, 1)],
        rounds=1,
        clock=time.process_time,
    )


def setup_leaves(size: Size) -> Several:
    """Measures leaves that differ from the library's own, of a million rows half of whose numbers
    are thresholds of a tree of 1,000 leaves or a neighbour of one.
    """
    return Several({name: Leaves(name, size) for name in ("XGBoost", "LightGBM", "CatBoost")})


@dataclass(frozen=True)
class Leaves:
    """The leaves of one library's tree, by rows in float32 and in float64."""

    library: str
    size: Size

    def measure(self) -> Outcome:
        """Counts the rows that end in another leaf; a leaf is recognised by its value."""
        rng, N = np.random.default_rng(0), 2_000 if self.size == "smoke" else 1_000_000
        rows = rng.normal(size=(20_000, 4))
        model, cuts = one_tree(self.library, rows, np.abs(rows).sum(axis=1) + rows[:, 0])
        figures, agreements = [], []
        for dtype in (np.float32, np.float64):
            X = rng.normal(size=(N, 4)).astype(dtype)
            for j, own in enumerate(cuts):
                on = rng.choice(own.astype(dtype), N) if len(own) else X[:, j]
                on = np.nextafter(on, rng.choice([-np.inf, 0, np.inf], N).astype(dtype) + on)
                X[:, j] = np.where(rng.random(N) < 0.5, on, X[:, j])
            wanted = np.asarray(model.predict(X), np.float64)
            ours = xaijax.as_model(model, backend="jax").predict(X)
            leaves = np.unique(wanted)
            middle = (leaves[1:] + leaves[:-1]) / 2
            other = np.searchsorted(middle, ours) != np.searchsorted(middle, wanted)
            figures.append(Figure(f"other leaves, {dtype.__name__}", int(other.sum()), 0))
            off = np.abs(ours - wanted)[~other].max() / np.abs(wanted).max()
            same = f"answers in the same leaf of {self.library}, {dtype.__name__}"
            agreements.append(Agreement(same, float(off), 2.0**-22, "leaves in float32, and a sum"))
        return Outcome(tuple(figures), (), tuple(agreements), (f"{len(leaves):,} leaves",))


def thresholds(model: Any) -> list[np.ndarray]:
    """The numbers with which XGBoost compares each column."""
    table = model.get_booster().trees_to_dataframe()
    names, cuts = table["Feature"].to_numpy(), table["Split"].to_numpy(float)
    return [cuts[names == f"f{j}"] for j in range(model.n_features_in_)]


def one_tree(library: str, rows: np.ndarray, target: np.ndarray) -> tuple[Any, list[np.ndarray]]:
    """A fitted model of one tree, and its thresholds of each column."""
    module = installed(library.lower())
    if library == "XGBoost":
        model = module.XGBRegressor(n_estimators=1, max_depth=10, learning_rate=1).fit(rows, target)
        return model, thresholds(model)
    if library == "LightGBM":
        model = module.LGBMRegressor(n_estimators=1, num_leaves=1_000, verbose=-1).fit(rows, target)
        table = model.booster_.trees_to_dataframe()
        names, cuts = table["split_feature"].to_numpy(), table["threshold"].to_numpy(float)
        return model, [cuts[names == f"Column_{j}"] for j in range(rows.shape[1])]
    quiet = {"verbose": 0, "allow_writing_files": False}
    model = module.CatBoostRegressor(n_estimators=1, depth=10, learning_rate=1, **quiet)
    borders = model.fit(rows, target).get_borders()
    return model, [np.asarray(borders[j]) for j in range(rows.shape[1])]


def setup_machine(size: Size) -> Several:
    """Measures decisions of RBF machines, 64 and 200 columns, 100 background rows: exact values by
    quadrature over the kernel estimator at its default budget.
    """
    return Several({f"{P} columns": _machine(P, size) for P in (64, 200)[: 1 + (size == "full")]})


def _machine(P: int, size: Size) -> Duel:
    rng = np.random.default_rng(P)
    rows = rng.normal(size=(200 if size == "smoke" else 4_000, P)).astype(np.float32)
    model = SVC(gamma="scale").fit(rows, rows[:, 0] * rows[:, 1] + rows[:, 2] > 0)
    X, background = rows[:4], rows[100 : 105 if size == "smoke" else 200]
    explain = explained(model, background, "decision")
    sampled = xaijax.Explainer(
        xaijax.as_model(model, output="decision"), background, estimator="kernel"
    )
    outputs = model.decision_function(X)

    def check(results: Results) -> list[Agreement]:
        assert results[OURS].exact
        return [efficiency(results[OURS], outputs)]

    return Duel(
        [
            Contender(OURS, lambda n: explain(X[:n]), len(X)),
            Contender(KERNEL, lambda n: sampled(X[:n], progress=False), len(X)),
        ],
        check=check,
        figures=[Ratio("quadrature over the kernel estimator", OURS, KERNEL, 0.2, 0.05)],
        rounds=1,
        clock=time.process_time,
        notes=(f"{len(model.support_vectors_):,} support vectors",),
    )


CASES = (
    Case("T46", setup_forest),
    Case("T47", setup_boosted, long=True),
    Case("T48", setup_large, long=True),
    Case("T49", setup_paths),
    Case("T50", setup_leaves, long=True),
    Case("T51", setup_machine, long=True),
)
