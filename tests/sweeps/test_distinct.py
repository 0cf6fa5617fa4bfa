"""Rows that occur more than once are asked once, and answered wherever they stand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sweeping import B, Counted, X, explainer, product

import xaijax as xj
from xaijax.sweeps import inputs
from xaijax.sweeps import inputs as distinct

ORDER = np.random.default_rng(2).integers(0, 6, 40)
OFTEN = X[ORDER]


def swept(out, rows=OFTEN, made=None, **options) -> xj.Run:
    return xj.sweep(made or explainer(), rows, out, rows_per_part=4, **options)


def test_the_values_of_every_row(tmp_path: Path) -> None:
    counted = Counted()
    made = explainer(counted)
    run = swept(tmp_path, made=made)
    assert (run.rows, run.parts, run.sizes) == (40, 2, (4, 2))
    wanted = made(OFTEN)
    for lazy in (False, True, True):
        found = run.explanation(lazy=lazy)
        np.testing.assert_array_equal(found.values, wanted.values)
        np.testing.assert_array_equal(found.base_values, wanted.base_values)
        np.testing.assert_array_equal(found.data, OFTEN)
        bound = wanted.stats["efficiency_bound"]
        np.testing.assert_array_equal(found.stats["efficiency_bound"], bound)
        assert found.provenance["instances"] == 40
    assert found.stats["model_rows"] < wanted.stats["model_rows"]
    again = swept(tmp_path, made=made)
    assert not again.missing


def test_no_file_of_the_distinct_rows_stays(tmp_path: Path, monkeypatch) -> None:
    run, made, mapped = swept(tmp_path), [], np.lib.format.open_memmap

    def noted(path, *how, **more):
        if how:  # a new file; read ones have a keyword
            made.append(path.name)
        return mapped(path, *how, **more)

    monkeypatch.setattr(np.lib.format, "open_memmap", noted)
    run.explanation(lazy=True)
    assert "values.distinct.npy" in made
    left = sorted(one.name for one in (tmp_path / "joined").iterdir())
    assert left == sorted(name for name in made if "distinct" not in name)


def test_draws_are_those_of_the_row(tmp_path: Path) -> None:
    model = xj.as_model(product, backend="host", threshold=4.0, classes=["no", "yes"])
    made = xj.QII(model, X, quantity="individual", samples=16, seed=3)
    found = swept(tmp_path, made=made).explanation()
    wanted = made.explain(OFTEN)
    np.testing.assert_array_equal(found.values, wanted.values)
    np.testing.assert_array_equal(found.std_errors, wanted.std_errors)


def test_rows_of_files_and_frames(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra [scale]")
    frame = pd.DataFrame(OFTEN, columns=list("abcd"))
    frame.to_parquet(tmp_path / "rows.parquet")
    model = xj.as_model(lambda f: product(f.to_numpy()), backend="host")
    made = xj.Explainer(model, pd.DataFrame(B, columns=list("abcd")))
    wanted = made(frame).values
    for name, rows in (("file", tmp_path / "rows.parquet"), ("frame", frame)):
        run = swept(tmp_path / name, rows, made)
        assert run.parts == 2
        found = run.explanation(lazy=True)
        np.testing.assert_array_equal(found.values, wanted)
        np.testing.assert_array_equal(found.data.to_numpy(), OFTEN)
    table = parquet.read_table(run.to_parquet(tmp_path / "values.parquet"))
    np.testing.assert_array_equal(table["row"], np.arange(40))
    np.testing.assert_array_equal(table["phi_b"], wanted[:, 1])


def test_a_random_model_and_outputs_of_each_row_are_asked_every_time(tmp_path: Path) -> None:
    model = xj.as_model(product, backend="host", deterministic=False)
    assert swept(tmp_path / "random", made=xj.Explainer(model, B)).parts == 10
    two = xj.as_model(lambda z: np.stack([product(z), product(-z)], 1), backend="host")
    options = {"outputs": np.arange(40) % 2}
    made = xj.Explainer(two, B)
    run = swept(tmp_path / "outputs", made=made, options=options)
    assert run.parts == 10
    np.testing.assert_array_equal(run.explanation().values, made(OFTEN, **options).values)


@pytest.mark.parametrize("rows", [X, np.random.default_rng(0).normal(size=(40, 4)).astype("f4")])
def test_where_it_does_not_pay_all_are_asked(rows, tmp_path: Path) -> None:
    run = swept(tmp_path, rows)
    assert sum(run.sizes) == len(rows) and not (tmp_path / "distinct.npz").exists()


def test_the_first_rows_say_whether_the_others_are_looked_at(monkeypatch) -> None:
    monkeypatch.setattr(distinct, "LOOKED_AT", 20)
    rows = np.concatenate([np.arange(80.0).reshape(20, 4), np.zeros((60, 4))])
    assert distinct.distinct_of(inputs.source_of(rows, B)) is None
    found = distinct.distinct_of(inputs.source_of(rows[::-1], B))
    assert found is not None
    np.testing.assert_array_equal(found.first, [0, *range(60, 80)])
    np.testing.assert_array_equal(rows[::-1][found.first][found.place], rows[::-1])


def test_a_lost_file_is_found_again(tmp_path: Path) -> None:
    swept(tmp_path)
    (tmp_path / "distinct.npz").write_bytes(b"")
    (tmp_path / "part-000001.npz").unlink()
    run = swept(tmp_path)
    np.testing.assert_array_equal(run.explanation().values, explainer()(OFTEN).values)


def test_tables_say_the_output_of_each_row(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs the extra [scale]")

    def f(rows):
        return np.stack([rows[:, 0], rows[:, 1], rows.sum(axis=1)], axis=1)

    model = xj.as_model(f, backend="host", output_names=("no", "yes", "maybe"))
    explainer, X = xj.Explainer(model, np.zeros((1, 2))), np.random.default_rng(3).random((6, 2))
    own = np.array([2, 0, 1, 1, 0, 2])
    run = xj.sweep(explainer, X, tmp_path / "run", rows_per_part=4, options={"outputs": own})
    table = parquet.read_table(run.to_parquet(tmp_path / "values.parquet"))
    assert table["output"].to_pylist() == ["maybe", "no", "yes", "yes", "no", "maybe"]
    zarr = pytest.importorskip("zarr", reason="needs the extra [scale]")
    group = zarr.open_group(str(run.to_zarr(tmp_path / "values.zarr")), mode="r")
    np.testing.assert_array_equal(group["outputs"][:], own)
