"""The command `xaijax explain`: values of the rows of a file."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from xaijax import plots
from xaijax.commands.files import (
    add_instances,
    add_model,
    drawn,
    folder_of,
    model_and_rows,
    new_file,
    of_users,
    remove_run,
    require_tables,
    rows_beside,
    rows_of_file,
    write_table,
)
from xaijax.core.command_line import above_zero, command_of, from_json, option, whole
from xaijax.core.errors import InputError
from xaijax.core.optional import require
from xaijax.methods.aec.aec import AEC
from xaijax.methods.anchors.explainer import AnchorExplainer
from xaijax.methods.explainer.explainer import ESTIMATORS, Explainer
from xaijax.methods.loading import load
from xaijax.reports.page import png
from xaijax.reports.report import report
from xaijax.reports.rules import rules_report
from xaijax.results.explanation import Explanation
from xaijax.results.files.npz import write_atomically
from xaijax.results.rules import Rules
from xaijax.sweeps.run import open_run

BOTH = "xaijax[data,plots]"  # tables, and the page
KINDS, DATA = ".csv, .parquet or .npy", "(default: --data)"
ABOUT = "explain a model's answers to the rows of a file: values, pictures and a page in a folder"
EXAMPLE = """\
    xaijax explain --model model.joblib --data loans.csv --drop repaid --output yes --out run/
    xaijax explain @job.txt --seed 1      # job.txt holds options, as they are typed"""


def add_explain(commands: Any) -> None:
    """Adds the command to `xaijax`."""
    command = command_of(commands, "explain", ABOUT, EXAMPLE, run)
    add_model(command)
    option(command, "--background FILE", f"rows that replace absent players: {KINDS} {DATA}")
    about = "drawn from these by the seed (default: 100, or all of fewer)"
    option(command, "--background-rows B", about, whole(1), default=100)
    option(command, "--out DIR", "the folder to write", required=True)
    about = 'columns as one player: {"person": ["job", "age"]}'
    option(command, "--players JSON", about, from_json)
    option(command, "--index", "shapley or banzhaf", default="shapley")
    option(command, "--estimator", None, default="auto", choices=ESTIMATORS)
    option(command, "--budget C", "coalitions of a sampled row", whole(1))
    option(command, "--tolerance T", "half width of intervals", above_zero)
    option(command, "--top K", "until the K largest are certain", whole(1))
    add_instances(command)
    option(command, "--no-page", "no pictures and no page", action="store_true")


def run(arguments: argparse.Namespace) -> None:
    """Explains as the arguments say, and prints what was written."""
    if not arguments.no_page:
        for module in ("matplotlib", "jinja2"):  # before the work, not after it
            require(module, BOTH)
    require_tables("xaijax[data]" if arguments.no_page else BOTH)  # for values.csv
    model, X = model_and_rows(arguments)
    source = arguments.background or arguments.data
    rows = rows_beside(source, "--background", arguments.drop)
    names = ("players", "index", "estimator", "budget", "seed", "tolerance")
    options = {name: getattr(arguments, name) for name in names}
    background = drawn(rows, arguments.background_rows, arguments.seed)
    explainer = Explainer(model, background, **options)
    if "base_value" in explainer.players.names:  # before the work, not after it
        raise InputError(
            "a column is called 'base_value', like one of values.csv. Name its player, --players "
            '\'{"another name": ["base_value"]}\', or leave it out by --drop.'
        )
    folder = folder_of(arguments.out)
    explanation = of_users(lambda: explainer(X, top=arguments.top), f"--model: {arguments.model}")
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
    """Draws into a file, and returns its path."""
    content = png((8, 5.2), partial(draw, explanation, **options))
    return write_atomically(path, lambda file: file.write(content))


ABOUT_ANCHORS = "find for each row of a file the rule under which the prediction stays the same"
EXAMPLE_ANCHORS = """\
    xaijax anchors --model model.joblib --data loans.csv --drop repaid --rows 20 --out rules.json"""
SHOWN = 10  # rules that are printed; all are in the file


