"""Batches in Dask and Ray: partitions of a frame and blocks of a data set, as in one call."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sweeping
from sweeping import X, explainer

import xaijax as xj

NAMES = list("abcd")
ROWS = pd.DataFrame({"id": np.arange(len(X)), **{n: X[:, j] for j, n in enumerate(NAMES)}})


def check(found: pd.DataFrame) -> None:
    wanted = explainer()(X)
    found = found.sort_values("id")
    np.testing.assert_array_equal(found["id"], ROWS["id"])
    for j in range(4):
        np.testing.assert_array_equal(found[f"phi_x{j}"], wanted.values[:, j])
    np.testing.assert_array_equal(found["base_value"], wanted.base_values)


@pytest.mark.engine
@pytest.mark.slow
def test_partitions_of_dask() -> None:
    frames = pytest.importorskip("dask.dataframe", reason="`make test-engines` installs it")
    op = xj.batches(explainer(), columns=NAMES)
    frame = frames.from_pandas(ROWS, npartitions=3)
    check(frame.map_partitions(op.pandas).compute(scheduler="processes", num_workers=2))


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # Ray forks to start its own programs, and leaves pipes open
def test_blocks_of_ray(monkeypatch) -> None:
    ray = pytest.importorskip("ray", reason="`make test-engines` installs it")
    data = pytest.importorskip("ray.data", reason="`make test-engines` installs it")
    own = str(Path(sweeping.__file__).parent)  # of its model
    monkeypatch.setenv("PYTHONPATH", own + os.pathsep + os.environ.get("PYTHONPATH", ""))
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        op = xj.batches(explainer(), columns=NAMES)
        found = data.from_pandas(ROWS).repartition(3).map_batches(op.ray, batch_size=7)
        check(found.to_pandas())
    finally:
        ray.shutdown()
