"""What a run writes for others: it replaces what it wrote itself, and nothing else."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sweeping import EACH, X, explainer, parts, product

import xaijax as xj

pytest.importorskip("pyarrow", reason="needs the extra [scale]")
zarr = pytest.importorskip("zarr", reason="needs the extra [scale]")


@pytest.fixture
def run(tmp_path: Path) -> xj.Run:
    return xj.sweep(explainer(), X, tmp_path / "run", rows_per_part=EACH)


def test_a_directory_of_other_files_is_left_alone(run: xj.Run, tmp_path: Path) -> None:
    thesis = tmp_path / "thesis"
    thesis.mkdir()
    (thesis / "data.txt").write_text("the only copy")
    with pytest.raises(xj.InputError, match=r"thesis holds other files \('data.txt'\).*new dir"):
        run.to_zarr(thesis)
    assert (thesis / "data.txt").read_text() == "the only copy"
    there = parts(run.path)
    with pytest.raises(xj.InputError, match="holds other files"):
        run.to_zarr(run.path)
    assert parts(run.path) == there


def test_a_group_of_a_run_is_replaced_and_no_other(run: xj.Run, tmp_path: Path) -> None:
    own, other = tmp_path / "own.zarr", tmp_path / "other.zarr"
    own.mkdir()  # an empty one may be taken
    for _ in range(2):
        assert run.to_zarr(own) == own
        found = zarr.open_group(str(own), mode="r")["values"][:]
        np.testing.assert_array_equal(found, explainer()(X).values)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["own.zarr", "run"]
    (own / "notes.txt").write_text("mine")
    with pytest.raises(xj.InputError, match=r"holds other files \('notes.txt'\)"):
        run.to_zarr(own)
    group = zarr.open_group(str(other), mode="w", attributes={"format": "something else"})
    group.create_array("values", shape=(2,), dtype="float64")[:] = 7
    with pytest.raises(xj.InputError, match="not replaced"):
        run.to_zarr(other)
    assert zarr.open_group(str(other), mode="r")["values"][0] == 7


def test_two_shards_may_write_the_group_of_a_run_at_once(run: xj.Run, tmp_path: Path, monkeypatch):
    """Both have seen that all parts are there; the other is faster by a moment."""
    own, replace, other = tmp_path / "own.zarr", os.replace, []

    def late(source, target) -> None:
        if Path(target) == own and other:
            other.pop().to_zarr(own)
        replace(source, target)

    monkeypatch.setattr(os, "replace", late)
    other.append(
        xj.sweep(explainer(lambda X: 2 * product(X)), X, tmp_path / "two", rows_per_part=9)
    )
    with pytest.raises(OSError):  # a group of another run is no answer
        run.to_zarr(own)
    shutil.rmtree(own)
    shutil.rmtree(tmp_path / "two")
    other.append(run)
    assert run.to_zarr(own) == own and not other
    found = zarr.open_group(str(own), mode="r")["values"][:]
    np.testing.assert_array_equal(found, explainer()(X).values)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["own.zarr", "run"]


def test_names_that_no_group_can_have(run: xj.Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for name, said in (("file", "is a file"), ("link", "is a link"), ("no/where", "no does not")):
        with pytest.raises(xj.InputError, match=said):
            run.to_zarr(tmp_path / name)
    with pytest.raises(xj.InputError, match="no does not exist; make it first"):
        run.to_parquet(tmp_path / "no" / "where.parquet")
    with pytest.raises(xj.InputError, match="folder is a folder"):
        run.to_parquet(tmp_path / "folder")


def test_a_parquet_file_of_a_run_is_replaced_and_no_other(run: xj.Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    pd.DataFrame(X, columns=list("abcd")).to_parquet(rows)
    before = rows.read_bytes()
    with pytest.raises(xj.InputError, match=r"rows.parquet exists and is no Parquet file of a"):
        run.to_parquet(rows)
    assert rows.read_bytes() == before
    with pytest.raises(xj.InputError, match="not replaced"):
        run.to_parquet(run.path / "part-000000.npz")
    assert not xj.open_run(run.path).missing
    own = tmp_path / "own.parquet"
    own.touch()  # as NamedTemporaryFile leaves it
    for _ in range(2):
        assert len(pd.read_parquet(run.to_parquet(own))) == len(X)


@pytest.mark.skipif(sys.platform == "win32", reason="no modes there")
def test_files_that_hold_rows_are_for_their_owner_alone(run: xj.Run, tmp_path: Path) -> None:
    run.explanation(lazy=True)
    run.to_parquet(tmp_path / "one.parquet")
    paths = [tmp_path / "one.parquet", *run.path.glob("part-*.npz")]
    assert len(paths) == 4
    paths += [one for one in (run.path / "joined").iterdir() if one.is_file()]
    run.to_zarr(tmp_path / "one.zarr")
    inside = list((tmp_path / "one.zarr").rglob("*"))
    paths += [one for one in inside if one.is_file()]
    folders = [tmp_path / "one.zarr", *(one for one in inside if one.is_dir())]
    assert {one.stat().st_mode & 0o777 for one in folders} == {0o700}
    assert {one.stat().st_mode & 0o777 for one in paths} == {0o600}
    assert (run.path / "joined").stat().st_mode & 0o777 == 0o700
