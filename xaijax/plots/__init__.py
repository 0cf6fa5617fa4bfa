"""Pictures of an Explanation; each takes `ax=` and returns the matplotlib Axes."""

from xaijax.plots.bar import bar as bar
from xaijax.plots.beeswarm import beeswarm as beeswarm
from xaijax.plots.correlation import correlation as correlation
from xaijax.plots.image import image as image
from xaijax.plots.profile import profile as profile
from xaijax.plots.waterfall import waterfall as waterfall
from xaijax.plots.worth import worth as worth

__all__ = ["bar", "beeswarm", "correlation", "image", "profile", "waterfall", "worth"]
