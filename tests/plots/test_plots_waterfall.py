"""Waterfalls: steps that lead from the base value to the sum, of one instance that was chosen."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import lengths_of, make, names_of, segments_of_error_bars

from xaijax import plots
from xaijax.core.errors import InputError, InputTypeError
from xaijax.reports.report import report

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")


def test_waterfall_steps_lead_from_the_base_value_to_the_sum():
    explanation = make(P=5)
    ax = plots.waterfall(explanation, instance=4)
    values = explanation.values[4]
    order = np.argsort(-np.abs(values))
    np.testing.assert_allclose(lengths_of(ax), values[order])
    starts = np.array([p.get_x() for p in ax.patches])
    ends = starts + values[order]
    np.testing.assert_allclose(starts[-1], 0.25)
    np.testing.assert_allclose(starts[:-1], ends[1:])
    np.testing.assert_allclose(ends[0], 0.25 + values.sum())
    texts = [t.get_text() for t in ax.texts]
    assert texts[0] == f"{values[order[0]]:+.3g}".replace("-", "−")
    assert f"base value + all values = {0.25 + values.sum():.4g}" in texts
    assert names_of(ax)[0] == f"player {order[0]} = {explanation.data[4, order[0]]:.4g}"


def test_waterfall_sums_the_rest():
    explanation = make(P=60)
    ax = plots.waterfall(explanation, instance=0)
    order = np.argsort(-np.abs(explanation.values[0]))
    assert names_of(ax)[-1] == "sum of 50 others"
    np.testing.assert_allclose(lengths_of(ax)[-1], explanation.values[0, order[10:]].sum())


def test_waterfall_starts_after_others_that_would_dwarf_it():
    values = np.array([[3.0, -2.0, *[1.0] * 50]])
    ax = plots.waterfall(make(N=1, values=values, data=None, feature_names=()), max_display=2)
    assert names_of(ax)[-1] == "sum of 50 others" and lengths_of(ax) == [3.0, -2.0]
    assert [patch.get_x() for patch in ax.patches] == [48.25, 50.25]
    texts = {text.get_text() for text in ax.texts}
    assert texts >= {"+50, not to scale", "base value 0.25 and others = 50.25"}
    assert "base value + all values = 51.25" in texts
    assert ax.get_xlim()[0] > 45


def test_waterfall_intervals_at_the_ends():
    ax = plots.waterfall(make(sampled=True), instance=1)
    ends = [p.get_x() + p.get_width() for p in ax.patches]
    segments = segments_of_error_bars(ax)
    np.testing.assert_allclose([s[:, 0].mean() for s in segments], ends)
    np.testing.assert_allclose([np.ptp(s[:, 0]) for s in segments], 2 * 1.959964 * 0.05)


def test_waterfall_entries_and_names():
    pd = pytest.importorskip("pandas")
    data = pd.DataFrame({"a": ["No"], "b": [None], "c": [3], "d": [1.23456789]})
    explanation = make(
        N=1,
        values=np.array([[4.0, 3, 2, 1, 0.5]]),
        data=data,
        feature_names=(*"abcd", "a group"),
        instance_names=("Ada",),
    )
    ax = plots.waterfall(explanation, instance="Ada")
    assert names_of(ax) == ["a = No", "b = missing", "c = 3", "d = 1.235", "a group"]
    assert ax.get_title(loc="left") == "instance: Ada"


def test_waterfall_of_an_output():
    ax = plots.waterfall(make(K=3), instance=2, output=1)
    np.testing.assert_allclose(
        sorted(lengths_of(ax)), sorted(make(K=3).values[2, :, 1]), atol=1e-12
    )
    assert ax.get_title(loc="left") == "output: class 1"


@pytest.mark.parametrize(
    ("instance", "error"), [(30, InputError), ("Bob", InputError), (slice(2), InputTypeError)]
)
def test_waterfall_of_no_such_instance(instance, error):
    with pytest.raises(error, match="instance"):
        plots.waterfall(make(), instance=instance)


def test_the_instance_of_a_waterfall_is_chosen():
    with pytest.raises(InputError, match=r"one instance and the explanation has 30; choose one"):
        plots.waterfall(make())
    assert len(plots.waterfall(make()[3]).patches) == 5


def test_no_waterfall_of_effects():
    with pytest.raises(InputError, match="no step towards a sum"):
        plots.waterfall(make(kind="aec")[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["unary", "deegan-packel"])
def test_no_waterfall_of_what_has_no_sum(kind, tmp_path):
    found = make(kind=kind)
    with pytest.raises(InputError, match="no step towards a sum"):
        plots.waterfall(found)
    page = report(found, tmp_path / "page.html").read_text("utf-8")
    assert "Every instance" in page and "waterfall" not in page
    assert "waterfall plot" in report(make(), tmp_path / "page.html").read_text("utf-8")
