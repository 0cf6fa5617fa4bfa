"""The command `xaijax anchors`: a rule for each row of a file."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from xaijax.commands.files import new_file, rows_beside
from xaijax.commands.options import add_model, model_and_rows, of_model
from xaijax.core.command_line import command_of, whole
from xaijax.methods.anchors.explainer import AnchorExplainer

ABOUT = "find for each row of a file the rule under which the prediction stays the same"
EXAMPLE = """\
    xaijax anchors --model model.joblib --data loans.csv --drop repaid --rows 20 --out rules.json"""
SHOWN = 10  # rules that are printed; all are in the file


def add_anchors(commands: Any) -> None:
    """Put the command under `xaijax`."""
    command = command_of(commands, "anchors", ABOUT, EXAMPLE, run)
    add_model(command)
    command.add_argument(
        "--space",
        metavar="FILE",
        help="rows that draws and bins come from: .csv, .parquet or .npy (default: --data)",
    )
    command.add_argument("--threshold", type=float, default=0.95, help="precision (default: 0.95)")
    command.add_argument("--max-size", type=whole(0), metavar="K", help="most columns in a rule")
    command.add_argument("--widen", action="store_true", help="make rules wider while they hold")
    command.add_argument("--target", metavar="NAME", help="what is predicted, for the texts")
    command.add_argument("--out", required=True, metavar="FILE", help="the .json file to write")


def run(arguments: argparse.Namespace) -> None:
    """Search as the arguments say, and print the first rules."""
    new_file(arguments.out)  # before the search, not after it
    model, X = model_and_rows(arguments)
    every = rows_beside(arguments.space or arguments.data, "--space", arguments.drop)
    anchors = AnchorExplainer(model, every, target=arguments.target, seed=arguments.seed)
    given = {"max_size": arguments.max_size, "widen": arguments.widen}
    search = partial(anchors.explain, X, arguments.threshold, **given)
    rules = of_model(search, arguments.model)
    for rule in list(rules)[:SHOWN]:
        print(rule)
    if len(rules) > SHOWN:
        print(f"and {len(rules) - SHOWN:,} more")
    rules.save(arguments.out)
    print(f"\nWritten\n{arguments.out}")
