"""T31: model rows until the three largest values are certain, over a fixed budget as good.

Letters: N instances, P players, B background rows, D pairs of a pool, R runs.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import xaijax
from bench.cases.exact import network
from bench.frame import Agreement, Case, Figure, Outcome, Several, Size
from bench.models import forward
from xaijax.estimators import stopping as rule_module
from xaijax.estimators.estimator import Result
from xaijax.estimators.race import RaceLimits, few_undecided, run_race
from xaijax.estimators.stopping import Checkpoint, Top

K, CONFIDENCE = 3, 0.95
SHARE = 0.9  # of the instances, for which a fixed number of pairs should be enough
FALSE = "claims at 95 % may be false in 5 % of runs"


def stops(most: int) -> list[int]:
    """The checks of a run, as the driver has them."""
    doubled = [8 << i for i in range(20)]
    return [d for d in sorted([*doubled, *(12 << i for i in range(20))]) if d < most] + [most]


@partial(jax.jit, static_argnums=0)
def estimates(f: Callable[..., jax.Array], x: jax.Array, background: jax.Array, orders: jax.Array):
    """What each order and its reverse say of the values, by the definition; [D, P]."""
    P = len(x)

    def v(present: jax.Array) -> jax.Array:  # [P + 1, P] -> [P + 1]
        rows = jnp.where(present[:, None], x, background)
        return f(rows.reshape(-1, P)).reshape(len(present), -1).mean(axis=1)

    def of_order(order: jax.Array) -> jax.Array:
        rank = jnp.argsort(order)
        present = rank[None] < jnp.arange(P + 1)[:, None]
        forth = v(present)
        back = v(~present)  # the prefixes of the reverse
        return ((forth[1:] - forth[:-1]) + (back[:-1] - back[1:]))[rank] / 2

    return jax.lax.map(of_order, orders, batch_size=8)


def _look(drawn: np.ndarray) -> Checkpoint:
    """What the rule sees of pairs [R, D, P]."""
    R, D, _ = drawn.shape
    drawn = drawn[..., None]
    errors = drawn.std(axis=1, ddof=1) / np.sqrt(D)
    result = Result(drawn.mean(axis=1), errors, np.full((R, 1), D - 1.0))
    none = np.zeros(R)
    return Checkpoint(1, 1, D, result, none, none, none, lambda rows, pairs: drawn[rows, pairs])


def _same(values: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Whether the three largest and their signs are the truth's; values [R, P], truth [P]."""
    wanted = np.argsort(-np.abs(truth))[:K]
    chosen = np.sort(np.argsort(-np.abs(values), axis=1)[:, :K], axis=1)
    signs = np.sign(values[:, wanted]) == np.sign(truth[wanted])
    return (chosen == np.sort(wanted)).all(axis=1) & signs.all(axis=1)


@dataclass(frozen=True)
class Certain:
    """A model and its instances, run by the library; and runs that draw from a pool of some
    instances' pairs, whose mean is then the truth.
    """

    f: Callable[..., jax.Array]  # rows [R, P] -> [R]
    X: np.ndarray  # [N, P]
    background: np.ndarray  # [B, P]
    most: int  # pairs of the library's run
    pooled: int  # instances whose claims are judged
    pool: int  # D
    drawn: int  # pairs of a run that draws from them, at most
    runs: int  # R of each instance

    def measure(self) -> Outcome:
        """The library's run, then claims judged."""
        P = self.X.shape[1]
        explanation = self._library(P)
        pairs, sure = explanation.stats["pairs"], explanation.stats["certain"]
        # In pairs of all players: where only the contenders are asked a pair costs less.
        spent = explanation.stats["coalitions"] / (2 * (P - 1))
        # As many pairs for all as SHARE of the instances need, or all that came so far.
        share = min(SHARE, float(sure.mean()))
        waited = np.sort(np.where(sure, pairs, np.inf))
        fixed = waited[max(0, math.ceil(share * len(waited)) - 1)]
        fixed = fixed if np.isfinite(fixed) else float(self.most)
        mean = float(spent.mean())
        # One look at a number that is fixed needs less: by the square of the quantiles' quotient.
        alpha = (1 - CONFIDENCE) / rule_module.shared_by(K, P, 1)
        looked = rule_module.time_uniform_quantile(int(fixed), alpha, two_sided=False)
        once = fixed * (float(stats.t.isf(alpha, fixed - 1)) / looked) ** 2
        false, means, errors = self._judged()
        return Outcome(
            (
                Figure("fixed / mean model rows", once / mean, 5, 10, better="more"),
                Figure("of instances, certain", share),
                Figure("false claims", false, 0.05),
            ),
            agreements=(
                Agreement("false claims", false, 0.05, FALSE),
                self._agreement(explanation, means, errors),
            ),
            notes=(f"a mean of {mean:,.0f} pairs of orders, {once:,.0f} if all have one number",),
            details={"pairs": pairs.tolist(), "spent": spent.tolist(), "certain": sure.tolist()},
        )

    def _judged(self) -> tuple[float, np.ndarray, np.ndarray]:
        """(the share of runs with false claims, the pools' means and their errors)."""
        rule, rng = Top(K, CONFIDENCE), np.random.default_rng(0)
        orders = np.argsort(rng.random((self.pool, self.X.shape[1])), axis=1)
        false, means, errors = [], [], []
        for x in self.X[: self.pooled]:
            by_pair = estimates(
                self.f, jnp.asarray(x), jnp.asarray(self.background), jnp.asarray(orders)
            )
            pool = np.asarray(by_pair, np.float64)
            means.append(pool.mean(axis=0))
            errors.append(pool.std(axis=0, ddof=1) / np.sqrt(self.pool))
            drawn = pool[rng.integers(0, self.pool, size=(self.runs, self.drawn))]
            false.append(self._wrong(rule, drawn, means[-1]))
        return float(np.mean(false)), np.stack(means), np.stack(errors)

    def _wrong(self, rule: Top, drawn: np.ndarray, truth: np.ndarray) -> float:
        """The share of runs [R, D, P] with a claim that is false."""
        wrong, left, checks = 0, np.arange(len(drawn)), stops(self.drawn)
        for D in checks:
            check = _look(drawn[left, :D])
            undecided = rule.undecided(check)
            met = ~undecided.any(axis=1)
            wrong += int((met & ~_same(check.result.values[..., 0], truth)).sum())
            alone = np.flatnonzero(few_undecided(undecided, D))
            limits = RaceLimits([stop for stop in checks if stop > D], sys.maxsize, 0)
            if len(alone) and limits.stops:
                query = partial(_asked, drawn[left])
                ended = run_race(rule, check, alone, undecided[alone], query, limits)
                if ended is not None:  # else all of them go on with whole pairs
                    wrong += int((ended.met & ~_same(ended.values[..., 0], truth)).sum())
                    met[ended.rows] = True  # over
            left = left[~met]
            if not len(left):
                break
        return wrong / len(drawn)

    def _library(self, P: int) -> xaijax.Explanation:
        model = xaijax.as_model(self.f)
        budget = self.most * 2 * (P - 1)
        explain = xaijax.Explainer(model, self.background, estimator="permutation", budget=budget)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", xaijax.XaiWarning)
            return explain(self.X, top=K, confidence=CONFIDENCE, progress=False)

    def _agreement(
        self, explanation: xaijax.Explanation, means: np.ndarray, errors: np.ndarray
    ) -> Agreement:
        """The library's values are those of the pool, to six standard errors of both."""
        explanation, tiny = explanation[: self.pooled], 1e-5 * np.abs(means).max()
        assert explanation.std_errors is not None
        far = np.abs(explanation.values - means) / (np.hypot(explanation.std_errors, errors) + tiny)
        # Of few pairs the standard error itself is uncertain: Student's 6 sigma at 11 degrees.
        limit = float(stats.t.isf(stats.norm.sf(6), 11))
        return Agreement("values / standard errors", float(far.max()), limit, "draws")


