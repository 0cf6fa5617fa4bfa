"""Pictures of an Explanation; each takes `ax=` and returns the matplotlib Axes."""

from xaijax.results.plots.bar import bar as bar
from xaijax.results.plots.beeswarm import beeswarm as beeswarm
from xaijax.results.plots.correlation import correlation as correlation
from xaijax.results.plots.image import image as image
from xaijax.results.plots.profile import profile as profile
from xaijax.results.plots.waterfall import waterfall as waterfall
from xaijax.results.plots.worth import worth as worth

__all__ = ["bar", "beeswarm", "correlation", "image", "profile", "waterfall", "worth"]
