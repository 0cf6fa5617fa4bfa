"""Spark: `mapInArrow` and `mapInPandas` on two local workers give the values of one call."""

from __future__ import annotations

import shutil

import numpy as np
import pandas as pd
import pytest
from sweeping import X, explainer

import xaijax as xj

NAMES = list("abcd")
ROWS = pd.DataFrame({"id": np.arange(len(X)), **{n: X[:, j] for j, n in enumerate(NAMES)}})


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql", reason="`make test-engines` installs it")
    if shutil.which("java") is None:
        pytest.skip("Spark needs a JDK, and no java is on the PATH")
    made = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    # Batches smaller than a partition, so that each worker gets several.
    session = made.config("spark.sql.execution.arrow.maxRecordsPerBatch", "7").getOrCreate()
    yield session
    session.stop()


@pytest.mark.engine
@pytest.mark.parametrize("how", ["mapInArrow", "mapInPandas"])
def test_batches_in_spark_are_the_values_of_one_call(spark, how) -> None:
    op = xj.batches(explainer(), columns=NAMES)
    wanted = explainer()(X)
    frame = spark.createDataFrame(ROWS).repartition(2)
    given = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
    schema = f"{given}, base_value double, " + ", ".join(f"phi_x{j} double" for j in range(4))
    function = op.arrow if how == "mapInArrow" else op.pandas
    found = getattr(frame, how)(function, schema).toPandas().sort_values("id")
    np.testing.assert_array_equal(found["id"], ROWS["id"])
    for j in range(4):
        np.testing.assert_array_equal(found[f"phi_x{j}"], wanted.values[:, j])
    np.testing.assert_array_equal(found["base_value"], wanted.base_values)
