"""The command `xaijax explain`: values of the rows of a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from xaijax import plots
from xaijax.commands.files import folder_of, rows_of_file
from xaijax.commands.options import add_model, drawn, json_of, model_and_rows
from xaijax.core.command_line import command_of
from xaijax.core.optional import require
from xaijax.methods.explainer.explainer import ESTIMATORS, Explainer
from xaijax.reports.report import report
from xaijax.results.explanation import Explanation

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
        type=int,
        default=100,
        metavar="B",
        help="drawn from these by the seed (default: 100, or all of fewer)",
    )
    command.add_argument("--out", required=True, metavar="DIR", help="the folder to write")
    command.add_argument(
        "--players", metavar="JSON", help='columns as one player: {"person": ["job", "age"]}'
    )
    command.add_argument("--index", default="shapley", help="shapley or banzhaf")
    command.add_argument("--estimator", default="auto", choices=ESTIMATORS)
    command.add_argument("--budget", type=int, metavar="C", help="coalitions of a sampled row")
    command.add_argument("--tolerance", type=float, metavar="T", help="half width of intervals")
    command.add_argument("--top", type=int, metavar="K", help="until the K largest are certain")
    command.add_argument("--no-page", action="store_true", help="no pictures and no page")


def run(arguments: argparse.Namespace) -> None:
    """Explain as the arguments say, and print what was written."""
    if not arguments.no_page:
        for module in ("matplotlib", "jinja2"):  # before the work, not after it
            require(module, "xaijax[plots]")
    require("pandas", "xaijax[data]")  # for values.csv
    players = json_of(arguments.players, "--players")
    model, X = model_and_rows(arguments)
    source = arguments.background or arguments.data
    rows = rows_of_file(source, "--background", _dropped(arguments))
    folder = folder_of(arguments.out)
    explainer = Explainer(
        model,
        drawn(rows, arguments.background_rows, arguments.seed),
        players,
        arguments.index,
        arguments.estimator,
        arguments.budget,
        seed=arguments.seed,
        tolerance=arguments.tolerance,
    )
    explanation = explainer(X, top=arguments.top)
    print(explanation)
    page = None if arguments.no_page else arguments.model
    print("\n".join(["", "Written", *map(str, _written(explanation, folder, page))]))


def _dropped(arguments: argparse.Namespace) -> list[str] | None:
    """--drop is about the data; a background of its own may lack these columns already."""
    if arguments.background is None or not arguments.drop:
        return arguments.drop
    own = rows_of_file(arguments.background, "--background")
    return [name for name in arguments.drop if name in getattr(own, "columns", ())]


def _written(explanation: Explanation, folder: Path, model: str | None) -> list[Path]:
    """The files; model: the page's name for it, None: no pictures and no page."""
    found = [folder / "explanation.npz", folder / "values.csv"]
    explanation.save(found[0])
    explanation.to_dataframe().to_csv(found[1])
    if model is None:
        return found
    last = None if explanation.output_names is None else explanation.output_names[-1]
    return [
        *found,
        picture(folder / "beeswarm.png", plots.beeswarm, explanation, output=last),
        picture(folder / "bar.png", plots.bar, explanation),
        report(explanation, folder / "report.html", model=model),
    ]


def picture(path: Path, draw: Callable[..., Any], explanation: Explanation, **options: Any) -> Path:
    figure = require("matplotlib.figure", "xaijax[plots]").Figure(
        figsize=(8, 5.2), layout="constrained"
    )
    draw(explanation, figure.add_subplot(), **options)
    figure.savefig(path, dpi=160)
    return path
