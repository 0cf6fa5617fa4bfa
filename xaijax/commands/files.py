"""Models and rows from files, as the user names them on the command line.

Letters: N rows to explain.
"""

from __future__ import annotations

import argparse
import operator
import os
import pkgutil
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from xaijax.core.command_line import option, whole
from xaijax.core.errors import InputError, XaiError
from xaijax.core.optional import require
from xaijax.models import Model, as_model
from xaijax.results.files.npz import file_to_write, write_atomically
from xaijax.tables.rows import rows_of

PICKLES = (".joblib", ".pkl", ".pickle")
TABLES = (".csv", ".parquet", ".npy")
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet's formulas begin with these
# Files that commands write into a folder, besides explanation.npz.
WRITTEN = "values.csv effects.csv beeswarm.png bar.png waterfall.png report.html".split()


def named(name: str, option: str) -> Any:
    """The object that `module:name` or `file.py:name` names; raises InputError if there is none."""
    place, _, member = name.rpartition(":")
    if not place:
        raise InputError(f"{option} must be module:name or file.py:name, got {name!r}.")
    module = _run(place, option)
    try:
        return operator.attrgetter(member)(module)
    except AttributeError:
        raise InputError(f"{option}: {name!r} is not there: {place} has no {member!r}.") from None


def _run(place: str, option: str) -> Any:
    """A module, or the result of running a file, with its members as attributes."""
    try:
        if place.endswith(".py"):
            return SimpleNamespace(**runpy.run_path(_there(place, option)))
        if "" not in sys.path:
            sys.path.insert(0, "")
        return pkgutil.resolve_name(place)
    except XaiError:
        raise
    except SystemExit as ended:
        raise InputError(
            f"{option}: {place} called sys.exit({ended.code!r}) when it was opened. Put what a "
            'script does under `if __name__ == "__main__":`.'
        ) from ended
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and place.startswith(error.name or place):
            raise InputError(f"{option}: module {place!r} is not there.") from error
        # otherwise the user's own module raised it
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{option}: {place} raised {reason} when it was opened.") from error


def model_of(name: str, output: str | None = None) -> Model:
    """The model that `module:name`, a joblib file or an ONNX file holds.

    output: one of its outputs, as it is typed. It raises InputError.
    """
    options: dict[str, Any] = {}
    suffix = Path(name).suffix
    if suffix == ".onnx":
        options = {} if output is None else {"output": _output(output, ())}
        return as_model(_there(name, "--model"), **options)
    if suffix in PICKLES:
        path = _there(name, "--model")
        print(
            f"xaijax: {name} is opened by joblib, which runs whatever code the file contains.",
            file=sys.stderr,
        )
        loaded = _read(lambda: require("joblib", "joblib").load(path), path, "--model")
    else:
        loaded = named(name, "--model")
    if output is not None:
        options["output"] = _output(output, getattr(loaded, "classes_", ()))
    if isinstance(loaded, Model):
        if options:
            raise InputError(f"--output: {name} is a Model already; say it where that is made.")
        return loaded
    return as_model(loaded, **options)


def _output(text: str, classes: Any) -> Any:
    """The class with this text; else a position if it is a whole number."""
    matches = [label for label in classes if str(label) == text]
    return matches[0] if matches else int(text) if text.lstrip("-").isdigit() else text


def rows_of_file(path: str, option: str, dropped: list[str] | None = None) -> Any:
    """The rows of a CSV or Parquet file, as a pandas frame, or of a .npy file, as an array.

    dropped: columns that are left out. It raises InputError.
    """
    suffix = Path(path).suffix
    if suffix not in TABLES:
        raise InputError(f"{option}: {path!r} ends in none of {', '.join(TABLES)}.")
    _there(path, option)
    if suffix == ".npy":
        if dropped:
            raise InputError(f"--drop: {path} holds an array, whose columns have no names.")
        return _read(lambda: np.load(path, allow_pickle=False), path, option)
    tables = require_tables()
    if suffix == ".csv":
        frame = _read(lambda: tables.read_csv(path), path, option)
    else:
        require("pyarrow", "xaijax[scale]")
        frame = _read(lambda: tables.read_parquet(path), path, option)
    absent = [name for name in dropped or [] if name not in frame]
    if absent:
        raise InputError(f"--drop: {path} has no column {absent[0]!r}, but {list(frame)}.")
    return frame.drop(columns=dropped or [])


def rows_beside(path: str, option: str, dropped: list[str] | None) -> Any:
    """Rows of another file than the data's, which may already lack the dropped columns."""
    rows = rows_of_file(path, option)
    held = [name for name in dropped or [] if name in getattr(rows, "columns", ())]
    return rows.drop(columns=held) if held else rows


def _read(read: Callable[[], Any], path: str, option: str) -> Any:
    try:
        return read()
    except (Exception, SystemExit) as error:  # libraries raise errors of any type
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{option}: {path} cannot be read: {reason}") from error


