"""The command `xaijax sweep`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from typing import Any

from xaijax.commands.files import named, of_users
from xaijax.core.command_line import above_zero, command_of, option, whole
from xaijax.core.errors import InputError, InputTypeError, SweepIncompleteError, XaiError
from xaijax.sweeps.engines.choose import shard, slurm
from xaijax.sweeps.run import open_run
from xaijax.sweeps.sweep import FORMATS, sweep
from xaijax.sweeps.task import raised_in_part

ABOUT = "explain many rows part by part into a directory; the same command resumes"
EXAMPLE = """\
    xaijax sweep jobs.py:explainer rows.parquet out/ --processes 4

EXPLAINER is module:name or file.py:name, an explainer or a function that returns one.
In a job of a SLURM array each task answers its share of the parts, as with --shard.
Exit status: 0 its own parts are done, 1 an argument that is wrong, 2 some of them are missing, or
the command line cannot be read, 130 interrupted by Ctrl-C."""


def add_command(commands: Any) -> None:
    """Adds the command to `xaijax`."""
    command = command_of(commands, "sweep", ABOUT, EXAMPLE, run)
    option(command, "explainer EXPLAINER", "module:name or file.py:name")
    option(command, "rows ROWS", ".parquet, .npy, or a folder of .parquet")
    option(command, "out DIR", "the run's directory")
    option(command, "--processes N", "spawned processes", whole(1))
    option(command, "--shard K/N", "only the parts of driver K (from 0) of N")
    option(command, "--rows-per-part N", None, whole(1))
    option(command, "--retries N", "(default: 3)", whole(0), default=3)
    option(command, "--timeout SECONDS", "of one part", above_zero)
    option(command, "--format", "(default: npz)", choices=FORMATS, default="npz")
    option(command, "--option NAME=JSON", "of the explainer's call", action="append", default=[])
    option(command, "--quiet", "no progress", action="store_true")


def run(arguments: argparse.Namespace) -> None:
    """Sweeps as the arguments say; raises SweepIncompleteError if its own parts are missing."""
    names = ("out", "rows_per_part", "retries", "timeout", "format")
    settings: dict[str, Any] = {name: getattr(arguments, name) for name in names}
    settings["options"] = _options(arguments.option) or None
    settings["executor"], shared = _executor(arguments)
    settings["progress"] = False if arguments.quiet else None
    explainer = explainer_of(arguments.explainer)
    try:
        swept = sweep(explainer, arguments.rows, **settings)
    except SweepIncompleteError:
        raise
    except (Exception, SystemExit) as error:
        raise _incomplete(arguments.out, arguments.explainer, error) from error
    left = swept.missing
    print(swept)
    if left and not shared:
        raise SweepIncompleteError(f"{len(left)} of {swept.parts} parts are missing.")


def _incomplete(out: str, name: str, error: BaseException) -> BaseException:
    """The error to raise for one that ended a run; if no part began, it says what is wrong.

    name: that of the explainer, whose model may raise anything.
    """
    missing, parts = 0, 0
    with contextlib.suppress(InputError, OSError):  # no run has begun
        begun = open_run(out)
        missing, parts = len(begun.missing), begun.parts
    refused = isinstance(error, InputError | InputTypeError) and not raised_in_part(error)
    if refused or not missing:
        if isinstance(error, XaiError | ImportError | OSError):
            return error
        return XaiError(f"EXPLAINER: {name} raised {type(error).__name__}: {error}")
    reason = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])
    return SweepIncompleteError(
        f"{missing} of {parts} parts are missing, the others are kept: {reason}"
    )


def explainer_of(name: str) -> Any:
    """The object that `module:name` or `file.py:name` names; for a function, its result.

    Raises XaiError if there is none, or if the function makes none.
    """
    value = named(name, "EXPLAINER")
    if not (callable(value) and hasattr(value, "__code__")):
        return value
    remedy = ". A function must take no arguments and return an explainer."
    made = of_users(value, f"EXPLAINER: {name}", remedy)
    if made is None:
        raise InputError(f"EXPLAINER: {name} returned None; a function must return an explainer.")
    return made


def _executor(arguments: argparse.Namespace) -> tuple[Any, bool]:
    """(executor, whether other drivers compute other parts)."""
    if arguments.shard is not None:
        number, slash, of = arguments.shard.partition("/")
        if not (slash and number.isdigit() and of.isdigit()):
            raise InputError(f"--shard must be K/N, two whole numbers, got {arguments.shard!r}.")
        return shard(int(number), int(of), arguments.processes), True
    if "SLURM_ARRAY_TASK_ID" in os.environ:
        return slurm(arguments.processes), True
    return arguments.processes, False


def _options(texts: list[str]) -> dict[str, Any]:
    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--option must be NAME=JSON, got {text!r}.")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value  # a word
    return options
