"""What the demo prints. Every number of the explanation is read from the explanation."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np

from xaijax.demo.data import DemoData
from xaijax.demo.network import HIDDEN
from xaijax.results.explanation import Explanation
from xaijax.results.summary import mean_abs, ranking

WIDTH = 88


@dataclass(frozen=True)
class Figures:
    """What the explanation does not know."""

    train_seconds: float  # compilation included
    accuracy: float  # of all test rows
    majority: float  # share of the larger class among the test rows
    rows_wanted: int


def what_runs(data: DemoData) -> str:
    """The lines before the work: the data, and why it is not Adult where it is not."""
    lines = []
    if data.instead is not None:
        lines += [
            "NOTE: the Adult census table was not found, so this demo runs on data that is",
            "bundled with scikit-learn. The figures below are not those of the README.",
            *textwrap.wrap(
                f"Why: {data.instead}",
                WIDTH,
                subsequent_indent="     ",
                break_long_words=False,  # a path or an address must stay whole
                break_on_hyphens=False,
            ),
            "",
        ]
    lines += [
        f"Data         {data.name}",
        f"             {len(data.X_train):,} training rows, {len(data.X_test):,} test rows, "
        f"{data.X_train.shape[1]} columns",
    ]
    return "\n".join(lines)


def model_name(data: DemoData) -> str:
    """The network by its widths."""
    return "JAX MLP " + "-".join(map(str, (data.X_train.shape[1], *HIDDEN, 1)))


def results(explanation: Explanation, data: DemoData, figures: Figures) -> str:
    """The block after the work."""
    stats, provenance = explanation.stats, explanation.provenance
    N, P = explanation.shape
    B = provenance["background_rows"]
    residual = stats["efficiency_residual"]
    worst = int(np.argmax(residual))
    fewer = "" if figures.rows_wanted <= N else f" (all there are; {figures.rows_wanted:,} wanted)"
    share = stats["model_rows"] / stats["naive_rows"]
    lines = [
        f"Model        {model_name(data)}, {data.steps:,} steps of Adam in "
        f"{figures.train_seconds:.1f} s",
        f"Accuracy     {figures.accuracy:.1%} of the test rows (majority class "
        f"{figures.majority:.1%})",
        f"Explained    the probability of {data.explained}",
        f"             {N:,} test rows{fewer} against {B:,} training rows, {P} players",
        f"             exact Shapley values: 2^{P} = {2**P:,} coalitions a row",
        f"Seconds      {stats['seconds']:.2f}, and {stats['compile_seconds']:.2f} of compilation",
        f"Model rows   {stats['model_rows']:,} asked for of N*B*2^P = {stats['naive_rows']:,} "
        f"({share:.1%})",
        f"Efficiency   largest |base + sum of values - f(x)| = {residual[worst]:.1e} "
        f"(bound {stats['efficiency_bound'][worst]:.1e})",
        "",
        "Players by mean |value|",
    ]
    size = mean_abs(explanation)
    width = max(map(len, explanation.feature_names))
    for place, j in enumerate(ranking(size), start=1):
        lines.append(f"  {place:2d}  {explanation.feature_names[j]:{width}}  {size[j]:.4f}")
    return "\n".join(lines)
