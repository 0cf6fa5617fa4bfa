"""Colours of all pictures; texts and lines follow a dark matplotlib style."""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.optional import require

# Blue against orange stays apart in every common colour blindness; the outputs are Okabe and Ito's.
DOWN, UP = "#2b6cb0", "#e07b16"
GREY, LINE, TEXT = "#a3a8ad", "#d9dcdf", "#2a2e33"
OUTPUTS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8C6D31")
PEOPLE = ("#0072B2", "#E69F00")
LOW_TO_HIGH = ("#2b6cb0", "#9c8fb4", "#e07b16")
FAINT = 0.3  # of the way from the ground to the colour of texts, for lines on a dark ground


def ink() -> str:
    """The colour of texts and of lines that matter."""
    return _rgb("text.color") if dark() else TEXT


def faint() -> str:
    """The colour of a grid and of frames."""
    if not dark():
        return LINE
    colors = require("matplotlib.colors", "xaijax[plots]")
    ground, text = (np.array(colors.to_rgb(one)) for one in (_rgb("axes.facecolor"), ink()))
    return colors.to_hex(ground + FAINT * (text - ground))


def ground() -> str:
    """The colour that axes stand on."""
    return _rgb("axes.facecolor")


def dark() -> bool:
    """Whether the style in force draws on a dark ground."""
    return lightness(_rgb("axes.facecolor")) < 0.4


def on(colour: Any) -> str:
    """A colour of text that can be read on a ground of this colour."""
    return "#ffffff" if lightness(colour) < 0.5 else TEXT


def lightness(colour: Any) -> float:
    """From 0, black, to 1, white, as eyes weigh colours (ITU-R BT.601)."""
    colors = require("matplotlib.colors", "xaijax[plots]")
    return float(np.dot(colors.to_rgb(colour), (0.299, 0.587, 0.114)))


def scale(*ends: str) -> Any:
    """A colour map from one colour over the others to the last."""
    colors = require("matplotlib.colors", "xaijax[plots]")
    return colors.LinearSegmentedColormap.from_list("xaijax", ends).with_extremes(bad=GREY)


def _rgb(key: str) -> str:
    colors = require("matplotlib.colors", "xaijax[plots]")
    return colors.to_hex(require("matplotlib", "xaijax[plots]").rcParams[key])
