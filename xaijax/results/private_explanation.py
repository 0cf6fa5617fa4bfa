"""`PrivateExplanation`: a report with noise, and nothing else that depends on a private row.

Letters: N people explained (1 for quantities of the data), P players, K outputs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.core.sequences import checked_level
from xaijax.results import shared_fields
from xaijax.results.result_html import private_html
from xaijax.results.selection import resolve, split_key, take
from xaijax.results.summary import largest

FORMAT = "xaijax.PrivateExplanation"


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class PrivateExplanation(shared_fields.ResultOfRows):
    """Holds what `xaijax.privacy.release` returns: values with noise, and public facts; frozen.

    There are no base values, data, statistics of the run or errors of sampling, since these depend
    on the private rows. It is sliced, saved and loaded like an `Explanation`, and drawn by bar,
    beeswarm and profile. `private[person, player, output]` is a part of it, with people by
    position, players and outputs by position or name; it costs no privacy.

    Attributes:
        values: float64 [N, P] or [N, P, K], multiples of 2^-20. N people explained (1 for
            quantities of the data), P players, K outputs.
        epsilon: float. Epsilon of the whole report, on the full data.
        noise_error: float. The standard error of the noise in each value. It depends on public
            numbers only.
        mechanism: how the noise was made: "noise" (its distribution), "lattice" (the step of the
            values, 2^-20), "scale" of the noise, "sensitivity" (the L1 bound, or that of one value
            for "sequential"), "composition", "calibration", "epsilon_of_mechanism" (what the noise
            was made for; above `epsilon` for a subsample), "charged" (to a ledger) and "free_again"
            (whether the ledger answers the same question again free of charge).
        feature_names: texts [P], the players.
        output_names: texts [K] or None.
        kind: text: the index, such as "shapley" or "banzhaf", or "unary".
        provenance: public facts of the question: quantity, sizes, players and others.
        shape: (N, P) or (N, P, K).
        private: bool. False with calibration="paper", whose noise is too small.

    Raises:
        InputError, InputTypeError: fields do not fit each other.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> data = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 1], [2, 2]], np.float32)
        >>> model = xj.as_model(lambda X: X[:, 0] > 0, output="label", classes=[0, 1])
        >>> report = xj.QII(model, data, quantity="rate").explain()
        >>> private = xj.privacy.release(report, epsilon=2.0)
        >>> private.shape, private.private, private.mechanism["charged"]
        ((1, 2), True, False)
        >>> private.half_widths().round(3)
        array([[1.415, 1.415]])
    """

    values: np.ndarray
    epsilon: float
    noise_error: float
    mechanism: Mapping[str, Any] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] | None = None
    kind: str = "shapley"
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        values = shared_fields.values_of(self, "P")
        if not np.isfinite(values).all():
            raise InputError("values: a released value is finite.")
        K = values.shape[2] if values.ndim == 3 else None
        names = shared_fields.names
        checked = {
            "values": values,
            "epsilon": float(self.epsilon),
            "noise_error": float(self.noise_error),
            "feature_names": names("feature_names", self.feature_names, values.shape[1], True),
            "output_names": names("output_names", self.output_names, K, True),
            "mechanism": shared_fields.frozen(self.mechanism),
            "provenance": shared_fields.frozen(self.provenance),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _plain(self) -> dict[str, Any]:
        state = super()._plain()
        return state | {
            name: shared_fields.thawed(state[name]) for name in ("mechanism", "provenance")
        }

    @property
    def instance_names(self) -> None:
        """Always None: rows of a private copy have no names."""
        return None

    @property
    def instance_index(self) -> None:
        """Always None, like `instance_names`."""
        return None

    @property
    def private(self) -> bool:
        """Whether the noise is enough for `epsilon`; False with calibration="paper"."""
        return self.mechanism.get("calibration") != "paper"

    def player_data(self) -> list[None]:
        """Returns None for each player: a private copy holds no data."""
        return [None] * self.values.shape[1]

    def __getitem__(self, key: Any) -> PrivateExplanation:
        """Returns a part, `explanation[person, player, output]`; see `Explanation`.

        Choosing among values with noise costs no privacy.
        """
        keys = split_key(key, self.values.ndim)
        rows, _ = resolve(keys[0], len(self), None, "instance")
        players, _ = resolve(keys[1], self.shape[1], self.feature_names, "player")
        chosen = take(self.feature_names, players)
        if not chosen:
            raise InputError(f"player key {keys[1]!r} selects no player.")
        changes = {"values": self.values[rows][:, players], "feature_names": chosen}
        provenance = dict(self.provenance)
        if self.output_names is not None:
            shared_fields.select_output(keys[2], self.output_names, changes, provenance)
        return replace(self, provenance=provenance, **changes)

    def half_widths(self, level: float = 0.95) -> np.ndarray:
        """Returns half-widths of intervals that cover the values without noise.

        They follow from the tails of the discrete Laplace distribution and the rounding to
        multiples of 2^-20.

        Args:
            level: float between 0 and 1. The probability that each value's noise stays within.

        Returns:
            float64, shaped like `values`.

        Raises:
            InputError, InputTypeError: the level is not accepted.
        """
        level = checked_level(level)
        step = float(self.mechanism["lattice"])
        scale = float(self.mechanism["scale"]) / step
        # P(|noise| > t) = 2 q^(t+1) / (1 + q), q = exp(-1 / scale).
        q = math.exp(-1 / scale)
        t = max(0, math.ceil(-scale * math.log((1 - level) * (1 + q) / 2)) - 1)
        return np.full(self.shape, (t + 0.5) * step)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one .npz file, which `xaijax.load` reads back exactly; see `Explanation.save`.

        Args:
            path: the file's name.

        Raises:
            InputError, InputTypeError: the path is not accepted.
        """
        self._save(path, FORMAT)

    def _repr_html_(self) -> str:
        return private_html(self, self._head())

    def _head(self) -> list[str]:
        """Lines that say what it is, how large the noise is, and whether it was charged."""
        N, P, *K = self.shape
        outputs = f" x {K[0]} outputs" if K else ""
        text = f"{N} x {P} players{outputs}, epsilon {self.epsilon:g}"
        head = f"PrivateExplanation (QII, {self.kind}): {text}"
        noise = f"  noise: standard error {self.noise_error:.3g} in each value"
        charged = "charged to a ledger" if self.mechanism.get("charged") else "not charged"
        lines = [head, f"{noise}; {charged}"]
        if not self.private:
            lines.append("  NOT PRIVATE: the paper's sensitivities, which do not hold")
        return lines

    def __repr__(self) -> str:
        lines = self._head()
        return "\n".join([*lines, f"  mean |value|: {largest(self.values, self.feature_names)}"])
