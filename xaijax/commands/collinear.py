"""The command `xaijax aec`: additive effects of collinearity of a table's columns."""

from __future__ import annotations

import argparse
from typing import Any

from xaijax.commands.files import (
    folder_of,
    remove_run,
    require_tables,
    rows_of_file,
    write_table,
)
from xaijax.core.command_line import command_of, whole
from xaijax.core.errors import InputError
from xaijax.methods.aec.aec import AEC

ABOUT = "rank the columns of a table by additive effects of collinearity; no model is asked"
EXAMPLE = """\
    xaijax aec --data wine.csv --target quality --standardize --bootstrap 200 --out run/"""


def add_aec(commands: Any) -> None:
    """Put the command under `xaijax`."""
    command = command_of(commands, "aec", ABOUT, EXAMPLE, run)
    command.add_argument("--data", required=True, metavar="FILE", help=".csv or .parquet")
    command.add_argument("--target", required=True, metavar="COLUMN", help="what is predicted")
    command.add_argument("--drop", action="append", metavar="COLUMN", help="may be said again")
    command.add_argument("--task", default="auto", choices=("auto", "regression", "classification"))
    command.add_argument("--standardize", action="store_true", help="effects without units")
    command.add_argument("--bootstrap", type=whole(2), metavar="R", help="resamplings, for errors")
    command.add_argument("--seed", type=whole(0), default=0, metavar="S", help="(default: 0)")
    command.add_argument("--out", required=True, metavar="DIR", help="the folder to write")


def run(arguments: argparse.Namespace) -> None:
    """Fit as the arguments say, and print the ranking."""
    require_tables()
    table = rows_of_file(arguments.data, "--data", arguments.drop)
    if arguments.target not in getattr(table, "columns", ()):
        has = list(getattr(table, "columns", ())) or "no names of columns"
        raise InputError(f"--target: {arguments.data} has no {arguments.target!r}, but {has}.")
    y = table.pop(arguments.target)
    aec = AEC(
        arguments.task,
        arguments.standardize,
        bootstrap=arguments.bootstrap,
        seed=arguments.seed,
    )
    folder = folder_of(arguments.out)
    found = aec.fit(table, y).explanation_
    print(found)
    file, values = folder / "explanation.npz", folder / "effects.csv"
    remove_run(folder)
    found.save(file)
    write_table(found.to_dataframe(), values)
    print(f"\nWritten\n{file}\n{values}")
