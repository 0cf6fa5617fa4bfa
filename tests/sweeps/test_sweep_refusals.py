"""What a sweep refuses before any work, what it says of the whole, and how it is heard of."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sweeping import EACH, B, X, explainer, parts, product

import xaijax as xj
from xaijax.sweeps import inputs
from xaijax.sweeps import sweep as progress
from xaijax.sweeps.engines.choose import shard_of


def test_counts_are_those_of_one_call(tmp_path: Path) -> None:
    made, rows = xj.Explainer(xj.as_model(lambda z: z @ np.arange(4.0)), B), np.tile(X[:5], (8, 1))
    for n, (given, each) in enumerate(((X, 10), (X[:20], 10), (rows, 2))):
        run = xj.sweep(made, given, tmp_path / str(n), rows_per_part=each)
        wanted = made(given).stats
        for lazy in (False, True):
            stats = run.explanation(lazy=lazy).stats
            assert stats["naive_rows"] == wanted["naive_rows"]
            assert stats["checked_rows"] == sum(run.sizes) + run.parts * len(B)
    assert sum(run.sizes) == 5, "equal rows were asked once"


def test_whole_numbers_of_numpy_are_numbers_of_processes() -> None:
    assert shard_of(np.int64(2))[1] == 2 and type(shard_of(np.int64(2))[1]) is int
    assert type(shard_of(xj.engines.shard(0, 2, np.int32(3)))[1]) is int
    for wrong in (True, 0, "dask", 2.0):
        with pytest.raises((xj.InputError, xj.InputTypeError), match="executor must"):
            shard_of(wrong)


def test_lines_come_while_a_part_runs(monkeypatch, capsys) -> None:
    monkeypatch.delitem(sys.modules, "ipykernel", raising=False)  # where bars are drawn
    monkeypatch.setattr(progress, "EVERY", 0.05)
    monkeypatch.setattr(progress, "LOOKS", 0.05)
    with progress.Progress(None, 100, 0):
        started, text = time.monotonic(), ""
        while text.count("\n") < 3 and time.monotonic() - started < 60:  # one long part
            time.sleep(0.02)
            text += capsys.readouterr().err
        lines, most = text.splitlines(), (time.monotonic() - started) / 0.05
        assert 3 <= len(lines) <= most + 1, "as many as the clock says, and no more"
        assert lines[0].startswith("xaijax: 0 of 100 rows (0%)")
    assert not [one for one in threading.enumerate() if one.name == "xaijax-progress"]
    with progress.Progress(False, 100, 0):
        time.sleep(0.2)
    assert capsys.readouterr().err == ""


def bad(row: int) -> np.ndarray:
    rows = X.copy()
    rows[row, 1] = np.nan
    return rows


def framed(rows):
    return pd.DataFrame(rows, columns=list("abcd"))


def of_frames(rows):
    return product(rows.to_numpy())


def as_array(rows, folder):
    return rows, explainer()


def as_map(rows, folder):
    np.save(folder / "rows.npy", rows)
    return folder / "rows.npy", explainer()


def as_frame(rows, folder):
    return framed(rows), xj.Explainer(xj.as_model(of_frames, backend="host"), framed(B))


def as_federated(rows, folder):
    return rows, xj.FederatedExplainer(xj.as_model(product, backend="host"), B, {"bank": [1, 2]})


def as_individual(rows, folder):
    model = xj.as_model(product, backend="host", threshold=4.0, classes=["no", "yes"])
    return rows, xj.QII(model, X, quantity="individual")


def as_rules(rows, folder):
    model = xj.as_model(lambda z: product(z) > 4, backend="host", output="label")
    return rows, xj.AnchorExplainer(model, X, list("abcd"))


@pytest.mark.parametrize(
    "given", [as_array, as_map, as_frame, as_federated, as_individual, as_rules]
)
def test_rows_in_memory_are_looked_at_before_the_first_part(
    given, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(inputs, "AT_ONCE", 8)
    rows, made = given(bad(23), tmp_path)
    with pytest.raises(xj.InputError) as said:
        (getattr(made, "explain", None) or made)(np.load(rows) if given is as_map else rows)
    assert "at row 23" in str(said.value)
    with pytest.raises(xj.InputError) as found:
        xj.sweep(made, rows, tmp_path / "run", rows_per_part=EACH)
    assert str(found.value) == str(said.value)
    assert not (tmp_path / "run").exists(), "no work was done"


@pytest.mark.filterwarnings("ignore:The model raised")  # for rows spread over X
@pytest.mark.slow
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("executor", [None, 1])
def test_of_files_the_error_names_the_row_of_X(repeated, executor, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra [scale]")
    rows = np.concatenate([bad(23)[:5]] * 4 + [bad(23)[5:]]) if repeated else bad(23)
    framed(rows).to_parquet(tmp_path / "rows.parquet", row_group_size=4)
    row = int(np.argwhere(np.isnan(rows))[0, 0])
    assert row == (38 if repeated else 23)
    error = xj.InputError if executor is None else xj.SweepIncompleteError
    with pytest.raises(error, match=f"X contains NaN at row {row}, column 1") as found:
        xj.sweep(explainer(), tmp_path / "rows.parquet", tmp_path / "run", executor, EACH)
    assert executor or "xaijax: raised in part 2, rows 20 to 2" in found.value.__notes__[0]
    assert parts(tmp_path / "run"), "the parts before are kept"


def test_a_format_that_cannot_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch
) -> None:
    def of(out, made, format, error, said, rows=X):
        with pytest.raises(error, match=said):
            xj.sweep(made, rows, out, rows_per_part=EACH, format=format)
        assert not parts(out)

    pytest.importorskip("pyarrow", reason="needs the extra [scale]")
    out = tmp_path / "run"
    of(out, as_rules(X, out)[1], "zarr", xj.InputError, "gives rules. Say format='parquet'")
    two = xj.as_model(
        lambda z: np.stack([product(z)] * 2, 1),
        backend="host",
        feature_names=["a", "a_b", "c", "d"],
        output_names=["b_x", "x"],
    )
    said = "two columns of the table would be called 'phi_a_b_x'. Give the players"
    of(out, xj.Explainer(two, B), "parquet", xj.InputError, said)
    options = {"outputs": np.zeros(len(X), int)}  # which have no names in the columns
    xj.sweep(xj.Explainer(two, B), X, tmp_path / "one", format="parquet", options=options)
    for format, library in (("parquet", "pyarrow.parquet"), ("zarr", "zarr")):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, library, None)
            of(out, explainer(), format, ImportError, "is needed here: pip install")
    out.mkdir()
    (out / "explanation.parquet").write_text("mine")
    of(out, explainer(), "parquet", xj.InputError, "explanation.parquet exists")
