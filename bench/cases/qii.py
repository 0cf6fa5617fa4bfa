"""T11, T12, the table of QII, and ShaRP: quantitative input influence against the authors' way."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

import xaijax
from bench.baselines import qii_authors
from bench.cases.exact import Problem, _plain, _tiles
from bench.environments import HERE, Worker, environment
from bench.frame import (
    LEAST_SECONDS,
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    Outcome,
    Several,
    Size,
    Timing,
    ratio,
)
from bench.models import adult_codes, continuous, forward, mlp
from bench.qii_models import Classifier, classifiers

OURS, AUTHORS, FORWARD, SHARP = "xaijax", "authors' algorithm", "plain forward", "ShaRP"
ANEW = "ours, of questions made anew"
WHOLE = "the answers to all whole rows, for each question"
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


def _fitted(size: Size) -> list[Classifier]:
    return classifiers(300 if size == "smoke" else None)


def setup_individual(size: Size) -> Several:
    """T11: exact Shapley and Banzhaf values of one person against 600 orders and 600 sets."""
    return Several({one.kind: _individual(one, size) for one in _fitted(size)})


def _individual(one: Classifier, size: Size) -> Duel:
    pool = one.data[: POOL if size == "full" else 20]
    x = one.data[POOL + 1 :][:1]
    orders = ORDERS if size == "full" else 20
    qii = xaijax.QII(one.model, pool, players=one.players, quantity="individual", positive=True)

    def ours(count: int) -> Any:
        del count
        table = qii.game(x)
        return table.shapley()[0], table.banzhaf()[0]

    def authors(count: int) -> Any:  # a unit is two orders, so that their spread is known
        return tuple(
            draw(one.predict, x[0], pool, one.groups, 2 * count, 0)
            for draw in (qii_authors.shapley, qii_authors.banzhaf)
        )

    def check(results: Mapping[str, Any]) -> list[Agreement]:
        some = one.data[:2_000]
        apart = float((one.model.labels(some) != one.predict(some)).mean())
        found = [Agreement(f"{one.kind}: labels, JAX and scikit-learn", apart, FLIPS / 5, FLIPPED)]
        pairs = zip(("Shapley", "Banzhaf"), results[OURS], results[AUTHORS], strict=True)
        for name, exact, drawn in pairs:
            # Few orders do not know their own spread; a marginal influence is in [-1, 1].
            spread = drawn.std(axis=0, ddof=1) if len(drawn) >= 30 else 1.0
            gap = np.abs(drawn.mean(axis=0) - exact) - SIGMAS * spread / np.sqrt(len(drawn))
            label = f"{one.kind}, {name}: beyond the sampling error"
            found.append(Agreement(label, float(max(0.0, gap.max())), FLIPS, SAMPLED))
        return found

    def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
        del results
        target, stretch = GOALS[one.kind]
        speed = ratio(timings, AUTHORS, OURS)
        return [Figure("authors' algorithm / ours", speed, target, stretch, "more", "x")]

    least = LEAST_SECONDS if size == "full" else None
    return Duel(
        [Contender(OURS, ours, 1), Contender(AUTHORS, authors, orders // 2, least)],
        check,
        figures,
        # Two of the authors' orders of the SVM take a minute.
        rounds=1 if size == "smoke" or one.kind == MACHINE else 3,
        notes=(
            "ours asks the plain JAX model, exactly; the authors' sampled, 600 orders and sets",
        ),
    )


def setup_data(size: Size, machine: bool) -> Several:
    """T12: average and disparity of all inputs, at 37,000 samples as the authors, and exact.

    machine: of the kernel machine, which takes as long as all others; else of these.
    """
    fitted = [one for one in _fitted(size) if (one.kind == MACHINE) == machine]
    jobs = {f"{one.kind}, {SAMPLES:,} samples": _sampled(one, size) for one in fitted}
    return Several(jobs | {f"{one.kind}, all pairs": _all_pairs(one, size) for one in fitted})


def _authors_of_data(one: Classifier, samples: int) -> Any:
    place = np.random.default_rng(1).integers(0, len(one.data), samples)
    rows, women = one.data[place], one.women[place]

    def authors(count: int) -> tuple[np.ndarray, np.ndarray]:
        players = one.groups[:count]
        return (
            qii_authors.average(one.predict, rows, players, 0),
            qii_authors.disparity(one.predict, rows, women, players, 0),
        )

    return authors


def _against_authors(
    one: Classifier, ours: Any, size: Size, goals: Any, people: int, beside: Any = None
) -> Duel:
    """people: data rows that ours asks about, or draws; beside: what is timed beside it, by name:
    questions made anew, and what no way of ours leaves out of these.
    """
    samples = SAMPLES if size == "full" else 400
    authors = _authors_of_data(one, samples)

    def check(results: Mapping[str, Any]) -> list[Agreement]:
        count = len(results[AUTHORS][0])
        gaps = [
            np.abs(a[:count] - b).max()
            for a, b in zip(results[OURS], results[AUTHORS], strict=True)
        ]
        smallest = min(one.women.mean(), 1 - one.women.mean())
        # Both sides are means of samples in [-1, 1]; the disparity's smaller group has fewer.
        bound = SIGMAS * 2 / np.sqrt(min(samples, people) * smallest) + FLIPS
        found = [Agreement(f"{one.kind}: average and disparity", max(gaps), bound, SAMPLED)]
        if beside is not None:
            apart = max(
                np.abs(a - b).max() for a, b in zip(results[OURS], results[ANEW], strict=True)
            )
            found.append(Agreement(f"{one.kind}: {ANEW}", float(apart), 0.0, "the same programs"))
        return found

    def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
        del results
        speed = ratio(timings, AUTHORS, OURS)
        found = [Figure("authors' algorithm / ours", speed, goals, None, "more", "x")]
        if beside is None:
            return found
        most, anew = (ratio(timings, AUTHORS, name) for name in (WHOLE, ANEW))
        return [
            *found,
            Figure(f"authors' algorithm / {ANEW}", anew, better="more", unit="x", ceiling=most),
            Figure(f"authors' algorithm / {WHOLE} alone, the ceiling there", most, unit="x"),
        ]

    least = LEAST_SECONDS if size == "full" else 0.0
    return Duel(
        [
            Contender(OURS, ours, 1),
            Contender(AUTHORS, authors, len(one.players), least),
            *(Contender(name, run, 1) for name, run in (beside or {}).items()),
        ],
        check,
        figures,
        rounds=2 if size == "full" and one.kind != MACHINE else 1,
        notes=(
            "ours: the scikit-learn pipeline on 13 columns of codes; theirs: its estimator on the "
            "103 encoded columns, ready; questions are made before, and asked again: what the "
            "model answers to the people themselves is kept",
        ),
    )


def _questions(one: Classifier, model: Any, people: int, **options: Any) -> tuple[Any, Any]:
    """Both quantities of the first people, by the model of the pipeline and 13 columns of codes."""
    players = {name: [i] for i, name in enumerate(one.players)}
    given = {"players": players, "pool": one.codes, **options}
    rows, women = one.codes[:people], one.women[:people]
    average = xaijax.QII(model, rows, quantity="average", **given)
    gap = xaijax.QII(model, rows, quantity="disparity", members=women, positive=True, **given)
    return average, gap


def _answers(questions: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    return questions[0].unary().values[0], questions[1].unary().values[0]


def _sampled(one: Classifier, size: Size) -> Duel:
    samples = SAMPLES if size == "full" else 400

    made = _questions(one, xaijax.as_model(one.pipeline), len(one.data), samples=samples)

    def ours(count: int) -> Any:
        del count
        return _answers(made)

    goal = 80 if one.kind == "logistic" else None
    return _against_authors(one, ours, size, goal, samples)


def _all_pairs(one: Classifier, size: Size) -> Duel:
    """Every person with every donor, exactly."""
    people = len(one.data) if size == "full" else 60
    model = xaijax.as_model(one.pipeline)
    made = _questions(one, model, people)

    def ours(count: int) -> Any:
        del count
        return _answers(made)

    def anew(count: int) -> Any:
        del count
        return _answers(_questions(one, model, people))

    def whole(count: int) -> Any:
        del count
        return [model.labels(one.codes[:people]) for _ in made]

    goal = {MACHINE: 50, "logistic": 40}.get(one.kind, 5)
    return _against_authors(one, ours, size, goal, people, {ANEW: anew, WHOLE: whole})


class _Tables:
    """The table of all 2^P sets for N people, beside the plain forward of the rows it needs."""

    def __init__(self, problem: Problem, size: Size, people: int) -> None:
        self.problem, self.people = problem, people
        self.size: Size = size

    def measure(self) -> Outcome:
        """Ask the tables once for the rows they need, then let both take turns."""
        problem = self.problem
        model = xaijax.as_model(forward, problem.params)
        qii = xaijax.QII(
            model, problem.background, quantity="individual", outcome="score", bounds=(-1e3, 1e3)
        )
        explained = qii.explain(problem.X)
        needed = explained.stats["model_rows"]
        plain, tile = _plain(problem, _tiles(self.size))
        units = max(1, round(needed / problem.rows))
        scale = needed / (units * problem.rows)

        def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
            del results
            value = ratio(timings, OURS, FORWARD) / scale
            # No table can be made without the rows that it needs: they alone are the ceiling.
            return [Figure("game() / plain forward of the rows needed", value, 1.25, ceiling=1.0)]

        def check(results: Mapping[str, Any]) -> list[Agreement]:
            gap = np.abs(results[OURS].shapley() - explained.values).max()
            limit = 1e-5 * max(1.0, float(np.abs(results[OURS].values).max()))
            return [Agreement("Shapley of the table and by pairs", float(gap), limit, "float32")]

        return Duel(
            [
                Contender(OURS, lambda count: qii.game(problem.X[:count]), self.people),
                Contender(FORWARD, plain, units),
            ],
            check,
            figures,
            rounds=3 if self.size == "full" else 1,
            notes=(f"{needed:,} model rows needed; forward in tiles of {tile:,} rows",),
        ).measure()


def setup_tables(size: Size) -> Several:
    """Tables of 13 inputs: continuous ones, where every row is needed, and Adult's codes."""
    people, pool = (100, 600) if size == "full" else (3, 5)
    P = 13 if size == "full" else 6
    few = 4 if size == "full" else 2
    X, rows = continuous(few, pool, P)
    own, donors, table = adult_codes(people, pool)
    widths = (64, 64, 1) if size == "full" else (8, 1)
    return Several(
        {
            "continuous": _Tables(Problem(X, rows, mlp((P, *widths), rows)), size, few),
            "Adult's codes": _Tables(Problem(own, donors, mlp((12, *widths), table)), size, people),
        }
    )


