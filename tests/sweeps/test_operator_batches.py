"""Batches as engines hand them over: empty ones, ones of another kind, from several threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars
import pytest
from sweeping import B, X, explainer, product

import xaijax as xj
from xaijax.core.pickling import OpenedCache

arrow = pytest.importorskip("pyarrow", reason="needs the extra [scale]")
NAMES = list("abcd")
COLUMNS = {"id": np.arange(len(X)), **{n: X[:, j] for j, n in enumerate(NAMES)}}
FRAME = pd.DataFrame(COLUMNS).astype({"id": "int32"})


@pytest.fixture(scope="module")
def op():
    return xj.batches(explainer(), columns=NAMES, errors=True)


def test_an_empty_batch_gets_the_same_columns_and_dtypes(op) -> None:
    full, none = op.pandas(FRAME), op.pandas(FRAME[:0])
    assert len(none) == 0 and none.dtypes.to_dict() == full.dtypes.to_dict()
    pd.testing.assert_frame_equal(pd.concat([full, none]), full)
    lazy = polars.DataFrame(COLUMNS)
    assert op.polars(lazy[:0]).schema == op.polars(lazy).schema
    table = arrow.table(COLUMNS)
    assert op.arrow(table[:0]).schema == op.arrow(table).schema
    batch = arrow.RecordBatch.from_pydict(COLUMNS)
    assert op.arrow(batch[:0]).schema == op.arrow(batch).schema
    dtypes = [{k: v.dtype for k, v in op.ray(one).items()} for one in (COLUMNS, _none(COLUMNS))]
    assert dtypes[0] == dtypes[1]


def _none(columns):
    return {name: one[:0] for name, one in columns.items()}


def _anchors():
    model = xj.as_model(lambda rows: product(rows) > 2, backend="host", output="label")
    return xj.AnchorExplainer(model, B)


def _of_frames():
    model = xj.as_model(lambda f: f["a"].to_numpy() * f["d"].to_numpy(), backend="host")
    return xj.Explainer(model, pd.DataFrame(B, columns=NAMES))


def _baseline():
    return xj.Explainer(xj.as_model(product, backend="host"), xj.Baseline(B[0]))


@pytest.mark.slow
@pytest.mark.parametrize("make", [_of_frames, _baseline, _anchors])
def test_empty_batches_of_other_explainers(make) -> None:
    op = xj.batches(make(), columns=NAMES)
    full, none = op.pandas(FRAME[:2]), op.pandas(FRAME[:0])
    assert len(none) == 0 and none.dtypes.to_dict() == full.dtypes.to_dict()


def test_an_empty_batch_that_does_not_fit_is_refused() -> None:
    op = xj.batches(explainer())
    with pytest.raises(xj.InputError, match="5 columns for the explainer, which reads 4"):
        op.pandas(FRAME[:0])
    with pytest.raises(xj.InputError, match="no columns"):
        op.ray({})
    made = xj.Explainer(xj.as_model(product, backend="host"), xj.Baseline(np.zeros_like))
    with pytest.raises(xj.InputError, match="Leave empty partitions out"):
        xj.batches(made, columns=NAMES).pandas(FRAME[:0])


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("pandas", {"a": [1.0]}, r"frame must be a frame .* or an iterator .*; got dict"),
        ("pandas", X, "frame must be a frame"),
        ("pandas", FRAME["a"], "got Series"),
        ("pandas", [FRAME], "got list"),
        ("polars", None, "frame must be a frame .*; got NoneType"),
        ("ray", [1, 2], r"batch must be a dict \{name: array\}.*; got list"),
        ("ray", iter([FRAME]), "got list_iterator"),
        ("arrow", FRAME, "batch must be a pyarrow RecordBatch or Table.*; got DataFrame"),
        ("arrow", {"a": [1.0]}, "op.ray dicts of arrays"),
    ],
)
def test_what_is_no_batch_is_refused(op, name, given, said) -> None:
    with pytest.raises(xj.InputTypeError, match=said):
        getattr(op, name)(given)


def test_what_is_no_batch_in_an_iterator_is_refused(op) -> None:
    with pytest.raises(xj.InputTypeError, match="got dict"):
        list(op.pandas(iter([FRAME, {"a": [1.0]}])))


def test_columns_that_say_two_things_are_refused(op) -> None:
    with pytest.raises(xj.InputError, match="two columns 'a'"):
        op.pandas(pd.concat([FRAME, FRAME[["a"]]], axis=1))
    with pytest.raises(xj.InputError, match="different lengths"):
        op.ray(COLUMNS | {"a": np.zeros(3)})
    with pytest.raises(xj.InputError, match="different lengths"):
        op.ray({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0})


def test_several_are_opened_once_each_from_many_threads(monkeypatch) -> None:
    ops = [xj.batches(explainer(seed=100 + k), columns=NAMES) for k in range(3)]
    opened, made = [], xj.Explainer.__init__
    monkeypatch.setattr(
        xj.Explainer, "__init__", lambda self, *a, **k: opened.append(1) or made(self, *a, **k)
    )
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: ops[k % 3].ray(COLUMNS), range(24)))
    assert len(opened) == 3


def test_the_last_few_stay() -> None:
    kept, made = OpenedCache(2), []
    for key in "abacab":  # b goes where c comes, and then c
        with kept.opened(key, lambda key=key: made.append(key) or key, lambda _: False) as one:
            assert one == key
    assert made == ["a", "b", "c", "b"]
    with kept.opened("b", lambda: "anew", lambda one: one == "b") as one:
        assert one == "anew"


def test_one_that_is_in_use_is_not_given_to_another_thread() -> None:
    kept, inside = OpenedCache(1), []
    lock = threading.Lock()

    def use(_):
        with kept.opened("a", object, lambda _: False):
            assert lock.acquire(blocking=False)
            inside.append(1)
            lock.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(use, range(200)))
    assert len(inside) == 200