def add_anchors(commands: Any) -> None:
    """Adds the command to `xaijax`."""
    command = command_of(commands, "anchors", ABOUT_ANCHORS, EXAMPLE_ANCHORS, _anchors)
    add_model(command)
    option(command, "--space FILE", f"rows that draws and bins come from: {KINDS} {DATA}")
    option(command, "--threshold", "precision (default: 0.95)", float, default=0.95)
    option(command, "--max-size K", "most columns in a rule", whole(0))
    option(command, "--widen", "make rules wider while they hold", action="store_true")
    option(command, "--target NAME", "what is predicted, for the texts")
    option(command, "--out FILE", "the .json file to write", required=True)


def _anchors(arguments: argparse.Namespace) -> None:
    """Searches as the arguments say, and prints the first rules."""
    new_file(arguments.out)  # before the search, not after it
    model, X = model_and_rows(arguments)
    every = rows_beside(arguments.space or arguments.data, "--space", arguments.drop)
    anchors = AnchorExplainer(model, every, target=arguments.target, seed=arguments.seed)
    options = {"max_size": arguments.max_size, "widen": arguments.widen}
    search = partial(anchors.explain, X, arguments.threshold, **options)
    rules = of_users(search, f"--model: {arguments.model}")
    for rule in list(rules)[:SHOWN]:
        print(rule)
    if len(rules) > SHOWN:
        print(f"and {len(rules) - SHOWN:,} more")
    rules.save(arguments.out)
    print(f"\nWritten\n{arguments.out}")


ABOUT_AEC = "rank the columns of a table by additive effects of collinearity; no model is asked"
EXAMPLE_AEC = """\
    xaijax aec --data wine.csv --target quality --standardize --bootstrap 200 --out run/"""


def add_aec(commands: Any) -> None:
    """Adds the command to `xaijax`."""
    command = command_of(commands, "aec", ABOUT_AEC, EXAMPLE_AEC, _aec)
    option(command, "--data FILE", ".csv or .parquet", required=True)
    option(command, "--target COLUMN", "what is predicted", required=True)
    option(command, "--drop COLUMN", "may be said again", action="append")
    tasks = ("auto", "regression", "classification")
    option(command, "--task", None, default="auto", choices=tasks)
    option(command, "--standardize", "effects without units", action="store_true")
    option(command, "--bootstrap R", "resamplings, for errors", whole(2))
    option(command, "--seed S", "(default: 0)", whole(0), default=0)
    option(command, "--out DIR", "the folder to write", required=True)


def _aec(arguments: argparse.Namespace) -> None:
    """Fits as the arguments say, and prints the ranking."""
    require_tables()
    table = rows_of_file(arguments.data, "--data", arguments.drop)
    if arguments.target not in getattr(table, "columns", ()):
        has = list(getattr(table, "columns", ())) or "no names of columns"
        raise InputError(f"--target: {arguments.data} has no {arguments.target!r}, but {has}.")
    y = table.pop(arguments.target)
    options = {"bootstrap": arguments.bootstrap, "seed": arguments.seed}
    aec = AEC(arguments.task, arguments.standardize, **options)
    folder = folder_of(arguments.out)
    result = aec.fit(table, y).explanation_
    print(result)
    file, values = folder / "explanation.npz", folder / "effects.csv"
    remove_run(folder)
    result.save(file)
    write_table(result.to_dataframe(), values)
    print(f"\nWritten\n{file}\n{values}")


ABOUT_REPORT = "make a page of a saved explanation, of rules, or of a sweep's directory"
EXAMPLE_REPORT = """\
    xaijax report run/explanation.npz --out report.html"""


def add_report(commands: Any) -> None:
    """Adds the command to `xaijax`."""
    command = command_of(commands, "report", ABOUT_REPORT, EXAMPLE_REPORT, _report)
    option(command, "saved SAVED", "an .npz file, a .json file of rules, or a sweep's directory")
    option(command, "--model NAME", "what the page calls the model")
    add_instances(command)
    option(command, "--out FILE", "(default: %(default)s)", default="report.html")


def _report(arguments: argparse.Namespace) -> None:
    """Writes the page, and prints its path."""
    new_file(arguments.out)
    saved = Path(arguments.saved)
    options = {"model": arguments.model, "instances": arguments.instances}
    if saved.suffix == ".json":
        print(rules_report(Rules.load(saved), arguments.out, **options))
        return
    result = open_run(saved).explanation() if saved.is_dir() else load(saved)
    if not isinstance(result, Explanation):
        raise InputError(f"SAVED: {saved} holds {type(result).__name__}, which has no page.")
    print(report(result, arguments.out, **options))
