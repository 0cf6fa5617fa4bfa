"""`batches`: an explainer inside of engines that hold tables."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars
import pytest
from sweeping import B, X, explainer

import xaijax as xj

arrow = pytest.importorskip("pyarrow", reason="needs the extra [scale]")
NAMES = list("abcd")
WANTED = explainer()(X)
COLUMNS = {"id": np.arange(len(X)), **{n: X[:, j] for j, n in enumerate(NAMES)}}


@pytest.fixture(scope="module")
def op():
    return pickle.loads(pickle.dumps(xj.batches(explainer(), columns=NAMES)))


def check(found) -> None:
    assert list(found) == [*COLUMNS, "base_value", *(f"phi_x{j}" for j in range(4))]
    np.testing.assert_array_equal(found["id"], COLUMNS["id"])
    for j in range(4):
        np.testing.assert_array_equal(np.asarray(found[f"phi_x{j}"]), WANTED.values[:, j])
    np.testing.assert_array_equal(np.asarray(found["base_value"]), WANTED.base_values)


def test_every_kind_of_batch(op) -> None:
    frame = pd.DataFrame(COLUMNS, index=np.arange(len(X)) + 100)
    batch = arrow.RecordBatch.from_pydict(COLUMNS)
    check(op.ray(COLUMNS))
    found = op.pandas(frame)
    assert list(found.index) == list(frame.index)
    check(found.to_dict("series"))
    check(op.polars(polars.DataFrame(COLUMNS)).to_dict())
    assert isinstance(op.arrow(batch), arrow.RecordBatch)
    check({n: np.asarray(one) for n, one in op.arrow(batch).to_pydict().items()})
    assert isinstance(op.arrow(arrow.table(COLUMNS)), arrow.Table)
    assert isinstance(op.ray(arrow.table(COLUMNS)), arrow.Table)
    assert isinstance(op.ray(frame), pd.DataFrame)


def test_iterators_of_batches_as_spark_gives_them(op) -> None:
    batches = arrow.table(COLUMNS).to_batches(max_chunksize=10)
    found = arrow.Table.from_batches(list(op.arrow(iter(batches))))
    check({n: np.asarray(one) for n, one in found.to_pydict().items()})
    frames = [pd.DataFrame(COLUMNS).iloc[:10], pd.DataFrame(COLUMNS).iloc[10:]]
    check(pd.concat(list(op.pandas(iter(frames)))).to_dict("series"))


def test_it_is_opened_once_in_a_process(monkeypatch) -> None:
    op, opened = xj.batches(explainer(seed=5), columns=NAMES), []
    made = xj.Explainer.__init__
    monkeypatch.setattr(
        xj.Explainer, "__init__", lambda self, *a, **k: opened.append(1) or made(self, *a, **k)
    )
    for _ in range(3):
        pickle.loads(pickle.dumps(op)).ray(COLUMNS)
    assert len(opened) == 1


def test_columns_of_a_frame_and_errors() -> None:
    background = pd.DataFrame(B, columns=NAMES)
    model = xj.as_model(lambda f: f["a"].to_numpy() * f["d"].to_numpy(), backend="host")
    made = xj.Explainer(model, background, estimator="permutation", budget=6)
    found = xj.batches(made, errors=True).pandas(pd.DataFrame(COLUMNS)[[*NAMES[::-1], "id"]])
    wanted = made(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_array_equal(found["se_a"], wanted.std_errors[:, 0])
    np.testing.assert_array_equal(found["phi_d"], wanted.values[:, 3])


def test_batches_that_do_not_fit_are_refused(op) -> None:
    with pytest.raises(xj.InputError, match="no column 'd'"):
        op.ray({name: one for name, one in COLUMNS.items() if name != "d"})
    with pytest.raises(xj.InputError, match="has a column 'phi_x0' already"):
        op.ray(COLUMNS | {"phi_x0": np.zeros(len(X))})
    with pytest.raises(xj.InputTypeError, match="errors must be True or False"):
        xj.batches(explainer(), errors=1)
    with pytest.raises(xj.InputTypeError, match="no answer for each row"):
        xj.batches(xj.AEC())
