"""`TopK`: the players of the largest |value| of each instance, and which of them are certain.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.checks import whole_number
from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.core.sequences import checked_level, half_widths_of, time_uniform_quantile
from xaijax.results.convert import frame_of
from xaijax.results.shared_fields import per_instance, repeated_labels

if TYPE_CHECKING:
    from xaijax.results.explanation import Explanation

SHOWN = 6  # instances in the repr
ROUNDINGS = 16  # roundings of the largest answer by which equal values may differ


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class TopK:
    """Holds the k players of the largest |value| of each instance; made by `explanation.top(k)`.

    A player is certain if it is among the k largest, and has its sign, with a `confidence` that
    holds for all players and outputs of an instance together.

    Attributes:
        k: int. The number of players.
        confidence: float. Probability that all claims made about one instance are correct.
        players: int64 [N, k], or [N, k, K] for K outputs. Positions, the largest |value| first.
        values, half_widths: float64, shaped like `players`. The values, and their simultaneous
            error bounds at that confidence, for all values of an instance together; NaN if unknown.
        certain: bool, shaped like `players`.
        holds: str. The bound for sampled values. "one look": intervals from the standard errors,
            for draws whose number was fixed beforehand. "asymptotic", "bounded" or "checks": bounds
            that hold however often they were checked (docs/certain_top.md). "unknown": a rule ended
            the draws, but it was not recorded; no sampled value is certain. "rounding": all values
            are exact.
        names: tuple of str [P]. Names of the players.
        instance_names, output_names: tuples of str, or None.
        instance_index: pandas Index [N] or None, like that of `Explanation`.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explanation = xj.Explanation(
        ...     values=np.array([[3.0, -1.0, 0.5], [0.5, 2.0, 2.0]]),
        ...     base_values=np.zeros(2),
        ...     feature_names=("age", "pay", "day"),
        ... )
        >>> explanation.top(2)
        top 2 of 3 players at 95 %, exact; all certain for 2 of 2 instances
          0: age 3, pay -1
          1: pay 2, day 2
        >>> explanation.top(1).certain[:, 0]
        array([ True, False])
    """

    k: int
    confidence: float
    players: np.ndarray
    values: np.ndarray
    half_widths: np.ndarray
    certain: np.ndarray
    holds: str
    names: tuple[str, ...]
    instance_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None
    instance_index: Any = None

    def __len__(self) -> int:
        return len(self.players)

    def __repr__(self) -> str:
        bound = "exact" if self.holds == "rounding" else f"bound: {self.holds}"
        sure = self.certain.reshape(len(self), -1).all(axis=1)
        lines = [
            f"top {self.k} of {len(self.names)} players at {100 * self.confidence:g} %, {bound}; "
            f"all certain for {int(sure.sum()):,} of {len(self):,} instances"
        ]
        for n in range(min(len(self), SHOWN)):
            instance = self.instance_names[n] if self.instance_names else str(n)
            for o, output in enumerate(self.output_names or ("",)):
                at = (n, slice(None), o) if self.output_names else (n,)
                each = zip(self.players[at], self.values[at], self.certain[at], strict=True)
                unsure = ("", " (not certain)")
                shown = [f"{self.names[p]} {v:.4g}{unsure[not c]}" for p, v, c in each]
                lines.append(f"  {instance}{output and f', {output}'}: {', '.join(shown)}")
        if len(self) > SHOWN:
            lines.append(f"  and {len(self) - SHOWN:,} more")
        return "\n".join(lines)

    def to_dataframe(self) -> Any:
        """Returns a pandas DataFrame, one row for each instance, output and rank among the k.

        It needs `pip install "xaijax[data]"`. The columns are instance, output (with K outputs
        only), rank from 1, player, value, half_width and certain.
        """
        N, k = self.players.shape[:2]
        K = len(self.output_names or (None,))

        def flat(array: np.ndarray) -> np.ndarray:
            return np.moveaxis(array.reshape(N, k, K), 1, 2).ravel()

        table: dict[str, Any] = {"instance": repeated_labels(self, K * k)}
        if self.output_names is not None:
            table["output"] = np.tile(np.array(self.output_names, object).repeat(k), N)
        table["rank"] = np.tile(np.arange(1, k + 1), N * K)
        table["player"] = np.array(self.names, object)[flat(self.players)]
        for column, array in (("value", self.values), ("half_width", self.half_widths)):
            table[column] = flat(array)
        table["certain"] = flat(self.certain)
        return frame_of(table, [range(N * K * k)], [None])


def top_of(explained: Explanation, k: Any, confidence: Any) -> TopK:
    """The k largest of an explanation; see `Explanation.top`."""
    values = explained.values
    N, P = values.shape[:2]
    k, confidence = checked_k(k, P), checked_level(confidence, "confidence")
    half, holds = half_widths_together(explained, confidence)
    size = np.abs(values)
    players = np.argsort(-size, axis=1, kind="stable")[:, :k]
    # An unknown value excludes nothing.
    low = np.where(np.isnan(half), -np.inf, size - half)
    high = np.where(np.isnan(half), np.inf, size + half)
    # At most k players may be as large, itself among them.
    next_one = np.sort(high, axis=1)[:, P - 1 - k : P - k] if k < P else np.zeros_like(high[:, :1])
    lowest = np.take_along_axis(low, players, axis=1)
    certain = lowest > np.maximum(next_one, 0.0)
    recorded = _recorded(explained, k, confidence)
    if recorded is not None and holds != "rounding":
        # Used alone: two procedures together would err twice as often.
        certain = np.broadcast_to(
            recorded.reshape((N,) + (1,) * (values.ndim - 1)), certain.shape
        ).copy()
    top, widths = (np.take_along_axis(array, players, axis=1) for array in (values, half))
    names = explained.feature_names, explained.instance_names, explained.output_names
    index = explained.instance_index
    return TopK(k, confidence, players, top, widths, certain, holds, *names, index)


def checked_k(k: Any, P: int) -> int:
    """Checks a number of players from 1 to P; raises InputError or InputTypeError otherwise."""
    k = whole_number(k, "k")
    if k > P:
        raise InputError(f"k: got {k:,}, but there are {P:,} players. Pass a number up to {P:,}.")
    return k


def half_widths_together(explained: Explanation, confidence: float) -> tuple[np.ndarray, str]:
    """(half-widths that hold for all values of an instance together, their bound).

    They are shaped like the values. Each value gets a share of the error probability (Bonferroni),
    and rounding is added.
    """
    values, stats = explained.values, explained.stats
    N, each = len(values), int(np.prod(values.shape[1:]))
    missed = (1 - confidence) / max(1, each)
    exact = np.full(N, explained.exact and explained.std_errors is None)
    if _of_each(stats.get("exact_rows"), N):
        exact = np.asarray(stats["exact_rows"], bool)
    rounded = _resolution(explained, exact).reshape((N,) + (1,) * (values.ndim - 1))
    if explained.std_errors is None:
        known = np.where(exact.reshape(rounded.shape), rounded, np.nan)
        return np.broadcast_to(known, values.shape), "rounding" if exact.all() else "unknown"
    bound, pairs = _one(stats.get("bound")), stats.get("pairs")
    holds = "one look" if bound is None else str(bound)
    if explained.provenance.get("stop") is not None or bound == "bounded":
        # For proved bounds the run knew more than what it recorded.
        holds = holds if bound == "bounded" else "unknown"
        quantile = np.where(exact, 0.0, np.nan)
    elif bound == "asymptotic":
        if not _of_each(pairs, N):
            holds, quantile = "unknown", np.where(exact, 0.0, np.nan)
        else:
            # Some players may have been sampled in all pairs, others in fewer: use the wider of
            # both.
            whole = stats.get("whole_pairs")
            both = (pairs, whole) if _of_each(whole, N) else (pairs,)
            quantile = np.max([_sequence(np.where(exact, 0, n), missed) for n in both], axis=0)
    else:
        checks = _one(stats.get("checks")) if bound == "checks" else 1
        dof = stats.get("dof")
        shares = missed / (checks if isinstance(checks, int) else np.inf)
        widths = half_widths_of(explained.std_errors, values.shape, False, dof, 1 - shares)
        return widths + rounded, holds
    with np.errstate(over="ignore"):
        widths = explained.std_errors * quantile.reshape(rounded.shape)
    return widths + rounded, holds


def _sequence(counts: np.ndarray, missed: float) -> np.ndarray:
    """Standard errors of a bound at every check, for these numbers of pairs int [N]; 0 for none."""
    distinct, place = np.unique(counts, return_inverse=True)
    most = np.finfo(float).max
    quantiles = [min(time_uniform_quantile(int(c), missed), most) if c else 0 for c in distinct]
    return np.array(quantiles, float)[place]


def _recorded(explained: Explanation, k: int, confidence: float) -> np.ndarray | None:
    """The instances whose k largest the run itself found certain, bool [N].

    None: it was not requested, at this confidence or a larger one.
    """
    stats, (N, P) = explained.stats, explained.values.shape[:2]
    known = _one(stats.get("confidence"))
    certain = stats.get("certain")
    same = _one(stats.get("top")) == k and isinstance(known, float) and known >= confidence
    # A selection of the players has other largest ones.
    if not (same and _of_each(certain, N) and explained.provenance.get("players") == P):
        return None
    return np.asarray(certain, bool)


def _resolution(explained: Explanation, exact: np.ndarray) -> np.ndarray:
    """Bound on the rounding error of a value, float64 [N].

    If the value is exact and the sum's bound is known, it is that bound, which is larger than a
    value's. Otherwise it is some units of the last digit of the numbers whose differences are the
    values.
    """
    values = explained.values.reshape(len(explained.values), -1)
    base = np.abs(explained.base_values).reshape(len(values), -1).max(axis=1, initial=0.0)
    double = explained.stats.get("answer_dtype", "float64") == "float64"
    eps = float(np.finfo(np.float64 if double else np.float32).eps)
    rounding = ROUNDINGS * eps * (base + np.abs(values).sum(axis=1))
    bound = explained.stats.get("efficiency_bound")
    if per_instance(bound, len(values)):
        rounding = np.where(exact, bound, rounding)
    return rounding


def _of_each(value: Any, N: int) -> bool:
    return per_instance(value, N) and np.ndim(value) == 1


def _one(value: Any) -> Any:
    """The entry of all parts of a merged result, ignoring exact ones; a tuple if they differ."""
    if not isinstance(value, list | tuple):
        return value
    said = {entry for entry in value if entry not in (None, "rounding")}
    return said.pop() if len(said) == 1 else tuple(value)
