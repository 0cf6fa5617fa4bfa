"""T13 to T16: Anchors against alibi 0.9.6 and anchor-exp, with a check on fresh draws.

Measured once, at commit 8be07b24ff on 2026-11-27, and not repeated by the case: rounds of the
bandit in which nine tenths of the instances take part take 0.884 (row_bin) and 0.908 (row) of the
plain forward pass of their rows; against anchor-exp ours asks 1.83 times the rows of an instance.

alibi draws from the space that is "joint" here, as long as a call draws no more rows than satisfy
the rule, and each kept column by itself beyond. This was measured by the rows that it asks the
model for: 3 in 1,000 rows of its searches were rows of the data, so it is not "conditional". With
400 rows of distinct numbers and a rule of two columns that 98 of them satisfy, both kept columns
came from one data row in all draws of a call of 50, in 98 % of 100, 10 % of 1,000 and 1 % of
10,000; the free columns always came from one other row.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

import xaijax
from bench.environments import HERE, Worker, environment
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
    ratio,
)
from bench.models import adult_table, forward

OURS, ALIBI, AUTHOR = "xaijax", "alibi", "anchor-exp"
SETTINGS = {"threshold": 0.95, "delta": 0.1, "tau": 0.15, "batch_size": 100}
THRESHOLD, STOP = 0.95, 0.05
FRESH = 10_000
SIGMAS = 5.0
PROMISE = (
    "accepted rules below threshold - {stop:g} on 10,000 fresh draws: a share of delta = 0.1 is "
    "promised, and 5 standard errors of the draws are let pass"
)


CATEGORIES = [1, 3, 4, 5, 6, 7, 11]
FOREST: dict[str, Any] = {"n_estimators": 100, "max_depth": 10, "random_state": 0}


class Task:
    """A model on Adult's codes, the rows to explain and the data of the spaces."""

    def __init__(self, kind: str, size: Size) -> None:
        self.kind, self.size = kind, size
        X, y = adult_table("shap")
        rows, labels = X.to_numpy(np.float32), y.to_numpy().astype(int)
        full = size == "full"
        self.B, N, train = (1_000, 1_000, 5_000) if full else (60, 4, 300)
        N = N if kind == "network" or not full else 200
        self.data = rows[: self.B]
        known = np.all([np.isin(rows[:, j], self.data[:, j]) for j in CATEGORIES], axis=0)
        self.X = rows[train:][known[train:]][:N]
        self.train, self.labels = rows[:train], labels[:train]
        self.model = self._network() if kind == "network" else self._forest()

    def _network(self) -> Any:
        shift, scale = self.train.mean(axis=0), self.train.std(axis=0) + 1e-6
        rounds = 40 if self.size == "full" else 5
        fitted = MLPClassifier(
            (64, 64), max_iter=rounds, random_state=0, tol=0, n_iter_no_change=99
        )
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the fit is cut short on purpose, and says so
            fitted.fit((self.train - shift) / scale, self.labels)
        layers = [
            (w.astype(np.float32), b.astype(np.float32))
            for w, b in zip(fitted.coefs_, fitted.intercepts_, strict=True)
        ]
        self.params = {"shift": shift, "scale": scale, "layers": layers}
        return xaijax.as_model(forward, self.params, output="decision")

    def _forest(self) -> Any:
        fitted = RandomForestClassifier(**FOREST).fit(self.train, self.labels)
        return xaijax.as_model(fitted)

    def anchors(self, space: Any) -> xaijax.AnchorExplainer:
        """Ours in one space."""
        return xaijax.AnchorExplainer(
            self.model, self.data, categories=CATEGORIES, perturbation=space
        )

    def answers(self) -> np.ndarray:
        """Classes 0 and 1 of the data."""
        return np.asarray(self.model.labels(self.data)).astype(int)

    def sent(self) -> dict[str, np.ndarray]:
        """What the peer needs to have the same model."""
        if self.kind == "forest":
            return {"data": self.data, "train": self.train, "labels": self.labels}
        arrays = {"data": self.data, "shift": self.params["shift"], "scale": self.params["scale"]}
        for i, (weight, bias) in enumerate(self.params["layers"]):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        return arrays


@cache
def task(kind: str, size: Size) -> Task:
    """Fitted once for all cases of a run."""
    return Task(kind, size)


