"""Pictures of an Explanation; each takes `ax=` and returns the matplotlib Axes."""

from xaijax.results.plots.bar import bar as bar
from xaijax.results.plots.beeswarm import beeswarm as beeswarm
from xaijax.results.plots.image import image as image
from xaijax.results.plots.profile import profile as profile
from xaijax.results.plots.waterfall import waterfall as waterfall

__all__ = ["bar", "beeswarm", "image", "profile", "waterfall"]
