"""`PerInstanceTable`: rows with their own players, or their own baselines.

The engine has one numbering of players and one list of donors. A row of codes therefore holds more
here:

    [ P marks | C codes of the row | C codes of its replacement | C owners ]

Mark p is 1 if player p is kept. A coalition keeps or replaces marks only. All other columns are
always kept (replacements by donors: always replaced), and `mixed` applies the marks just before the
model is called. Owners are present only if each row has its own players.

Letters: M rows, N instances, P players, C code columns of the table within.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from xaijax.core.checks import NanColumns
from xaijax.core.errors import InputError
from xaijax.tables.rows import rows_of
from xaijax.tables.table import CodeTable, FloatTable


@dataclass(frozen=True, eq=False)
class PerInstanceTable:
    """A table around another; `read` and `encode` take instances, `of_donors` takes donors."""

    inner: CodeTable
    owner: np.ndarray  # int64 [C] or [N, C], 1 + the player of each code column; 0: never replaced
    P: int
    baseline_fn: Callable[[Any], Any] | None  # (rows) -> the baseline of each row; None: donors
    common: np.ndarray  # [C], the common code of all donors
    alike: np.ndarray  # bool [C], whether all donors have it
    word: np.dtype  # dtype of the inner codes
    allow_nan: bool | NanColumns
    in_jax: bool
    codes_per_column = 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row for the JAX model: its codes."""
        return (self.P + (2 + self._of_each) * self.owner.shape[-1],)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """[F]."""
        return self.inner.feature_names

    @property
    def _of_each(self) -> bool:
        return self.owner.ndim == 2

    @property
    def key(self) -> Any:
        """Key that is equal for tables that make the same rows from codes."""
        owner = None if self._of_each else self.owner.tobytes()
        return "own", getattr(self.inner, "key", self.inner.shape), self.P, owner

    @property
    def players(self) -> np.ndarray:
        """The player of each code column, int64; -1: always kept, -2: never."""
        C = self.owner.shape[-1]
        baseline_fn = -2 if self.baseline_fn is None else -1
        parts = [np.arange(self.P), np.full(C, -1), np.full(C, baseline_fn)]
        return np.concatenate(parts + [np.full(C, -1)] * self._of_each)

    def read(
        self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str = "the background"
    ) -> Any:
        """Rows as the inner table reads them; their number must equal that of the numberings."""
        rows = self._read(X, name, allow_nan, owner)
        row_count = len(rows_of(rows))
        if self._of_each and row_count != len(self.owner):
            raise InputError(
                f"players numbers the entries of {len(self.owner):,} instances, but {name} has "
                f"{row_count:,} rows. Give players [N, *F] of these rows, or [*F] for all of them."
            )
        return rows

    def _read(self, X: Any, name: str, allow_nan: bool | NanColumns, owner: str) -> Any:
        if self.baseline_fn is not None and isinstance(self.inner, FloatTable):
            return self.inner.read(X, name, allow_nan, owner, alone=True)
        return self.inner.read(X, name, allow_nan, owner)

    def holding(self, rows: Any) -> PerInstanceTable:
        """The table of these rows and of their replacements; see `FloatTable.holding`."""
        if not isinstance(self.inner, FloatTable):
            return self
        if self.baseline_fn is None:
            inner = self.inner.holding(rows)
        else:
            inner = self.inner.holding(rows, self._stood_in(rows), alone=True)
        if inner.codes_per_column != self.inner.codes_per_column:
            raise InputError(
                f"X or background holds whole numbers with more digits than {inner.dtype} has. Say "
                "precision='float64' in as_model, or number the values from 0."
            )
        return replace(self, inner=inner)

    def encode(self, rows: Any) -> tuple[PerInstanceTable, np.ndarray]:
        """Codes of all N instances, which `read` returned."""
        inner, codes = self.inner.encode(rows)
        codes = stand_in = np.asarray(codes)
        changed = ~self.alike | (_bits(codes) != _bits(self.common.astype(codes.dtype)))
        if self.baseline_fn is not None:
            inner, stand_in = inner.encode(self._stood_in(rows))
            again = np.asarray(inner.encode(self._stood_in(rows))[1])
            if (_bits(np.asarray(stand_in)) != _bits(again)).any():
                raise InputError(
                    "the function of Baseline returned other rows when it was called again. Let it "
                    "use a fixed seed, or give the rows that it may draw as background."
                )
            changed = _bits(codes) != _bits(np.asarray(stand_in))
        # A player whose entries all equal the baseline, or every donor, changes nothing, like a
        # player that the instance lacks.
        owner = np.broadcast_to(self.owner, codes.shape)
        place = np.arange(len(codes))[:, None] * (self.P + 1) + owner
        times = np.bincount(place[changed], minlength=len(codes) * (self.P + 1))
        plays = times.reshape(-1, self.P + 1)[:, 1:] > 0
        return replace(self, inner=inner), self._joined(plays, codes, stand_in, owner)

    def of_donors(self, codes: np.ndarray) -> np.ndarray:
        """Codes of donors, from their inner codes [B, C]."""
        marks = np.zeros((len(codes), self.P))
        return self._joined(marks, codes, codes, np.ones(codes.shape))

    def _joined(self, marks: Any, codes: Any, stand_in: Any, owner: Any) -> np.ndarray:
        # Codes of one or two bytes could not hold every owner.
        dtype = self.word if self.word.itemsize >= 4 else np.dtype("u4")
        parts = [marks, codes, stand_in] + [owner] * self._of_each
        return np.concatenate([part.astype(dtype) for part in parts], axis=1)

    def asked(self, codes: np.ndarray) -> Any:
        """The codes themselves in JAX; on the host, rows that the inner table makes of them."""
        return codes if self.in_jax else self.inner.asked(self.mixed(codes))

    def decode(self, codes: Any) -> Any:
        """Rows for the model, as tracers or NumPy arrays."""
        return self.inner.decode(self.mixed(codes))

    def mixed(self, codes: Any) -> Any:
        """Inner codes [M, C]: the row's where kept, otherwise its replacement's."""
        xp = np if isinstance(codes, np.ndarray) else jnp
        P, C = self.P, self.owner.shape[-1]
        keeps = xp.concatenate([xp.ones((len(codes), 1), bool), codes[:, :P] > 0], axis=1)
        if self._of_each:
            keeps = xp.take_along_axis(keeps, codes[:, P + 2 * C :].astype(np.int32), axis=1)
        else:
            keeps = keeps[:, self.owner]
        return xp.where(keeps, codes[:, P : P + C], codes[:, P + C : P + 2 * C]).astype(self.word)

    def _stood_in(self, rows: Any) -> Any:
        assert self.baseline_fn is not None
        name = "what the function of Baseline returned"
        baselines = self._read(self.baseline_fn(rows_of(rows).copy()), name, self.allow_nan, "X")
        count, made = len(rows_of(rows)), len(rows_of(baselines))
        if made != count:
            raise InputError(f"{name} has {made:,} rows; X has {count:,}. Return one for each.")
        return baselines


def _bits(codes: np.ndarray) -> np.ndarray:
    return codes.view(f"i{codes.itemsize}") if codes.dtype.kind == "f" else codes
