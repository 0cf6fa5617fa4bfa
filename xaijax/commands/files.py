"""Models and rows out of files, as a person names them on the command line."""

from __future__ import annotations

import pkgutil
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.models import Model, as_model

PICKLES = (".joblib", ".pkl", ".pickle")
TABLES = (".csv", ".parquet", ".npy")


def named(name: str, option: str) -> Any:
    """The object that `module:name` or `file.py:name` names; raises InputError where none is."""
    place, _, member = name.rpartition(":")
    if not place:
        raise InputError(f"{option} must be module:name or file.py:name, got {name!r}.")
    try:
        if place.endswith(".py"):
            return runpy.run_path(place)[member]
        if "" not in sys.path:
            sys.path.insert(0, "")
        return pkgutil.resolve_name(name)
    except (ImportError, AttributeError, KeyError, FileNotFoundError, ValueError) as error:
        told = f"{type(error).__name__}: {error}"
        raise InputError(f"{option}: {name!r} is not there: {told}.") from error


def model_of(name: str, **options: Any) -> Model:
    """The model that `module:name`, a joblib file or an ONNX file holds.

    options: of `as_model`; those that are None are left to it. Raises InputError.
    """
    options = {key: value for key, value in options.items() if value is not None}
    suffix = Path(name).suffix
    if suffix == ".onnx":
        return as_model(_there(name, "--model"), **options)
    if suffix in PICKLES:
        path = _there(name, "--model")
        print(
            f"xaijax: {name} is opened by joblib, which runs whatever code stands in it.",
            file=sys.stderr,
        )
        found = require("joblib", "joblib").load(path)
    else:
        found = named(name, "--model")
    if isinstance(found, Model):
        if options:
            given = ", ".join(f"--{key.replace('_', '-')}" for key in options)
            raise InputError(f"{given}: {name} is a Model already; say it where that is made.")
        return found
    return as_model(found, **options)


def rows_of_file(path: str, option: str, dropped: list[str] | None = None) -> Any:
    """The rows of a CSV or Parquet file, as a pandas frame, or of a .npy file, as an array.

    dropped: columns that are left out. Raises InputError.
    """
    suffix = Path(path).suffix
    if suffix not in TABLES:
        raise InputError(f"{option}: {path!r} ends in none of {', '.join(TABLES)}.")
    _there(path, option)
    if suffix == ".npy":
        if dropped:
            raise InputError(f"--drop: {path} holds an array, whose columns have no names.")
        return np.load(path, allow_pickle=False)
    pandas = require("pandas", "xaijax[data]")
    if suffix == ".csv":
        frame = pandas.read_csv(path)
    else:
        require("pyarrow", "xaijax[scale]")
        frame = pandas.read_parquet(path)
    absent = [name for name in dropped or [] if name not in frame]
    if absent:
        raise InputError(f"--drop: {path} has no column {absent[0]!r}, but {list(frame)}.")
    return frame.drop(columns=dropped or [])


def folder_of(path: str) -> Path:
    """The folder, made where it is not there; raises InputError where it cannot be."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out: cannot make the folder {path}: {error.strerror}.") from error
    return folder


def _there(path: str, option: str) -> str:
    if not Path(path).is_file():
        raise InputError(f"{option}: there is no file {path!r}.")
    return path
