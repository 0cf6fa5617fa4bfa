"""Translated estimators whose structure answers corners: machines, trees, encoded columns."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import often
import oracles
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR
from sklearn.tree import DecisionTreeRegressor

import xaijax as xj
from xaijax_kernels import sizes
from xaijax_kernels.structures import averaged, nodes

P = 6


def data(seed: int, N: int, columns: int = P) -> np.ndarray:
    # Few values, so that some players agree with their donors and rows lie on thresholds.
    return np.random.default_rng(seed).integers(-3, 4, (N, columns)).astype(np.float32) / 2


X = data(0, 300)
SCORE = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] - X[:, 3]
CLASS = np.digitize(SCORE, [-0.5, 0.8])
ENCODED = ColumnTransformer(
    [("codes", OneHotEncoder(handle_unknown="ignore"), [1, 2]), ("scale", StandardScaler(), [0, 3])]
)
KINDS: dict[str, tuple[Any, Any, str]] = {  # estimator, output, structure
    "SVR": (SVR(gamma=0.3).fit(X, SCORE), "value", "sum of products"),
    "scaled SVC": (
        make_pipeline(StandardScaler(), SVC(gamma=0.2)).fit(X, CLASS),
        "decision",
        "sum of products",
    ),
    "decided SVC": (SVC(gamma=0.3).fit(X, CLASS > 0), "label", "sum of products"),
    "forest": (
        RandomForestClassifier(8, max_depth=4, random_state=0).fit(X, CLASS),
        "proba",
        "trees",
    ),
    "decided forest": (
        RandomForestClassifier(9, max_depth=5, random_state=1).fit(X, CLASS > 0),
        "label",
        "sum of products",
    ),
    "two targets": (
        ExtraTreesRegressor(6, max_depth=4, random_state=0).fit(X, np.stack([SCORE, X[:, 4]], 1)),
        "value",
        "trees",
    ),
    "boosted": (
        GradientBoostingClassifier(n_estimators=7, random_state=0).fit(X, CLASS),
        "decision",
        "trees",
    ),
    "boosted chance": (
        GradientBoostingClassifier(n_estimators=7, random_state=0).fit(X, CLASS > 0),
        1,
        "sum of products",
    ),
    "histograms": (
        HistGradientBoostingRegressor(max_iter=6, random_state=0).fit(X, SCORE),
        "value",
        "trees",
    ),
    "deep": (
        RandomForestClassifier(3, max_depth=9, random_state=0).fit(X, CLASS > 0),
        1,
        "trees",
    ),
    "least squares": (
        make_pipeline(ENCODED, LinearRegression()).fit(X, SCORE),
        "value",
        "additive",
    ),
    "encoded": (
        make_pipeline(ENCODED, LogisticRegression()).fit(X, CLASS),
        "proba",
        "first layer",
    ),
}


UNITED = {"a": [0, 3], "b": [1], "c": [2, 4, 5]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "players, index",
    [
        (None, "shapley"),
        (UNITED, xj.SizeLimited(2)),
        pytest.param(None, xj.SizeLimited(2), marks=pytest.mark.slow),
        pytest.param(UNITED, "shapley", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", often.some_slow(sorted(KINDS), 6))
def test_the_structure_gives_the_values_of_the_estimator(
    kind: str, players: Any, index: Any
) -> None:
    estimator, output, structure = KINDS[kind]
    here, background = data(1, 4), data(2, 9)
    options: Any = {"players": players, "index": index, "weights": np.arange(1, 10)}
    got = xj.Explainer(xj.as_model(estimator, output=output), background, **options)(here)
    assert got.stats["structure"] == structure and got.stats["backend"] == "jax"
    host = xj.as_model(estimator, output=output, backend="host")
    wanted = xj.Explainer(host, background, **options)(here)
    scale = np.abs(host.predict(np.concatenate([here, background]))).max()
    # float32 sums of at most 300 terms, beside the estimator's own in float64.
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=300 * 2**-24 * (scale + 1))
    np.testing.assert_allclose(
        got.base_values, wanted.base_values, rtol=0, atol=300 * 2**-24 * (scale + 1)
    )
    if index == "shapley":
        assert (np.abs(got.stats["efficiency_residual"]) <= got.stats["efficiency_bound"]).all()


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(st.integers(1, 12), st.integers(1, 3), st.integers(1, 8), st.integers(0, 1000))
def test_trees_of_all_depths(depth: int, targets: int, columns: int, seed: int) -> None:
    rows = data(seed, 400, columns)
    y = np.random.default_rng(seed).normal(size=(400, targets))
    tree = DecisionTreeRegressor(max_depth=depth, random_state=0).fit(rows, y)
    here, background = data(seed + 1, 2, columns), data(seed + 2, 5, columns)
    got = xj.Explainer(xj.as_model(tree), background)(here)
    assert got.stats["structure"] in ("trees", "sum of products")

    def predict(Z: np.ndarray) -> np.ndarray:
        return tree.predict(Z).reshape(len(Z), -1)

    weight = oracles.shapley_weight(columns)
    wanted = oracles.explain(predict, here, background, weight)[0]
    # One leaf is reached, whose value of at most 5 is rounded once; means are taken in float32.
    np.testing.assert_allclose(
        got.values, wanted.reshape(got.values.shape), rtol=0, atol=5 * 2**-20
    )


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(1, 12), st.integers(2, 4), st.integers(1, 5), st.integers(0, 1000))
def test_forests_of_all_depths_and_classes(depth: int, K: int, trees: int, seed: int) -> None:
    """Of two classes one sum stands for both shares."""
    columns = 5
    rows, rng = data(seed, 300, columns), np.random.default_rng(seed)
    forest = RandomForestClassifier(trees, max_depth=depth, random_state=0)
    classes = np.arange(300) % K + rng.integers(0, 2, 300) * (rows[:, 0] > 0)
    forest.fit(rows, classes)
    here, background = data(seed + 1, 2, columns), data(seed + 2, 7, columns)
    # Of answers that are all alike none is far enough apart to say what rounding is.
    assume(np.ptp(forest.predict_proba(np.concatenate([here, background])), axis=0).any())
    got = xj.Explainer(xj.as_model(forest, output="proba"), background)(here)
    assert got.stats["structure"] in ("trees", "sum of products")
    weight = oracles.shapley_weight(columns)
    wanted = oracles.explain(forest.predict_proba, here, background, weight)[0]
    # Shares of at most 1 in float32, summed over trees and donors.
    np.testing.assert_allclose(got.values, wanted, rtol=0, atol=(trees + 8) * 2**-23)
    if trees == 1:  # no tie of sums that rounding could turn
        forest.fit(rows, classes % 2)  # of other labels there is no mean
        label = xj.Explainer(xj.as_model(forest, output="label"), background)(here)
        wanted = oracles.explain(forest.predict, here, background, weight)[0]
        np.testing.assert_allclose(label.values, wanted, rtol=0, atol=K * 2**-20)


@pytest.mark.slow
def test_many_support_vectors_in_blocks() -> None:
    """More rows than one block of the plain sums, and odd numbers of them."""
    rows = data(5, 1001)
    machine = KINDS["SVR"][0]
    got = xj.as_model(machine).predict(rows)
    np.testing.assert_allclose(got, machine.predict(rows), rtol=0, atol=300 * 2**-24 * 4)


@pytest.mark.parametrize("name", ["SVR", "histograms", "two targets"])
def test_programs_of_an_accelerator_give_the_same_answers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Larger blocks of rows, and some trees at once, level by level."""
    monkeypatch.setattr(jax.lax, "platform_dependent", lambda *given, cpu, default: default(*given))
    monkeypatch.setattr(sizes, "head_rows", lambda *_: 512)
    # Two turns; the second is padded.
    monkeypatch.setattr(nodes, "trees_together", lambda rows, count: count // 2 + 1)
    machine, rows = KINDS[name][0], jnp.asarray(data(5, 1003))  # a number that nobody else asks
    got = xj.as_jax(xj.as_model(machine))(rows)
    wanted = machine.predict(np.asarray(rows))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=300 * 2**-24 * 4)
    jaxpr = str(jax.make_jaxpr(xj.as_jax(xj.as_model(machine)))(rows))
    assert ("length=2" in jaxpr) or ("512" in jaxpr)


