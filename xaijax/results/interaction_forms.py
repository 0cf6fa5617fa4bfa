"""Interactions as matrices, as tables, as text, and for shapiq.

Letters: N instances, P players, M sets, K outputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.players.interaction_index import INTERACTIONS, interaction_index
from xaijax.results import convert
from xaijax.results.asked import counted_outputs, output_of_each
from xaijax.results.set_keys import all_of, named
from xaijax.results.shared_fields import read_only
from xaijax.results.summary import finite_instances, shown_stats, sure_of
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from xaijax.results.interactions import Interactions

TOP = 6  # sets in the repr


def matrix(found: Interactions, values: np.ndarray) -> np.ndarray:
    """The numbers of the sets [N, M, ..] as [N, P, P, ..]; see `Interactions.matrix`."""
    P = len(found.feature_names)
    wanted = all_of(P, min(2, P))
    place = {S: m for m, S in enumerate(found.sets)}
    missing = [S for S in wanted if S not in place]
    if missing:
        names = named([found.feature_names[p] for p in missing[0]])
        raise InputError(
            f"matrix: needs every player and every pair, but {names!r} is not among the "
            f"{len(found.sets):,} sets. Take it before slicing sets."
        )
    out = np.zeros((len(values), P, P, *values.shape[2:]))
    for S in wanted:
        out[:, S[0], S[-1]] = out[:, S[-1], S[0]] = values[:, place[S]]
    return read_only(out)


def value_name(found: Interactions) -> str:
    """The name of one number."""
    return interaction_index(found.index).value


def headline(found: Interactions) -> str:
    """The index, and the numbers of instances, sets and outputs."""
    values = found.values
    axes = ["instances", "sets", "outputs"][: values.ndim]
    shape = " x ".join(f"{size:,} {axis}" for size, axis in zip(values.shape, axes, strict=True))
    own = output_of_each(found.stats, len(values))
    selected = counted_outputs(own) if own else found.provenance.get("selected_output")
    return (
        f"Interactions ({found.index}, order {found.order}): {shape} of "
        f"{len(found.feature_names):,} players"
    ) + ("" if selected is None else f", output: {selected}")


def describe(found: Interactions) -> str:
    """The text of `repr(interactions)`."""
    values = found.values
    lines = [headline(found), f"  {sure_of(found)}"]
    answered = finite_instances(values)
    if answered.any():
        size = np.abs(values[answered]).mean(axis=0)
        size = size if size.ndim == 1 else size.mean(axis=1)
        joined = [m for m in np.argsort(-size, kind="stable") if len(found.sets[m]) > 1][:TOP]
        if joined:
            text = ", ".join(f"{named(found.set_names[m])} {size[m]:.4g}" for m in joined)
            lines.append(f"  largest mean |interaction|: {text}")
    sought = found.stats.get("large_pairs_sought")
    if isinstance(sought, np.ndarray) and not sought.all():
        lines.append(
            f"  budget too small to look for large pairs, of {int((~sought).sum()):,} of "
            f"{len(values):,} instances: raise it, or say unbiased=True"
        )
    return "\n".join(lines + shown_stats(found))


def to_shapiq(found: Interactions) -> list[Any]:
    """See `Interactions.to_shapiq`."""
    index: Any = interaction_index(found.index).shapiq
    return convert.values_of_shapiq(found, "interactions", index, found.sets, found.order or 0)


def from_shapiq(found: Any, feature_names: Any, data: Any = None) -> dict[str, Any]:
    """Fields of `Interactions`; see `Interactions.from_shapiq`."""
    given = list(found) if isinstance(found, list | tuple) else [found]
    if not given:
        raise InputError("found: got none; pass at least one shapiq.InteractionValues.")
    for one in given:
        if not (hasattr(one, "interaction_lookup") and hasattr(one, "baseline_value")):
            raise InputTypeError(
                f"found: got {type(one).__name__}; pass a shapiq.InteractionValues, or a list of "
                "them."
            )
    facts = {(one.index, one.n_players, one.min_order, one.max_order) for one in given}
    if len(facts) > 1:
        raise InputError(
            f"found: differ in (index, n_players, min_order, max_order): {sorted(facts)}; pass "
            "answers to one question."
        )
    ((name, P, least, most),) = facts
    ours = {one.shapiq: one.name for one in INTERACTIONS.values()}
    if most == 1:  # shapiq's names of the same values of single players
        ours |= {"SV": "sii", "BV": "banzhaf"}
    if name not in ours:
        known = ", ".join(map(repr, ours))
        raise InputError(f"found: index {name!r} has no counterpart here; known are {known}.")
    sets = [S for S in all_of(P, most) if len(S) >= least]
    values = np.zeros((len(given), len(sets)))  # a set that shapiq does not list is 0 there
    place = {S: m for m, S in enumerate(sets)}
    for n, one in enumerate(given):
        for S, where in one.interaction_lookup.items():
            if len(S) >= max(1, least):
                values[n, place[tuple(sorted(S))]] = one.values[where]
    estimated = np.array([bool(one.estimated) for one in given])
    errors = np.where(estimated[:, None], np.nan, np.zeros(values.shape))
    names = [f"player {p}" for p in range(P)] if feature_names is None else list(feature_names)
    if isinstance(feature_names, str) or len(names) != P:
        raise InputError(f"feature_names: got {feature_names!r}; there are {P} players to name.")
    if data is not None:
        data = np.asarray(data) if isinstance(data, list) else data
        rows = rows_of(data)
        got = len(rows), rows.width
        if got != (len(given), P):
            raise InputError(
                f"data: got {got[0]:,} rows of {got[1]:,} columns, but there are {len(given):,} "
                f"instances of {P:,} players. Pass rows [{len(given)}, {P}], a column for each "
                "player, or leave data= out."
            )
    return {
        "values": values,
        "data": data,
        "base_values": np.array([float(one.baseline_value) for one in given]),
        "sets": tuple(sets),
        "std_errors": errors if estimated.any() else None,
        "index": ours[name],
        "order": most,
        "feature_names": tuple(names),
        "exact": not estimated.any(),
        "provenance": {"method": "shapiq"},
    }


def to_dataframe(found: Interactions, long: bool) -> Any:
    """See `Interactions.to_dataframe`."""
    checks.yes_or_no(long, "long")
    labels = [named(S) for S in found.set_names]
    if long:
        sizes, names = [len(S) for S in found.sets], np.array(labels, object)
        return convert.long_frame(found, None, set=names, size=sizes)
    if len(set(labels)) < len(labels):
        twice = next(one for one in labels if labels.count(one) > 1)
        raise InputError(
            f"to_dataframe: two sets are called {twice!r}; use to_dataframe(long=True), or "
            "other names of players."
        )
    return convert.wide(found, "set", labels)
