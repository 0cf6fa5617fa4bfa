"""The rows of a sweep: maps and files, of which each task reads its own."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pytest
from sweeping import EACH, B, X, explainer

import xaijax as xj
from xaijax.sweeps import inputs

parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra [scale]")
arrow = pytest.importorskip("pyarrow")
NAMES = list("abcd")
RNG = np.random.default_rng(1)
BIG = RNG.normal(size=(1000, 4)).astype(np.float32)


def table(rows):
    return arrow.table({name: rows[:, j] for j, name in enumerate(NAMES)})


def as_map(rows, folder):
    path = folder / "rows.npy"
    np.save(path, rows)
    return np.load(path, mmap_mode="r")


def as_npy(rows, folder):
    as_map(rows, folder)
    return folder / "rows.npy"


def as_file(rows, folder):
    parquet.write_table(table(rows), folder / "rows.parquet", row_group_size=7)
    return str(folder / "rows.parquet")


def as_folder(rows, folder):
    for n, start in enumerate(range(0, len(rows), 11)):
        path = folder / f"rows-{n:03d}.parquet"
        parquet.write_table(table(rows[start : start + 11]), path, row_group_size=4)
    return folder


def as_dataset(rows, folder):
    dataset = pytest.importorskip("pyarrow.dataset")
    return dataset.dataset(as_folder(rows, folder), format="parquet")


@pytest.mark.parametrize("given", [as_map, as_npy, as_file, as_folder, as_dataset])
def test_rows_come_as_they_are(given, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    source = inputs.source_of(given(BIG[:40], tmp_path / "rows"), B)
    assert source.rows == 40
    for first, last in ((0, 40), (0, 1), (3, 17), (38, 40), (7, 14)):
        piece = source.part(first, last)
        sent = pickle.dumps(piece)
        np.testing.assert_array_equal(pickle.loads(sent).read(), BIG[first:last])
        assert len(sent) < 3000, "a task carries its place, and not the rows"
    facts = inputs.source_of(given(BIG[:40], tmp_path / "rows"), B).facts()
    assert facts == source.facts()
    other = BIG[:40].copy()
    other[39, 3] += 1
    assert inputs.source_of(given(other, tmp_path / "rows"), B).facts() != facts


@pytest.mark.parametrize("given", [as_map, as_file, as_folder])
def test_the_same_values_as_of_an_array(given, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    made = explainer()
    run = xj.sweep(made, given(X, tmp_path / "rows"), tmp_path / "run", rows_per_part=EACH)
    np.testing.assert_array_equal(run.explanation().values, made(X).values)


@pytest.mark.parametrize("library", [pd, polars])
def test_frames_are_read_by_the_names_of_the_background(library, tmp_path: Path) -> None:
    frame = pd.DataFrame({"age": [1, 2, 3, 4, 5], "job": ["a", "b", "a", "c", "b"]})
    frame = frame.iloc[np.arange(20) % 5].reset_index(drop=True)
    frame.assign(more=1.0)[["more", "job", "age"]].to_parquet(tmp_path / "rows.parquet")
    background = frame.iloc[:3] if library is pd else polars.from_pandas(frame.iloc[:3])

    def model(rows):
        assert isinstance(rows, library.DataFrame) and list(rows.columns) == ["age", "job"]
        return np.asarray(rows["age"]) * (np.asarray(rows["job"]) == "a")

    made = xj.Explainer(xj.as_model(model, backend="host"), background)
    run = xj.sweep(made, tmp_path / "rows.parquet", tmp_path / "run", rows_per_part=6)
    whole = frame if library is pd else polars.from_pandas(frame)
    np.testing.assert_array_equal(run.explanation().values, made(whole).values)
    lazy = run.explanation(lazy=True)
    assert type(lazy.data).__module__.startswith(library.__name__)
    assert len(lazy.data) == 20


@pytest.mark.parametrize(
    ("columns", "error", "said"),
    [
        ({"a": [1.0], "b": ["x"]}, xj.InputTypeError, "column 'b' holds (large_)?string"),
        ({"a": []}, xj.InputError, "X has 0 rows"),
    ],
)
def test_files_that_do_not_fit_are_refused(columns, error, said, tmp_path: Path) -> None:
    parquet.write_table(arrow.table(columns), tmp_path / "rows.parquet")
    with pytest.raises(error, match=said):
        xj.sweep(explainer(), tmp_path / "rows.parquet", tmp_path / "run")


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    made = xj.Explainer(
        xj.as_model(lambda f: f["age"].to_numpy(), backend="host"), pd.DataFrame({"age": [1.0]})
    )
    path = as_file(X, tmp_path)
    with pytest.raises(xj.InputError, match=r"no column 'age'.*'a', 'b', 'c', 'd'"):
        xj.sweep(made, path, tmp_path / "run")
    Path(path).write_bytes(b"PAR1 and more")
    with pytest.raises(xj.InputError, match="no Parquet file"):
        xj.sweep(explainer(), path, tmp_path / "run")
    with pytest.raises(xj.InputError, match="rows.csv is no .parquet"):
        (tmp_path / "rows.csv").write_text("a")
        xj.sweep(explainer(), tmp_path / "rows.csv", tmp_path / "run")
    (tmp_path / "empty").mkdir()
    with pytest.raises(xj.InputError, match=r"holds no file \*.parquet"):
        xj.sweep(explainer(), tmp_path / "empty", tmp_path / "run")


def test_a_parquet_file_of_the_values(tmp_path: Path) -> None:
    model = xj.as_model(
        lambda z: np.stack([z[:, 0] * z[:, 1], z[:, 2]], 1), backend="host", output_names=["u", "v"]
    )
    made = xj.Explainer(model, B, estimator="permutation", budget=6)
    run = xj.sweep(made, X, tmp_path / "run", rows_per_part=EACH, format="parquet")
    found = parquet.read_table(tmp_path / "run" / "explanation.parquet")
    wanted = made(X)
    np.testing.assert_array_equal(found["row"], np.arange(len(X)))
    np.testing.assert_array_equal(found["phi_x1_v"], wanted.values[:, 1, 1])
    np.testing.assert_array_equal(found["se_x0_u"], wanted.std_errors[:, 0, 0])
    np.testing.assert_array_equal(found["base_value_u"], wanted.base_values[:, 0])
    assert b'"feature_names": ["x0"' in found.schema.metadata[b"xaijax"]
    opened = parquet.ParquetFile(tmp_path / "run" / "explanation.parquet")
    assert opened.num_row_groups == run.parts


def test_a_parquet_file_of_rules(tmp_path: Path) -> None:
    model = xj.as_model(lambda z: z[:, 0] > 1, output="label", backend="host")
    made = xj.AnchorExplainer(model, X, NAMES)
    run = xj.sweep(made, X, tmp_path / "run", rows_per_part=EACH, options={"max_size": 1})
    found = parquet.read_table(run.to_parquet(tmp_path / "rules.parquet"))
    rules = made.explain(X, max_size=1)
    assert found["rule"].to_pylist() == [" AND ".join(one.rule) or "TRUE" for one in rules]
    assert found["precision"].to_pylist() == [one.precision for one in rules]


def test_a_zarr_group_of_the_values(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", reason="needs the extra [scale]")
    made = explainer()
    xj.sweep(made, X, tmp_path / "run", rows_per_part=EACH, format="zarr")
    group = zarr.open_group(str(tmp_path / "run" / "explanation.zarr"), mode="r")
    np.testing.assert_array_equal(group["values"][:], made(X).values)
    assert group["values"].chunks[0] == EACH
    assert group.attrs["question"]["method"] == "Explainer"
