"""Spark: `mapInArrow` and `mapInPandas` on two local workers give the values of one call."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sweeping
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
    made = made.config("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # else its workers take any python3
        patch.setenv("PYTHONPATH", str(Path(sweeping.__file__).parent))  # of its model
        session = made.getOrCreate()
        yield session
        session.stop()


@pytest.mark.engine
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # to start its Java
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")  # pandas 3
@pytest.mark.parametrize("how", ["mapInArrow", "mapInPandas"])
def test_batches_in_spark_are_the_values_of_one_call(spark, how) -> None:
    op = xj.batches(explainer(), columns=NAMES)
    wanted = explainer()(X)
    frame = spark.createDataFrame(ROWS).repartition(2)
    given = ", ".join(f"{name} {kind}" for name, kind in frame.dtypes)
    schema = f"{given}, base_value double, " + ", ".join(f"phi_x{j} double" for j in range(4))
    function = op.arrow if how == "mapInArrow" else op.pandas
    found = getattr(frame, how)(function, schema).toArrow().to_pandas().sort_values("id")
    np.testing.assert_array_equal(found["id"], ROWS["id"])
    for j in range(4):
        np.testing.assert_array_equal(found[f"phi_x{j}"], wanted.values[:, j])
    np.testing.assert_array_equal(found["base_value"], wanted.base_values)
