"""Which search "auto" is, decided once, from the space, F, B and the model; never from X."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xaijax._errors import InputError
from xaijax.games.perturbation import Perturbation

SEARCHES = ("auto", "exact", "table", "kl-lucb", "sar")
# Draws of a candidate in a KL-LUCB search at the default settings, validation included: the mean
# over 1,000 rows of Adult with a network (bench, T14).
BANDIT_DRAWS = 250


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