def _asked(
    drawn: np.ndarray, rows: np.ndarray, who: np.ndarray, first: int, stop: int
) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    """What pairs [R, D, P] say of a few players; see `race.DrawPairs`."""
    marginal = np.take_along_axis(drawn[rows, first:stop], who[:, None], axis=2)
    yield slice(None), marginal[..., None], np.zeros(len(rows))


def _digits(size: Size, side: int) -> tuple[Callable[..., jax.Array], np.ndarray, np.ndarray]:
    """(the probability of the digit 8, instances, other images) of a network fitted to digits of
    side x side pixels, enlarged from 8 x 8.
    """
    digits, y = map(np.asarray, load_digits(return_X_y=True))
    shape = (len(y), side, side)
    enlarged = jax.image.resize(jnp.asarray(digits.reshape(-1, 8, 8) / 16), shape, "linear")
    images = np.asarray(enlarged, np.float32).reshape(len(y), -1)
    hidden, rounds = ((8,), 5) if size == "smoke" else ((256, 128), 60)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = MLPClassifier(hidden, max_iter=rounds, random_state=0).fit(
            images[:1_400], y[:1_400]
        )
    layers = [
        (np.asarray(W, np.float32), np.asarray(b, np.float32))
        for W, b in zip(fitted.coefs_, fitted.intercepts_, strict=True)
    ]

    def f(rows: jax.Array) -> jax.Array:
        z = rows
        for weight, bias in layers[:-1]:
            z = jax.nn.relu(z @ weight + bias)
        return jax.nn.softmax(z @ layers[-1][0] + layers[-1][1])[:, 8]

    eights = np.asarray(images[1_400:][y[1_400:] == 8])
    return f, eights, images[:10]


def setup(size: Size) -> Several:
    """Measures model rows until the top 3 are certain at 95 %, MLP 64-256-128-1 and digits of 64
    and 784 pixels, over those of one number for all that makes 9 of 10 certain in one look.

    The network of T31, and networks fitted to digits: of 64 pixels, and enlarged to 784.
    """
    if size == "smoke":
        problem, numbers, N = network(2, 3, (16, 8, 1)), (48, 2, 64, 48, 20), 2
        large, many = 9, numbers
    else:
        problem, N = network(24, 10, (64, 256, 128, 1)), 24
        numbers = 4_096, 10, 256, 256, 500
        large, many = 28, (1_024, 4, 128, 128, 250)
    jobs = {
        "MLP": Certain(
            partial(forward, problem.params), problem.X[:N], problem.background, *numbers
        )
    }
    for side, sizes, count in ((8, numbers, N), (large, many, min(N, 12))):
        digit, images, others = _digits(size, side)
        jobs[f"digits, {side**2} pixels"] = Certain(digit, images[:count], others, *sizes)
    return Several(jobs)


CASES = (Case("T31", setup, long=True),)
