"""The command `xaijax explain`: values of the rows of a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xaijax import plots
from xaijax.commands.files import (
    folder_of,
    remove_run,
    require_tables,
    rows_beside,
    write_table,
)
from xaijax.commands.options import (
    add_instances,
    add_model,
    drawn,
    model_and_rows,
    of_model,
)
from xaijax.core.command_line import above_zero, command_of, from_json, whole
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.methods.explainer.explainer import ESTIMATORS, Explainer
from xaijax.reports.report import report
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import write_atomically

BOTH = "xaijax[data,plots]"  # tables, and the page
ABOUT = "explain a model's answers to the rows of a file: values, pictures and a page in a folder"
EXAMPLE = """\
    xaijax explain --model model.joblib --data loans.csv --drop repaid --output yes --out run/
    xaijax explain @job.txt --seed 1      # job.txt holds options, as they are typed"""


def add_explain(commands: Any) -> None:
    """Put the command under `xaijax`."""
    command = command_of(commands, "explain", ABOUT, EXAMPLE, run)
    add_model(command)
    command.add_argument(
        "--background",
        metavar="FILE",
        help="rows that stand for what is not known: .csv, .parquet or .npy (default: --data)",
    )
    command.add_argument(
        "--background-rows",
        type=whole(1),
        default=100,
        metavar="B",
        help="drawn from these by the seed (default: 100, or all of fewer)",
    )
    command.add_argument("--out", required=True, metavar="DIR", help="the folder to write")
    command.add_argument(
        "--players",
        type=from_json,
        metavar="JSON",
        help='columns as one player: {"person": ["job", "age"]}',
    )
    command.add_argument("--index", default="shapley", help="shapley or banzhaf")
    command.add_argument("--estimator", default="auto", choices=ESTIMATORS)
    command.add_argument("--budget", type=whole(1), metavar="C", help="coalitions of a sampled row")
    command.add_argument(
        "--tolerance", type=above_zero, metavar="T", help="half width of intervals"
    )
    command.add_argument(
        "--top", type=whole(1), metavar="K", help="until the K largest are certain"
    )
    add_instances(command)
    command.add_argument("--no-page", action="store_true", help="no pictures and no page")


def run(arguments: argparse.Namespace) -> None:
    """Explain as the arguments say, and print what was written."""
    if not arguments.no_page:
        for module in ("matplotlib", "jinja2"):  # before the work, not after it
            require(module, BOTH)
    require_tables("xaijax[data]" if arguments.no_page else BOTH)  # for values.csv
    model, X = model_and_rows(arguments)
    source = arguments.background or arguments.data
    rows = rows_beside(source, "--background", arguments.drop)
    explainer = Explainer(
        model,
        drawn(rows, arguments.background_rows, arguments.seed),
        arguments.players,
        arguments.index,
        arguments.estimator,
        arguments.budget,
        seed=arguments.seed,
        tolerance=arguments.tolerance,
    )
    if "base_value" in explainer.players.names:  # before the work, not after it
        raise InputError(
            "a column is called 'base_value', like the column of base values in values.csv. Name "
            'its player, --players \'{"another name": ["base_value"]}\', or leave it out by --drop '
            "if the model does not read it."
        )
    folder = folder_of(arguments.out)
    explanation = of_model(lambda: explainer(X, top=arguments.top), arguments.model)
    print(explanation)
    files = [folder / "explanation.npz", folder / "values.csv"]
    remove_run(folder)
    explanation.save(files[0])
    write_table(explanation.to_dataframe(), files[1])
    if not arguments.no_page:
        files += _drawn(explanation, folder, arguments)
    print("\n".join(["", "Written", *map(str, files)]))


def _drawn(explanation: Explanation, folder: Path, arguments: argparse.Namespace) -> list[Path]:
    last = None if explanation.output_names is None else explanation.output_names[-1]
    page, model = folder / "report.html", Path(arguments.model).name
    return [
        picture(folder / "beeswarm.png", plots.beeswarm, explanation, output=last),
        picture(folder / "bar.png", plots.bar, explanation),
        report(explanation, page, model=model, instances=arguments.instances),
    ]


def picture(path: Path, draw: Callable[..., Any], explanation: Explanation, **options: Any) -> Path:
    """Draw into a file, and return its path."""
    # A figure of its own: pyplot would want a display, and would keep the figure.
    figure = require("matplotlib.figure", "xaijax[plots]").Figure(
        figsize=(8, 5.2), layout="constrained"
    )
    draw(explanation, figure.add_subplot(), **options)
    return write_atomically(path, lambda file: figure.savefig(file, format="png", dpi=160))