class _Peer:
    """A worker with the same model."""

    def __init__(self, name: str, task: Task) -> None:
        script = HERE / "peers" / f"{name.replace('-', '_')}_worker.py"
        self.worker = Worker(environment(name), script)
        options: dict[str, Any] = {"settings": {**SETTINGS, "beam_size": 1}}
        options["categories"] = CATEGORIES
        if name == AUTHOR:  # its beam width cannot be chosen
            options["settings"] = SETTINGS
        if task.kind == "forest":
            options["forest"] = FOREST
        answers = self.worker.call("fit", options=options, **task.sent())[1]["answers"]
        self.differs = float((answers != task.answers()).mean())

    def explain(self, X: np.ndarray) -> dict[str, np.ndarray]:
        """Its findings."""
        return self.worker.call("explain", X=X)[1]

    def check(self, count: int) -> np.ndarray:
        """Fresh precision of what it explained last."""
        return self.worker.call("check", count=np.array(count))[1]["precision"]

    def __enter__(self) -> _Peer:
        return self

    def __exit__(self, *error: object) -> None:
        self.worker.close()


def _same_model(name: str, peer: _Peer) -> Agreement:
    reason = "float32 products of another library; trees by another version"
    return Agreement(f"classes of the data, ours and {name}'s", peer.differs, 0.005, reason)


def _promised(name: str, rules: Any, fresh: np.ndarray, stop: float = STOP) -> Agreement:
    held = np.array([rule.accepted for rule in rules])
    least = THRESHOLD - stop
    margin = SIGMAS * np.sqrt(least * (1 - least) / FRESH)
    missed = (fresh < least - margin)[held].mean() if held.any() else 0.0
    promise = PROMISE.format(stop=stop)
    return Agreement(f"{name}: {promise}", float(missed), 0.1, "the promise itself")


class _Contest:
    """Ours against alibi (and anchor-exp), one space and one search."""

    def __init__(self, size: Size, kind: str, space: str, search: str, goals: Any) -> None:
        self.size: Size = size
        self.kind, self.space, self.search, self.goals = kind, space, search, goals
        self.fresh = np.zeros(0)  # precision of our rules on fresh draws

    def measure(self) -> Outcome:
        """In turn, then the check of ours on fresh draws."""
        problem = task(self.kind, self.size)
        anchors = problem.anchors(self.space)
        with _Peer(ALIBI, problem) as alibi:
            return self._against(problem, anchors, alibi)

    def _against(self, problem: Task, anchors: Any, alibi: _Peer) -> Outcome:
        N = len(problem.X)
        options = {"threshold": THRESHOLD, "beam_size": 1, "search": self.search}

        def ours(count: int) -> Any:
            return anchors.explain(problem.X[:count], **options)

        def check(results: Results) -> list[Agreement]:
            rules = results[OURS]
            self.fresh = anchors.check(rules, problem.X, FRESH)
            agreements = [_same_model(ALIBI, alibi)]
            if self.search == "kl-lucb":
                agreements.append(_promised(f"{self.kind}, {self.space}", rules, self.fresh))
            else:
                held = [rule.precision for rule in rules if rule.accepted]
                gap = max(0.0, THRESHOLD - min(held, default=1.0))
                agreements.append(
                    Agreement("accepted below the threshold on its rows", gap, 0, "exact")
                )
            return agreements

        def figures(timings: Timings, results: Results) -> list[Figure]:
            rules, other = results[OURS], results[ALIBI]
            target, stretch = self.goals
            speed = ratio(timings, ALIBI, OURS)
            measured = [Figure("alibi / ours", speed, target, stretch, "more", "x")]
            held = np.array([rule.accepted for rule in rules])
            good = (self.fresh >= THRESHOLD)[held].mean() if held.any() else 0.0
            measured.append(Figure("accepted", float(held.mean())))
            measured.append(Figure("accepted with fresh precision >= threshold", float(good)))
            if self.search == "kl-lucb":
                ours_rows = rules.stats["model_rows"] / len(rules)
                theirs = float(other["rows"]) / len(other["size"])
                goals = (3.0, 1.5) if self.kind == "network" else (None, None)
                measured.append(Figure("rows of an instance / alibi's", ours_rows / theirs, *goals))
            else:
                calls = rules.stats["model_calls"]
                measured.append(Figure("model calls", calls, 2 + 2 * problem.data.shape[1]))
            return measured

        contenders = [Contender(OURS, ours, N)]
        contenders.append(
            Contender(ALIBI, lambda n: alibi.explain(problem.X[:n]), N, LEAST[self.size])
        )
        rounds = 3 if self.size == "full" and self.kind == "network" else 1
        return Duel(contenders, check, figures, rounds=rounds).measure()


