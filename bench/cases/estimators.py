"""`estimators`: the sampled choice of "auto" against four peers; beside, our process and proxies.

Error only, no time: every contender gets the same games, as many distinct coalitions, and is
measured against the same truth. All instances of one seed share its coalitions, so that many seeds
say more than many instances a seed: a seed explains one block of the instances, and the blocks take
turns. Letters: N instances, n of them in a block, P players, B background rows, S seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestRegressor

import xaijax
from bench import games
from bench.cases.exact import network
from bench.definition import shapley
from bench.frame import Agreement, Case, Figure, NotRun, Outcome, Size
from bench.models import continuous, forward
from bench.peers import shap_sampled, shapiq_sampled
from bench.truth import SHARE, geometric, long_run, squared
from xaijax.estimators import permutation
from xaijax.estimators.gaussian_process import GaussianProcess

Peer = Callable[[games.Game, int, int, int], np.ndarray]  # game, P, budget, seed -> [N, P]

AUTO = "auto"
KERNEL = "kernel"  # ours, where auto chose permutations: whether the rule chose well
PROCESS = "gaussian-process"  # ours, on a few instances as the proxies: it too fits each game
PEERS: dict[str, Peer] = {
    shap_sampled.KERNEL: shap_sampled.kernel,
    shap_sampled.PERMUTATION: shap_sampled.permutation,
    shapiq_sampled.KERNEL: shapiq_sampled.kernel,
    shapiq_sampled.LEVERAGE: shapiq_sampled.leverage,
}
PROXIES: dict[str, Peer] = {
    shapiq_sampled.PROXY: shapiq_sampled.proxy,
    shapiq_sampled.MSR: shapiq_sampled.msr,
    shapiq_sampled.ODD: shapiq_sampled.odd,
    shapiq_sampled.POLY: shapiq_sampled.poly,
}
FEW = (PROCESS, *PROXIES)
GOAL = 1.05
HEADINGS = (
    *("model", "P", "budget", "auto chose", AUTO, KERNEL),
    *(*PEERS, "best peer's MSE", *FEW),
)


BACKGROUND = 10  # rows


@dataclass(frozen=True)
class Subject:
    """A model with its instances and background; the same for every contender."""

    name: str
    X: np.ndarray  # [N, P]
    background: np.ndarray  # [B, P]
    model: Any  # from as_model
    game_of: Callable[[np.ndarray], games.Game]
    # (truth [N, P] -> the smallest error compared with it) -> truth and its variance
    truth: Callable[[Callable[[np.ndarray], float]], tuple[np.ndarray, float]]


def of_network(
    instances: int, players: int, hidden: tuple[int, ...], most: int, *, keep: bool
) -> Subject:
    """A network. most: the largest budget, which says how long one run of the truth should be."""
    problem = network(instances, BACKGROUND, (players, *hidden))
    model = xaijax.as_model(forward, problem.params)
    budget = max(8 * most, 64 * players)
    explain = xaijax.Explainer(model, problem.background, estimator="permutation", budget=budget)

    def run(seed: int) -> tuple[np.ndarray, np.ndarray]:
        explain.seed = seed
        explanation = explain(problem.X, progress=False)
        assert explanation.std_errors is not None
        return explanation.values, explanation.std_errors

    def truth(smallest: Callable[[np.ndarray], float]) -> tuple[np.ndarray, float]:
        inputs = (problem.X, problem.background, problem.params, budget)
        longest = long_run(inputs, run, smallest, keep=keep)
        return longest.values, longest.variance

    game_of = games.of_network(problem.params, problem.background)
    return Subject("MLP", problem.X, problem.background, model, game_of, truth)


def _fitted(players: int, trees: int, depth: int) -> RandomForestRegressor:
    """A forest of a rule with interactions of two and three inputs, in a third of them."""
    X, _ = continuous(2_000, 1, players, seed=5)
    used = X[:, : max(4, players // 3)]
    left, middle, right = used, np.roll(used, 1, axis=1), np.roll(used, 2, axis=1)
    y = (left + left * middle + (middle > 0) * left * right).mean(axis=1)
    forest = RandomForestRegressor(n_estimators=trees, max_depth=depth, random_state=0)
    return forest.fit(X, y)


def of_forest(instances: int, players: int, trees: int) -> Subject:
    """A forest on the host."""
    forest = _fitted(players, trees, 7)
    X, background = continuous(instances, BACKGROUND, players)
    model = xaijax.as_model(forest, backend="host")
    values = shap_sampled.trees(forest, background, X)
    game_of = games.of_host(forest.predict, background)
    return Subject("forest", X, background, model, game_of, lambda smallest: (values, 0.0))


def closed_form() -> Agreement:
    """shap's values of a small forest against the definition."""
    forest = _fitted(6, 10, 5)
    X, background = continuous(2, 4, 6)
    closed = shap_sampled.trees(forest, background, X)
    expected = np.stack([shapley(forest.predict, x, background) for x in X])
    difference = float(np.abs(closed - expected).max())
    reason = "leaves kept in float32, outputs of about 1"
    return Agreement("closed form of a forest and the definition", difference, 1e-5, reason)


