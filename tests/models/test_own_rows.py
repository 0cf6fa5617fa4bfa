"""Players and baselines that each instance has for itself.

The oracle explains one instance at a time, with the groups and the donors that are its own.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from often import some_slow

import xaijax as xj

RNG = np.random.default_rng(12)
N, B, SIDE = 6, 3, 3
F = SIDE * SIDE
W = RNG.normal(size=(F, 4))
V = RNG.normal(size=4)
X = RNG.normal(size=(N, SIDE, SIDE)).astype("f4")
D = RNG.normal(size=(B, SIDE, SIDE)).astype("f4")
# Segments of each image: other ones for each, of which some lack the last, and -1 is no segment.
SEGMENTS = np.stack([RNG.integers(-1, 4 - n % 2, (SIDE, SIDE)) for n in range(N)])
SEGMENTS[0] = np.arange(F).reshape(SIDE, SIDE) % 4
P = 4
# Sums of 2^4 float32 answers of size 1 and below.
ATOL = 3e-6


def model(z: Any) -> Any:
    return jnp.tanh(z.reshape(len(z), -1) @ jnp.asarray(W, jnp.float32)) @ jnp.asarray(
        V, jnp.float32
    )


def flat(z: np.ndarray) -> np.ndarray:
    """The same in NumPy, of rows [R, F]."""
    return np.tanh(np.asarray(z, float).reshape(len(z), -1) @ W) @ V


def by_definition(
    x: np.ndarray, donors: Any, owners: np.ndarray, of: Any = flat
) -> tuple[np.ndarray, np.ndarray]:
    """(values [N, P], base values [N]); donors(n) [B, F], owners [N, F]."""
    values, base = np.zeros((len(x), int(owners.max()) + 1)), np.zeros(len(x))
    for n, own in enumerate(owners):
        stays = np.where(own == -1, x[n], donors(n))
        present = np.unique(own[own >= 0])
        groups = [np.flatnonzero(own == p).tolist() for p in present]
        weight = oracles.shapley_weight(len(groups))
        found, empty, _ = oracles.explain(of, x[n : n + 1], stays, weight, groups)
        values[n, present], base[n] = found[0], empty[0]
    return values, base


def wrapped(backend: str, **options: Any) -> Any:
    return xj.as_model(model if backend == "jax" else flat, backend=backend, **options)


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_each_image_has_its_own_segments(backend: str) -> None:
    found = xj.Explainer(wrapped(backend), D, players=SEGMENTS)(X)
    flat_x, flat_d, owners = X.reshape(N, F), D.reshape(B, F), SEGMENTS.reshape(N, F)
    values, base = by_definition(flat_x, lambda n: flat_d, owners)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=ATOL)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=ATOL)
    wanted = np.array([[(own == p).any() for p in range(P)] for own in SEGMENTS])
    np.testing.assert_array_equal(found.present, wanted)
    assert not wanted.all()
    assert (found.values[~wanted] == 0).all()
    np.testing.assert_array_equal(found[2:4, [3, 1]].present, wanted[2:4][:, [3, 1]])


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_each_image_has_its_own_baseline(backend: str) -> None:
    def mean_colour(rows: np.ndarray) -> np.ndarray:
        return np.broadcast_to(rows.mean(axis=(1, 2), keepdims=True), rows.shape)

    mask = np.arange(F).reshape(SIDE, SIDE) // 3
    explain = xj.Explainer(wrapped(backend), xj.Baseline(mean_colour), players=mask)
    found = explain(X)
    flat_x = X.reshape(N, F)
    owners = np.tile(mask.reshape(-1), (N, 1))
    values, base = by_definition(flat_x, lambda n: np.full((1, F), flat_x[n].mean()), owners)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=ATOL)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=ATOL)
    assert found.present is None
    # The baseline is made of the rows that are asked about: one row alone has the same values.
    np.testing.assert_allclose(explain(X[2:3]).values, found.values[2:3], rtol=0, atol=ATOL)


def test_segments_and_baselines_of_each_image_together() -> None:
    def darker(rows: np.ndarray) -> np.ndarray:
        return rows * 0.25

    found = xj.Explainer(wrapped("jax"), xj.Baseline(darker), players=SEGMENTS)(X)
    flat_x, owners = X.reshape(N, F), SEGMENTS.reshape(N, F)
    values, base = by_definition(flat_x, lambda n: 0.25 * flat_x[n : n + 1], owners)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=ATOL)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=ATOL)


PAD, MASK, WORDS, LENGTH = 0, 1, 9, 5
EMBEDDED = RNG.normal(size=(WORDS, 3))


def sentences(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ids = rng.integers(2, WORDS, (rows, LENGTH))
    return np.where(np.arange(LENGTH) < rng.integers(1, LENGTH + 1, rows)[:, None], ids, PAD)


def read(ids: Any) -> Any:
    """What a sentence says, its words weighed by their places."""
    own = jnp.asarray(EMBEDDED, jnp.float32)[ids] * (ids != PAD)[:, :, None]
    return jnp.tanh(own * jnp.arange(1, LENGTH + 1)[None, :, None]).sum(axis=(1, 2))


def read_by_numpy(ids: np.ndarray) -> np.ndarray:
    ids = np.asarray(ids, int)
    own = EMBEDDED[ids] * (ids != PAD)[:, :, None]
    return np.tanh(own * np.arange(1, LENGTH + 1)[None, :, None]).sum(axis=(1, 2))


def masked(given: Any) -> Any:
    """A sentence of masks; its padding stays as it is."""
    return {"ids": np.where(given["ids"] == PAD, PAD, MASK)}


@pytest.mark.parametrize("estimator", some_slow(["auto", "permutation", "kernel"], 3))
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_padding_that_stays_as_it_is_has_exactly_no_value(backend: str, estimator: str) -> None:
    ids = sentences(N, 3)
    function = (
        (lambda z: read(z["ids"])) if backend == "jax" else (lambda z: read_by_numpy(z["ids"]))
    )
    # Fewer than all 30 coalitions, so that what is not "auto" is sampled.
    options = {} if estimator == "auto" else {"estimator": estimator, "budget": 20}
    asked = xj.as_model(function, backend=backend)
    found = xj.Explainer(asked, xj.Baseline(masked), **options)({"ids": ids})
    assert (ids == PAD).any()
    assert (found.values[ids == PAD] == 0).all()
    if estimator == "auto":
        owners = np.tile(np.arange(LENGTH), (N, 1))
        by_words = lambda n: masked({"ids": ids[n : n + 1]})["ids"]  # noqa: E731
        values, _ = by_definition(ids, by_words, owners, read_by_numpy)
        np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-5)
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, read_by_numpy(ids), rtol=0, atol=1e-5)


@pytest.mark.slow
def test_players_of_each_instance_of_several_arrays() -> None:
    """Words of two tokens: both arrays of a sentence are numbered, and by other words in each."""
    ids = sentences(N, 5)
    given = {"ids": ids, "seen": ids != PAD}
    donors = {"ids": sentences(B, 6), "seen": np.ones((B, LENGTH), bool)}
    words = np.stack([np.arange(LENGTH) // (1 + n % 2) for n in range(N)])
    words[ids == PAD] = -1
    words[0] = np.arange(LENGTH)

    def function(z: Any) -> Any:
        return (jnp.asarray(EMBEDDED, jnp.float32)[z["ids"], 0] * z["seen"]).sum(axis=1) ** 2

    def of_line(z: np.ndarray) -> np.ndarray:
        whole, seen = z[:, :LENGTH].astype(int), z[:, LENGTH:] > 0
        return (EMBEDDED[whole, 0] * seen).sum(axis=1) ** 2

    asked = xj.Explainer(xj.as_model(function), donors, players={"ids": words, "seen": words})
    found = asked(given)
    line, other = (np.concatenate([g["ids"], g["seen"]], axis=1) for g in (given, donors))
    owners = np.concatenate([words, words], axis=1)
    values, base = by_definition(line, lambda n: other, owners, of_line)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=1e-4)
    shared = xj.Explainer(xj.as_model(function), donors, players={"ids": words, "seen": -1})(given)
    np.testing.assert_array_equal(shared.present, found.present)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(-1, 2), min_size=3, max_size=3), min_size=3, max_size=3))
def test_any_numbering_gives_what_is_explained_one_by_one(numbers: list[list[int]]) -> None:
    owners = np.array(numbers)
    owners[0] = [0, 1, 2]  # so that no number is missing
    x, d = RNG.normal(size=(3, 3)).astype("f4"), RNG.normal(size=(2, 3)).astype("f4")

    def product(z: Any) -> Any:
        return (1 + z[:, 0]) * (2 + z[:, 1]) * (3 + z[:, 2])

    found = xj.Explainer(xj.as_model(product, backend="host"), d, players=owners)(x)
    values, base = by_definition(x, lambda n: d, owners, product)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-4)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=1e-4)


def test_the_plain_numbering_has_the_values_of_no_numbering() -> None:
    plain = np.tile(np.arange(F).reshape(SIDE, SIDE), (N, 1, 1))
    options = {"estimator": "permutation", "budget": 60, "seed": 4}
    of_each = xj.Explainer(wrapped("host"), D, players=plain, **options)(X)
    of_all = xj.Explainer(wrapped("host"), D, **options)(X)
    np.testing.assert_allclose(of_each.values, of_all.values, rtol=0, atol=1e-12)


def test_what_each_instance_has_is_saved_and_merged(tmp_path: Any) -> None:
    found = xj.Explainer(wrapped("jax"), D, players=SEGMENTS)(X)
    found.save(tmp_path / "a.npz")
    again = xj.load(tmp_path / "a.npz")
    np.testing.assert_array_equal(again.present, found.present)
    parts = [found[:2], found[2:]]
    np.testing.assert_array_equal(xj.merge(parts).present, found.present)
    assert found.plan if hasattr(found, "plan") else True


@pytest.mark.slow
def test_other_baseline_functions_are_not_merged() -> None:
    parts = [
        xj.Explainer(wrapped("jax"), xj.Baseline(function))(X[:2])
        for function in (lambda rows: rows * 0, lambda rows: rows * 0.5)
    ]
    with pytest.raises(xj.InputError, match="fingerprint"):
        xj.merge(parts)


def refused(background: Any, said: str, **options: Any) -> None:
    asked = []

    def counted(z: np.ndarray) -> np.ndarray:
        asked.append(len(z))
        return flat(z)

    with pytest.raises(xj.XaiError, match=said):
        xj.Explainer(xj.as_model(counted, backend="host"), background, **options)(X)
    assert not asked


def test_what_does_not_fit_the_instances_is_refused_before_the_model_is_asked() -> None:
    refused(D, r"6 instances|5 instances", players=SEGMENTS[:5])
    refused(D, "missing", players=np.where(SEGMENTS == 2, 3, SEGMENTS))
    refused(D, r"\[N, \*F\]", players=SEGMENTS[:, :2])
    refused(xj.Baseline(lambda rows: rows[:1]), "Return one for each")
    refused(xj.Baseline(lambda rows: rows[:, 0]), "what the function")
    refused(xj.Baseline(lambda rows: rows * np.nan), "what the function")
    refused(xj.Baseline(lambda rows: rows), "weights", weights=np.ones(1))
    refused(
        xj.Baseline(lambda rows: RNG.normal(size=rows.shape).astype("f4")),
        "when it was called again",
    )
    refused(lambda rows: rows, r"xaijax\.Baseline\(function\)")


def test_other_methods_say_what_they_take() -> None:
    data, each = X.reshape(N, F), xj.Baseline(lambda rows: rows)
    with pytest.raises(xj.InputError, match="got a Baseline. Give rows"):
        xj.FederatedExplainer(wrapped("host"), each, {"guest": [0, 1]})(data)
    with pytest.raises(xj.InputTypeError, match=r"perturbation=Baseline"):
        xj.AnchorExplainer(wrapped("host"), each)


@pytest.mark.slow
def test_the_pixels_of_an_image_with_channels_are_numbered_with_or_without_them() -> None:
    colours, others = RNG.normal(size=(N, SIDE, SIDE, 2)), RNG.normal(size=(B, SIDE, SIDE, 2))
    asked = xj.as_model(lambda z: jnp.tanh(z.sum(axis=(1, 2, 3)) * z[:, 0, 0, 1]))
    for numbers in (SEGMENTS, SEGMENTS[0]):
        repeated = np.repeat(numbers[..., None], 2, axis=-1)
        found, whole = (
            xj.Explainer(asked, others, players=players)(colours) for players in (numbers, repeated)
        )
        np.testing.assert_array_equal(found.values, whole.values)
    with pytest.raises(xj.InputError, match="shape"):
        xj.Explainer(asked, others, players=SEGMENTS[:, :, 0])(colours)


def test_one_trace_serves_all_instances() -> None:
    traced = []

    def counted(z: Any) -> Any:
        traced.append(z.shape)
        return model(z)

    explain = xj.Explainer(xj.as_model(counted), D, players=SEGMENTS)
    explain(X)
    before = len(traced)
    explain(X)
    assert len(traced) == before <= 2


def test_one_image_and_the_mean_image_are_baselines_of_a_network():
    """A network says which rows it takes; for a function a matrix may be rows by mistake."""
    nnx = pytest.importorskip("flax.nnx")
    flatten = nnx.Sequential(lambda z: z.reshape(len(z), -1), nnx.Linear(F, 1, rngs=nnx.Rngs(0)))
    network = xj.as_model(flatten, output=0)
    weights = np.asarray(flatten.layers[1].kernel[...], float)[:, 0]
    mean = D.astype(float).mean(axis=0)
    for baseline, row in [(xj.Baseline(D[0]), D[0]), (xj.Baseline("mean", D), mean)]:
        found = xj.Explainer(network, baseline)(X)
        # A linear model: each entry has its weight times its difference. 9 products of size 5.
        expected = (X - row).reshape(N, F) * weights
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=64 * 2.0**-24)
    function = xj.as_model(model)
    xj.Explainer(function, xj.Baseline("median", D))
    with pytest.raises(xj.InputError, match=r"Baseline\(row\) has 2 axes.*input_shape=\(3, 3\)"):
        xj.Explainer(function, xj.Baseline(D[0]))
    xj.Explainer(xj.as_model(model, input_shape=(SIDE, SIDE)), xj.Baseline(D[0]))
    assert repr(xj.Baseline(D[0])) == "Baseline(row)" and "function" in repr(xj.Baseline(abs))


def test_an_explainer_says_what_it_explains_with():
    own = repr(xj.Explainer(xj.as_model(model), D, players=SEGMENTS, estimator="exact"))
    assert "3 background rows" in own and "4 players" in own and "estimator='exact'" in own
    blurred = xj.Explainer(xj.as_model(model), xj.Baseline(lambda z: z / 2))
    assert "a baseline of each instance" in repr(blurred)
    assert "one baseline" in repr(
        xj.Explainer(xj.as_model(flat, backend="host"), xj.Baseline(W[0]))
    )


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["permutation", "kernel"])
def test_a_segment_that_is_as_in_every_donor_has_no_value(estimator: str) -> None:
    """Shared padding, a black border: nothing is replaced, though each image numbers its own."""
    numbers, others, own = np.stack([np.arange(9).reshape(3, 3)] * N), D.copy(), X.copy()
    others[:, 0] = 0.25
    own[:4, 0] = 0.25
    made = xj.Explainer(wrapped("jax"), others, players=numbers, estimator=estimator, budget=60)
    found = made(own)
    assert (found.values[:4, :3] == 0).all() and (found.std_errors[:4, :3] == 0).all()
    assert (found.values[4:, :3] != 0).all()
    shared = xj.Explainer(
        wrapped("jax"), others, players=numbers[0], estimator=estimator, budget=60
    )(own)
    np.testing.assert_allclose(found.values, shared.values, rtol=0, atol=1e-5)


def coded(shape: tuple[int, ...], rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, *shape)).astype(np.float32)


@pytest.mark.parametrize(
    ("shape", "numbers", "whole"),
    [
        ((3, 2, 4), np.arange(8).reshape(2, 4) // 3, lambda p: np.broadcast_to(p, (3, 2, 4))),
        ((2, 4, 3), np.arange(8).reshape(2, 4) // 3, lambda p: np.repeat(p[..., None], 3, -1)),
        ((5, 2), np.array([0, 0, 1, 2, 2]), lambda p: np.repeat(p[:, None], 2, -1)),
        ((5, 2), np.array([0, -1, 1, 2, 2]), lambda p: np.repeat(p[:, None], 2, -1)),
    ],
)
def test_numbers_of_pixels_and_of_steps_leave_channels_and_columns_out(
    shape: tuple[int, ...], numbers: np.ndarray, whole: Any
) -> None:
    x, others = coded(shape, 4, 0), coded(shape, 2, 1)
    asked = xj.as_model(lambda z: jnp.tanh(z.reshape(len(z), -1) @ jnp.arange(z[0].size) / 9))
    wanted = xj.Explainer(asked, others, players=whole(numbers))(x)
    for players in (numbers, jnp.asarray(numbers)):
        found = xj.Explainer(asked, others, players=players)(x)
        np.testing.assert_array_equal(found.values, wanted.values)
    assert found.shape == (4, numbers.max() + 1)
    # Each of four instances has its numbers in another order.
    of_each = np.stack(
        [np.where(numbers < 0, -1, (numbers + n) % found.shape[1]) for n in range(4)]
    )
    each = np.stack([whole(one) for one in of_each])
    own = [xj.Explainer(asked, others, players=players)(x).values for players in (of_each, each)]
    np.testing.assert_array_equal(*own)
    np.testing.assert_allclose(own[0][0], wanted.values[0], rtol=0, atol=1e-6)
    tree = xj.as_model(lambda z: asked.apply(None, z["a"]))
    leaves = xj.Explainer(tree, {"a": others}, players={"a": numbers})({"a": x})
    np.testing.assert_allclose(leaves.values, wanted.values, rtol=0, atol=1e-6)


def test_numbers_that_could_be_of_all_rows_or_of_each_are_refused() -> None:
    """Rows [3, 2, 4], numbers [3, 2, 4]: of the entries of a row, or [2, 4] of each of 3 rows."""
    x, others = coded((3, 2, 4), 4, 0), coded((3, 2, 4), 2, 1)
    calls = []

    def counted(z: Any) -> Any:
        calls.append(len(z))
        return jnp.tanh(z.sum((1, 2, 3)))

    numbers = np.arange(24).reshape(3, 2, 4) // 8
    explainer = xj.Explainer(xj.as_model(counted), others, players=numbers)
    with pytest.raises(xj.InputError, match=r"players has shape \(3, 2, 4\).*broadcast_to") as said:
        explainer(x[:3])
    assert not calls
    assert "np.broadcast_to(players, (3, 3, 2, 4))" in str(said.value)
    assert "np.broadcast_to(players[:, None], (3, 3, 2, 4))" in str(said.value)
    four = explainer(x)
    of_all = np.broadcast_to(numbers, (3, 3, 2, 4))
    found = xj.Explainer(xj.as_model(counted), others, players=of_all)(x[:3])
    np.testing.assert_allclose(found.values, four.values[:3], rtol=0, atol=1e-6)
    with pytest.raises(xj.InputError, match="players has shape"):
        xj.GradientExplainer(xj.as_model(counted), others, players=numbers)(x[:3])
    # The same in all channels: it is one thing.
    alike = np.broadcast_to(np.arange(8).reshape(2, 4) // 4, (3, 2, 4))
    assert xj.Explainer(xj.as_model(counted), others, players=alike)(x[:3]).shape == (3, 2)


def test_a_part_of_a_sweep_is_not_taken_for_all_of_its_rows(tmp_path: Any) -> None:
    x, others = coded((3, 2, 4), 7, 0), coded((3, 2, 4), 2, 1)
    numbers = np.arange(24).reshape(3, 2, 4) // 8
    explainer = xj.Explainer(
        xj.as_model(lambda z: z.sum((1, 2, 3)), input_shape=(3, 2, 4)), others, players=numbers
    )
    run = xj.sweep(explainer, x, tmp_path / "run", rows_per_part=3)
    np.testing.assert_allclose(run.explanation().values, explainer(x).values, rtol=0, atol=1e-6)


def test_square_rows_need_the_axis_said() -> None:
    x = coded((4, 4), 3, 0)
    asked = xj.as_model(lambda z: z.sum((1, 2)))
    with pytest.raises(xj.InputError, match=r"players\[..., None\]"):
        xj.Explainer(asked, x, players=np.arange(4))
