"""`GradientExplainer`: values against their definition in float64; what it says of itself."""

from __future__ import annotations

import pickle
from functools import partial

import eight_devices
import jax
import jax.numpy as jnp
import numpy as np
import oracles_gradients as oracle
import pytest
from sklearn.linear_model import LogisticRegression

import xaijax as xj
from xaijax_kernels.engine import tiles as tiling

F, H, K, B, N = 5, 6, 3, 4, 7
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype(np.float32)


PARAMS = {"W": normal(F, H) / 2, "V": normal(H, K)}
X, DONORS = normal(N, F), normal(B, F)
# A network of width 6 whose answers are about 3: some ten roundings of 6e-8 of that, in each of the
# slopes, whose weights add up to 1.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}


def network(params, rows):
    return jnp.tanh(rows @ params["W"]) @ params["V"]


def network64(rows, k):
    return np.tanh(np.asarray(rows, np.float64) @ PARAMS["W"]) @ PARAMS["V"][:, k].astype(float)


def slope(k):
    return oracle.slope_of_tanh(PARAMS["W"], PARAMS["V"], k)


MODEL = xj.as_model(network, PARAMS)
WANTED = np.stack(
    [[oracle.expected(slope(k), x, DONORS) for k in range(K)] for x in X.astype(np.float64)]
).transpose(0, 2, 1)  # [N, F, K]


@pytest.mark.slow
def test_expected_gradients_are_those_of_the_definition():
    found = xj.GradientExplainer(MODEL, DONORS)(X)
    np.testing.assert_allclose(found.values, WANTED, **TOLERANCE)
    base = np.stack([network64(DONORS, k).mean() for k in range(K)])
    np.testing.assert_allclose(found.base_values, np.broadcast_to(base, (N, K)), **TOLERANCE)
    assert found.kind == "expected_gradients" and not found.exact and found.std_errors is None
    assert found.stats["model_rows"] == N * B * 50
    full = np.stack([network64(X, k) for k in range(K)], axis=1)
    residual = full - found.base_values - found.values.sum(axis=1)
    np.testing.assert_allclose(found.stats["completeness"], residual, atol=1e-5)
    assert "by quadrature" in repr(found)


@pytest.mark.parametrize("n, turns", [(1, 3), (N, 6), (60, 11)])
def test_a_gpu_makes_few_turns_for_a_small_question(n, turns, monkeypatch):
    """A turn takes two instances, and a dispatch makes all of its 11 turns."""
    monkeypatch.setattr(tiling, "platform_of", lambda mesh: "gpu")
    explainer = xj.GradientExplainer(MODEL, DONORS, tile=512, batch_size=4096)
    rows = np.tile(X, (9, 1))[:n]
    found = explainer(rows)
    np.testing.assert_allclose(found.values, np.tile(WANTED, (9, 1, 1))[:n], **TOLERANCE)
    (run,) = explainer._runs.values()
    assert run._groups_of(n) == turns
    assert explainer.plan(rows).model_calls == found.stats["model_calls"]


# With few steps the sum is far off, as the definition with as few is.
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the values of .* are off by:xaijax.XaiWarning")
def test_integrated_gradients_are_those_of_the_definition():
    wanted = np.stack(
        [[oracle.integrated(slope(k), x, DONORS[2]) for k in range(K)] for x in X]
    ).transpose(0, 2, 1)
    for background in (DONORS[2:3], xj.Baseline(DONORS[2])):
        found = xj.GradientExplainer(MODEL, background, path="integrated", steps=20)(X)
        np.testing.assert_allclose(found.values, wanted, **TOLERANCE)
        assert found.kind == "integrated_gradients"
    one = xj.GradientExplainer(MODEL, DONORS[2:3], path="integrated", steps=1)(X)
    # The middle of the line alone: a difference is seen, and told.
    assert np.abs(one.values - wanted).max() > 1e-2
    assert np.abs(one.stats["completeness"]).max() > 1e-2


