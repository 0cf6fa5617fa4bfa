"""Which search "auto" is, decided once, from the space, F, B and the model; never from X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xaijax._errors import InputError
from xaijax.games.perturbation import Perturbation

SEARCHES = ("auto", "exact", "table", "kl-lucb", "sar")
# What a KL-LUCB search draws for each rule that an exact search looks at, both at the default
# settings: 200 rows of Adult with the bench's network took 33,900 rows an instance for 93.8 rules
# in "row", 38,800 for 93.0 in "row_bin": 361 and 417. (With beam_size=1: 227 and 271.)
BANDIT_DRAWS = 390


@dataclass(frozen=True)
class Choice:
    """A search and why."""

    search: str
    reason: str


def auto_search(space: Perturbation | None, model: Any) -> Choice:
    """What "auto" is; space None: a person's own sampler."""
    if space is None:
        return Choice("kl-lucb", "a sampler's draws are no list")
    F, finite = len(space.bins.columns), space.finite
    if finite is None:
        rows = f"{space.B**2:,} rows a rule"
        return Choice("kl-lucb", f"an exact average over perturbation={space.kind!r} has {rows}")
    if space.kind == "conditional":
        return Choice("exact", "it asks the data rows once, and nothing else")
    if model.backend == "jax":
        return Choice(finite, "the model is traced, so rows are cheap")
    draws = len(space.listed(finite)[1])
    planned, bandit = F * draws, F * BANDIT_DRAWS
    if planned <= 2 * bandit:
        reason = f"at most twice the bandit's rows: {planned:,} against {bandit:,} for {F} columns"
        return Choice(finite, reason)
    reason = f"a host model, and {planned:,} rows against the bandit's {bandit:,} for {F} columns"
    return Choice("kl-lucb", reason)


def refuse_search(search: str, space: Perturbation | None) -> None:
    """Raise where the space has no such search."""
    if search in ("kl-lucb", "sar"):
        return
    if space is None:
        raise InputError(
            f"search={search!r}: a sampler's draws cannot be listed. Say search='kl-lucb' or 'sar'."
        )
    if search == "exact":
        space.refuse_exact()
    else:
        space.refuse_table()