def require_tables(install: str = "xaijax[data]") -> Any:
    """The library that reads and writes tables; raises before the work, not after it."""
    return require("pandas", install)


def write_table(frame: Any, path: Path) -> Path:
    """Writes a pandas frame as CSV, so that a spreadsheet reads none of its texts as a formula.

    A text that begins like a formula gets an apostrophe in front; numbers stay as they are.
    """
    shown = frame.copy(deep=False)
    for place, dtype in enumerate(frame.dtypes):
        if dtype.kind not in "biufcmM":
            shown.isetitem(place, [_as_text(value) for value in frame.iloc[:, place]])
    for axis in ("index", "columns"):
        labels = getattr(frame, axis)
        if labels.nlevels > 1:
            texts: Any = [tuple(map(_as_text, label)) for label in labels]
            texts = type(labels).from_tuples(texts, names=list(map(_as_text, labels.names)))
        elif labels.dtype.kind in "biufcmM":
            texts = labels.rename(_as_text(labels.name))
        else:
            texts = require_tables().Index(
                [_as_text(label) for label in labels], dtype=object, name=_as_text(labels.name)
            )
        setattr(shown, axis, texts)
    text = shown.to_csv(lineterminator="\n")
    return write_atomically(path, lambda file: file.write(text.encode("utf-8", "replace")))


def _as_text(value: Any) -> Any:
    begins = isinstance(value, str) and value.startswith(FORMULA)
    return f"'{value}" if begins else value


def remove_run(folder: Path) -> None:
    """Removes what an older run of a command wrote into the folder."""
    if (folder / "explanation.npz").exists():
        for name in WRITTEN:
            (folder / name).unlink(missing_ok=True)


def new_file(path: str) -> Path:
    """The file that --out names; raises InputError before the work if it cannot be written."""
    target = file_to_write(path, "--out")
    _writable(target.parent, "--out")
    return target


def folder_of(path: str | os.PathLike[str], option: str = "--out") -> Path:
    """The folder, created if needed; raises InputError if it cannot be created or written to."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{option}: cannot make the folder {path}: {error.strerror}.") from error
    return _writable(folder, option)


def _writable(folder: Path, option: str) -> Path:
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option}: the folder {folder} cannot be written to.")
    return folder


def _there(path: str, option: str) -> str:
    if not Path(path).is_file():
        raise InputError(f"{option}: there is no file {path!r}.")
    return path


def add_model(command: argparse.ArgumentParser) -> None:
    """Adds --model, --output and --data, which every command with a model has."""
    about = "module:name, file.py:name, a .joblib file (whose code is run) or a .onnx file"
    option(command, "--model MODEL", about, required=True)
    option(command, "--output NAME", "one output: a class, or where there are none a place")
    option(command, "--data FILE", "rows to explain: .csv, .parquet or .npy", required=True)
    option(command, "--rows N", "only the first N of them", whole(1))
    about = "a column of the files that the model does not take; may be said again"
    option(command, "--drop COLUMN", about, action="append")
    option(command, "--seed S", "(default: 0)", whole(0), default=0)


def add_instances(command: argparse.ArgumentParser) -> None:
    """Adds --instances, for commands that write a page."""
    about = "shown on the page one at a time, with names and values (default: 200; 0: none)"
    option(command, "--instances N", about, whole(0), default=200)


def model_and_rows(arguments: argparse.Namespace) -> tuple[Model, Any]:
    """(the model, rows [N, F]); raises InputError."""
    rows = rows_of_file(arguments.data, "--data", arguments.drop)
    if arguments.rows is not None:
        rows = rows_of(rows).take(slice(arguments.rows))
    model = model_of(arguments.model, arguments.output)
    _refuse_others(model, rows, arguments.data)
    return model, rows


def _refuse_others(model: Model, rows: Any, path: str) -> None:
    """Raises InputError for columns that the model does not take, above all a target."""
    known = model.feature_names
    others = [str(c) for c in getattr(rows, "columns", ()) if known and str(c) not in known]
    if others:
        names = ", ".join([*others[:5], *["..."] * (len(others) > 5)])
        reason = f"{path} has columns that the model does not take: {names}"
        raise InputError(f"--data: {reason}. Leave each out by --drop NAME.")


def drawn(rows: Any, count: int, seed: int) -> Any:
    """At most `count` of the rows, each once, drawn by the seed."""
    held = rows_of(rows)
    places = np.random.default_rng(seed).choice(len(held), min(count, len(held)), replace=False)
    return held.take(np.sort(places))


def of_users(ask: Callable[[], Any], name: str, remedy: str = "") -> Any:
    """Returns the result of a call of the user's code; an exception is shown in one line."""
    try:
        return ask()
    except (XaiError, ImportError, OSError):
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise XaiError(f"{name} raised {reason}{remedy}") from error
