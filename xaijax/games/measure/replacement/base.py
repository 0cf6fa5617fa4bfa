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
from xaijax.core.errors import InputError
from xaijax.models.model import Model
from xaijax.models.queries.comparison import TranslationCheck, answering
from xaijax.models.queries.rows import row_dtype
from xaijax.tables.frame_table import FrameTable
from xaijax.tables.frames import frame_labels, same_labels
from xaijax.tables.rows import refuse_series, rows_of
from xaijax.tables.table import (
    CodedTable,
    CodeTable,
    FloatTable,
    Untranslatable,
    WordTable,
    dtype_of,
)
from xaijax.tables.tree_table import TreeTable
from xaijax_kernels.engine.lattice import agreement_codes


@dataclass(frozen=True)
class Replacement:
    """What stands in for absent players: donor rows as codes, with their weights.

    A kind of replacement is a class in a file of its own. It says what is in capitals below, and
    overrides `may_change` and `draw` where its donors are not the same for all instances.
    """

    kind: ClassVar[str]  # as results record it
    SHARED: ClassVar[bool] = True  # whether all instances have the same donors

    table: CodeTable
    codes: np.ndarray  # [B, C]
    weights: np.ndarray  # float64 [B], positive, sum 1
    weights_sum: float | None  # of the weights as given; None: none were
    row: np.ndarray  # int64 [B], place of each donor among the background rows given
    rows_given: int  # background rows before those of weight 0 were dropped
    rows: Any = None  # of a translated estimator: the donor rows as it takes them itself

    @classmethod
    def of(
        cls, model: Model, table: CodeTable, rows: Any, weights: tuple[np.ndarray, float | None]
    ) -> Self:
        """Replacement by rows as the table read them; weights: as `checks.row_weights` gives
        them.
        """
        w, total = weights
        if isinstance(table, FloatTable):
            table = table.joined(rows)
        kept = rows if isinstance(table, CodedTable) else None
        try:
            table, codes = table.encode(rows)
        except Untranslatable as reason:
            assert isinstance(model.comparison, TranslationCheck)
            model.comparison.fall_back(str(reason))
            assert isinstance(table, CodedTable)
            kept = None
            table, codes = table.host.encode(rows)
        row = np.flatnonzero(w > 0)
        return cls(table, codes[row], w[row], total, row, len(codes), kept)

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

    def may_change(self, own: np.ndarray) -> np.ndarray:
        """Columns in which a donor differs from the instances, codes [N, C]; bool [N, C]."""
        first = self.bits[0]
        return (agreement_codes(own) != first) | (self.bits != first).any(axis=0)

    def draw(self, u: np.ndarray, who: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(codes [M, C] of donors drawn by weight for the instances who [M], what is left of u).

        u: numbers between 0 and 1, [M]. Once such a number has said the donor, what is left of it
        is uniform again.
        """
        ends = np.cumsum(self.weights)
        at = u * ends[-1]
        place = np.minimum(np.searchsorted(ends, at, "right"), len(ends) - 1)
        return self.codes[place], 1 - (ends[place] - at) / self.weights[place]

    @cached_property
    def bits(self) -> np.ndarray:
        """The codes as whole numbers, to be compared bit for bit."""
        return agreement_codes(self.codes)

    @cached_property
    def digest(self) -> Any:
        """A hash of the donors as they were read and of their weights: the same whether JAX or the
        host asks. Empty where each instance has its own.
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
        """Codes of all of `rows`, those of weight 0 too; [rows_given, C]."""
        if len(self.codes) == self.rows_given:
            return self.codes
        return self.table.encode(self.rows)[1]

    @property
    def as_read(self) -> Any:
        """The donors [B] as the table reads rows: arrays or frames, no codes of a translation."""
        there = self.for_estimator()
        return there.table.decode(there.codes)

    def for_estimator(self) -> Replacement:
        """The same rows, for the estimator itself if its translation took them."""
        if not isinstance(self.table, CodedTable):
            return self
        return self._encoded_by(self.table.host)

    def for_model(self, model: Model) -> Replacement:
        """The same rows for the model that answers for a translated estimator.

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
        """The same rows in codes of another table of them."""
        codes = table.encode(self.table.decode(self.codes))[1]
        return replace(self, table=table, codes=codes)


class ReplacementSource:
    """What `background=` takes in addition to rows: an object that makes its own replacement."""

    def replacement(self, model: Model, X: Any) -> Replacement:
        """The replacement for a model; X: the instances, where it is made of them."""
        raise NotImplementedError


def table_of(model: Model, background: Any, name: str = "background") -> CodeTable:
    """The table that reads such rows for a model; `name` is the argument they came as."""
    refuse_series(background, name)
    given = rows_of(background)
    if given.kind == "tree":
        if model.input_shape is not None or model.feature_names is not None:
            raise InputError(
                f"{name} is rows in several arrays, but input_shape= and feature_names= of "
                "as_model are of one array. Leave them out."
            )
        on_host = model.backend == "host"
        return TreeTable.of(background, name, None if on_host else _numbers_of(model))
    names = model.feature_names
    as_given = model.backend == "host" or model.reader is not None
    if given.is_frame:
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
            wanted = array.shape[1:]  # images, say: as they come
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
    own = takes(dtype_of(background, name))
    return FloatTable(shape, numbers, names, own if own.kind in "biu" else None, takes)


def array_bytes(array: np.ndarray) -> Iterator[bytes]:
    """What tells an array from others."""
    yield f"{array.dtype.str}{array.shape}".encode()
    if array.dtype.kind == "O":
        yield repr([(type(one).__name__, one) for one in array.ravel().tolist()]).encode()
    else:
        yield np.ascontiguousarray(array).tobytes()


def _numbers_of(model: Model) -> np.dtype:
    return np.dtype("f8" if model.precision == "float64" else "f4")


def _read_for(model: Model, table: CodeTable) -> CodeTable:
    reader = answering(model).reader
    return table if reader is None else CodedTable(table, reader)