@pytest.mark.slow
def test_rows_with_gaps_have_a_closed_form() -> None:
    """A tree says where a missing value goes, so that the host's enumeration is the oracle."""
    rows = data(7, 300)
    rows[::5, 0] = np.nan
    forest = HistGradientBoostingRegressor(max_iter=5, random_state=0).fit(rows, SCORE)
    here, background = rows[:4], rows[10:16]
    model = xj.as_model(forest, allow_nan=True)
    got = xj.Explainer(model, background)(here)
    assert got.stats["structure"] == "trees" and got.stats["backend"] == "jax"
    host = xj.as_model(forest, allow_nan=True, backend="host")
    wanted = xj.Explainer(host, background)(here)
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=300 * 2**-24 * 4)


@pytest.mark.slow
def test_columns_that_are_made_infinite_are_asked_whole() -> None:
    import jax.numpy as jnp  # noqa: PLC0415

    W = np.ones((3, 2), np.float32)

    def f(Z: Any) -> Any:
        return jnp.nan_to_num(jnp.log(jnp.abs(Z)) @ W, neginf=-7.0).sum(axis=1)

    here, background = data(1, 3, 3), data(2, 6, 3)
    assert (background == 0).any()
    got = xj.Explainer(xj.as_model(f), background)(here)
    wanted = xj.Explainer(xj.as_model(f, structure="plain"), background)(here)
    assert got.stats["structure"] is None
    np.testing.assert_array_equal(got.values, wanted.values)
    positive = xj.Explainer(xj.as_model(f), np.abs(background) + 1)(np.abs(here) + 1)
    assert positive.stats["structure"] == "first layer"


