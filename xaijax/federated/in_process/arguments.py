"""What a `FederatedExplainer` is given, as read: who owns which column, and the end weight."""

from __future__ import annotations

from typing import Any

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.federated.in_process.parties import Parties, parties_of
from xaijax.games.measure.replacement import replacement_of
from xaijax.players.index import named
from xaijax.players.players import column_labels
from xaijax.tables.tree_table import by_leaves

END_WEIGHT = 1e4  # the authors'


def parties_in(model: Any, source: Any, guests: Any) -> Parties:
    """Who owns which column of the background that the reference is made of."""
    table = replacement_of(model, source, None).table
    if len(table.shape) != 1:
        raise InputError(
            f"background has shape [B, *{table.shape}]: parties own columns of a table [B, F]."
        )
    labels = table.feature_names or column_labels(table.shape)
    return parties_of(by_leaves(guests, table), labels, remote=False)


def end_weight_of(end_weight: Any, estimator: str, index: Any, model: Any) -> float:
    """The weight of the two ends; refused where no regression takes one."""
    checks.positive(end_weight, "end_weight")
    if checks.text(estimator, "estimator") != "wls":
        if float(end_weight) != END_WEIGHT:
            raise InputError(
                f"end_weight={end_weight!r} is given, but estimator={estimator!r} has none. Say "
                "estimator='wls', or leave it out."
            )
        return float(end_weight)
    if not named(index).efficient:
        raise InputError(
            f"estimator='wls' is the authors' regression for index='shapley', got index={index!r}."
        )
    if not model.deterministic:
        raise InputError("estimator='wls' needs a model that is deterministic; say 'permutation'.")
    return float(end_weight)
