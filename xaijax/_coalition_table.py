"""`CoalitionTable`: v(S) of every set of players, and the indices that read it.

Letters: N games, P players.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xaijax import _checks
from xaijax._coalitions import chances, player_place
from xaijax._errors import InputError, InputTypeError
from xaijax._index import SizeLimited, index_weights
from xaijax._public import public_class
from xaijax_kernels import simple_games
from xaijax_kernels.indices import expected_marginals, semivalue

# Worst case of a sum of so many float64 numbers: what a table is given for, where it does not say.
SUMMANDS = 1 << 20
UNIT = 2.0**-53  # of one rounding


@public_class
class CoalitionTable:
    """v(S) for all 2^P sets S of REPLACED players (QII), one game a row.

    Entry S of a row is the set whose players are the bits of S: entry 0 is v(nothing replaced),
    entry 2^P - 1 v(all replaced). The indices give float64 [N, P].

    Arguments:
        values: [N, 2^P] or [2^P], finite.
        player_names: [P]; None: "player 0", ...
        rounding: how far entries may be from their true values because means are rounded, a number
            or [N]. A set whose v(S) is no further than that below a threshold reaches it: of labels
            v is a multiple of 1/N, so that v(S) = threshold is the normal case, and the last bit
            would decide. `QII.game` says its own, from the rows it averaged. None: of a sum of 2^20
            float64 numbers, 2^-33 times the game's largest |v(S)|. 0.0: as the bits are.

    Raises InputError, InputTypeError for other shapes, numbers that are not finite, wrong names.
    """

    def __init__(
        self,
        values: Any,
        player_names: Sequence[str] | None = None,
        rounding: Any = None,
    ) -> None:
        table = np.array(_checks.as_array(values, "values"), np.float64)
        table = table[None] if table.ndim == 1 else table
        P = max(0, table.shape[-1].bit_length() - 1) if table.ndim == 2 else 0
        if table.ndim != 2 or not len(table) or P < 1 or table.shape[1] != 1 << P:
            raise InputError(
                f"values must be [N, 2^P] or [2^P] with N and P at least 1, got {np.shape(values)}."
            )
        _checks.finite(table, "values", False)
        names = [f"player {j}" for j in range(P)] if player_names is None else list(player_names)
        if len(names) != P or len(set(map(str, names))) != P:
            raise InputError(f"player_names must be {P} different names, got {names}.")
        table.flags.writeable = False
        self.values = table
        self.player_names = tuple(map(str, names))
        if rounding is None:
            rounding = SUMMANDS * UNIT * np.abs(table).max(axis=1)
        self.rounding = _rounding(rounding, len(table))  # float64 [N]

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        N, P = len(self.values), len(self.player_names)
        return f"CoalitionTable({N:,} games of {P} players: {', '.join(self.player_names[:6])})"

    def shapley(self) -> np.ndarray:
        """Shapley values; they sum to v(all replaced) - v(nothing replaced)."""
        return self._semivalue("shapley")

    def banzhaf(self) -> np.ndarray:
        """Banzhaf values: the mean marginal influence over all sets."""
        return self._semivalue("banzhaf")

    def size_limited(self, k: int, normalised: bool = True) -> np.ndarray:
        """Marginal influences on at most k REPLACED players, each size alike; see `SizeLimited`."""
        return self._semivalue(SizeLimited(k, normalised))

    def weighted(self, index: Any) -> np.ndarray:
        """sum over S without i of Pr[S] m_i(S), not renormalised.

        index: Pr[S] as an array [2^P], or a callable of masks bool [2^P, P].
        """
        chance = chances(index, len(self.player_names))
        return expected_marginals(self.values[:, :, None], chance)[:, :, 0]

    def deegan_packel(self, threshold: float | None = None, absolute: bool = False) -> np.ndarray:
        """Deegan and Packel's index of the simple game v(S) >= threshold; zeros where nothing wins.

        Each minimal winning set (every strict subset loses) shares 1 equally among its players; the
        mean over these sets. For a game that is not monotone this is the index of its monotone
        closure. It jumps as v crosses the threshold: see `margin`. A set that is below it by no
        more than `rounding` wins.

        threshold: above `rounding`; None for games of zeros and ones only. absolute: |v(S)| >=
        threshold.
        """
        return self._of_simple(simple_games.deegan_packel, threshold, absolute)

    def responsibility(self, threshold: float | None = None, absolute: bool = False) -> np.ndarray:
        """1 / (1 + smallest |T|), T without i that loses while T + i wins, else 0.

        The degree of responsibility of Chockler and Halpern, the QII paper's appendix A-B. What
        reaches the threshold is as for `deegan_packel`.
        """
        return self._of_simple(simple_games.responsibility, threshold, absolute)

    def margin(self, threshold: float | None = None, absolute: bool = False) -> np.ndarray:
        """min over S of |v(S) - threshold|, float64 [N]: what v may move by without any effect.

        The distance as it is, also where it is within `rounding`: 0, or some 1e-16, tells a tie.
        Games of zeros and ones without a threshold have 0.5, but for rounding.
        """
        value, bound = self._compared(threshold, absolute)
        return np.abs(value - bound).min(axis=1)

    def merge(self, i: int | str, j: int | str) -> CoalitionTable:
        """The table in which two players are one, at the lower place of the two, named "i+j"."""
        a, b = (player_place(one, self.player_names, name) for one, name in ((i, "i"), (j, "j")))
        if a == b:
            raise InputError(f"i and j are the same player, {self.player_names[a]!r}.")
        a, b = min(a, b), max(a, b)
        P = len(self.player_names)
        small = np.arange(1 << (P - 1))
        # Bits from b on move up by one; bit b then follows bit a.
        mask = (small & ((1 << b) - 1)) | (small >> b << (b + 1))
        mask |= (small >> a & 1) << b
        names = list(self.player_names)
        names[a] = f"{names[a]}+{names[b]}"
        return CoalitionTable(self.values[:, mask], names[:b] + names[b + 1 :], self.rounding)

    def _semivalue(self, index: Any) -> np.ndarray:
        weights, _ = index_weights(index, len(self.player_names))
        return semivalue(self.values[:, :, None], weights)[:, :, 0]

    def _of_simple(
        self, function: Callable[[np.ndarray], np.ndarray], threshold: Any, absolute: bool
    ) -> np.ndarray:
        value, bound = self._compared(threshold, absolute)
        win = value >= bound - self._slack(bound)[:, None]
        if win[:, 0].any():
            raise InputError(
                f"values: game {int(win[:, 0].argmax())} wins with the empty set (v = "
                f"{self.values[int(win[:, 0].argmax()), 0]:g}), so no player matters. The table of "
                "an influence has v(empty) = 0."
            )
        return np.stack([function(one) for one in win])

    def _compared(self, threshold: Any, absolute: Any) -> tuple[np.ndarray, float]:
        """(v or |v|, the bound from which on a set wins)."""
        if not isinstance(absolute, bool):
            raise InputTypeError(f"absolute must be True or False, got {absolute!r}.")
        value = np.abs(self.values) if absolute else self.values
        if threshold is None:
            other = np.minimum(np.abs(value), np.abs(value - 1)) > self._slack(1.0)[:, None]
            if other.any():
                raise InputError(
                    "threshold=None is for games of zeros and ones, but a value is "
                    f"{value[other][0]:.6g}. Say threshold= (above 0): a set wins where v(S) >= "
                    "threshold."
                )
            return value, 0.5
        bound = checked_threshold(threshold)
        if (self._slack(bound) >= bound).any():
            raise InputError(
                f"threshold={bound:g} is within what rounding leaves of the values, "
                f"{self.rounding.max():.2g}: the empty set would reach it. Give a larger one, or a "
                "CoalitionTable with rounding=0.0."
            )
        return value, bound

    def _slack(self, bound: float) -> np.ndarray:
        """What counts as the bound, below it: rounding of the values and of the bound, [N]."""
        return np.where(self.rounding > 0, self.rounding + 2 * UNIT * bound, 0.0)


def _rounding(given: Any, N: int) -> np.ndarray:
    """float64 [N], finite and at least 0."""
    if isinstance(given, bool) or not isinstance(
        given, int | float | np.integer | np.floating | np.ndarray
    ):
        raise InputTypeError(f"rounding must be None, a number or [{N}], got {given!r}.")
    array = _checks.real_numbers(given, "rounding")
    if array.shape not in ((), (N,)) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(
            f"rounding must be a finite number of at least 0, or one for each of {N:,} games, got "
            f"{given!r}."
        )
    out = np.broadcast_to(array, N).copy()
    out.flags.writeable = False
    return out


def checked_threshold(threshold: Any) -> float:
    """A finite number above 0."""
    if isinstance(threshold, bool) or not isinstance(
        threshold, int | float | np.integer | np.floating
    ):
        raise InputTypeError(f"threshold must be a number above 0, got {threshold!r}.")
    if not 0 < float(threshold) < np.inf:
        raise InputError(f"threshold must be a number above 0, got {threshold!r}.")
    return float(threshold)
