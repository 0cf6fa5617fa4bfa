"""`xj.plots.prompt`: text coloured by value, its legend, and the page of a notebook."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xaijax as xj


def test_pictures_of_prompts() -> None:
    facts: dict[str, Any] = {
        "data": np.array([["the <cat>", " sat"]] * 2),
        "provenance": {"segments": "word"},
        "stats": {"targets": np.array(["on", "off"])},
    }
    values = np.array([[1.0, -2.0], [0.5, 0.25]])
    found = xj.Explanation(values, np.zeros(2), **facts)
    axes = xj.plots.prompt(found[0])
    assert [one.get_text() for one in axes.texts][:6] == ["the", "+1", "<cat>", "", "sat", "−2"]
    legend = axes.get_legend()
    assert legend is not None
    assert [one.get_text() for one in legend.get_texts()] == ["−2", "0", "2"]
    assert legend.get_title().get_text() == "Shapley value"
    assert "'on': base value 0, answer −1" in axes.get_title("left") + axes.get_title()
    assert axes.patches[0].get_facecolor() != axes.patches[2].get_facecolor()
    page = found[0]._repr_html_()
    assert "&lt;cat&gt;</span>" in page and 'title="-2"' in page and "rgba(43,108,176,0.80)" in page
    tokens = xj.Explanation(
        values[:1, :, None] * [1, 2, 3],
        np.zeros((1, 3)),
        **facts | {"data": facts["data"][:1], "stats": {}},
    )
    assert len(xj.plots.prompt(tokens).get_xticklabels()) == 3
    with pytest.raises(xj.InputError, match="explains rows that are not prompts"):
        xj.plots.prompt(xj.Explanation(values[:1], np.zeros(1)))
    with pytest.raises(xj.InputError):
        xj.plots.prompt(found)
