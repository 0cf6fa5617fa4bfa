"""`merge`: instances explained apart, put together."""

from __future__ import annotations

import time

import numpy as np
import pytest
from example_explanation import make

from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.merge import merge


def test_merge_undoes_slicing():
    whole = make(N=5, K=2, stats={"residual": np.arange(5.0)})
    merged = merge([whole[:2], whole[2:4], whole[4]])
    for name in ("values", "base_values", "std_errors", "data"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))
    assert merged.instance_names == whole.instance_names
    assert merged.output_names == whole.output_names
    np.testing.assert_array_equal(merged.stats["residual"], np.arange(5.0))


def test_merge_of_stats_and_provenance():
    one = make(
        stats={"model_rows": 10, "seconds": 0.5, "tile": 256, "seed": 0, "budget": 8},
        provenance={"method": "M", "versions": {"jax": "1"}, "weights": np.ones(2)},
    )
    two = make(
        stats={"model_rows": 5, "seconds": 0.25, "tile": 256, "seed": 1},
        provenance={"method": "M", "versions": {"jax": "2"}, "weights": np.ones(2)},
    )
    merged = merge([one, two])
    assert dict(merged.stats) == {
        "model_rows": 15,
        "seconds": 0.75,
        "tile": 256,
        "seed": [0, 1],
        "budget": [8, None],
    }
    assert merged.provenance["method"] == "M"
    assert merged.provenance["versions"] == [{"jax": "1"}, {"jax": "2"}]
    np.testing.assert_array_equal(merged.provenance["weights"], np.ones(2))
    assert "budget [8, None]" in repr(merge([one, two]))


def test_merge_of_exact_and_sampled():
    exact = make(N=2, std_errors=None, exact=True)
    sampled = make(N=3)
    unknown = make(N=1, std_errors=None, exact=False)
    merged = merge([exact, sampled, unknown])
    assert not merged.exact
    np.testing.assert_array_equal(merged.std_errors[:2], np.zeros((2, 3)))
    np.testing.assert_array_equal(merged.std_errors[2:5], sampled.std_errors)
    assert np.isnan(merged.std_errors[5]).all()
    np.testing.assert_array_equal(merged.stats["exact_rows"], [1, 1, 0, 0, 0, 0])
    both = merge([exact, exact])
    assert both.exact and both.std_errors is None and "exact_rows" not in both.stats


def test_merge_keeps_degrees_of_freedom():
    # Beside an exact part too, whose intervals have width 0.
    few = make(N=2, stats={"dof": np.array([3.0, 7.0]), "coalitions": np.array([8, 16])})
    exact = make(N=3, std_errors=None, exact=True)
    merged = merge([few, exact, few[1]])
    np.testing.assert_array_equal(merged.stats["dof"], [3, 7, np.inf, np.inf, np.inf, 7])
    np.testing.assert_array_equal(merged.stats["coalitions"], [8, 16, 0, 0, 0, 16])
    half = merged.half_widths()
    np.testing.assert_array_equal(half[[0, 1, 5]], few.half_widths()[[0, 1, 1]])
    assert (half[2:5] == 0).all()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_merge_of_frames(library):
    frames = pytest.importorskip(library)
    data = frames.DataFrame({"a": [1, 2, 3, 4], "t": ["x", "y", "z", "w"]})
    whole = make(data=data)
    merged = merge([whole[:1], whole[1:]])
    assert merged.data.equals(data)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"feature_names": ("a", "b", "z")}, "feature_names"),
        ({"kind": "banzhaf"}, "kind"),
        ({"K": 2}, "output_names"),
        ({"instance_names": None}, "instance_names"),
        ({"data": None}, "data"),
        ({"data": np.zeros((4, 7))}, "data"),
        ({"provenance": {"selected_output": "yes"}}, "selected_output"),
    ],
)
def test_merge_refuses_other_questions(changes, text):
    with pytest.raises(InputError, match=text):
        merge([make(), make(**changes)])


def test_merge_refuses_other_things():
    with pytest.raises(InputError, match="none"):
        merge([])
    with pytest.raises(InputTypeError, match="list of them"):
        merge(make())
    with pytest.raises(InputTypeError, match="str"):
        merge([make(), "x"])


def test_the_time_of_a_merge_grows_with_its_parts():
    """It grew with their square: four times the parts took sixteen times as long."""
    one, taken = make()[:1], {}
    for parts in (250, 1000):
        runs = []
        for _ in range(3):
            started = time.perf_counter()
            merge([one] * parts)
            runs.append(time.perf_counter() - started)
        taken[parts] = min(runs)
    assert taken[1000] < 9 * taken[250]  # between four times and sixteen