@pytest.mark.slow
def test_banzhaf_of_trees() -> None:
    forest = ExtraTreesRegressor(5, max_depth=5, random_state=0).fit(X, SCORE)
    here, background = data(1, 5), data(2, 8)
    got = xj.Explainer(xj.as_model(forest), background, index="banzhaf")(here)
    wanted = oracles.explain(
        lambda Z: forest.predict(Z)[:, None], here, background, oracles.banzhaf_weight(P)
    )[0]
    assert got.stats["structure"] == "trees"
    np.testing.assert_allclose(got.values, wanted[:, :, 0], rtol=0, atol=300 * 2**-24 * 4)


@pytest.mark.slow
def test_an_answer_that_only_looks_affine_is_not_taken_for_it() -> None:
    """Steps have no slope almost everywhere; a maximum is affine in places."""
    import jax.numpy as jnp  # noqa: PLC0415

    W = np.random.default_rng(0).normal(size=(3, 2)).astype(np.float32)
    heads: dict[str, Any] = {
        "rounded": lambda H: jnp.round(H[:, 0]),
        "largest": lambda H: H.max(axis=1),
        "decided": lambda H: (H[:, 0] > H[:, 1]) * 1.0,
        "squared": lambda H: H[:, 0] * H[:, 1],
        "mixed": lambda H: H[:, 0] + jnp.abs(H[:, 1]),
    }
    here, background = data(1, 3, 3), data(2, 6, 3)
    for name, head in heads.items():

        def f(Z: Any, head: Any = head) -> Any:
            return head(Z @ W)

        got = xj.Explainer(xj.as_model(f), background)(here)
        wanted = xj.Explainer(xj.as_model(f, structure="plain"), background)(here)
        assert got.stats["structure"] == "first layer", name
        np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=30 * 2**-24 * 9)

    def affine(Z: Any) -> Any:
        H = Z @ W
        return jnp.stack([H[:, 0] / 2 - 1, 3 - H.sum(axis=1)], axis=1)

    got = xj.Explainer(xj.as_model(affine), background)(here)
    wanted = xj.Explainer(xj.as_model(affine, structure="plain"), background)(here)
    assert got.stats["structure"] == "additive"
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=30 * 2**-24 * 9)


@pytest.mark.slow
@pytest.mark.parametrize(
    "label, found", [(CLASS > 0, True), pytest.param(CLASS, False, marks=pytest.mark.slow)]
)
def test_chances_of_two_classes_need_no_exponential_of_each_corner(
    label: Any, found: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A softmax of three is no logistic function of one sum."""
    kept: list[Any] = []
    chances_of = averaged.chances_of
    monkeypatch.setattr(
        averaged, "chances_of", lambda *given: kept.append(chances_of(*given)) or kept[-1]
    )
    estimator = LogisticRegression().fit(X, label)
    rng = np.random.default_rng(3)  # a row whose columns all differ from the donors'
    here, background = rng.normal(size=(2, P)), rng.normal(size=(32, P))
    got = xj.Explainer(xj.as_model(estimator), background)(here)
    assert [one is not None for one in kept] == [found] * len(kept) != []
    wanted = xj.Explainer(xj.as_model(estimator, backend="host"), background)(here)
    # A chance is off by a quarter of its sum, which is off by a rounding for each of 2 P terms of
    # some units, and by a few units of its exponentials; a value is a mean of differences of two.
    np.testing.assert_allclose(got.values, wanted.values, rtol=0, atol=64 * 2**-24)
