"""Pictures of an Explanation; each takes `ax=` and returns the matplotlib Axes.

Reading order:

    bar            the players by their mean absolute value
    beeswarm       every instance a dot, every player a row
    heatmap        every instance a column, every player a row
    scatter        a player's value over its data, coloured by another player
    groups         mean values of groups of instances, and their disparity
    methods        the same players by several explanations
    force          one instance as one bar: what raises against what lowers
    convergence    sampled values over the budget, with their intervals
    waterfall      one instance, from the base value player by player
    profile        one person or two: their data beside signed bars
    images         a grid of images, output by output
    image          one image: values of players at their pixels
    tokens         one sentence: its words coloured by their values
    rules          rule cards: conditions, precision, coverage
    kept           what a rule keeps of an image or of a sentence
    compare        what changed between two explanations, with intervals
    faithfulness   deletion and insertion curves of judged attributions
    background_spread   how far values move with the background
    correlation    the correlations of the columns that an AEC was fitted on
    worth          what each party's columns are worth
    interactions   players and pairs of them as a heatmap
    network        players on a ring, joined by their interactions
    pairs          the largest interactions as bars
    dependence     a player's value over its data, coloured by its strongest partner
    sets           what pictures of interactions share
    pixels         players at their pixels: what pictures of images share
    words          words in lines, each on a ground of its own
    style          what all pictures share: checks, rows, intervals, the players that are shown
    names          names that fit, and differ where the names do
    colours        colours of all pictures, light or dark
"""

from typing import TYPE_CHECKING

from xaijax.plots.background_spread import background_spread as background_spread
from xaijax.plots.bar import bar as bar
from xaijax.plots.beeswarm import beeswarm as beeswarm
from xaijax.plots.compare import compare as compare
from xaijax.plots.convergence import convergence as convergence
from xaijax.plots.correlation import correlation as correlation
from xaijax.plots.dependence import dependence as dependence
from xaijax.plots.faithfulness import faithfulness as faithfulness
from xaijax.plots.force import force as force
from xaijax.plots.groups import groups as groups
from xaijax.plots.heatmap import heatmap as heatmap
from xaijax.plots.image import image as image
from xaijax.plots.images import images as images
from xaijax.plots.interactions import interactions as interactions
from xaijax.plots.kept import kept as kept
from xaijax.plots.methods import methods as methods
from xaijax.plots.network import network as network
from xaijax.plots.pairs import pairs as pairs
from xaijax.plots.profile import profile as profile
from xaijax.plots.rules import rules as rules
from xaijax.plots.scatter import scatter as scatter
from xaijax.plots.tokens import tokens as tokens
from xaijax.plots.waterfall import waterfall as waterfall
from xaijax.plots.worth import worth as worth

if not TYPE_CHECKING:  # a checker shall see the names that there are
    from xaijax.core.elsewhere import of_plots as __getattr__  # noqa: F401

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
    "rules",
    "scatter",
    "tokens",
    "waterfall",
    "worth",
]