@dataclass(frozen=True)
class Found:
    """What one cell's contenders came to."""

    chose: str
    values: Mapping[str, np.ndarray]  # [S, n, P]; of FEW [1, few, P]
    asked: Mapping[str, int]  # distinct coalitions, the most over the seeds


@dataclass(frozen=True)
class Grid:
    """All subjects at all budgets."""

    subjects: tuple[Subject, ...]
    budgets: Callable[[int], tuple[int, ...]]  # of P
    rounds: Callable[[int], int]  # of the budget: seeds of each instance
    block: int  # instances of a seed
    few: int  # instances of FEW, which are slow
    proofs: tuple[Agreement, ...]  # that the closed form is what it should be

    def measure(self) -> Outcome:
        """Run every cell; the truth of a subject is made when its errors are known."""
        lines: list[tuple[str, ...]] = [HEADINGS]
        ratios, agreements, details = [], [*self.proofs], {}
        missing: set[str] = set()
        for subject in self.subjects:
            P = subject.X.shape[1]
            cells = {budget: self._cell(subject, budget, missing) for budget in self.budgets(P)}

            def smallest(truth: np.ndarray, cells: dict[int, Found] = cells) -> float:
                return min(
                    float(self._errors(values, truth).mean())
                    for cell in cells.values()
                    for name, values in cell.values.items()
                    if name not in FEW
                )

            truth, variance = subject.truth(smallest)
            share = variance / smallest(truth)
            what = f"{subject.name}, P = {P}: variance of the truth / smallest MSE"
            reason = "a truth that adds hardly anything to the errors"
            agreements.append(Agreement(what, share, SHARE, reason))
            for budget, cell in cells.items():
                line, worse, detail = self._line(subject, budget, cell, truth)
                lines.append(line)
                ratios.append(worse)
                details[f"{subject.name} P={P} budget={budget}"] = detail
                agreements += _alike(cell, P)
        worst = max(agreements, key=lambda a: a.difference / a.tolerance)
        N, B = len(self.subjects[0].X), len(self.subjects[0].background)
        within = sum(ratio <= GOAL for ratio in ratios)
        rounds = {
            self.rounds(budget)
            for subject in self.subjects
            for budget in self.budgets(subject.X.shape[1])
        }
        return Outcome(
            (
                Figure("auto / best peer, the worst cell", max(ratios), GOAL),
                Figure("auto / best peer, geometric mean of the cells", geometric(ratios), 0.9),
                Figure(f"cells within {GOAL}, of {len(ratios)}", within),
            ),
            agreements=(worst,),
            notes=(
                f"{N} instances, each with {min(rounds)} seeds, {max(rounds)} where the budget is "
                f"small, {self.block} instances a seed; {B} background rows",
                "after auto: its standard error over the seeds",
                f"the process and the proxies on the first {self.few} instances and one seed",
                f"the worst of {len(agreements)} comparisons is shown",
                *sorted(missing),
            ),
            details=details,
            table=lines,
        )

    def _cell(self, subject: Subject, budget: int, missing: set[str]) -> Found:
        P, chose = subject.X.shape[1], ""
        values: dict[str, list[np.ndarray]] = {name: [] for name in (AUTO, *PEERS)}
        asked = dict.fromkeys(values, 0)
        explain = xaijax.Explainer(subject.model, subject.background, budget=budget)
        kernel = xaijax.Explainer(
            subject.model, subject.background, budget=budget, estimator=KERNEL
        )
        for seed in range(self.rounds(budget) * len(subject.X) // self.block):
            X = subject.X[self._block(seed, len(subject.X))]
            explain.seed = seed  # compiled once for all seeds
            explanation = explain(X, progress=False)
            values[AUTO].append(explanation.values)
            chose = explanation.stats["estimator"]
            asked[AUTO] = max(asked[AUTO], int(explanation.stats["coalitions"].max()))
            if chose != KERNEL:
                kernel.seed = seed
                values.setdefault(KERNEL, []).append(kernel(X, progress=False).values)
            for name, peer in PEERS.items():
                counted = games.Counted(subject.game_of(X), P)
                values[name].append(peer(counted, P, budget, seed))
                asked[name] = max(asked[name], counted.asked)
        arrays = {name: np.stack(several) for name, several in values.items()}
        for name, proxy in PROXIES.items():
            try:
                counted = games.Counted(subject.game_of(subject.X[: self.few]), P)
                arrays[name] = proxy(counted, P, budget, 0)[None]
                asked[name] = counted.asked
            except NotRun as reason:
                missing.add(f"{name} not run: {reason}")
        process = xaijax.Explainer(
            subject.model, subject.background, budget=budget, estimator=PROCESS, seed=0
        )
        if budget >= GaussianProcess().smallest_budget(P, "shapley"):
            few = process(subject.X[: self.few], progress=False)
            arrays[PROCESS] = few.values[None]
            asked[PROCESS] = int(few.stats["coalitions"].max())
        else:
            missing.add(f"{PROCESS} asks more than 2 P coalitions")
        return Found(chose, arrays, asked)

    def _block(self, seed: int, N: int) -> slice:
        first = seed * self.block % N
        return slice(first, first + self.block)

    def _errors(self, values: np.ndarray, truth: np.ndarray) -> np.ndarray:
        """Squared errors [S, n] of values [S, n, P]."""
        parts = (truth[self._block(seed, len(truth))] for seed in range(len(values)))
        return np.stack([squared(v, t[: len(v)]) for v, t in zip(values, parts, strict=True)])

    def _line(
        self, subject: Subject, budget: int, cell: Found, truth: np.ndarray
    ) -> tuple[tuple[str, ...], float, dict[str, Any]]:
        """The table's line, auto over the best peer, and what the JSON file keeps."""
        errors = {name: self._errors(values, truth) for name, values in cell.values.items()}
        means = {name: geometric(cell_errors) for name, cell_errors in errors.items()}
        best = min(PEERS, key=lambda name: means[name])
        relative = {name: means[name] / means[best] for name in means if name not in FEW}
        for name in FEW:
            if name in errors:
                # Against the best peer on the very instances and seeds that the proxy ran on.
                alike = errors[best][: len(errors[name]), : self.few]
                relative[name] = means[name] / geometric(alike)
        shown = {name: f"{value:.3g}" for name, value in relative.items()}
        each = np.log(errors[AUTO] / errors[best]).mean(axis=1)
        sure = float(relative[AUTO] * each.std(ddof=1) / np.sqrt(len(each)))
        if relative[AUTO] > GOAL:
            shown[AUTO] = f"**{shown[AUTO]}**"
        shown[AUTO] += f" ± {sure:.2g}"
        line = (
            subject.name,
            str(subject.X.shape[1]),
            f"{budget:,}",
            cell.chose,
            *(shown.get(name, "chosen") for name in (AUTO, KERNEL, *PEERS)),
            f"{means[best]:.2g}",
            *(shown.get(name, "not run") for name in FEW),
        )
        arithmetic = {name: float(cell_errors.mean()) for name, cell_errors in errors.items()}
        detail = {
            "relative": relative,
            "standard error": sure,
            "mean": arithmetic,
            "asked": dict(cell.asked),
        }
        return line, relative[AUTO], detail


def _alike(cell: Found, P: int) -> list[Agreement]:
    """Nobody asked more than the least of them but for what whole pairs of orders leave over.

    A pair asks 2 (P - 1) coalitions, and the one that does not fit is not begun. Four of them, the
    two single players and their complements, may have been met in an earlier pair; below ENOUGH
    pairs ours counts them as new all the same, so that at most 4 (ENOUGH - 2) more are left over.
    """
    fewest = min(cell.asked.values())
    tolerance = 2.0 * (P - 1) + 4 * (permutation.ENOUGH - 2)
    reason = "permutations do not begin a pair that does not fit, and meet single players again"
    return [
        Agreement(f"coalitions of {name}", float(asked - fewest), tolerance, reason)
        for name, asked in cell.asked.items()
    ]


def setup(size: Size) -> Grid:
    """Measures the choice of "auto" among sampled estimators: MSE over that of the best of four
    peers at equal numbers of distinct coalitions, geometric mean over 100 instances and 5 seeds, in
    16 cells.

    Two models, 30 and 100 players, four budgets: 16 cells.
    """
    proof = (closed_form(),)
    if size == "smoke":
        small = (of_network(4, 14, (8, 1), 200, keep=False), of_forest(4, 14, 5))
        return Grid(small, lambda P: (2 * P, 200), lambda budget: 2, 2, few=1, proofs=proof)
    large = tuple(
        subject
        for P in (30, 100)
        for subject in (
            of_network(100, P, (64, 64, 1), 8_192, keep=True),
            of_forest(100, P, 30),
        )
    )
    return Grid(
        large,
        lambda P: (2 * P, 512, 2_048, 8_192),
        lambda budget: 10 if budget < 1_000 else 5,
        block=25,
        few=5,
        proofs=proof,
    )


CASES = (Case("estimators", setup, long=True, page="docs/performance.md"),)
