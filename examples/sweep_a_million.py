"""Many rows of a Parquet file explained part by part: stopped half-way, and gone on with.

    python examples/sweep_a_million.py [bar.png] [--rows 20000] [--processes 2] [--out DIR]

The rows are those of the Adult table, drawn with repetition. Stop it with Ctrl-C and start it again
with the same --out: it goes on. Needs `pip install "xaijax[data,plots,scale]"`, and the Adult table
(see xaijax.datasets).
"""

import argparse
import tempfile
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.parquet
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import xaijax as xj

BACKGROUND, AT_ONCE = 100, 100_000  # rows; of a row group


def write_rows(table: np.ndarray, names: list[str], rows: int, path: Path) -> None:
    """Rows of the table drawn with repetition, as one file."""
    rng = np.random.default_rng(0)
    with pyarrow.parquet.ParquetWriter(
        path, pyarrow.schema([(name, pyarrow.float32()) for name in names])
    ) as writer:
        for start in range(0, rows, AT_ONCE):
            drawn = table[rng.integers(0, len(table), min(AT_ONCE, rows - start))]
            columns = {name: drawn[:, j] for j, name in enumerate(names)}
            writer.write_table(pyarrow.table(columns))


def main(
    picture: str = "bar.png", rows: int = 20_000, processes: int | None = None, out: str = ""
) -> xj.Explanation:
    """Explain every second part, as a run that was stopped; then the others; then look at all."""
    X, y = xj.datasets.adult("shap")
    names, table = [str(name) for name in X.columns], X.to_numpy().astype(np.float32)
    estimator = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(table, y)
    model = xj.as_model(estimator, output="decision", feature_names=names)
    explainer = xj.Explainer(model, table[:BACKGROUND])

    folder = Path(out or tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    path = folder / "rows.parquet"
    if not path.exists():
        write_rows(table, names, rows, path)

    half = xj.sweep(explainer, path, folder / "run", executor=xj.engines.shard(0, 2))
    print(half)
    started = time.perf_counter()
    run = xj.sweep(explainer, path, folder / "run", executor=processes)
    print(run, f"after {time.perf_counter() - started:.1f} s more")

    explanation = run.explanation(lazy=True)  # arrays that stay on disk
    print("a table of all values:", run.to_parquet(folder / "values.parquet"))
    xj.plots.bar(explanation)
    plt.savefig(picture, bbox_inches="tight")
    return explanation


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Explain many rows of the Adult table.")
    parser.add_argument("picture", nargs="?", default="bar.png")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--processes", type=int)
    parser.add_argument("--out", default="")
    main(**vars(parser.parse_args()))
