"""`CoalitionTable`: v(S) of every set of players, and the indices that read it.

Letters: N games, P players.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public_class
from xaijax.core.typing import ArrayLike
from xaijax.players.index import SizeLimited, index_weights
from xaijax.players.interaction_index import checked_order, derivative_weights, interaction_index
from xaijax.players.sets import chances, player_place
from xaijax.results.interactions import Interactions
from xaijax.results.set_keys import all_of
from xaijax_kernels.games import simple_games
from xaijax_kernels.games.semivalues import expected_marginals, of_tables, semivalue

# Worst case of a sum of this number of float64 numbers: the rounding of a table, by default.
SUMMANDS = 1 << 20
UNIT = 2.0**-53  # of one rounding


@public_class
class CoalitionTable:
    """Holds a game as a table: the value v(S) of all 2^P sets S of players, with indices of it.

    `QII.game` returns one, with v(S) the influence of replacing the players of S together. There
    the players in S are the REPLACED ones, so v(nothing replaced) is 0. A table made by hand may
    hold any game. `len(table)` is N, the number of games.

    Args:
        values: float [N, 2^P], or [2^P] for one game; finite. Entry S of a row is the set whose
            players are the bits of the whole number S: entry 0 is v of the empty set, entry 1 that
            of player 0, entry 3 that of players 0 and 1, entry 2^P - 1 that of all players.
        player_names: list of str [P], all different. None: "player 0", "player 1", ...
        rounding: bound on the rounding error of a value: a number of at least 0, or [N]. A set
            reaches a threshold if its value is below it by no more than this. Values made of labels
            are multiples of 1/N, so v(S) = threshold is common, and without `rounding` the last bit
            would decide. `QII.game` gives the rounding of the rows that it averaged. None: that of
            a sum of 2^20 float64 numbers, 2^-33 times the game's largest |v(S)|. 0.0: values are
            compared as they are.

    Attributes:
        values: float64 [N, 2^P], read-only.
        player_names: tuple of str [P].
        rounding: float64 [N], read-only.

    Raises:
        InputError: values have another shape or are not finite; there are not P different names; or
            rounding is below 0 or has another shape.
        InputTypeError: values, or a rounding, are not real numbers.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> table = xj.CoalitionTable([0, 0, 0, 1, 0, 1, 0, 1], ["a", "b", "c"])  # a with b or c
        >>> table.shapley().round(3)
        array([[0.667, 0.167, 0.167]])
        >>> table.banzhaf()
        array([[0.75, 0.25, 0.25]])
        >>> table.deegan_packel()
        array([[0.5 , 0.25, 0.25]])
        >>> table.responsibility()
        array([[0.5, 0.5, 0.5]])
        >>> table.interactions().matrix[0].round(3)
        array([[ 0.667,  0.5  ,  0.5  ],
               [ 0.5  ,  0.167, -0.5  ],
               [ 0.5  , -0.5  ,  0.167]])

    References:
        Datta, Sen and Zick, "Algorithmic transparency via quantitative input influence" (2016),
        appendix A-B. Deegan and Packel, "A new index of power for simple n-person games" (1978).
        Chockler and Halpern, "Responsibility and blame: a structural-model approach" (JAIR 2004).
    """

    def __init__(
        self,
        values: ArrayLike,
        player_names: Sequence[str] | None = None,
        rounding: float | np.ndarray | None = None,
    ) -> None:
        table = np.array(checks.as_array(values, "values"), np.float64)
        table = table[None] if table.ndim == 1 else table
        P = max(0, table.shape[-1].bit_length() - 1) if table.ndim == 2 else 0
        if table.ndim != 2 or not len(table) or P < 1 or table.shape[1] != 1 << P:
            raise InputError(
                f"values must be [N, 2^P] or [2^P] with N and P at least 1, got {np.shape(values)}."
            )
        checks.finite(table, "values", False)
        names = [f"player {j}" for j in range(P)]
        if player_names is not None:
            names = checks.listed(player_names, "player_names")
        if len(names) != P or len(set(map(str, names))) != P:
            raise InputError(f"player_names must be {P} different names, got {names}.")
        table.flags.writeable = False
        self.values = table
        self.player_names = tuple(map(str, names))
        if rounding is None:
            rounding = SUMMANDS * UNIT * np.abs(table).max(axis=1)
        self.rounding = _rounding(rounding, len(table))  # float64 [N]
        self.origin = TableOrigin()  # `QII.game` records what it made a table of

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        N, P = len(self.values), len(self.player_names)
        return f"CoalitionTable({N:,} games of {P} players: {', '.join(self.player_names[:6])})"

    def shapley(self) -> np.ndarray:
        """Computes Shapley values, float64 [N, P]; their sum is v(all players) - v(empty set)."""
        return self._semivalue("shapley")

    def banzhaf(self) -> np.ndarray:
        """Computes Banzhaf values, float64 [N, P]: mean v(S + i) - v(S) over all sets S without
        i.
        """
        return self._semivalue("banzhaf")

    def size_limited(self, k: int, normalised: bool = True) -> np.ndarray:
        """Computes the index of `xaijax.SizeLimited`: contributions to sets of at most k players.

        Args:
            k: int, 0 to P - 1. The largest number of other players in the set.
            normalised: True: every size 0..k has the same share, and the shares sum to 1. False:
                the values are k + 1 times as large.

        Returns:
            float64 [N, P].

        Raises:
            InputError, InputTypeError: `k` or `normalised` is not accepted.
        """
        return self._semivalue(SizeLimited(k, normalised))

    def weighted(self, index: ArrayLike | Callable[[np.ndarray], Any]) -> np.ndarray:
        """Computes a player's contributions weighted by each set's probability: sum of Pr[S]
        m_i(S).

        The sum is over the sets S without i, and m_i(S) = v(S + i) - v(S). The probabilities of
        these sets are not renormalised to a sum of 1.

        Args:
            index: Pr[S], as an array [2^P] ordered like `values`, or as a function of all sets,
                bool [2^P, P], that returns it.

        Returns:
            float64 [N, P].

        Raises:
            InputError, InputTypeError: the index is not accepted. Exceptions of the function are
                passed on.
        """
        chance = chances(index, len(self.player_names))
        return expected_marginals(self.values[:, :, None], chance)[:, :, 0]

    def deegan_packel(self, threshold: float | None = None, absolute: bool = False) -> np.ndarray:
        """Computes the Deegan-Packel index of the game in which S wins if v(S) >= threshold.

        A winning set is minimal if all of its strict subsets lose. Each minimal winning set shares
        1 equally among its players, and the index is the mean over these sets; it is 0 for all if
        no set wins. For a game that is not monotone, this is the index of its monotone closure. The
        index jumps when a value crosses the threshold: `margin` is the distance of the values from
        it. A set also wins if its value is below the threshold by no more than `rounding`.

        Args:
            threshold: float above `rounding`. None is for games of zeros and ones only.
            absolute: True: a set wins if |v(S)| >= threshold.

        Returns:
            float64 [N, P].

        Raises:
            InputError: the threshold is not accepted, or the empty set wins in a game.
            InputTypeError: `threshold` is not a number, or `absolute` not True or False.
        """
        return self._of_simple(simple_games.deegan_packel, threshold, absolute)

    def responsibility(self, threshold: float | None = None, absolute: bool = False) -> np.ndarray:
        """Computes each player's degree of responsibility for winning: 1 / (1 + smallest |T|), or
        0.

        T is a set without player i that loses and that wins together with i. The value is 0 if
        there is no such set. Sets win as for `deegan_packel`.

        Args:
            threshold: float above `rounding`. None is for games of zeros and ones only.
            absolute: True: a set wins if |v(S)| >= threshold.

        Returns:
            float64 [N, P].

        Raises:
            InputError, InputTypeError: as for `deegan_packel`.
        """
        return self._of_simple(simple_games.responsibility, threshold, absolute)

    def interactions(self, order: int = 2, index: str = "sii") -> Interactions:
        """Computes how much sets of players add together, beyond what their parts add.

        In a table of `QII.game` the players in a set are REPLACED, and v(S) is the influence of
        replacing them together. There v(S) = w(all kept) - w(all but S kept), where w is the game
        of `Explainer.interactions`, whose players are KEPT. Compared with that game, interactions
        of "sii" and "banzhaf" have the same size, but those of 2, 4, .. players have the opposite
        sign: an interaction of two columns that is positive when kept is negative when replaced.
        The other indices are those of a different game.

        Args:
            order: int, 1 to P. The largest size of a set.
            index: "sii" Shapley interactions, "k-sii" n-Shapley values, "stii" Shapley-Taylor,
                "fsii" faithful Shapley, "banzhaf" Banzhaf interactions, "moebius" dividends; see
                docs/interactions.md.

        Returns:
            `Interactions` of all sets of 1 to `order` players, exact; base_values are v of the
            empty set. For a table of `QII.game` they keep the rows, and the quantity, pool and
            model in provenance and stats, so that `merge` can refuse those of other questions.

        Raises:
            InputError, InputTypeError: the order or index is not accepted.

        Example:
            >>> import xaijax as xj
            >>> table = xj.CoalitionTable([0, 0, 0, 1, 0, 1, 0, 1], ["a", "b", "c"])
            >>> found = table.interactions(index="moebius", order=3)
            >>> dict(zip(found.set_names, found.values[0].tolist()))[("a", "b", "c")]
            -1.0
        """
        P = len(self.player_names)
        number = checked_order(order, P)
        weights = derivative_weights(interaction_index(index), number, P)
        return Interactions(
            of_tables(self.values[:, :, None], weights)[:, :, 0],
            self.values[:, 0],
            all_of(P, number),
            index=index,
            order=number,
            feature_names=self.player_names,
            data=self.origin.data,
            present=self.origin.present,
            instance_index=self.origin.index,
            stats=self.origin.stats,
            provenance=self.origin.facts(index, number, P),
        )

    def margin(self, threshold: float | None = None, absolute: bool = False) -> np.ndarray:
        """Computes the smallest distance of a value from the threshold: min over S |v(S) -
        threshold|.

        If all values move by less than the margin minus `rounding`, `deegan_packel` and
        `responsibility` do not change; a margin within `rounding` guarantees nothing. The distance
        is returned as it is in that case too: 0, or some 1e-16, means a tie. Games of zeros and
        ones without a threshold have 0.5, up to rounding.

        Args:
            threshold: float above `rounding`. None is for games of zeros and ones only.
            absolute: True: use the distance of |v(S)|.

        Returns:
            float64 [N].

        Raises:
            InputError, InputTypeError: the threshold or `absolute` is not accepted.
        """
        value, bound = self._compared(threshold, absolute)
        return np.abs(value - bound).min(axis=1)

    def merge(self, i: int | str, j: int | str) -> CoalitionTable:
        """Returns the table of the game in which two players act as one.

        Args:
            i: position or name of one player.
            j: position or name of the other.

        Returns:
            A `CoalitionTable` of P - 1 players. The united player has the lower of the two
            positions and is called "i+j", by the names of the two.

        Raises:
            InputError: there is no such player, or both are the same.
            InputTypeError: a player is given by neither position nor name.
        """
        a, b = (player_place(p, self.player_names, name) for p, name in ((i, "i"), (j, "j")))
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
        made = CoalitionTable(self.values[:, mask], names[:b] + names[b + 1 :], self.rounding)
        made.origin = self.origin.united()
        return made

    def _semivalue(self, index: Any) -> np.ndarray:
        weights, _ = index_weights(index, len(self.player_names))
        return semivalue(self.values[:, :, None], weights)[:, :, 0]

    def _of_simple(
        self, function: Callable[[np.ndarray], np.ndarray], threshold: Any, absolute: bool
    ) -> np.ndarray:
        value, bound = self._compared(threshold, absolute)
        win = value >= bound - self._slack(bound)[:, None]
        if win[:, 0].any():
            game = int(win[:, 0].argmax())
            raise InputError(
                f"values: game {game} wins with the empty set (v = {self.values[game, 0]:g}), so "
                "no player matters. Say a threshold= above v(empty)."
            )
        return np.stack([function(row) for row in win])

    def _compared(self, threshold: Any, absolute: Any) -> tuple[np.ndarray, float]:
        """(v or |v|, the bound from which a set wins)."""
        checks.yes_or_no(absolute, "absolute")
        value = np.abs(self.values) if absolute else self.values
        if threshold is None:
            other = np.minimum(np.abs(value), np.abs(value - 1)) > self._slack(1.0)[:, None]
            if other.any():
                raise InputError(
                    f"threshold=None is for games of zeros and ones, got {value[other][0]:.6g}. "
                    "Say threshold= (above 0): a set wins if v(S) >= threshold."
                )
            return value, 0.5
        bound = checks.positive(threshold, "threshold")
        if (self._slack(bound) >= bound).any():
            raise InputError(
                f"threshold={bound:g} is within what rounding leaves of the values, "
                f"{self.rounding.max():.2g}. Give a larger one, or a table with rounding=0.0."
            )
        return value, bound

    def _slack(self, bound: float) -> np.ndarray:
        """Distance below the bound that still counts: rounding of the values and of the bound,
        [N].
        """
        return np.where(self.rounding > 0, self.rounding + 2 * UNIT * bound, 0.0)


def _rounding(value: Any, N: int) -> np.ndarray:
    """The rounding as float64 [N], finite and at least 0."""
    if isinstance(value, bool) or not isinstance(
        value, int | float | np.integer | np.floating | np.ndarray
    ):
        raise InputTypeError(f"rounding must be None, a number or [{N}], got {value!r}.")
    array = checks.real_numbers(value, "rounding")
    if array.shape not in ((), (N,)) or not np.isfinite(array).all() or (array < 0).any():
        raise InputError(f"rounding must be finite and at least 0, one or [{N}], got {value!r}.")
    out = np.broadcast_to(array, N).copy()
    out.flags.writeable = False
    return out


@dataclass(frozen=True)
class TableOrigin:
    """The origin of the N games of a table; a table made by hand has none."""

    data: Any = None  # rows [N, *F]; None if the games are not of single rows
    stats: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    present: np.ndarray | None = None  # bool [N, P]
    index: Any = None  # of pandas, if the rows were a frame that has one

    def united(self) -> TableOrigin:
        """Returns the origin of the game in which two players act as one, without the old names."""
        facts = {name: value for name, value in self.provenance.items() if name != "player_columns"}
        return TableOrigin(self.data, self.stats, facts, index=self.index)

    def facts(self, index: str, order: int, P: int) -> dict[str, Any]:
        """The provenance of the table's interactions."""
        method = self.provenance.get("method", "CoalitionTable")
        facts = {"method": method, "index": index, "order": order, "players": P}
        return {**self.provenance, **facts}
