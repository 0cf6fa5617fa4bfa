"""Every file of `examples/` runs, and what it explains adds up."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest
from repository import ROOT

import xaijax

matplotlib = pytest.importorskip("matplotlib", reason="needs the extra [plots]")
pytest.importorskip("pandas", reason="needs the extra [data]")

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
ADULT = Path(os.environ.get("XAIJAX_DATA") or "nowhere") / "adult" / "adult.test"
WINE = ADULT.parent.parent / "wine" / "winequality-red.csv"
TITANIC = ADULT.parent.parent / "titanic"
NEED = {
    "attribution_prior": ADULT,
    "sklearn_pipeline": ADULT,
    "qii_report": ADULT,
    "wine_collinearity": WINE,
    "anchors": TITANIC,
    "sweep_a_million": ADULT,
}
SHAPES = {
    "attribution_prior": (200, 12),
    "sklearn_pipeline": (50, 12),
    "image_players": (20, 16, 10),
    "judge_attributions": (100, 8),
    "wine_collinearity": (1, 11),
    "federated": (100, 7),
    "photographs": (2, 49),
    "qii_report": (2, 13),
    "sweep_a_million": (20_000, 12),
    "plot_bar_of_outputs": (89, 8, 3),
    "plot_beeswarm": (200, 8),
    "plot_correlation": (1, 12),
    "plot_dependence": (200, 36),
    "plot_faithfulness": (50, 8),
    "plot_network": (30, 55),
    "plot_pixels": (2, 64, 10),
    "plot_profile": (2, 8),
    "plot_waterfall": (5, 10),
    "plot_worth": (100, 7),
    "plot_convergence": (1, 8),
    "plot_force": (1, 8),
    "plot_groups": (200, 8),
    "plot_heatmap": (150, 8),
    "plot_methods": (50, 8),
    "plot_scatter": (200, 8),
    "plot_background_spread": (20, 10),
    "plot_compare": (142, 10),
    "plot_image": (1, 16, 10),
    "plot_interactions": (1, 55),
    "plot_pairs": (50, 92),
    "plot_precision": (8, 6),
    "plot_tokens": (1, 10),
}
RULES = {"anchors": 60, "plot_kept": 3, "plot_rules": 3}


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path, monkeypatch):
    if path.stem in NEED and not NEED[path.stem].exists():
        pytest.skip(f"needs {NEED[path.stem].name}: XAIJAX_DATA is not set")
    if path.stem == "sweep_a_million":
        pytest.importorskip("pyarrow", reason="needs the extra [scale]")
    if path.stem == "photographs":
        pytest.importorskip("efficientnet_lite_pytorch", reason="needs torch and two packages")
    drawn = path.stem.startswith("plot_")  # of the gallery
    assert len(path.read_text().splitlines()) < (60 if drawn else 80)
    matplotlib.use("Agg")
    picture = tmp_path / "picture.png"
    explanation = runpy.run_path(str(path))["main"](str(picture))
    if path.stem in RULES:  # rules, not shares
        assert picture.read_bytes().startswith(b"\x89PNG")
        assert len(explanation) == RULES[path.stem]
        assert all(rule.precision >= 0.85 for rule in explanation if rule.accepted)
        return
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert explanation.shape == SHAPES[path.stem]
    assert explanation.exact != (path.stem in ("plot_pixels", "photographs"))  # sampled
    stats = explanation.stats
    if isinstance(explanation, xaijax.Interactions):  # of pairs: their sum is not kept
        return
    if explanation.kind == "aec":  # effects are no shares, so that nothing adds up
        assert drawn or picture.with_suffix(".html").is_file()
        return
    assert (stats["efficiency_residual"] <= stats["efficiency_bound"]).all()