class _Sharp:
    """ShaRP in its own environment."""

    def __init__(self, size: Size) -> None:
        self.size: Size = size

    def measure(self) -> Outcome:
        """Equal values, and both in turn."""
        people, pool, P = (20, 100, 12) if self.size == "full" else (2, 5, 4)
        X, rows = continuous(people, pool, P)
        rng = np.random.default_rng(0)
        weights, bias = rng.normal(size=P), 0.3
        model = xaijax.as_model(
            lambda r: jax.nn.sigmoid(r @ weights.astype(np.float32) + np.float32(bias))
        )
        qii = xaijax.QII(model, rows, quantity="individual", outcome="score")
        python = environment("sharp")
        with Worker(python, HERE / "peers" / "sharp_worker.py") as worker:

            def theirs(count: int) -> np.ndarray:
                sent = {"X": X[:count], "pool": rows, "weights": weights, "bias": np.array(bias)}
                return worker.call("explain", options={"qoi": "diff"}, **sent)[1]["values"]

            def check(results: Mapping[str, Any]) -> list[Agreement]:
                other = results[SHARP]
                gap = np.abs(results[OURS].values[: len(other)] - other).max()
                reason = "float32 scores in [0, 1] against float64"
                return [Agreement("ShaRP and ours", float(gap), 1e-5, reason)]

            def figures(timings: Mapping[str, Timing], results: Mapping[str, Any]) -> list[Figure]:
                del results
                return [Figure("ShaRP / ours", ratio(timings, SHARP, OURS), 50, None, "more", "x")]

            least = LEAST_SECONDS if self.size == "full" else 0.0
            return Duel(
                [
                    Contender(OURS, lambda count: qii.explain(X[:count]), people),
                    Contender(SHARP, theirs, people, least),
                ],
                check,
                figures,
                rounds=2 if self.size == "full" else 1,
                notes=("ShaRP without its cache of printed rows, which is slower here",),
            ).measure()


CASES = (
    Case(
        "T11",
        "QII of one person on Adult, Shapley and Banzhaf, against the authors' algorithm",
        "SVM 1,000x, logistic 60x, forest 25x, tree 8x",
        "20,000x, 500x, 200x, 100x",
        setup_individual,
        long=True,
    ),
    Case(
        "T12",
        "average and disparity QII of all inputs on Adult against the authors' algorithm",
        "logistic at 37,000 samples 80x; all pairs against 37,000 samples: logistic 40x, trees 5x",
        "",
        partial(setup_data, machine=False),
    ),
    Case(
        "T12-svm",
        "the same of a kernel machine, a quarter of an hour",
        "all pairs against 37,000 samples 50x",
        "",
        partial(setup_data, machine=True),
        long=True,
    ),
)
MORE = (
    Case(
        "qii-table",
        "the table of all sets of 12 and 13 inputs, pool of 600, against the model alone",
        "time / plain forward of the rows needed <= 1.25",
        "",
        setup_tables,
    ),
    Case(
        "qii-sharp",
        "exact Shapley QII of 12 inputs against ShaRP (xai-sharp)",
        "ShaRP / ours >= 50, equal values",
        "",
        lambda size: _Sharp(size),
    ),
)
