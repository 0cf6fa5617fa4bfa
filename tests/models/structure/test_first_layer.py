"""A declared first layer: the same values as the plain path and the definition, asked for less."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import count_turns

import xaijax as xj
from xaijax.games.engine import permutation_scan
from xaijax_kernels.structures.first_layer import PAIRS, ScanShape, prefixes_of

ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh, "gelu": jax.nn.gelu}


def network(seed: int, widths: tuple[int, ...], activation: str) -> tuple[Any, Any, Any, Any]:
    """(params, f, weights, head) of a network that shifts its input before the first layer."""
    rng = np.random.default_rng(seed)
    act = ACTIVATIONS[activation]
    layers = [
        (
            (rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32),
            (0.1 * rng.normal(size=b)).astype(np.float32),
        )
        for a, b in zip(widths, widths[1:], strict=False)
    ]
    params = {"shift": rng.normal(size=widths[0]).astype(np.float32), "layers": layers}

    def head(params: Any, hidden: Any) -> Any:
        for weight, bias in params["layers"][1:]:
            hidden = act(hidden) @ weight + bias
        return hidden

    def weights(params: Any) -> Any:
        weight, bias = params["layers"][0]
        return weight, bias - params["shift"] @ weight

    def f(params: Any, X: Any) -> Any:
        weight, bias = params["layers"][0]
        return head(params, (X - params["shift"]) @ weight + bias)

    return params, f, weights, head


def both(
    seed: int, widths: tuple[int, ...], activation: str = "relu", **options: Any
) -> tuple[xj.Model, xj.Model]:
    """The model without and with its first layer declared."""
    params, f, weights, head = network(seed, widths, activation)
    layer = xj.FirstLayer(weights, head)
    plain = xj.as_model(f, params, structure="plain", **options)
    return plain, xj.as_model(f, params, structure=layer, **options)


def rows(seed: int, N: int, P: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(N, P)).astype(np.float32)


def close(got: np.ndarray, wanted: np.ndarray, P: int, span: float) -> None:
    # The layer is a sum of P terms, in order: an error of at most sqrt(P) roundings of the span in
    # all but one case of 1e-13 (lambda = 8, Higham and Mary 2019), through layers whose slope is
    # about 1, in values that are means of differences of two answers.
    np.testing.assert_allclose(got, wanted, rtol=0, atol=32 * np.sqrt(P) * 2**-24 * span)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(3, 40),
    st.lists(st.integers(1, 24), max_size=2),
    st.sampled_from(sorted(ACTIVATIONS)),
    st.integers(1, 3),
    st.integers(1, 9),
)
def test_the_values_of_the_plain_path(
    seed: int, P: int, hidden: list[int], activation: str, K: int, B: int
) -> None:
    plain, layered = both(seed, (P, 8, *hidden, K), activation)
    X, background = rows(1, 3, P), rows(2, B, P)
    budget = min(6 * (P - 1), 2**P - 3)
    options: Any = {"estimator": "permutation", "budget": budget, "seed": seed}
    wanted = xj.Explainer(plain, background, **options)(X)
    got = xj.Explainer(layered, background, **options)(X)
    assert got.stats["structure"] == "first layer" and wanted.stats["structure"] is None
    span = float(np.abs(plain.predict(np.concatenate([X, background]))).max()) + 1
    close(got.values, wanted.values, P, span)
    close(got.base_values, wanted.base_values, P, span)
    assert wanted.std_errors is not None and got.std_errors is not None
    close(got.std_errors, wanted.std_errors, P, span)


@pytest.mark.slow
def test_an_additive_model_is_exact() -> None:
    P = 50
    params, f, weights, head = network(0, (P, 1), "relu")
    model = xj.as_model(f, params, structure=xj.FirstLayer(weights, head))
    X, background = rows(1, 4, P), rows(2, 30, P)
    got = xj.Explainer(model, background, estimator="permutation", budget=200)(X)
    slope = params["layers"][0][0][:, 0].astype(np.float64)
    wanted = (X - background.astype(np.float64).mean(axis=0)) * slope
    span = float(np.abs(wanted).sum())
    close(got.values, wanted, P, span)
    assert got.std_errors is not None and got.std_errors.max() <= 1e-5 * span


@pytest.mark.slow
@pytest.mark.parametrize("tile", [256, 1024])
def test_donors_in_segments_and_instances_in_groups(
    tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    P, B = 33, 150
    plain, layered = both(3, (P, 12, 2))
    monkeypatch.setattr(permutation_scan, "tile_rows", lambda *_: tile)
    X, background = rows(1, 21, P), rows(2, B, P)
    weights = np.random.default_rng(4).random(B)
    options: Any = {"estimator": "permutation", "budget": 140, "weights": weights}
    wanted = xj.Explainer(plain, background, **options)(X)
    explainer = xj.Explainer(layered, background, **options)
    got = explainer(X)
    close(got.values, wanted.values, P, 10.0)
    order = np.random.default_rng(5).permutation(21)
    again = explainer(X[order])
    assert again.values.tobytes() == got.values[order].tobytes()
    alone = explainer(X[7:8])
    assert alone.values.tobytes() == got.values[7:8].tobytes()


PROBLEMS = [(784, 10, 4096), (64, 100, 16384), (20, 1, 256), (5, 5000, 1024)]


def test_the_tile_is_filled() -> None:
    for P, B, lanes_of in PROBLEMS:
        shape = permutation_scan.scan_shape(P, B, 1, lanes_of, "float32", "cpu", lanes_of)
        assert shape.blocks * shape.block >= P > (shape.blocks - 1) * shape.block
        assert shape.used_rows <= max(lanes_of, 2 * shape.block * PAIRS)
        assert shape.pairs % PAIRS == 0
        assert shape.pairs - shape.instances * shape.donors < PAIRS
        assert shape.block <= 8
        assert shape.rows % 256 == 0 and shape.rows - shape.used_rows < 256


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_the_tile_of_an_accelerator_is_filled(platform: str) -> None:
    """A layer of these rows of 64 units has 42 and 67 MB."""
    most, plain = {"gpu": (163_840, 1 << 17), "tpu": (131_072, 1 << 16)}[platform]
    for P, B, _ in PROBLEMS:
        shape = permutation_scan.scan_shape(P, B, 1, plain, "float32", platform, most)
        assert shape.blocks == 1 and shape.block - P < shape.chunks
        assert shape.chunks == (-(-P // 128) if platform == "tpu" else 1)
        assert most < 2 * shape.rows <= 2 * most, (P, B)
    huge = permutation_scan.scan_shape(1 << 20, 1, 1, plain, "float32", platform, most)
    assert huge.blocks > 1  # block after block, as on a CPU


@pytest.mark.parametrize("P", [1, 7, 128, 129, 1300])
@pytest.mark.parametrize("by", ["sums", "products"])
def test_prefixes_are_those_of_a_loop(by: Any, P: int) -> None:
    """More than eight products, and sizes that fill the last one up."""
    chunks = -(-P // 128) if by == "products" else 1
    shape = ScanShape(P, 1, 1, -(-P // chunks) * chunks, 1, "float32", by)
    terms = np.random.default_rng(P).normal(size=(shape.block, 2, 3)).astype(np.float32)
    got = prefixes_of(jnp.asarray(terms), shape)
    wanted = np.cumsum(terms.astype(np.float64), axis=0)
    # Sums of P terms of size 4 and below, by any order: sqrt(P) roundings of the sum.
    np.testing.assert_allclose(got, wanted, rtol=0, atol=8 * P * 2**-24)


def as_on(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Walks are laid out as on this platform, and run here."""
    monkeypatch.setattr(permutation_scan, "platform_of", lambda mesh: platform)
    count_turns(platform == "gpu", monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
@pytest.mark.parametrize("P, B, N, tile", [(33, 150, 21, 1024), (150, 3, 5, 2048), (12, 1, 1, 256)])
def test_accelerators_walk_to_the_same_values(
    platform: str, P: int, B: int, N: int, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several segments of donors, walks of several orders in a tile, walks that fill it up."""
    plain, layered = both(3, (P, 12, 2))
    monkeypatch.setattr(permutation_scan, "tile_rows", lambda *_: tile)
    X, background = rows(1, N, P), rows(2, B, P)
    weights = np.random.default_rng(4).random(B)
    options: Any = {"estimator": "permutation", "budget": 10 * P, "weights": weights}
    wanted = xj.Explainer(plain, background, **options)(X)
    as_on(platform, monkeypatch)
    explainer = xj.Explainer(layered, background, **options)
    got = explainer(X)
    close(got.values, wanted.values, P, 10.0)
    close(got.base_values, wanted.base_values, P, 10.0)
    plan, stats = explainer.plan(X), got.stats
    assert (plan.model_calls, plan.structure) == (stats["model_calls"], "first layer")
    close(explainer(X[-1:]).values, got.values[-1:], P, 10.0)


@pytest.mark.slow
def test_a_small_question_makes_few_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    as_on("gpu", monkeypatch)
    layered = both(3, (9, 8, 1))[1]
    explainer = xj.Explainer(layered, rows(2, 8, 9), estimator="permutation", budget=64)
    explainer(rows(1, 3, 9))
    scan = explainer._evaluator._scanner
    assert scan is not None and scan.shape.at_once
    N = 32 * scan.shape.instances // 8  # of 8 orders: a full dispatch
    assert (scan.tiles_of(1, 8), scan.tiles_of(N, 8), scan.tiles_of(N, 16)) == (8, 32, 32)
    assert (scan.calls(1, 8), scan.calls(N, 8), scan.calls(N, 16)) == (1, 1, 2)


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_a_bad_answer_of_a_walk_is_named(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on(platform, monkeypatch)

    def f(X: Any) -> Any:
        return jnp.sqrt(3.0 - (X @ jnp.ones((9, 1)))[:, 0])

    donors = np.zeros((5, 9), np.float32)
    donors[3, 2:4] = 1.4
    X = np.zeros((4, 9), np.float32)
    X[1, :2] = 1.4
    layer = xj.FirstLayer(
        lambda: (jnp.ones((9, 1)), jnp.zeros(1)), lambda h: jnp.sqrt(3.0 - h[:, 0])
    )
    model = xj.as_model(f, structure=layer)
    explainer = xj.Explainer(model, donors, estimator="permutation", budget=64)
    with pytest.raises(xj.ModelOutputError, match="X row 1.*background row 3"):
        explainer(X)


@pytest.mark.slow
def test_link_selected_output_and_new_params() -> None:
    P = 14
    plain, layered = both(6, (P, 9, 3), output=1)
    X, background = rows(1, 3, P), rows(2, 6, P)
    options: Any = {"estimator": "permutation", "budget": 120, "link": np.arctan}
    got = xj.Explainer(layered, background, **options)(X)
    wanted = xj.Explainer(plain, background, **options)(X)
    assert got.values.shape == (3, P)
    close(got.values, wanted.values, P, 10.0)
    other = network(7, (P, 9, 3), "relu")[0]
    got = xj.Explainer(layered.replace(params=other), background, **options)(X)
    wanted = xj.Explainer(plain.replace(params=other), background, **options)(X)
    close(got.values, wanted.values, P, 10.0)


@pytest.mark.slow
def test_without_params_and_with_images() -> None:
    params, f, weights, head = network(8, (16, 5, 1), "tanh")

    def image(X: Any) -> Any:
        return f(params, X.reshape(len(X), 16))[:, 0]

    layer = xj.FirstLayer(lambda: weights(params), lambda h: head(params, h)[:, 0])
    X, background = rows(1, 2, 16).reshape(2, 4, 4), rows(2, 5, 16).reshape(5, 4, 4)
    options: Any = {"estimator": "permutation", "budget": 150}
    layered = xj.as_model(image, structure=layer, input_shape=(4, 4))
    got = xj.Explainer(layered, background, **options)(X)
    plain = xj.as_model(image, input_shape=(4, 4), structure="plain")
    wanted = xj.Explainer(plain, background, **options)(X)
    assert got.stats["structure"] == "first layer"
    close(got.values, wanted.values, 16, 10.0)
    # United pixels are no columns to walk along, but their corners are asked of the layer too.
    blocks = np.arange(16).reshape(4, 4) // 8 * 2 + np.arange(4) // 2
    united = xj.Explainer(layered, background, players=blocks)(X)
    wanted = xj.Explainer(plain, background, players=blocks)(X)
    assert united.stats["structure"] == "first layer" and wanted.stats["structure"] is None
    close(united.values, wanted.values, 16, 10.0)
    sampled = xj.Explainer(layered, background, players=blocks, estimator="permutation", budget=6)
    assert sampled(X[:1]).stats["structure"] == "first layer"


@pytest.mark.slow
def test_tolerance_walks_on() -> None:
    P = 24
    plain, layered = both(9, (P, 10, 1))
    X, background = rows(1, 6, P), rows(2, 4, P)
    options: Any = {"estimator": "permutation", "budget": 4000, "tolerance": 0.02}
    got = xj.Explainer(layered, background, **options)(X)
    wanted = xj.Explainer(plain, background, **options)(X)
    np.testing.assert_array_equal(got.stats["coalitions"], wanted.stats["coalitions"])
    close(got.values, wanted.values, P, 10.0)


def test_a_structure_that_is_not_the_models_is_refused() -> None:
    P = 6
    params, f, weights, head = network(10, (P, 4, 1), "relu")
    X, background = rows(1, 3, P), rows(2, 5, P)

    def refused(structure: xj.FirstLayer, match: str) -> None:
        model = xj.as_model(f, params, structure=structure)
        with pytest.raises(xj.InputError, match=match):
            xj.Explainer(model, background)(X)

    def unshifted(params: Any) -> Any:
        return params["layers"][0]

    refused(xj.FirstLayer(unshifted, head), "structure= does not describe f: on 32 probe rows")
    refused(
        xj.FirstLayer(lambda p: (weights(p)[0].T, weights(p)[1]), head),
        r"must have weights \[6, H\] and a bias \[H\]; got \[4, 6\]",
    )
    wrong: Any = "dense"
    with pytest.raises(xj.InputTypeError, match="structure= must be a xaijax.FirstLayer"):
        xj.as_model(f, params, structure=wrong)
    with pytest.raises(xj.InputError, match="is none. Leave it out"):
        xj.as_model(lambda X: X[:, 0], backend="host", structure=xj.FirstLayer(weights, head))


@pytest.mark.slow
def test_answers_that_are_not_finite_are_refused() -> None:
    P = 20
    params, f, weights, head = network(11, (P, 4, 1), "relu")

    def burst(params: Any, hidden: Any) -> Any:
        out = head(params, hidden)
        return jnp.where(out > params["limit"], jnp.nan, out)

    def whole(params: Any, X: Any) -> Any:
        weight, bias = weights(params)
        return burst(params, X @ weight + bias)

    X, background = rows(1, 3, P), rows(2, 5, P)
    # No probe row reaches the limit, but some hybrid does.
    limit = float(np.max(xj.as_model(f, params).predict(np.concatenate([X, background]))))
    params = {**params, "limit": np.float32(limit + 1e-3)}
    model = xj.as_model(whole, params, structure=xj.FirstLayer(weights, burst))
    explainer = xj.Explainer(model, background, estimator="permutation", budget=2000)
    with pytest.raises(
        xj.ModelOutputError, match=r"X row [012] with background row \d and the players .* kept"
    ):
        explainer(X)


def turned(weights: Any) -> Any:
    """Another layer: its rows are those of other columns."""

    def other(params: Any) -> Any:
        weight, bias = weights(params)
        return jnp.roll(weight, 1, axis=0), bias

    return other


@pytest.mark.slow
def test_the_check_is_of_the_spread_and_not_of_the_level() -> None:
    """Beside answers of 1e5 a wrong layer is refused all the same, and a right one is not."""
    P = 12
    params, f, weights, head = network(12, (P, 6, 1), "relu")
    X, background = rows(1, 3, P), rows(2, 5, P)

    def explained(layer: Any) -> xj.Explanation:
        structure = xj.FirstLayer(layer, lambda params, hidden: head(params, hidden) + 1e5)
        model = xj.as_model(lambda params, X: f(params, X) + 1e5, params, structure=structure)
        return xj.Explainer(model, background, estimator="permutation", budget=200)(X)

    assert explained(weights).stats["structure"] == "first layer"
    with pytest.raises(xj.InputError, match="structure= does not describe"):
        explained(turned(weights))


@pytest.mark.slow
def test_answers_that_are_no_numbers_do_not_hide_a_wrong_layer() -> None:
    P = 8
    params, f, weights, head = network(13, (P, 5, 1), "relu")
    X, background = rows(1, 16, P), rows(2, 16, P)

    def holes(answers: Any) -> Any:
        return jnp.where(answers > 0, answers, jnp.nan)

    def explained(layer: Any) -> xj.Explanation:
        structure = xj.FirstLayer(layer, lambda params, hidden: holes(head(params, hidden)))
        model = xj.as_model(
            lambda params, X: holes(f(params, X)),
            params,
            structure=structure,
            nonfinite="propagate",
        )
        return xj.Explainer(model, background, estimator="permutation", budget=100)(X)

    assert explained(weights).stats["structure"] == "first layer"
    with pytest.raises(xj.InputError, match="structure= does not describe"):
        explained(turned(weights))


@pytest.mark.slow
def test_infinite_answers_beside_one_row_are_as_without_the_layer() -> None:
    """What such an answer takes part in is NaN; the others are the same but for rounding."""
    P = 8
    params, f, weights, head = network(13, (P, 5, 1), "relu")
    X, background = rows(1, 16, P), rows(2, 1, P)

    def steep(answers: Any) -> Any:
        return jnp.where(answers > 0.5, jnp.inf, answers)

    def explained(structure: Any) -> np.ndarray:
        model = xj.as_model(
            lambda params, X: steep(f(params, X)),
            params,
            structure=structure,
            nonfinite="propagate",
        )
        explainer = xj.Explainer(model, background, estimator="permutation", budget=100)
        return explainer(X, progress=False).values

    layer = xj.FirstLayer(weights, lambda params, hidden: steep(head(params, hidden)))
    found, plain = explained(layer), explained("plain")
    assert 0 < np.isnan(plain).sum() < plain.size and not np.isinf(plain).any()
    np.testing.assert_allclose(found, plain, atol=1e-5)  # NaN where that is


@pytest.mark.slow
def test_padding_is_told() -> None:
    P, B = 10, 3
    layered = both(14, (P, 4, 1))[1]
    got = xj.Explainer(layered, rows(2, B, P), estimator="permutation", budget=90)(rows(1, 2, P))
    plain = 1 << 14  # rows of a plain tile of narrow layers
    shape = permutation_scan.scan_shape(P, B, 1, plain, "float32", "cpu", plain)
    run = 5 * shape.blocks * shape.rows  # a tile for each pair of orders: both instances fit
    assert got.stats["model_rows"] + got.stats["padded_rows"] == run


RIGHT = np.random.default_rng(6)
WIDE, SMALL = RIGHT.normal(size=(7, 5)).astype(np.float32), RIGHT.normal(size=(2, 7))
SMALL, AT = SMALL.astype(np.float32), RIGHT.normal(size=7).astype(np.float32)
# A model, the same in float64 NumPy, and what answers its corners.
ON_THE_RIGHT: dict[str, tuple[Any, Any, str]] = {
    "vmap": (
        jax.vmap(lambda row: SMALL @ jnp.tanh(WIDE @ row + AT)),
        lambda X: np.tanh(X @ WIDE.T + AT) @ SMALL.T,
        "first layer",
    ),
    "of scaled columns": (
        jax.vmap(lambda row: SMALL @ jnp.tanh(WIDE @ ((row - 1) / 2))),
        lambda X: np.tanh((X - 1) / 2 @ WIDE.T) @ SMALL.T,
        "first layer",
    ),
    "transposed": (lambda X: (WIDE @ X.T).T, lambda X: X @ WIDE.T, "additive"),
    "columns first": (
        lambda X: jnp.tanh(jnp.einsum("cr,hc->rh", X.T, WIDE)) @ SMALL.T,
        lambda X: np.tanh(X @ WIDE.T) @ SMALL.T,
        "first layer",
    ),
    "one unit": (
        jax.vmap(lambda row: jnp.tanh(AT[:5] @ row)),
        lambda X: np.tanh(X @ AT[:5])[:, None],
        "first layer",
    ),
    "a column of one": (
        jax.vmap(lambda row: jnp.tanh(jnp.matmul(WIDE, row[:, None])[:, 0]) @ SMALL.T),
        lambda X: np.tanh(X @ WIDE.T) @ SMALL.T,
        "first layer",
    ),
    "a row of one": (
        jax.vmap(lambda row: jnp.tanh(jnp.matmul(row[None], WIDE.T)[0]) @ SMALL.T),
        lambda X: np.tanh(X @ WIDE.T) @ SMALL.T,
        "first layer",
    ),
    "added up": (
        jax.vmap(lambda row: jnp.sum(WIDE @ row + AT)),
        lambda X: (X @ WIDE.T + AT).sum(axis=1, keepdims=True),
        "additive",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_THE_RIGHT)
def test_a_product_with_rows_on_the_right_is_a_layer(name: str) -> None:
    f, plain, structure = ON_THE_RIGHT[name]
    X, background = rows(1, 3, 5), rows(2, 6, 5)
    got = xj.Explainer(xj.as_model(f), background)(X, progress=False)
    assert got.stats["structure"] == structure
    weight = oracles.shapley_weight(5)
    truth = oracles.explain(plain, X.astype(float), background.astype(float), weight)[0]
    # Sums of seven terms of a size of three, over 2^5 corners: some tens of roundings.
    wanted = truth.reshape(got.values.shape)
    np.testing.assert_allclose(got.values, wanted, rtol=0, atol=100 * 20 * 2.0**-24)


def test_two_columns_made_of_each_row_are_not_taken_for_one() -> None:
    """The second is another function of the row, and the product holds both."""

    def f(X: Any) -> Any:
        return jax.vmap(lambda r: jnp.tanh(WIDE @ jnp.stack([r, r[::-1]], axis=1)).sum())(X)

    def plain(X: Any) -> Any:
        return (np.tanh(X @ WIDE.T) + np.tanh(X[:, ::-1] @ WIDE.T)).sum(axis=1, keepdims=True)

    X, background = rows(1, 3, 5), rows(2, 6, 5)
    got = xj.Explainer(xj.as_model(f), background)(X, progress=False)
    weight = oracles.shapley_weight(5)
    truth = oracles.explain(plain, X.astype(float), background.astype(float), weight)[0]
    wanted = truth.reshape(got.values.shape)
    np.testing.assert_allclose(got.values, wanted, rtol=0, atol=100 * 20 * 2.0**-24)


def test_rows_that_are_turned_and_not_multiplied_have_no_layer() -> None:
    def sorted_columns(X: Any) -> Any:
        return jnp.sort(X.T, axis=0)[0]

    X, background = rows(1, 3, 5), rows(2, 6, 5)
    got = xj.Explainer(xj.as_model(sorted_columns), background)(X, progress=False)
    assert got.stats["structure"] is None