class _Author:
    """The bandit against anchor-exp, which takes no beam size: it searches with 1."""

    def __init__(self, size: Size) -> None:
        self.size: Size = size

    def measure(self) -> Outcome:
        """In turn, in the space that both have: row_bin."""
        problem = task("network", self.size)
        anchors = problem.anchors("row_bin")
        with _Peer(AUTHOR, problem) as author:

            def ours(count: int) -> Any:
                return anchors.explain(problem.X[:count], beam_size=1, search="kl-lucb")

            N = len(problem.X)
            return Duel(
                [
                    Contender(OURS, ours, N),
                    Contender(AUTHOR, lambda n: author.explain(problem.X[:n]), N, LEAST[self.size]),
                ],
                lambda results: [_same_model(AUTHOR, author)],
                [Ratio("anchor-exp / ours", AUTHOR, OURS, 25, 60)],
                rounds=3 if self.size == "full" else 1,
            ).measure()


class _Coverage:
    """T16: mean coverage of widened rules at alibi's promise, confirmed on fresh draws.

    alibi accepts a rule whose lower bound is above threshold - tau, ours by threshold -
    stop_epsilon. A rule that does not hold on fresh draws covers nothing.
    """

    def __init__(self, size: Size, kind: str, goal: float, spaces: Sequence[str]) -> None:
        self.size: Size = size
        self.kind, self.goal, self.spaces = kind, goal, spaces

    def measure(self) -> Outcome:
        """200 instances each."""
        problem = task(self.kind, self.size)
        X, tau = problem.X[:200], SETTINGS["tau"]
        with _Peer(ALIBI, problem) as alibi:
            theirs = alibi.explain(X)["coverage"] * (alibi.check(FRESH) >= THRESHOLD - tau)
            agreements = [_same_model(ALIBI, alibi)]
        options = {"threshold": THRESHOLD, "beam_size": 1, "search": "kl-lucb"}
        figures = []
        for space in self.spaces:
            anchors = problem.anchors(space)
            rules = anchors.explain(X, widen=True, stop_epsilon=tau, **options)
            fresh = anchors.check(rules, X, FRESH)
            cover = np.array([rule.coverage for rule in rules]) * (fresh >= THRESHOLD - tau)
            label = f"{space}: coverage confirmed at {THRESHOLD - tau:.2f} / alibi's"
            figures.append(
                Figure(label, float(cover.mean() / theirs.mean()), self.goal, 1.1, "more")
            )
            agreements.append(_promised(f"{self.kind}, {space}", rules, fresh, tau))
        return Outcome(tuple(figures), agreements=tuple(agreements))


def _known(size: Size) -> Several:
    """Measures Anchors of 1,000 rows of Adult with exact precisions, a network, against alibi."""
    goals = (40, 200)
    ways = {"row, exact": ("row", "exact"), "row_bin, table": ("row_bin", "table")}
    return Several({name: _Contest(size, "network", *way, goals) for name, way in ways.items()})


def _bandit(size: Size) -> Several:
    """Measures Anchors by the lockstep bandit, 1,000 rows of Adult, a network, against alibi and
    anchor-exp.
    """
    against = {s: _Contest(size, "network", s, "kl-lucb", (15, 60)) for s in ("row_bin", "row")}
    return Several({**against, "row_bin, the author's": _Author(size)})


def _host(size: Size) -> Several:
    """Measures Anchors by the lockstep bandit, 200 rows of Adult, a scikit-learn forest, against
    alibi.
    """
    spaces = ("row_bin", "row")
    return Several({s: _Contest(size, "forest", s, "kl-lucb", (1.5, 5)) for s in spaces})


def _coverage(size: Size) -> Several:
    """Measures mean coverage of 200 rules at the same threshold, beam and promise, against alibi.

    Missed: In the space "row" only predicates can be dropped, since the kept columns have x's own
    values. alibi accepts a rule at a lower bound of tau - 0.15, ours at tau - 0.05 by default; the
    rows of equal promises set stop_epsilon=0.15. In the space that alibi draws from ("joint") the
    widened rules cover 1.54 (network) and 1.23 (forest) of what its rules cover. All of ours reach
    0.80 in "row" on fresh draws, and 94 and 95 % of them in "joint".

    Measured once, at commit 5337ab6232 on 2026-11-28, and not repeated by the case: rows of an
    instance without and with widen, network "row_bin" 9,938 and 11,105, "row" 8,137 and 8,893,
    "joint" 9,200 and 10,287; forest "row_bin" 8,701 and 9,400, "row" 5,788 and 6,234, "joint" 7,224
    and 7,951.
    """
    spaces = ("row_bin", "row", "joint", "conditional")
    return Several(
        {
            "network": _Coverage(size, "network", 1.0, spaces),
            "forest": _Coverage(size, "forest", 0.95, spaces),
        }
    )


CASES = (
    Case("T13", _known),
    Case("T14", _bandit, long=True),
    Case("T15", _host),
    Case("T16", _coverage, long=True),
)
