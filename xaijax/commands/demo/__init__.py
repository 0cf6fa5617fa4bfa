"""`xaijax demo`: runs the library's main task from data to pictures, in a few seconds.

A network is trained on Adult census income and its answers for 1,000 test rows are explained
exactly. `run` is the whole demo.

Reading order:

    data      loads Adult, or else data of scikit-learn
    network   the model: a small dense network in plain JAX
"""

from __future__ import annotations

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from xaijax import plots
from xaijax.commands.demo.data import Figures, demo_data, model_name, results, what_runs
from xaijax.commands.demo.network import logit, probability, train
from xaijax.commands.explain import picture
from xaijax.commands.files import folder_of, remove_run
from xaijax.datasets.fetch import optional
from xaijax.methods.explainer.explainer import Explainer
from xaijax.models import as_model
from xaijax.reports.report import report
from xaijax.results.explanation import Explanation
from xaijax.tables.rows import rows_of

if TYPE_CHECKING:
    from pandas import DataFrame

BACKGROUND = 100  # training rows that represent "the player's value is unknown"


def run(out: str | os.PathLike[str], *, rows: int = 1000, seed: int = 0) -> Explanation:
    """Trains, explains `rows` test rows, prints the results and writes them into the folder `out`.

    Raises:
        InputError: `out` cannot be created or written to.
        MissingExtraError: pandas, pooch, matplotlib or jinja2 is not installed.
        DataHashError: the bytes of a file of Adult differ from the expected ones.
    """
    folder = folder_of(out, "out")
    for module in ("pandas", "pooch", "matplotlib", "jinja2"):  # before the work, not after it
        optional(module, "xaijax[data,plots]")
    data = demo_data(seed)
    print(what_runs(data), flush=True)

    started = time.perf_counter()
    columns = data.X_train.to_numpy(np.float32)
    params = jax.block_until_ready(train(columns, data.y_train, data.steps, seed))
    train_seconds = time.perf_counter() - started
    answers = np.asarray(logit(params, jnp.asarray(data.X_test.to_numpy(np.float32)))) > 0

    draw = np.random.default_rng(seed)
    background = rows_of(data.X_train).take(_drawn(data.X_train, BACKGROUND, draw))
    places = _drawn(data.X_test, rows, draw)
    X = rows_of(data.X_test).take(places)
    model = as_model(probability, params)
    explanation = Explainer(model, background)(X, progress=True)
    explanation = dataclasses.replace(
        explanation,
        data=rows_of(data.shown).take(places),
        instance_names=tuple(f"test row {label}" for label in X.index),
        provenance={
            **explanation.provenance,
            "quantity": f"probability of {data.explained}",
            "data": data.name,
        },
    )

    written = _write(explanation, folder, model_name(data))
    share = data.y_test.mean()
    accuracy = float((answers == data.y_test).mean())
    figures = Figures(train_seconds, accuracy, float(max(share, 1 - share)), rows)
    print(results(explanation, data, figures))
    print("\n".join(["", "Written", *(f"  {path}" for path in written)]))
    return explanation


def _drawn(frame: DataFrame, count: int, draw: np.random.Generator) -> np.ndarray:
    """Positions of at most `count` rows of the frame, each once, in random order."""
    return draw.choice(len(frame), min(count, len(frame)), replace=False)


def _write(explanation: Explanation, folder: Path, model: str) -> list[Path]:
    remove_run(folder)
    file = folder / "explanation.npz"
    explanation.save(file)
    every = {"max_display": explanation.shape[1]}
    pictures = [
        picture(folder / "beeswarm.png", plots.beeswarm, explanation, **every),
        picture(folder / "bar.png", plots.bar, explanation, **every),
        picture(folder / "waterfall.png", plots.waterfall, explanation[0], **every),
    ]
    return [file, *pictures, report(explanation, folder / "report.html", model=model)]
