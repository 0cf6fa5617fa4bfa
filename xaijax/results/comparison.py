"""`Comparison`: what changed between two explanations, with simultaneous intervals.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from math import comb
from typing import Any

import numpy as np

from xaijax.core.public import public_class
from xaijax.results.convert import frame_of
from xaijax.results.shared_fields import FrozenArrays, FrozenDict
from xaijax.results.summary import ranking

TOP = 8  # players in the repr


def enough(instances: tuple[int, int], paired: bool, confidence: float) -> bool:
    """Whether this number of instances can show any change at all.

    It depends on the number of ways to exchange the two sides of each pair, or the instances of
    both sides (see `xaijax.methods.certainty.simultaneous`).
    """
    n, m = instances
    ways = 2 ** min(n - 1, 60) if paired else comb(n + m, n) / (2 if n == m else 1)
    return 1 / ways <= 1 - confidence + 1e-12


@dataclass(frozen=True, eq=False)
class ShiftPart(FrozenArrays):
    """A part of the shifts, float64 [P] or [P, K] each: the estimate, and its interval."""

    shift: np.ndarray
    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class ShiftSplit:
    """The shifts due to the data and due to the model; the two add up to the shift.

    All the intervals of the four parts hold at once, at the comparison's confidence.

    Attributes:
        data, model: `ShiftPart` of the shift of mean values.
        size_data, size_model: `ShiftPart` of the shift of mean |values|.
    """

    data: ShiftPart
    size_data: ShiftPart
    model: ShiftPart
    size_model: ShiftPart


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Comparison(FrozenArrays):
    """Says how the players' values changed from explanation a to b; made by `xaijax.compare`.

    Attributes:
        feature_names: tuple of str [P]. The players.
        output_names: tuple of str [K], or None.
        kind: str. The index of the values.
        confidence: float. The confidence at which all intervals of `shift` and `size_shift` hold at
            once.
        paired: bool. Whether both explain the same instances, and their differences were used.
        instances: (int, int). The numbers of instances of a and b.
        shift, low, high: float64 [P] or [P, K]. Mean value of b minus that of a, and its interval.
        size_shift, size_low, size_high: the same for the mean of |value|.
        sizes: float64 [2, P] or [2, P, K]. Mean |value| of a and of b.
        rows: int64 [N] or None. Positions of the instances, those that changed most first. None if
            the instances are not the same.
        row_shift: float64 [N] or None. How far each instance's values moved: the root of the sum of
            the squared differences, in the order of the instances.
        split: `ShiftSplit`, or None if no explainers were given.
        provenance: mapping. The quantity that the values are amounts of, as far as a and b have it:
            quantity, link, and selected_output, the output that was chosen from several.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.random.default_rng(0).normal(size=(100, 2))
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
        >>> same = xj.compare(explainer(X), explainer(X))
        >>> same.shift, same.changed
        (array([0., 0.]), ())
    """

    feature_names: tuple[str, ...]
    output_names: tuple[str, ...] | None
    kind: str
    confidence: float
    paired: bool
    instances: tuple[int, int]
    shift: np.ndarray
    low: np.ndarray
    high: np.ndarray
    size_shift: np.ndarray
    size_low: np.ndarray
    size_high: np.ndarray
    sizes: np.ndarray
    rows: np.ndarray | None = None
    row_shift: np.ndarray | None = None
    split: ShiftSplit | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "provenance", FrozenDict(self.provenance))

    @property
    def of_data(self) -> np.ndarray | None:
        """Shift of the mean values due to the data, [P] or [P, K]; None without explainers."""
        return None if self.split is None else self.split.data.shift

    @property
    def of_model(self) -> np.ndarray | None:
        """Shift of the mean values due to the model, [P] or [P, K]; None without explainers."""
        return None if self.split is None else self.split.model.shift

    @property
    def moved(self) -> np.ndarray:
        """Players whose mean value or size has an interval without 0, for any output; bool [P]."""
        moved = moved_of(self)
        return moved if moved.ndim == 1 else moved.any(axis=1)

    @property
    def changed(self) -> tuple[str, ...]:
        """Names of the players that changed, in their order."""
        return tuple(self.feature_names[j] for j in np.flatnonzero(self.moved))

    def __repr__(self) -> str:
        N, M = self.instances
        of = f"{N:,} instances, paired" if self.paired else f"{N:,} and {M:,} instances"
        lines = [
            f"Comparison ({self.kind}): {of}; intervals hold together at {self.confidence:.3g}",
            f"  changed: {', '.join(changes_of(self)) or self._none()}",
        ]
        selected = self.provenance.get("selected_output")
        if selected is not None:
            lines.insert(1, f"  output {selected!r}")
        widest = np.maximum(np.abs(self.size_shift), np.abs(self.shift))
        for j in ranking(widest)[:TOP]:
            name, at = self.feature_names[j], (j,)
            if self.output_names is not None:
                k = int(widest[j].argmax())  # both numbers belong to the output that moved most
                name, at = f"{name}, output {self.output_names[k]!r}", (j, k)
            lines.append(
                f"  {name}: {_interval(self, '', at)}; mean |value| {_interval(self, 'size_', at)}"
            )
        if len(self.feature_names) > TOP:
            lines.append(f"  and {len(self.feature_names) - TOP} more players")
        return "\n".join(lines)

    def _none(self) -> str:
        """The reason why nothing changed, in words."""
        if enough(self.instances, self.paired, self.confidence):
            return "no player beyond chance"
        return "unknown, since there are too few instances"

    def to_dataframe(self) -> Any:
        """Returns a pandas DataFrame, one row per player (and output); needs `xaijax[data]`."""
        columns = {
            name: getattr(self, name).reshape(-1)
            for name in ("shift", "low", "high", "size_shift", "size_low", "size_high")
        }
        if self.split is not None:
            for part in fields(ShiftSplit):
                shifts = getattr(self.split, part.name)
                for end, of in (("", "shift"), ("_low", "low"), ("_high", "high")):
                    name = part.name.replace("data", "of_data").replace("model", "of_model")
                    columns[f"{name}{end}"] = getattr(shifts, of).reshape(-1)
        axes, names = [self.feature_names], ["player"]
        if self.output_names is not None:
            axes, names = [*axes, self.output_names], [*names, "output"]
        return frame_of(columns, axes, names)


def moved_of(result: Comparison) -> np.ndarray:
    """Whether each mean value or size has an interval without 0, bool [P] or [P, K]."""
    return (result.low > 0) | (result.high < 0) | (result.size_low > 0) | (result.size_high < 0)


def changes_of(comparison: Comparison, outputs: Sequence[str] | None = None) -> list[str]:
    """The players that changed; with several outputs, each with those that changed: "age (yes)".

    outputs: those to consider; None: all.
    """
    if comparison.output_names is None:
        return list(comparison.changed)
    shown, moved = comparison.output_names if outputs is None else outputs, moved_of(comparison)
    texts = []
    for j, name in enumerate(comparison.feature_names):
        which = [o for k, o in enumerate(comparison.output_names) if moved[j, k] and o in shown]
        texts += [f"{name} ({', '.join(which)})"] if which else []
    return texts


def _interval(comparison: Comparison, of: str, at: tuple[int, ...]) -> str:
    """The interval of a player (and output): "+0.2 (0.1 to 0.3)"."""
    shift, low, high = (getattr(comparison, f"{of}{name}")[at] for name in ("shift", "low", "high"))
    return f"{shift:+.3g} ({low:.3g} to {high:.3g})"