def test_weights_of_the_background():
    weights = [1.0, 0.0, 3.0, 2.0]
    found = xj.GradientExplainer(MODEL, DONORS, weights=weights)(X[:2])
    wanted = [[oracle.expected(slope(k), x, DONORS, weights) for k in range(K)] for x in X[:2]]
    np.testing.assert_allclose(found.values, np.transpose(wanted, (0, 2, 1)), **TOLERANCE)


def test_one_output_for_each_instance():
    explainer = xj.GradientExplainer(MODEL, DONORS)
    full = np.stack([network64(X, k) for k in range(K)], axis=1)
    for outputs, wanted in (
        ("predicted", full.argmax(axis=1)),
        (np.arange(N) % K, np.arange(N) % K),
    ):
        found = explainer(X, outputs=outputs)
        assert found.values.shape == (N, F) and found.stats["completeness"].shape == (N,)
        np.testing.assert_array_equal(found.stats["outputs"], wanted)
        np.testing.assert_allclose(found.values, WANTED[np.arange(N), :, wanted], **TOLERANCE)
        assert np.abs(found.stats["completeness"]).max() < 1e-5
    named = xj.as_model(network, PARAMS, classes=["a", "b", "c"])
    found = xj.GradientExplainer(named, DONORS)(X[:2], outputs=["c", "a"])
    np.testing.assert_allclose(found.values, WANTED[[0, 1], :, [2, 0]], **TOLERANCE)


@pytest.mark.slow
def test_groups_and_entries_that_stay():
    groups = {"first": [0, 3], "last": [4]}
    found = xj.GradientExplainer(MODEL, DONORS, players=groups)(X)
    assert found.feature_names == ("first", "last", "x1", "x2")
    wanted = np.stack([WANTED[:, [0, 3]].sum(axis=1), *(WANTED[:, j] for j in (4, 1, 2))], axis=1)
    np.testing.assert_allclose(found.values, wanted, **TOLERANCE)
    # Entries 1 and 4 stay at x: lines begin at the donor with them put in.
    players = np.array([0, -1, 1, 0, -1])
    found = xj.GradientExplainer(MODEL, DONORS, players=players)(X[:3])
    for n, x in enumerate(X[:3]):
        starts = np.where(players < 0, x, DONORS)
        for k in range(K):
            entries = oracle.expected(slope(k), x, starts)
            np.testing.assert_allclose(
                found.values[n, :, k], oracle.by_player(entries, players), **TOLERANCE
            )
            base = network64(starts, k).mean()
            np.testing.assert_allclose(found.base_values[n, k], base, **TOLERANCE)
    assert np.abs(found.stats["completeness"]).max() < 1e-5


def test_players_of_each_instance():
    players = RNG.integers(0, 3, (N, F))
    players[:, :3] = [0, 1, 2]
    players[0] = [0, 0, 1, 1, 0]  # lacks player 2
    found = xj.GradientExplainer(MODEL, DONORS, players=players)(X)
    for n in range(N):
        own = players[n]
        for k in range(K):
            wanted = [WANTED[n, own == p, k].sum() for p in range(3)]
            np.testing.assert_allclose(found.values[n, :, k], wanted, **TOLERANCE)
    assert not found.present[0, 2] and (found.values[0, 2] == 0).all()


@pytest.mark.slow
def test_a_baseline_for_each_instance():
    def halved(rows):
        return rows / 2

    found = xj.GradientExplainer(MODEL, xj.Baseline(halved), path="integrated")(X)
    for n, x in enumerate(X):
        for k in range(K):
            wanted = oracle.integrated(slope(k), x, x / 2)
            np.testing.assert_allclose(found.values[n, :, k], wanted, **TOLERANCE)
    assert np.abs(found.stats["completeness"]).max() < 1e-5
    drawn = xj.GradientExplainer(MODEL, xj.Baseline(halved), samples=200)(X)
    off = np.abs(drawn.values - found.values)
    # 6 standard errors of 100 stretches each: 1e-8 for each of 105 values, and rounding.
    assert (off <= 6 * drawn.std_errors + 1e-5).all()


