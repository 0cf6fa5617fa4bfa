"""The options that several commands share, and what they ask for.

Letters: N rows to explain.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

from xaijax.commands.files import model_of, rows_of_file
from xaijax.core.command_line import whole
from xaijax.core.errors import InputError, XaiError
from xaijax.models import Model
from xaijax.tables.rows import rows_of


def add_model(command: argparse.ArgumentParser) -> None:
    """--model, --output and --data, which every question to a model has."""
    command.add_argument(
        "--model",
        required=True,
        metavar="MODEL",
        help="module:name, file.py:name, a .joblib file (whose code is run) or a .onnx file",
    )
    command.add_argument(
        "--output", metavar="NAME", help="one output: a class, or where there are none a place"
    )
    command.add_argument(
        "--data", required=True, metavar="FILE", help="rows to explain: .csv, .parquet or .npy"
    )
    command.add_argument("--rows", type=whole(1), metavar="N", help="only the first N of them")
    command.add_argument(
        "--drop",
        action="append",
        metavar="COLUMN",
        help="a column of the files that the model does not take; may be said again",
    )
    command.add_argument("--seed", type=whole(0), default=0, metavar="S", help="(default: 0)")


def add_instances(command: argparse.ArgumentParser) -> None:
    """--instances, which a page has."""
    command.add_argument(
        "--instances",
        type=whole(0),
        default=200,
        metavar="N",
        help="that stand on the page one at a time, with names and values (default: 200; 0: none)",
    )


def model_and_rows(arguments: argparse.Namespace) -> tuple[Model, Any]:
    """(the model, rows [N, F]); raises InputError."""
    rows = rows_of_file(arguments.data, "--data", arguments.drop)
    if arguments.rows is not None:
        rows = rows_of(rows).take(slice(arguments.rows))
    model = model_of(arguments.model, arguments.output)
    _refuse_others(model, rows, arguments.data)
    return model, rows


def _refuse_others(model: Model, rows: Any, path: str) -> None:
    """Raise InputError for columns that the model does not take, a target above all."""
    known = model.feature_names
    others = [str(one) for one in getattr(rows, "columns", ()) if known and str(one) not in known]
    if others:
        raise InputError(
            f"--data: {path} has columns that the model does not take: {', '.join(others[:5])}"
            f"{', ...' if len(others) > 5 else ''}. Leave each out by --drop NAME."
        )


def drawn(rows: Any, count: int, seed: int) -> Any:
    """At most `count` of the rows, each once, drawn by the seed."""
    held = rows_of(rows)
    places = np.random.default_rng(seed).choice(len(held), min(count, len(held)), replace=False)
    return held.take(np.sort(places))


def of_model(ask: Callable[[], Any], name: str) -> Any:
    """What asking a model gives; what the model itself raises is told in a line."""
    try:
        return ask()
    except (XaiError, ImportError, OSError):
        raise
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {error}"
        raise XaiError(f"--model: {name} raised {told}") from error
