"""`rows_of`: the same members whatever holds the rows, and rows of the same kind back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xaijax.tables import rows as module
from xaijax.tables.rows import GivenRows, rows_of
from xaijax.tables.table import MappedRows

NUMBERS = np.array([[1.5, 0.0, 4.0], [2.5, 1.0, 5.0], [3.5, 2.0, 6.0]])
LABELS = ["a", "b", "c"]
KINDS = ["array", "list", "map", "mapped", "jax", "pandas", "polars"]


@pytest.fixture(params=KINDS)
def given(request, tmp_path) -> Any:
    """NUMBERS, held by one kind after the other."""
    kind = request.param
    if kind == "list":
        return NUMBERS.tolist()
    if kind in ("map", "mapped"):
        held = np.memmap(tmp_path / "rows", NUMBERS.dtype, "w+", shape=NUMBERS.shape)
        held[:] = NUMBERS
        return held if kind == "map" else MappedRows(held, lambda part: np.array(part))
    if kind == "jax":
        return pytest.importorskip("jax").numpy.asarray(NUMBERS, "float32")
    if kind in ("pandas", "polars"):
        frame = pytest.importorskip(kind, reason=f"{kind} is not installed").DataFrame
        return frame({label: NUMBERS[:, j] for j, label in enumerate(LABELS)})
    return NUMBERS


def same(found: Any, wanted: np.ndarray) -> None:
    """Equal in every entry, whatever holds them."""
    np.testing.assert_array_equal(rows_of(found).matrix(), wanted)


def test_rows_of_any_kind(given):
    rows = rows_of(given)
    assert rows.native is given and len(rows) == 3
    same(given, NUMBERS)
    same(rows.take(np.array([2, 0])), NUMBERS[[2, 0]])
    same(rows.take(slice(1, None)), NUMBERS[1:])
    same(rows.part(1, 2), NUMBERS[1:2])
    np.testing.assert_array_equal(rows.column(1), NUMBERS[:, 1])
    assert isinstance(rows.column(1), np.ndarray)
    if not isinstance(given, list):
        assert type(rows.part(0, 2)) is (
            np.ndarray if isinstance(given, MappedRows) else type(given)
        )
    if not isinstance(given, MappedRows):
        same(rows.columns_at([2, 0]), NUMBERS[:, [2, 0]])
        same(rows.copy(), NUMBERS)
        assert rows.copy() is not given
        same(rows.stacked([given, given]), np.concatenate([NUMBERS, NUMBERS]))
        same(rows.beside({"d": np.arange(3.0)}), np.column_stack([NUMBERS, range(3)]))
        same(rows.summary("median", "rows", False), NUMBERS[1:2])
        blank = rows.missing("rows")
        assert np.isnan(rows_of(blank).matrix().astype(float)).all()
    texts = list(rows.texts())
    assert len(set(texts)) == 3 and texts[:1] == list(rows_of(rows.part(0, 1)).texts())


def test_labels(given):
    rows = rows_of(given)
    assert rows.is_frame is (rows.kind != "array")
    assert rows.labels == (LABELS if rows.is_frame else [])
    assert len(rows.columns()) == len(rows.labels)


@pytest.mark.parametrize("row_of_same_kind", [True, False])
def test_columns_at_the_values_of_a_row(given, row_of_same_kind):
    if isinstance(given, list | MappedRows):
        pytest.skip("such rows are arrays before columns are replaced")
    rows = rows_of(given)
    row = rows.part(2, 3) if row_of_same_kind and rows.is_frame else NUMBERS[2].astype("f4")
    wanted = NUMBERS.copy()
    wanted[:, [0, 2]] = NUMBERS[2, [0, 2]]
    same(rows.with_row((0, 2), row), wanted)
    same(given, NUMBERS)


def test_a_memory_map_is_not_read_whole(tmp_path):
    asked = []
    held = np.memmap(tmp_path / "rows", np.float32, "w+", shape=(1000, 2))
    rows = rows_of(MappedRows(held, lambda part: asked.append(len(part)) or np.array(part)))
    assert len(rows) == 1000 and not asked
    rows.part(10, 20), rows.take(np.arange(5))
    assert asked == [10, 5]
    assert np.shares_memory(rows_of(held).part(0, 5), held)
    assert np.shares_memory(rows_of(held).column(1), held)


def test_instances_of_rank_above_1():
    images = np.arange(24).reshape(2, 3, 4)
    np.testing.assert_array_equal(rows_of(images).column(5), images[:, 1, 1])
    assert rows_of(images).summary("mean", "rows", False).shape == (1, 3, 4)


def test_arrays_are_not_copied():
    rows = rows_of(NUMBERS)
    assert rows.matrix().base is NUMBERS or rows.matrix() is NUMBERS
    assert all(np.shares_memory(one, NUMBERS) for one in (rows.part(0, 2), rows.column(0)))


def test_what_is_no_rows_is_not_looked_at():
    """Checks say what is wrong with it, by its argument's name."""
    for given in (None, 3, "text", [[1], [1, 2]], object()):
        assert rows_of(given).native is given and not rows_of(given).is_frame


def test_pandas_keeps_index_dtypes_and_labels():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pd.DataFrame([[1, "x", 2.5], [2, None, 3.5]], index=["p", "q"], columns=[0, "w", "w"])
    frame[0] = frame[0].astype("Int8")
    rows = rows_of(frame)
    assert rows.kind == "pandas" and rows.labels == [0, "w", "w"]
    pd.testing.assert_frame_equal(rows.take(np.array([1])), frame.iloc[[1]])
    assert rows.take(np.array([1]), counted=True).index.tolist() == [0]
    pd.testing.assert_frame_equal(rows.columns_at(np.array([2, 0])), frame.iloc[:, [2, 0]])
    pd.testing.assert_frame_equal(rows.stacked([frame, frame]), pd.concat([frame, frame]))
    assert rows.column(0).dtype == np.int8 and rows.column(1).dtype == object
    np.testing.assert_array_equal(rows.column(2), [2.5, 3.5])
    wide = rows_of(rows.columns_at([0])).beside({"g.0": np.zeros(2)})
    assert wide.index.tolist() == ["p", "q"] and list(wide.columns) == [0, "g.0"]
    frame.iloc[0, 0] = None
    np.testing.assert_array_equal(rows.column(0), [np.nan, 2.0])


def test_polars_keeps_dtypes():
    pl = pytest.importorskip("polars", reason="polars is not installed")
    frame = pl.DataFrame({"a": [True, None], "b": pl.Series(["x", None], dtype=pl.Categorical)})
    rows = rows_of(frame)
    assert rows.kind == "polars" and rows.take(np.array([1, 0])).schema == frame.schema
    np.testing.assert_array_equal(rows.column(0), [1.0, np.nan])
    assert rows.column(1).tolist() == ["x", None]
    assert rows.missing("rows").schema == frame.schema
    assert rows.stacked([frame, frame]).equals(pl.concat([frame, frame]))


def test_a_further_kind_is_one_class(monkeypatch):
    class OfDicts(module.GivenRows):
        kind = "dict"

        @classmethod
        def holds(cls, rows: Any) -> bool:
            return isinstance(rows, dict)

        def __len__(self) -> int:
            return len(next(iter(self.native.values())))

        def part(self, first: int, last: int) -> Any:
            return {name: one[first:last] for name, one in self.native.items()}

    monkeypatch.setattr(module, "KINDS", (OfDicts, *module.KINDS))
    rows = rows_of({"x": NUMBERS})
    assert isinstance(rows, GivenRows) and len(rows) == 3 and len(rows.part(0, 2)["x"]) == 2