@pytest.mark.slow
def test_images_and_players_shaped_like_them():
    kernel = normal(3, 3, 1, 2)
    where = ("NHWC", "HWIO", "NHWC")

    def convolutional(params, rows):
        made = jax.lax.conv_general_dilated(rows, params, (1, 1), "SAME", dimension_numbers=where)
        return jnp.sum(jnp.tanh(made), axis=(1, 2, 3))

    def convolutional64(image):
        padded = np.pad(image[..., 0], 1)
        made = np.zeros((4, 4, 2))
        for i, j in np.ndindex(4, 4):
            made[i, j] = np.tensordot(padded[i : i + 3, j : j + 3], kernel[..., 0, :], 2)
        return np.tanh(made).sum()

    images, black = normal(2, 4, 4, 1), np.zeros((1, 4, 4, 1), np.float32)
    quarters = np.kron([[0, 1], [2, 3]], np.ones((2, 2), int))
    model = xj.as_model(convolutional, kernel)
    explainer = xj.GradientExplainer(model, black, path="integrated", players=quarters)
    found = explainer(images)
    slope = oracle.slope_by_differences(convolutional64)
    for n, image in enumerate(images):
        x = image.astype(np.float64)
        entries = x * oracle.simpson(lambda t, x=x: slope(t * x), 40)
        # Differences of 1e-5 in float64, and Simpson's rule by 40 steps: 1e-6 each.
        wanted = oracle.by_player(entries, quarters[..., None])
        np.testing.assert_allclose(found.values[n], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_rows_in_several_arrays():
    def two(params, rows):
        return jnp.tanh(rows["a"] @ params["W"]) @ params["V"] * rows["scale"][:, None]

    donors = {"a": DONORS, "scale": np.ones(B, np.float32)}
    rows = {"a": X, "scale": 1 + np.arange(N, dtype=np.float32) / N}
    model = xj.as_model(two, PARAMS)
    found = xj.GradientExplainer(model, donors)(rows)
    assert found.feature_names[-1] == "scale" and found.values.shape == (N, F + 1, K)

    def slope_of_two(k):
        def of(z):
            inner = slope(k)(z[:F]) * z[F]
            return np.append(inner, network64(z[:F], k))

        return of

    for n in (1, 4):
        x = np.append(X[n], rows["scale"][n])
        starts = np.column_stack([DONORS, donors["scale"]])
        for k in range(K):
            wanted = oracle.expected(slope_of_two(k), x, starts)
            np.testing.assert_allclose(found.values[n, :, k], wanted, **TOLERANCE)


TABLE = normal(9, 4)
HEAD = {"E": TABLE, "U": normal(4, K)}
IDS, START = RNG.integers(0, 9, (N, 3)), np.full((1, 3), 8)


def embed(params, ids):
    return params["E"][ids]


def head(params, embedded):
    return jnp.tanh(embedded.sum(axis=1)) @ params["U"]


def wanted_of_tokens(ids, k):
    """By token [L]: slopes of the embedded row, times changes, summed over its 4 numbers."""

    def of(z):
        return np.tile((1 - np.tanh(z.sum(axis=0)) ** 2) * HEAD["U"][:, k], (3, 1))

    return oracle.integrated(of, TABLE[ids], TABLE[START[0]]).sum(axis=1)


@pytest.mark.slow
def test_tokens_by_a_pair():
    pair = embed, xj.as_model(head, HEAD)
    found = xj.GradientExplainer(pair, START, path="integrated")(IDS)
    assert found.values.shape == (N, 3, K) and found.data.dtype.kind == "i"
    for n, k in np.ndindex(N, K):
        np.testing.assert_allclose(found.values[n, :, k], wanted_of_tokens(IDS[n], k), **TOLERANCE)
    assert np.abs(found.stats["completeness"]).max() < 1e-5
    # Without parameters, and several tokens as one player.
    bare = lambda ids: jnp.asarray(TABLE)[ids], xj.as_model(partial(head, HEAD))
    whole = xj.GradientExplainer(bare, START, path="integrated", players=np.array([0, 1, 0]))(IDS)
    pairs = found.values[:, [0, 1]] + [[[1.0], [0.0]]] * found.values[:, [2]]
    np.testing.assert_allclose(whole.values, pairs, **TOLERANCE)


@pytest.mark.slow
def test_tokens_with_a_mask_that_stays():
    def embed_both(params, rows):
        return {"ids": params["E"][rows["ids"]], "mask": rows["mask"]}

    def masked(params, rows):
        return head(params, rows["ids"] * rows["mask"][..., None])

    mask = np.array([[1, 1, 0]] * N)
    rows, start = {"ids": IDS, "mask": mask}, {"ids": START, "mask": np.ones((1, 3), int)}
    players = {"ids": np.arange(3), "mask": -1}
    pair = embed_both, xj.as_model(masked, HEAD)
    found = xj.GradientExplainer(pair, start, path="integrated", players=players)(rows)
    assert found.values.shape == (N, 3, K) and (found.values[:, 2] == 0).all()
    assert np.abs(found.stats["completeness"]).max() < 1e-5
    with pytest.raises(xj.InputError, match="'mask' as int32"):
        xj.GradientExplainer(pair, start, path="integrated")


@pytest.mark.slow
def test_values_do_not_hang_on_tiles_batches_or_company():
    whole = xj.GradientExplainer(MODEL, DONORS, players={"a": [0, 1]})(X)
    for more in ({"tile": 256}, {"batch_size": 1, "max_memory": 200_000}):
        found = xj.GradientExplainer(MODEL, DONORS, players={"a": [0, 1]}, **more)(X)
        np.testing.assert_allclose(found.values, whole.values, **TOLERANCE)
    small = xj.GradientExplainer(MODEL, DONORS, tile=256)
    assert (
        small(X).stats["tile"] <= 256 and small.plan(X).model_calls == small(X).stats["model_calls"]
    )
    long = xj.GradientExplainer(MODEL, DONORS, steps=601, tile=256)(X)  # a line takes three tiles
    np.testing.assert_allclose(long.values, WANTED, **TOLERANCE)
    np.testing.assert_array_equal(small(X[3:5]).values, small(X).values[3:5])


@pytest.mark.slow
def test_a_memory_map_is_read_in_pieces(tmp_path):
    images = np.random.default_rng(1).normal(size=(9, 3, F)).astype("f4") / 4
    np.save(tmp_path / "rows.npy", images)
    model = xj.as_model(lambda params, rows: network(params, rows.sum(axis=1)), PARAMS)
    players = np.arange(3 * F).reshape(3, F) % 4
    players[0, 0] = -1  # stays
    explainer = xj.GradientExplainer(model, images[:2], steps=5, players=players)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    np.testing.assert_array_equal(explainer(mapped).values, explainer(images).values)


@pytest.mark.slow
def test_drawn_values_hang_on_the_seed_alone():
    explainer = xj.GradientExplainer(MODEL, DONORS, samples=64, seed=3)
    whole = explainer(X)
    np.testing.assert_allclose(explainer(X[2:3]).values, whole.values[2:3], **TOLERANCE)
    other = xj.GradientExplainer(MODEL, DONORS, samples=64, seed=3, tile=256)(X)
    np.testing.assert_allclose(other.values, whole.values, **TOLERANCE)
    np.testing.assert_allclose(other.std_errors, whole.std_errors, **TOLERANCE)
    assert (
        np.abs(xj.GradientExplainer(MODEL, DONORS, samples=64)(X).values - whole.values).max()
        > 0.01
    )
    assert whole.stats["dof"][0] == 16 and whole.stats["estimator"] == "sampled"
    assert "sampled, largest standard error" in repr(whole)


@pytest.mark.slow
def test_it_travels_and_is_swept(tmp_path):
    explainer = xj.GradientExplainer(MODEL, DONORS, steps=10)
    here = explainer(X)
    there = pickle.loads(pickle.dumps(explainer))(X)
    np.testing.assert_array_equal(there.values, here.values)
    run = xj.sweep(explainer, X, tmp_path / "run", rows_per_part=3)
    np.testing.assert_allclose(run.explanation().values, here.values, **TOLERANCE)
    pair = xj.GradientExplainer((embed, xj.as_model(head, HEAD)), START, path="integrated")
    run = xj.sweep(pair, IDS, tmp_path / "tokens", rows_per_part=3)
    np.testing.assert_allclose(run.explanation().values, pair(IDS).values, **TOLERANCE)
    other = lambda params, ids: -embed(params, ids), xj.as_model(head, HEAD)  # another embedding
    with pytest.raises(xj.InputError, match="embed"):
        xj.sweep(xj.GradientExplainer(other, START, path="integrated"), IDS, tmp_path / "tokens")
    here.save(tmp_path / "one.npz")
    assert xj.load(tmp_path / "one.npz").kind == "expected_gradients"
    joined = xj.merge([explainer(X[:3]), explainer(X[3:])])
    np.testing.assert_allclose(joined.values, here.values, **TOLERANCE)


@pytest.mark.slow
def test_a_plan_tells_what_is_asked():
    def own(params, rows):  # a program that no other test has compiled
        return 1.5 * network(params, rows)

    explainer = xj.GradientExplainer(xj.as_model(own, PARAMS), DONORS, steps=10)
    plan = explainer.plan(X)
    assert (plan.model_rows == 10 * B).all() and set(plan.estimator) == {"quadrature"}
    assert plan.programs == 1 and plan.model_calls == explainer(X).stats["model_calls"]
    assert explainer.plan(X).programs == 0


@pytest.mark.slow
def test_the_model_is_traced_twice_however_many_rows_there_are():
    traced = []

    def counted(params, rows):
        traced.append(len(rows))
        return network(params, rows)

    explainer = xj.GradientExplainer(xj.as_model(counted, PARAMS), DONORS, steps=4)
    for count in (1, 5, 200):
        explainer(normal(count, F))
        explainer(normal(count, F), outputs="predicted")
    assert len(traced) == 2  # the probe, and a tile


@pytest.mark.slow  # a process of its own
def test_several_devices_give_the_same(tmp_path):
    found = eight_devices.outcome(
        """
import test_gradient_explainer as own
import xaijax as xj
rows = own.normal(1000, own.F)
for devices in (1, 8):
    for name, more in (("all", {}), ("drawn", {"samples": 40})):
        explainer = xj.GradientExplainer(own.MODEL, own.DONORS, devices=devices, tile=256, **more)
        explanation = explainer(rows)
        out[f"{name} {devices}"] = explanation.values
        out[f"off {name} {devices}"] = explanation.stats["completeness"]
""",
        tmp_path,
    )
    np.testing.assert_array_equal(found["all 1"], found["all 8"])
    np.testing.assert_array_equal(found["drawn 1"], found["drawn 8"])
    assert np.abs(found["off all 8"]).max() < 1e-5


@pytest.mark.parametrize("path", ["expected", "integrated"])
def test_float64(path):
    with jax.enable_x64(True):
        model = xj.as_model(network, PARAMS, precision="float64")
        found = xj.GradientExplainer(model, DONORS[:1], path=path)(X)
    wanted = [[oracle.integrated(slope(k), x, DONORS[0]) for k in range(K)] for x in X]
    # Simpson's rule is off by 4e-11 of a fourth derivative, which is at most some hundred here.
    np.testing.assert_allclose(found.values, np.transpose(wanted, (0, 2, 1)), atol=1e-8)
    assert np.abs(found.stats["completeness"]).max() < 1e-12


@pytest.mark.slow
def test_what_it_is_told_of_and_what_a_judge_finds():
    explainer = xj.GradientExplainer(MODEL, DONORS)
    assert "4 background rows" in repr(explainer) and "steps=50" in repr(explainer)
    judged = xj.judge(
        explainer(X, outputs="predicted"), xj.Explainer(MODEL, DONORS), X, outputs="predicted"
    )
    assert 0 < judged.relative_error < 1


def test_a_translated_estimator_is_explained():
    rows = RNG.normal(size=(60, 3))
    fitted = LogisticRegression().fit(rows, rows[:, 0] - rows[:, 1] > 0)
    model = xj.as_model(fitted, output="decision")
    found = xj.GradientExplainer(model, rows[:4])(rows[4:9])
    wanted = (rows[4:9] - rows[:4].mean(axis=0)) * fitted.coef_[0]
    np.testing.assert_allclose(found.values, wanted, rtol=1e-4, atol=1e-4)
