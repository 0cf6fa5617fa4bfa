"""`Replacement`: what is in the columns of a player that is absent.

Letters: B donor rows, F columns, C code columns, N instances.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np

from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.models.model import Model
from xaijax.models.queries.comparison import answering, resolve
from xaijax.models.queries.rows import row_dtype
from xaijax.tables.frame_table import FrameTable
from xaijax.tables.frames import frame_labels, same_labels
from xaijax.tables.rows import refuse_series, rows_of
from xaijax.tables.table import (
    CodedTable,
    CodeTable,
    FloatTable,
    WordTable,
    dtype_of,
)
from xaijax.tables.tree_table import TreeTable

COMPARE_BYTES = 1 << 24  # memory for one block of comparisons


@dataclass(frozen=True)
class Replacement:
    """The replacement of absent players: donor rows as codes, with their weights.

    A kind of replacement is a class in its own file. It sets the attributes in capitals below, and
    overrides `may_change` and `draw` if its donors differ between instances.
    """

    kind: ClassVar[str]  # its name in results
    SHARED: ClassVar[bool] = True  # whether all instances have the same donors
    # whether donors make hybrids; otherwise only a closed form is possible
    HYBRIDS: ClassVar[bool] = True

    table: CodeTable
    codes: np.ndarray  # [B, C]
    weights: np.ndarray  # float64 [B], positive, sum 1
    weights_sum: float | None  # sum of the given weights; None: none given
    row: np.ndarray  # int64 [B], position of each donor in the given background rows
    rows_given: int  # background rows before those of weight 0 were dropped
    rows: Any = None  # for a translated estimator: the donor rows in its own form

    @classmethod
    def of(
        cls, model: Model, table: CodeTable, rows: Any, weights: tuple[np.ndarray, float | None]
    ) -> Self:
        """Replacement by rows in the table's form; weights: from `checks.row_weights`."""
        w, total = weights
        if isinstance(table, FloatTable):
            table = table.joined(rows)
        if isinstance(table, CodedTable):
            coded = table

            def read(answerer: Model) -> tuple[CodeTable, np.ndarray]:
                return (coded.host if answerer.loop == "host" else coded).encode(rows)

            table, codes = resolve(model, (), read).rows
        else:
            table, codes = table.encode(rows)
        stored = rows if isinstance(table, CodedTable) else None
        row = np.flatnonzero(w > 0)
        return cls(table, codes[row], w[row], total, row, len(codes), stored)

    @cached_property
    def count(self) -> int:
        """B."""
        return len(self.codes)

    @cached_property
    def columns(self) -> int:
        """C."""
        return self.codes.shape[1]

    @cached_property
    def dtype(self) -> np.dtype:
        """Dtype of the codes."""
        return self.codes.dtype

    @cached_property
    def for_loops(self) -> np.ndarray:
        """Codes [B, C] of the donors; a hybrid takes the columns of its absent players from one."""
        return self.codes

    def may_change(self, codes: np.ndarray) -> np.ndarray:
        """Columns in which some donor differs from the instances, codes [N, C]; bool [N, C]."""
        first = self.bits[0]
        return (agreement_codes(codes) != first) | (self.bits != first).any(axis=0)

    def draw(self, u: np.ndarray, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(codes [M, C] of donors drawn by weight for the instances who [M], the rest of u).

        u: uniform numbers between 0 and 1, [M]. After the donor is chosen, the rest of such a
        number is uniform again.
        """
        cumulative = np.cumsum(self.weights)
        at = u * cumulative[-1]
        place = np.minimum(np.searchsorted(cumulative, at, "right"), len(cumulative) - 1)
        return self.codes[place], 1 - (cumulative[place] - at) / self.weights[place]

    @cached_property
    def bits(self) -> np.ndarray:
        """The codes as integers, to be compared bit for bit."""
        return agreement_codes(self.codes)

    @cached_property
    def digest(self) -> Any:
        """A hash of the donors' rows and weights, equal for JAX and the host. Empty if each
        instance has its own donor.
        """
        digest = hashlib.blake2b(digest_size=16)
        if not self.SHARED:
            return digest
        digest.update(self.weights.tobytes())
        rows = rows_of(self.as_read)
        frame = rows.is_frame
        columns = zip(rows.labels, rows.columns(), strict=True) if frame else [("", rows.matrix())]
        for label, column in columns:
            digest.update(repr(label).encode() if frame else b"")
            for part in array_bytes(column):
                digest.update(part)
        return digest

    @property
    def codes_of_rows(self) -> np.ndarray:
        """Codes of all rows, including those of weight 0; [rows_given, C]."""
        if len(self.codes) == self.rows_given:
            return self.codes
        return self.table.encode(self.rows)[1]

    @property
    def as_read(self) -> Any:
        """The donors [B] in the form of the user's rows: arrays or frames, not codes of a
        translation."""
        there = self.for_estimator()
        return there.table.decode(there.codes)

    def for_estimator(self) -> Replacement:
        """The same rows for the estimator, if a translation used them."""
        if not isinstance(self.table, CodedTable):
            return self
        return self._encoded_by(self.table.host)

    def for_model(self, model: Model) -> Replacement:
        """The same rows for the model that runs for a translated estimator.

        Raises Untranslatable for rows that do not fit JAX.
        """
        if model.loop == "host" or not isinstance(self.table, CodedTable):
            return self.for_estimator()
        if self.table.reader is model.reader:
            return self
        assert model.reader is not None
        return self._encoded_by(CodedTable(self.table.host, model.reader))

    def _encoded_by(self, table: CodeTable) -> Replacement:
        table, codes = table.encode(self.rows)
        rows = self.rows if isinstance(table, CodedTable) else None
        return replace(self, table=table, codes=codes[self.row], rows=rows)

    def held_by(self, table: CodeTable) -> Replacement:
        """The same rows in codes of another table."""
        codes = table.encode(self.table.decode(self.codes))[1]
        return replace(self, table=table, codes=codes)


class ReplacementSource:
    """An object that `background=` takes besides rows, and that makes its own replacement."""

    HYBRIDS: ClassVar[bool] = True  # name of its replacement
    UNWEIGHTED: ClassVar[str]  # the reason why it takes no weights=

    @property
    def of_instances(self) -> bool:
        """Whether the replacement needs the instances."""
        return False

    def replacement(self, model: Model, X: Any) -> Replacement:
        """The replacement for a model; X: the instances, if it needs them."""
        raise NotImplementedError


def table_of(model: Model, background: Any, name: str = "background") -> CodeTable:
    """The table that reads such rows for a model; `name` is their argument."""
    refuse_series(background, name)
    if isinstance(background, ReplacementSource):
        raise InputTypeError(f"{name} is {background!r}, where rows are needed. Give rows [B, F].")
    rows = rows_of(background)
    if rows.kind == "tree":
        if model.input_shape is not None or model.feature_names is not None:
            raise InputError(
                f"{name} is rows in several arrays, but input_shape= and feature_names= of "
                "as_model are of one array. Leave them out."
            )
        on_host = model.backend == "host"
        return TreeTable.of(background, name, None if on_host else _numbers_of(model))
    names = model.feature_names
    as_given = model.backend == "host" or model.reader is not None
    if rows.is_frame:
        labels = frame_labels(background, name)
        shape: tuple[int, ...] = (len(labels),)
        if model.input_shape not in (None, shape):
            raise InputError(
                f"{name} is a frame of {len(labels)} columns, but input_shape="
                f"{model.input_shape}. Give arrays."
            )
        if names is not None:
            same_labels(labels, names, name, "the model")
        if as_given:
            return _read_for(model, FrameTable.of(background, name))
        names = labels
    else:
        array = checks.as_array(background, name)
        wanted = model.input_shape
        if wanted is None and array.ndim > 2 and model.estimator is None:
            wanted = array.shape[1:]  # for example images: as given
        shape = checks.rows_of(array, name, wanted).shape[1:]
        if names is not None and len(names) != math.prod(shape):
            raise InputError(
                f"feature_names has {len(names)} names, but the {name} has "
                f"{math.prod(shape)} columns."
            )
        checks.unique_names(names or (), "feature_names")
        if as_given:
            return _read_for(model, WordTable(shape, array.dtype, names))
    numbers = _numbers_of(model)
    takes = partial(row_dtype, model, shape)
    dtype = takes(dtype_of(background, name))
    return FloatTable(shape, numbers, names, dtype if dtype.kind in "biu" else None, takes)


def array_bytes(array: np.ndarray) -> Iterator[bytes]:
    """Bytes that identify an array."""
    yield f"{array.dtype.str}{array.shape}".encode()
    if array.dtype.kind == "O":
        yield repr([(type(item).__name__, item) for item in array.ravel().tolist()]).encode()
    else:
        yield np.ascontiguousarray(array).tobytes()


def _numbers_of(model: Model) -> np.dtype:
    return np.dtype("f8" if model.precision == "float64" else "f4")


def _read_for(model: Model, table: CodeTable) -> CodeTable:
    reader = answering(model).reader
    return table if reader is None else CodedTable(table, reader)


def agreement_codes(codes: np.ndarray) -> np.ndarray:
    """Codes as integers, to be compared bit for bit."""
    if codes.dtype.kind == "f":
        return codes.view(f"i{codes.dtype.itemsize}")
    return codes


def differing(x: np.ndarray, donors: np.ndarray, players: np.ndarray, P: int) -> np.ndarray:
    """Whether player p of instance n differs from donor b; bool [N, B, P].

    x [N, C], donors [B, C] are codes, compared bit for bit; players [C] is the player of each code
    column: -1: always kept, -2: never kept. The caller has replaced all NaN by a single one.
    """
    x, donors = agreement_codes(x), agreement_codes(donors)
    (N, C), B = x.shape, len(donors)
    single = P == C and bool((players == np.arange(P)).all())
    order = np.argsort(players, kind="stable")
    starts = np.searchsorted(players[order], np.arange(P))
    out = np.empty((N, B, P), bool)
    step = max(1, COMPARE_BYTES // max(1, B * C))
    for n in range(0, N, step):
        unequal = x[n : n + step, None, :] != donors[None, :, :]
        if single:
            out[n : n + step] = unequal
        else:
            out[n : n + step] = np.logical_or.reduceat(unequal[..., order], starts, axis=-1)
    return out


def kept_columns(mask: np.ndarray, players: np.ndarray) -> np.ndarray:
    """The columns that a coalition bool [P] keeps, bool [C]; players [C] as in `differing`."""
    return np.append(mask, [False, True])[players]
