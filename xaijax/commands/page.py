"""The command `xaijax report`: a page of an explanation that was saved, or of a sweep."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from xaijax.commands.files import new_file
from xaijax.commands.options import add_instances
from xaijax.core.command_line import command_of
from xaijax.core.errors import InputError
from xaijax.methods.loading import load
from xaijax.reports.report import report
from xaijax.reports.rules import rules_report
from xaijax.results.explanation import Explanation
from xaijax.results.rules import Rules
from xaijax.sweeps.run import open_run

ABOUT = "make a page of a saved explanation, of rules, or of a sweep's directory"
EXAMPLE = """\
    xaijax report run/explanation.npz --out report.html"""


def add_report(commands: Any) -> None:
    """Put the command under `xaijax`."""
    command = command_of(commands, "report", ABOUT, EXAMPLE, run)
    command.add_argument(
        "saved", metavar="SAVED", help="an .npz file, a .json file of rules, or a sweep's directory"
    )
    command.add_argument("--model", metavar="NAME", help="what the page calls the model")
    add_instances(command)
    command.add_argument(
        "--out", default="report.html", metavar="FILE", help="(default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> None:
    """Write the page, and print where."""
    new_file(arguments.out)
    saved = Path(arguments.saved)
    told = {"model": arguments.model, "instances": arguments.instances}
    if saved.suffix == ".json":
        print(rules_report(Rules.load(saved), arguments.out, **told))
        return
    found = open_run(saved).explanation() if saved.is_dir() else load(saved)
    if not isinstance(found, Explanation):
        raise InputError(f"SAVED: {saved} holds {type(found).__name__}, of which there is no page.")
    print(report(found, arguments.out, **told))
