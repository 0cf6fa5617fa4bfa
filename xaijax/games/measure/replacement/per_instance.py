"""What each instance has for itself: a baseline, or players."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.games.measure.replacement.base import Replacement, agreement_codes
from xaijax.models.model import Model
from xaijax.players.players import PerInstancePlayers, Players
from xaijax.tables.per_instance_table import PerInstanceTable
from xaijax.tables.table import CodedTable


class RowOfEach(Replacement):
    """A row that is made of each instance: that of each, or one donor in their place.

    Anchors draws from the rows themselves, row n that of instance n (`Baseline._for_rows`). The
    engine has one donor in their place; `PerInstanceTable` puts the rows into the instances' codes.
    """

    kind = "function"
    SHARED = False

    def may_change(self, own: np.ndarray) -> np.ndarray:
        """See `Replacement`; each instance is compared with its own row."""
        return agreement_codes(own) != self.bits

    def draw(self, u: np.ndarray, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Replacement`; nothing is drawn."""
        return self.codes[who], u


def with_own(
    model: Model,
    donors: Replacement,
    players: Players | PerInstancePlayers,
    baseline_fn: Callable[[Any], Any] | None,
) -> tuple[Replacement, Players]:
    """(donors, players) of codes that say what each instance has; see `PerInstanceTable`.

    baseline_fn(rows) -> the baseline of each; None: absent players take the donors' entries.
    """
    own = isinstance(players, PerInstancePlayers)
    if not own and baseline_fn is None:
        return donors, players
    if isinstance(donors.table, CodedTable):
        raise InputError(
            f"{model.name} is an estimator translated to JAX, which takes no players and no "
            "baselines for each instance. Say backend='host' in as_model."
        )
    table = PerInstanceTable(
        inner=donors.table,
        owner=np.repeat(
            1
            + (players.of_entry if isinstance(players, PerInstancePlayers) else players.of_column),
            donors.table.codes_per_column,
            axis=-1,
        ),
        P=players.count,
        baseline_fn=baseline_fn,
        common=donors.codes[0],
        alike=(donors.codes == donors.codes[0]).all(axis=0),
        word=donors.codes.dtype,
        allow_nan=model.allow_nan,
        in_jax=model.loop == "jax",
    )
    codes = table.of_donors(donors.codes)
    return replace(donors, table=table, codes=codes), Players(table.players, players.names)
