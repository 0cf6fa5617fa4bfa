"""A module of another library that JAX traces by a bridge, compared with the module itself.

Letters: M rows, K outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from xaijax.core.compiler import compile_sound
from xaijax.core.errors import InputError, ModelOutputError
from xaijax.models.asking.predict import run_jax
from xaijax.models.asking.probe import gap_of
from xaijax.tables.rows import rows_of

WAY = "Leave backend= out: then the module itself is asked, on the host."
AT_ONCE = 8192  # rows that the module is asked for in one call


@dataclass
class Bridged:
    """Holds what JAX makes of a module against the module's own answers, on all explained rows.

    It has the members of a translation's `Comparison` that an engine asks for; a difference is an
    error, since the bridge was asked for by backend="jax".
    """

    name: str
    head: Callable[..., Any]  # (params, rows) -> [M] or [M, K], traced
    params: Any
    original: Callable[[Any], np.ndarray]  # rows -> the same of the module itself
    compiled: dict[Any, Any] = field(default_factory=dict)
    reason: str | None = None
    centred: None = None
    done: bool = True
    labels_done: bool = True
    decided: bool = True

    def refuse_changed(self) -> None:
        """Nothing: a module was copied when it was wrapped."""

    def settle(self, rows: tuple[Any, ...], labels: bool = False) -> None:
        """Nothing: there is no other model to settle to."""

    def to_host(self, reason: str) -> None:
        """There is no way back to the host: an InputError, as of a translation that was forced."""
        raise InputError(f"backend='jax' is not available for {self.name}: {reason}. {WAY}")

    def hold(
        self,
        rows: Any,
        codes: np.ndarray,
        first: int,
        shared: bool = False,
        labels: bool = False,
    ) -> None:
        """Compare both on all rows, shared ones anew each time. Raises ModelOutputError where they
        differ by more than what another order of float32 sums may.
        """
        given = rows_of(rows)
        for start in range(0, len(given), AT_ONCE):
            some = given.part(start, min(start + AT_ONCE, len(given)))
            wanted = np.asarray(self.original(some), np.float64)
            wanted = wanted[:, 0] if wanted.ndim == 2 and wanted.shape[1] == 1 else wanted
            found = self._traced(some, len(wanted)).astype(np.float64)
            gap = gap_of(wanted.astype(np.float32), found.astype(np.float32), wanted)
            if gap is not None:
                raise ModelOutputError(
                    f"backend='jax': what JAX makes of {self.name} differs from the module's own "
                    f"answers by up to {gap[0]:.3g}, first in row {start + gap[1]}. {WAY}"
                )

    def _traced(self, rows: Any, count: int) -> np.ndarray:
        """What JAX makes of the module, [M] or [M, K]."""
        if hasattr(rows, "shape"):
            return run_jax(self.compiled, "head", self.head, self.params, rows)
        name = (
            "tree",
            *((np.shape(leaf), str(np.asarray(leaf).dtype)) for leaf in jax.tree.leaves(rows)),
        )
        if name not in self.compiled:
            self.compiled[name] = compile_sound(jax.jit(self.head).lower(self.params, rows))
        return np.asarray(self.compiled[name](self.params, rows))[:count]
