"""Wider rules: accepted rules lose predicates and take in neighbouring bins while they still hold.

A step drops a predicate, or widens its range of bins to the left or to the right, up to the next
bin that adds a data row. For each rule, the step that gives the largest coverage is tried first. If
the wider rule holds, it replaces the rule; if not, the next step is tried. A rule is done when no
step holds. Every round is one question to the game, about one step of each instance.

In a search by draws, a step is tested on draws that no earlier decision used. The search is given
delta / 2. The other half is split over all checks of all steps of an instance
(`bandits.widening_rate`): steps make a rule whose precision is below threshold - stop_epsilon
with probability at most delta / 2, in addition to the search's own error.

Letters: N instances, n some of them, F columns, B data rows, D listed draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.games.rules.game import MOST_FLAGS, RuleGame
from xaijax.games.rules.space import Perturbation
from xaijax.methods.anchors.settings import SearchSettings
from xaijax_kernels.rules.bandits import Arms, Validation, lower, widening_rate

if TYPE_CHECKING:
    from xaijax.methods.anchors.search import SearchResult

DROP, LEFT, RIGHT = range(3)
FRESH = 1 << 30  # the first draw: a search counts its draws from 0 and never gets this far


def refuse_widening(space: Perturbation | None, confirm: float | None) -> None:
    """Raises InputError if rules cannot be widened."""
    if space is None:
        raise InputError(
            "widen=True needs a built-in space; a sampler and players= have no bins. Leave it out."
        )
    if confirm is not None:
        raise InputError(
            f"widen=True and confirm={confirm!r}: wider rules are not confirmed. Leave out one of "
            "them."
        )


class Steps:
    """The current rules, and the steps that are left to try."""

    def __init__(self, game: RuleGame, result: SearchResult) -> None:
        self._game, self._found = game, result
        self.low, self.high = game.low.copy(), game.high.copy()  # of the rules; int32 [N, F]
        self._ranges = game.space.ranges()
        self._last = np.array([column.count - 2 for column in game.read_bins.columns], int)
        missing = game.asker.bins > self._last
        self._all_known = ~missing.any(axis=0)  # columns without missing values in the data
        # Coverage of each step, -1 if there is none; and the range's new end.
        self.worth = np.full((game.N, 3, game.F), -1.0)
        self._ends = np.zeros((game.N, 3, game.F), np.int32)
        self._look(np.flatnonzero(result.accepted))

    def open(self) -> np.ndarray:
        """Instances with a step to try; int [n]."""
        return np.flatnonzero(self.worth.max(axis=(1, 2)) >= 0)

    def best(self, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(kind, column) of the step of largest coverage, the first of equal ones; int [n] each."""
        F = self.worth.shape[2]
        return np.divmod(self.worth[n].reshape(len(n), -1).argmax(axis=1), F)

    def made(
        self, n: np.ndarray, kind: np.ndarray, f: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rules bool [n, F], low int32 [N, F], high [N, F]) once these steps are made."""
        rules, low, high = self._found.rules[n], self.low.copy(), self.high.copy()
        rules[kind == DROP, f[kind == DROP]] = False
        for bound, side in ((low, LEFT), (high, RIGHT)):
            moved = kind == side
            bound[n[moved], f[moved]] = self._ends[n[moved], side, f[moved]]
        return rules, low, high

    def take(self, n: np.ndarray, kind: np.ndarray, f: np.ndarray) -> None:
        """Makes these steps, whose ranges the game has."""
        self._found.cover[n] = self.worth[n, kind, f]
        self._found.rules[n], low, high = self.made(n, kind, f)
        self.low[n], self.high[n] = low[n], high[n]
        self._look(n)
        # Without f, the rule is the same as before f was widened; that was tried first.
        wider = kind != DROP
        self.worth[n[wider], DROP, f[wider]] = -1

    def _look(self, n: np.ndarray) -> None:
        """Finds the steps of the instances n, whose ranges the game has."""
        step = max(1, MOST_FLAGS // self._game.space.B)
        for at in range(0, len(n), step):
            self._look_at(n[at : at + step])

    def _look_at(self, n: np.ndarray) -> None:
        game, rules, cover = self._game, self._found.rules, self._game.cover
        self.worth[n] = -1
        heavy = game.space.weights > 0
        for f in range(game.F):
            instances = n[rules[n, f]]
            without = rules[instances]
            without[:, f] = False
            others = cover.flags(cover.satisfied(instances, without[:, None])[:, 0])  # [n, B]
            self.worth[instances, DROP, f] = cover.share(others)
            last, bins = self._last[f], game.asker.bins[:, f]
            ranged = self._ranges[f] & (self.low[instances, f] <= last)  # x's value is not missing
            instances, others = instances[ranged], others[ranged]
            low, high = self.low[instances, f, None], self.high[instances, f, None]
            below = np.where(others & heavy & (bins < low), bins, -1).max(axis=1, initial=-1)
            above = np.where(others & heavy & (bins > high), bins, last + 1)
            above = above.min(axis=1, initial=last + 1)
            sides = (LEFT, below, below, high[:, 0]), (RIGHT, above, low[:, 0], above)
            for side, end, first, final in sides:
                inside = (first[:, None] <= bins) & (bins <= final[:, None])
                worth = cover.share(others & inside)
                # A range that holds all rows is no condition, unless values are missing.
                whole = (inside | ~heavy).all(axis=1) & self._all_known[f]
                there = (end >= 0) & (end <= last) & ~whole
                self.worth[instances, side, f] = np.where(there, worth, -1)
                self._ends[instances, side, f] = end
        now = self._found.cover[n, None, None]
        self.worth[n] = np.where(self.worth[n] > now, self.worth[n], -1)


@dataclass
class Verdict:
    """The verdicts on the rules of a round; arrays [n]."""

    decided: np.ndarray  # bool
    holds: np.ndarray  # bool
    precision: np.ndarray  # float64
    lower: np.ndarray  # float64; NaN: exact
    error: np.ndarray  # float64; NaN: exact
    samples: int  # draws of each


class Known:
    """Known precisions: a rule holds if its precision reaches the threshold."""

    def __init__(self, game: RuleGame, settings: SearchSettings) -> None:
        self._game, self._settings = game, settings
        self._every = np.ones((len(game.space.listed(settings.search)[1]), 1), bool)

    def judge(self, n: np.ndarray, rules: np.ndarray) -> Verdict:
        """The verdicts on rules bool [n, F] of the instances n."""
        kind, D = self._settings.search, len(self._every)
        p = self._game.precisions(n, rules, kind, self._every)[0][:, 0]
        floor, error = np.full((2, len(n)), np.nan)
        if kind == "table":
            floor = lower(p, np.log(1 / self._settings.delta) / D)
            error = np.sqrt(p * (1 - p) / D)
        holds = p >= self._settings.reaching
        return Verdict(np.ones(len(n), bool), holds, p, floor, error, D)


class DrawnPrecisions:
    """Precisions by draws, one batch per round, until the validation rule has decided."""

    def __init__(self, game: RuleGame, settings: SearchSettings) -> None:
        self._game, self._delta = game, settings.delta / 2
        self._rule = Validation(settings.threshold, settings.stop_epsilon, settings.batch_size)
        # The number of the instance's step; its draws so far; all draws of the instance.
        self._steps = np.ones(game.N, np.int64)
        self._hits, self._draws, self._spent = np.zeros((3, game.N), np.int64)

    def judge(self, n: np.ndarray, rules: np.ndarray) -> Verdict:
        """The verdicts on rules bool [n, F] of the instances n."""
        batch = self._rule.batch
        wanted = np.full(len(n), batch)
        self._hits[n] += self._game.hits(n, rules, FRESH + self._spent[n], wanted)
        self._draws[n] += batch
        self._spent[n] += batch
        hits, draws = self._hits[n], self._draws[n]
        rate = widening_rate(self._steps[n], draws // batch, self._delta)
        arms = Arms(np.ones((len(n), 1), bool), hits[:, None], draws[:, None])
        more, holds, floor = (part[:, 0] for part in self._rule.step(arms, rate))
        decided = more == 0
        over = n[decided]
        self._steps[over] += 1
        self._hits[over] = self._draws[over] = 0
        p = hits / draws
        return Verdict(decided, holds, p, floor, np.sqrt(p * (1 - p) / draws), batch)


def widen(
    game: RuleGame,
    result: SearchResult,
    settings: SearchSettings,
    report: Callable[[int], Any] = lambda done: None,
) -> None:
    """Widens the accepted rules of `result`; the game then has their ranges.

    report(k): k more instances are done.
    """
    steps, before = Steps(game, result), result.cover.copy()
    judge = (Known if settings.finite else DrawnPrecisions)(game, settings).judge
    left = game.N
    while len(n := steps.open()):
        report(left - len(n))
        left = len(n)
        kind, f = steps.best(n)
        rules, low, high = steps.made(n, kind, f)
        game.keep_ranges(low, high)
        verdict = judge(n, rules)
        result.rounds += 1
        result.samples[n] += verdict.samples
        won, lost = verdict.decided & verdict.holds, verdict.decided & ~verdict.holds
        steps.worth[n[lost], kind[lost], f[lost]] = -1
        for name in ("precision", "lower", "error"):
            getattr(result, name)[n[won]] = getattr(verdict, name)[won]
        steps.take(n[won], kind[won], f[won])
    report(left)
    game.keep_ranges(steps.low, steps.high)
    result.widened = int((result.cover > before).sum())
