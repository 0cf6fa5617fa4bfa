"""What a `Host` is made with, read and checked.

Letters: N instances, H columns of the host.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xaijax.core.errors import InputError, InputTypeError
from xaijax.federated.in_process.reference import reference_of
from xaijax.federated.split.model import SplitModel
from xaijax.federated.split.parts import columns_by_name
from xaijax.federated.wire.party import Transport
from xaijax.games.measure.replacement import Baseline
from xaijax.tables.frames import frame_labels
from xaijax.tables.rows import rows_of
from xaijax.tables.series import entries_at, is_labelled
from xaijax.tables.tree import is_tree

MODEL = "the model's host side"


def joined(rows: Any, answers: np.ndarray, labels: Sequence[str]) -> Any:
    """[host's columns | guests' answers], an array or a frame as the rows are."""
    own = rows_of(rows)
    taken = [name for name in labels if name in own.labels]
    if taken:
        raise InputError(
            f"X has a column {taken[0]!r}, a name that guests' answers need; rename it."
        )
    return own.beside(answers, labels)


def by_name(rows: Any, names: Sequence[str] | None, name: str) -> Any:
    """Rows of the host's columns, those of a frame or a Series in the order of `names` [H].

    Arrays, and all rows where the model has no names, come back as they are. Raises InputError for
    other columns.
    """
    if names is None or isinstance(rows, str) or is_tree(rows):
        return rows
    if is_labelled(rows):
        labels = [str(one) for one in rows.index]
        return entries_at(rows, columns_by_name(labels, names, name, MODEL))
    own = rows_of(rows)
    if not own.is_frame:
        return rows
    return own.columns_at(columns_by_name(frame_labels(rows, name), names, name, MODEL))


def host_reference(reference: Any, background: Any, model: Any) -> tuple[Any, str]:
    """The host's reference as one row, an array or a frame; and what it is, in a word."""
    source, kind = reference_of(reference, background, model.allow_nan)
    if not isinstance(source, Baseline):
        raise InputError(
            "reference has several rows; a guest answers for one reference. Give one row, or "
            "'median'."
        )
    row = source.as_rows(model.allow_nan)
    return (row if rows_of(row).is_frame else np.asarray(row, np.float64)), kind


def check_model(model: Any, arbiter: Any) -> None:
    """Refuse a joint model without an arbiter, and a model with one."""
    if arbiter is not None:
        if model is not None:
            raise InputError("model must be None with arbiter=, which holds the joint model.")
        if not hasattr(arbiter, "call"):
            raise InputTypeError(
                f"arbiter must be a Connection or InMemory, got {type(arbiter).__name__}."
            )
    elif not isinstance(model, SplitModel):
        raise InputError(
            f"model must be a SplitModel, got {type(model).__name__}. A joint model needs all "
            "columns in one place, which neither party may be: give arbiter=, the transport to a "
            "third process that both trust, and model=None."
        )


def split_model(model: SplitModel | None) -> SplitModel:
    """The model, where it is known to be there."""
    assert model is not None
    return model


def transports_of(guests: Any, model: SplitModel | None) -> dict[str, Transport]:
    """The transports by guest, in the model's order."""
    if not isinstance(guests, Mapping) or not guests:
        raise InputTypeError(
            f'guests must be a dict {{"name": transport}}, got {type(guests).__name__}. Without '
            "guests, say FederatedExplainer."
        )
    for name, one in guests.items():
        if not hasattr(one, "call"):
            raise InputTypeError(
                f"guests: {name!r} needs a Connection or InMemory, got {type(one).__name__}."
            )
    if model is None:
        return dict(guests)
    if set(guests) != set(model.widths):
        raise InputError(
            f"guests are {sorted(map(str, guests))}, those of the model {sorted(model.widths)}; "
            "the same names are needed."
        )
    return {name: guests[name] for name in model.widths}  # in the model's order


def version_of(version: Any, guest: str, guests: Mapping[str, Any]) -> str | None:
    """The model version to ask of one guest; None: its only one."""
    if isinstance(version, Mapping):
        unknown = [name for name in version if name not in guests]
        if unknown:
            raise InputError(
                f"version: there is no guest {unknown[0]!r}; guests are {list(guests)}."
            )
        version = version.get(guest)
    if version is not None and not isinstance(version, str):
        raise InputTypeError(f"version must be a text, got {version!r}.")
    return version
