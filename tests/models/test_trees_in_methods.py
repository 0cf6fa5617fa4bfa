"""QII, FederatedExplainer and AnchorExplainer on rows in several arrays: as of the same in one."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from often import some_slow

import xaijax as xj

RNG = np.random.default_rng(5)
N, D = 4, 40
W = RNG.normal(size=(5, 3)).astype("f4")
V = RNG.normal(size=3).astype("f4")
WHOLE = RNG.normal(size=(D, 5)).astype("f4")
SPLIT = {"first": WHOLE[:, :3], "second": WHOLE[:, 3:]}
SOME = {name: leaf[:N] for name, leaf in SPLIT.items()}
NAMES = ["first[0]", "first[1]", "first[2]", "second[0]", "second[1]"]


def models(backend: str, output: str = "value") -> tuple[Any, Any]:
    """(of several arrays, of one)."""
    np_ = jnp if backend == "jax" else np

    def one(z: Any) -> Any:
        found = np_.tanh(z @ W) @ V
        return (found > 0) * 1 if output == "label" else found

    def several(z: Any) -> Any:
        assert z["first"].shape[1:] == (3,) and z["second"].shape[1:] == (2,)
        return one(np_.concatenate([z["first"], z["second"]], axis=1))

    return tuple(xj.as_model(f, backend=backend, output=output) for f in (several, one))


BACKENDS = pytest.mark.parametrize("backend", ["jax", "host"])


@pytest.mark.slow
@BACKENDS
@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_influences_are_those_of_the_concatenated_array(backend: str, index: str) -> None:
    several, one = models(backend)
    options = {"quantity": "individual", "outcome": "score", "bounds": (-4, 4)}
    apart = xj.QII(several, SPLIT, **options).explain(SOME, index=index)
    whole = xj.QII(one, WHOLE, **options).explain(WHOLE[:N], index=index)
    np.testing.assert_array_equal(apart.values, whole.values)
    assert list(apart.feature_names) == NAMES


@BACKENDS
@pytest.mark.parametrize(
    "options",
    some_slow(
        [
            {"quantity": "actual"},
            {"quantity": "rate", "positive": 1},
            {"quantity": "rate", "positive": 1, "samples": 64, "seed": 3},
            {"quantity": "disparity", "positive": 1, "members": WHOLE[:, 0] > 0},
        ],
        4,
    ),
    ids=["actual", "rate", "sampled", "disparity"],
)
def test_other_quantities_of_interest_are_too(backend: str, options: dict[str, Any]) -> None:
    several, one = models(backend, "label")
    apart, whole = xj.QII(several, SPLIT, **options), xj.QII(one, WHOLE, **options)
    np.testing.assert_array_equal(apart.unary().values, whole.unary().values)
    if options["quantity"] != "disparity":
        np.testing.assert_array_equal(apart.explain().values, whole.explain().values)
    assert repr(apart) == repr(whole)


@pytest.mark.slow
def test_whole_arrays_may_be_players() -> None:
    several, one = models("jax", "label")
    grouped = xj.QII(several, SPLIT, {"a": ["first"]}, quantity="rate", positive=1)
    same = xj.QII(one, WHOLE, {"a": [0, 1, 2]}, quantity="rate", positive=1)
    np.testing.assert_array_equal(grouped.explain().values, same.explain().values)
    numbered = xj.QII(several, SPLIT, {"first": 0, "second": 1}, quantity="rate", positive=1)
    assert numbered.player_names == ("first", "second")
    of_each = xj.QII(
        several, SPLIT, {"first": np.zeros((D, 3), int), "second": 1}, quantity="rate", positive=1
    )
    np.testing.assert_array_equal(of_each.explain().values, numbered.explain().values)


@BACKENDS
@pytest.mark.parametrize("reference", some_slow(["rows", "row", "median"], 3))
def test_guests_may_own_whole_arrays(backend: str, reference: str) -> None:
    several, one = models(backend)
    given: Any = {
        "median": ("median", "median"),
        "row": ({"first": WHOLE[7, :3], "second": WHOLE[7, 3:]}, WHOLE[7]),
        "rows": ({"first": WHOLE[7:9, :3], "second": WHOLE[7:9, 3:]}, WHOLE[7:9]),
    }[reference]
    apart = xj.FederatedExplainer(several, SPLIT, {"lab": ["second"]}, reference=given[0])
    whole = xj.FederatedExplainer(one, WHOLE, {"lab": [3, 4]}, reference=given[1])
    found, same = apart(SOME), whole(WHOLE[:N])
    np.testing.assert_array_equal(found.values, same.values)
    assert found.feature_names == (*NAMES[:3], "lab")
    np.testing.assert_array_equal(found.data, WHOLE[:N, :3])  # nothing of the guest's
    np.testing.assert_allclose(apart.interaction_, whole.interaction_, rtol=0, atol=1e-6)


@BACKENDS
@pytest.mark.parametrize("perturbation", some_slow(["row_bin", "row", "flip"], 3))
def test_rules_are_those_of_the_concatenated_array(backend: str, perturbation: str) -> None:
    several, one = models(backend, "label")
    options: Any = {"perturbation": perturbation, "table_rows": 200}
    search: Any = "exact" if perturbation == "row" else "table"
    search: Any = "exact" if perturbation == "row" else "table"
    apart = xj.AnchorExplainer(several, SPLIT, **options).explain(SOME, search=search)
    whole = xj.AnchorExplainer(one, WHOLE, NAMES, **options).explain(WHOLE[:N], search=search)
    assert [str(rule) for rule in apart] == [str(rule) for rule in whole]
    assert [rule.precision for rule in apart] == [rule.precision for rule in whole]
