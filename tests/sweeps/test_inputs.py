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


@pytest.mark.slow
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


def swept_file(made, rows, out, each=10):
    run = xj.sweep(made, rows, out, rows_per_part=each)
    return run, [run.explanation(), run.explanation(lazy=True)]


@pytest.mark.parametrize("statistics", [True, False])
def test_missing_whole_numbers_are_read_alike_in_all_parts(statistics, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": np.arange(40) % 7, "b": BIG[:40, 0].astype(float)})
    holed = frame.astype({"a": "Int64"})
    holed.loc[33, "a"] = pd.NA
    path = tmp_path / "rows.parquet"
    holed.to_parquet(path, row_group_size=6, write_statistics=statistics)
    model = xj.as_model(
        lambda f: f["a"].astype(float).fillna(-1).to_numpy() * f["b"].to_numpy(),
        backend="host",
        allow_nan=True,
    )
    for dtype in (np.float64, "Int64"):
        background = frame[:3].astype({"a": dtype})
        whole = holed.astype({"a": dtype})
        made = xj.Explainer(model, background)
        _, found = swept_file(made, path, tmp_path / str(dtype))
        for one in found:
            np.testing.assert_array_equal(one.values, made(whole).values)
            assert one.data["a"].dtype == whole["a"].dtype
            assert one.data["a"].isna().tolist() == whole["a"].isna().tolist()
    piece = inputs.source_of(path, np.zeros((1, 2))).part(0, 10)
    assert piece.read().dtype == np.float64, "as of one array of all rows"


def test_whole_numbers_that_would_change_are_refused(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": pd.array([2**60 + 1, pd.NA, 3], "Int64")})
    frame.to_parquet(tmp_path / "rows.parquet")
    source = inputs.source_of(tmp_path / "rows.parquet", np.zeros((1, 1)))
    with pytest.raises(xj.InputError, match="column 'a' holds int64, but all of X is read as") as e:
        source.part(0, 1).read()
    assert "1152921504606846977" not in str(e.value), "a person's row"


def test_truth_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pd.DataFrame({"a": [True, False, None, True]}).to_parquet(path)
    with pytest.raises(xj.InputTypeError, match="'a' holds bool with missing entries"):
        inputs.source_of(path, np.zeros((1, 1)))
    for dtype, wanted in ((bool, object), ("boolean", "boolean")):
        source = inputs.source_of(path, pd.DataFrame({"a": [True]}, dtype=dtype))
        assert [source.part(n, n + 1).read()["a"].dtype for n in range(4)] == [wanted] * 4


@pytest.mark.slow
@pytest.mark.parametrize("library", [pd, polars])
def test_categories_that_differ_between_files(library, tmp_path: Path) -> None:
    (tmp_path / "rows").mkdir()
    texts = []
    for n, own in enumerate((["u", "v"], ["v", "w"], ["w", "u"])):
        some = np.array(own)[np.arange(8) % 2]
        texts += some.tolist()
        frame = pd.DataFrame({"c": pd.Categorical(some, own), "x": BIG[8 * n : 8 * n + 8, 0]})
        frame.to_parquet(tmp_path / "rows" / f"{n}.parquet")
    whole = pd.DataFrame({"c": texts, "x": BIG[:24, 0]})
    known = pd.CategoricalDtype(["w", "v", "u"])
    if library is pd:
        given = [whole, whole.astype({"c": known})]
    else:
        whole = polars.from_pandas(whole)
        kinds = (polars.String, polars.Categorical, polars.Enum(["w", "v", "u"]))
        given = [whole.with_columns(whole["c"].cast(kind)) for kind in kinds]
    model = xj.as_model(lambda f: (f["c"].to_numpy() == "u") * f["x"].to_numpy(), backend="host")
    for n, rows in enumerate(given):
        made = xj.Explainer(model, rows[:3])
        _, found = swept_file(made, tmp_path / "rows", tmp_path / str(n), 5)
        for one in found:
            np.testing.assert_array_equal(one.values, made(rows).values)
            assert list(one.data.dtypes) == list(rows.dtypes)
    if library is pd:
        few = whole[:3].astype({"c": pd.CategoricalDtype(["u", "v"])})
        source = inputs.source_of(tmp_path / "rows", few)
        assert len(source.part(0, 9).read()) == 9
        with pytest.raises(xj.InputError, match="'c' has in row 9 a category"):
            source.part(5, 20).read()


def test_types_that_differ_between_files(tmp_path: Path) -> None:
    for n, column in enumerate(([1, 2], [0.5, 1.5], [None, None])):
        parquet.write_table(arrow.table({"a": column}), tmp_path / f"{n}.parquet")
    background = pd.DataFrame({"a": [1.0]})
    source = inputs.source_of(tmp_path, background)
    parts = [source.part(n, n + 1).read()["a"] for n in range(6)]
    assert {one.dtype for one in parts} == {np.dtype(float)}
    np.testing.assert_array_equal(np.concatenate(parts), [1, 2, 0.5, 1.5, np.nan, np.nan])
    given = inputs.source_of(tmp_path, np.zeros((1, 1))).part(1, 5).read()
    np.testing.assert_array_equal(given, np.concatenate(parts)[1:5, None])
    parquet.write_table(arrow.table({"a": ["x"]}), tmp_path / "3.parquet")
    with pytest.raises(xj.InputError, match=r"'a' has several types .*int64, double.*string"):
        inputs.source_of(tmp_path, background)


def test_a_filtered_dataset_is_refused(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    whole = dataset.dataset(as_file(X, tmp_path), format="parquet")
    for some in (
        whole.filter(dataset.field("a") > 1),
        dataset.FileSystemDataset(
            [next(whole.get_fragments()).subset(row_group_ids=[0])],
            whole.schema,
            whole.format,
            whole.filesystem,
        ),
    ):
        with pytest.raises(xj.InputError, match=r"with a filter, or of some row groups.*write_dat"):
            xj.sweep(explainer(), some, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dataset_of_another_schema(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    path, types = as_file(X, tmp_path), [(name, "float64") for name in "badc"]
    given = dataset.dataset(path, schema=arrow.schema(types), format="parquet")
    source = inputs.source_of(given, B)
    np.testing.assert_array_equal(source.part(3, 9).read(), X[3:9, [1, 0, 3, 2]])
    assert source.part(0, 1).read().dtype == np.float64
    assert source.facts()["types"] == dict.fromkeys("abcd", "double")
    given = dataset.dataset(path, schema=arrow.schema([*types, ("e", "int64")]), format="parquet")
    with pytest.raises(xj.InputError, match="no column 'e', which the Dataset's schema has"):
        inputs.source_of(given, B)


def test_a_dataset_says_what_columns_are(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    columns = {"a": [1.0, None, 3.0], "b": [1, 2, 3]}
    parquet.write_table(arrow.table(columns), tmp_path / "rows.parquet", row_group_size=1)
    given = dataset.dataset(tmp_path / "rows.parquet", schema=arrow.schema([("a", "int64")]))
    source = inputs.source_of(given, pd.DataFrame({"a": [1.0]}))
    assert {source.part(n, n + 1).read()["a"].dtype for n in range(3)} == {np.dtype(float)}
    with pytest.raises(xj.InputError, match=r"no column 'b', .* it has \['a'\]"):
        inputs.source_of(given, pd.DataFrame({"b": [1.0]}))


def test_columns_that_folders_name(tmp_path: Path) -> None:
    dataset = pytest.importorskip("pyarrow.dataset")
    frame = pd.DataFrame(X[:20, :3].astype(float), columns=list("abc")).assign(y=np.arange(20) // 7)
    frame.to_parquet(tmp_path / "rows", partition_cols=["y"])
    model = xj.as_model(lambda f: f["a"].to_numpy() * f["y"].to_numpy(), backend="host")
    made = xj.Explainer(model, frame[:3])
    hive = dataset.dataset(tmp_path / "rows", partitioning="hive")
    for n, rows in enumerate((tmp_path / "rows", hive)):
        _, found = swept_file(made, rows, tmp_path / str(n), 6)
        np.testing.assert_array_equal(found[0].values, made(frame).values)
        np.testing.assert_array_equal(found[1].data["y"], frame["y"])
    source = inputs.source_of(tmp_path / "rows", B)
    np.testing.assert_array_equal(source.part(5, 20).read(), frame[5:20])
    facts = source.facts()
    (tmp_path / "rows" / "y=2").rename(tmp_path / "rows" / "y=3")
    assert inputs.source_of(tmp_path / "rows", B).facts() != facts


def test_folders_may_name_categories(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"a": np.arange(6.0), "g": ["u", "v", "u", "v", "v", "u"], "y": [1, 2] * 3}
    )
    frame.to_parquet(tmp_path / "text", partition_cols=["g", "y"])
    known = frame.astype({"g": pd.CategoricalDtype(["v", "u"]), "y": pd.CategoricalDtype([2, 1])})
    for background in (frame, known):
        source = inputs.source_of(tmp_path / "text", background)
        parts = [source.part(n, n + 1).read() for n in range(6)]
        for one in parts:
            assert (one["g"].dtype, one["y"].dtype.kind) == (
                background["g"].dtype,
                background["y"].dtype.kind,
            )
        found = pd.concat(parts).sort_values("a")
        assert found["g"].tolist() == frame["g"].tolist()
        assert found["y"].tolist() == frame["y"].tolist()
    holed = frame.assign(y=[1, None] * 3, g=["u", "v", None] * 2)
    holed.to_parquet(tmp_path / "none", partition_cols=["y", "g"])
    source = inputs.source_of(tmp_path / "none", frame)
    assert source.part(0, 6).read()["g"].isna().sum() == 2
    assert {source.part(n, n + 1).read()["y"].dtype for n in range(6)} == {np.dtype(float)}


def test_files_in_the_order_given(tmp_path: Path) -> None:
    paths = []
    for n, some in enumerate(np.array_split(BIG[:30], 3)):
        paths.insert(0, tmp_path / f"{n}.parquet")
        parquet.write_table(table(some), paths[0])
    source = inputs.source_of([str(paths[0]), *paths[1:]], B)
    np.testing.assert_array_equal(
        source.part(5, 25).read(), np.concatenate([BIG[20:30], BIG[10:20], BIG[:10]])[5:25]
    )
    with pytest.raises(xj.InputError, match=r"rows.npy is no .parquet file.*folder"):
        inputs.source_of([paths[0], "rows.npy"], B)
    with pytest.raises(xj.InputTypeError, match="names of Parquet files"):
        inputs.source_of([str(paths[0]), 3], B)


def test_a_map_that_was_written_to_is_read_as_it_is(tmp_path: Path) -> None:
    as_map(X, tmp_path)
    changed = np.load(tmp_path / "rows.npy", mmap_mode="c")
    changed[:5] += 1
    made = explainer()
    run = xj.sweep(made, changed, tmp_path / "run", rows_per_part=EACH)
    np.testing.assert_array_equal(run.explanation().values, made(np.array(changed)).values)
    piece = pickle.loads(pickle.dumps(inputs.source_of(changed, B).part(3, 8)))
    np.testing.assert_array_equal(piece.read(), changed[3:8])


def test_names_that_no_rows_have(tmp_path: Path) -> None:
    formats = r"rows.csv is no .parquet or .npy file. Give a .parquet \(.pq\) or .npy file, a fold"
    with pytest.raises(xj.InputError, match=formats):  # there or not
        inputs.source_of("rows.csv", B)
    with pytest.raises(FileNotFoundError, match="no file or folder .*nowhere"):
        inputs.source_of("nowhere", B)
    wide = np.concatenate([X, X[:, :1]], 1)
    path = tmp_path / "wide.parquet"
    pd.DataFrame(wide, columns=["id", *NAMES]).to_parquet(path)
    said = r"wide.parquet has 5 columns, \['id', 'a', 'b', 'c', 'd'\], but the .* has 4"
    with pytest.raises(xj.InputError, match=said):
        xj.sweep(explainer(), path, tmp_path / "run")
    assert not (tmp_path / "run").exists()
