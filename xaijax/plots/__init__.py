"""Pictures of an Explanation; each function takes `ax=` and returns the matplotlib Axes.

Reading order:

    bar            players by their mean |value|; parties' worth; spread over backgrounds
    beeswarm       every instance a dot, every player a row
    heatmap        every instance a column, every player a row; correlations of columns
    scatter        a player's value over its data, coloured by another player
    groups         players by groups of instances (`groups`), or by explanations (`methods`)
    convergence    values over the budget, changes between explanations, deletion curves
    waterfall      one instance: waterfall, force, and the profile of one person or two
    images         a grid of images, output by output; one image
    rules          rule cards; the parts of an image or sentence that a rule keeps
    tokens         one sentence, or a prompt: its words coloured by their values
    interactions   interactions as a heatmap, a network, bars, and dots of one player
    pixels         players at their pixels: shared by pictures of images
    style          shared by all pictures: checks, rows, names, intervals, colours
"""

from typing import TYPE_CHECKING

from xaijax.plots.bar import background_spread, bar, worth
from xaijax.plots.beeswarm import beeswarm
from xaijax.plots.convergence import compare, convergence, faithfulness
from xaijax.plots.groups import groups, methods
from xaijax.plots.heatmap import correlation, heatmap
from xaijax.plots.images import image, images
from xaijax.plots.interactions import dependence, interactions, network, pairs
from xaijax.plots.rules import kept, rules
from xaijax.plots.scatter import scatter
from xaijax.plots.tokens import prompt, tokens
from xaijax.plots.waterfall import force, profile, waterfall

if not TYPE_CHECKING:  # a checker shall see the names that there are
    from xaijax.core.public import of_plots as __getattr__  # noqa: F401

__all__ = [
    "background_spread",
    "bar",
    "beeswarm",
    "compare",
    "convergence",
    "correlation",
    "dependence",
    "faithfulness",
    "force",
    "groups",
    "heatmap",
    "image",
    "images",
    "interactions",
    "kept",
    "methods",
    "network",
    "pairs",
    "profile",
    "prompt",
    "rules",
    "scatter",
    "tokens",
    "waterfall",
    "worth",
]
