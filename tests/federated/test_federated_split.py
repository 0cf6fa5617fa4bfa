"""Split models: what they answer, what they were trained to, and the files that parties get."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from parties import GUEST, HOST, logistic, table
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

import xaijax as xj
from xaijax import federated as fd


def labelled(N: int = 600) -> tuple[np.ndarray, np.ndarray]:
    X = table(N, seed=4)
    return X, X[:, 0] * X[:, 1] + X[:, 3] - X[:, 5] * X[:, 2] > 0


def joined(split: fd.PartySplit, X: np.ndarray) -> np.ndarray:
    """The host's side on the guest's answers: F(h(x_H), g(x_G))."""
    rows = np.c_[X[:, HOST], split.parts["shop"].answers(X[:, GUEST])]
    return split.host.model.predict(rows)


def test_logistic_regression_is_scikit_learns() -> None:
    X, y = labelled()
    fitted = LogisticRegression().fit(X, y)
    split = fd.split_logistic(fitted.coef_[0], fitted.intercept_[0], {"shop": GUEST})
    truth = fitted.predict_proba(X)[:, 1]
    np.testing.assert_allclose(split.joint.predict(X), truth, atol=1e-6)  # float32
    np.testing.assert_allclose(joined(split, X), truth, atol=1e-6)
    assert split.parts["shop"].width == 1


def test_neighbours_are_scikit_learns() -> None:
    X, y = labelled()
    split = fd.split_neighbours(X[:400], y[:400], {"shop": GUEST}, k=7)
    fitted = KNeighborsClassifier(7).fit(X[:400], y[:400])
    truth = fitted.predict_proba(X[400:])[:, 1]
    np.testing.assert_array_equal(split.joint.predict(X[400:]), truth)
    np.testing.assert_array_equal(joined(split, X[400:]), truth)


def walked(part: fd.Part, row: np.ndarray) -> float:
    """A party's score of one row, tree by tree and node by node."""
    total = 0.0
    a = part.arrays
    for feature, threshold, value in zip(a["feature"], a["threshold"], a["value"], strict=True):
        node = 0
        while node < len(feature):
            node = 2 * node + (1 if np.float32(row[feature[node]]) <= threshold[node] else 2)
        total += float(value[node - len(feature)])
    return total


@pytest.mark.slow
def test_trees_are_additive_and_learn() -> None:
    X, y = labelled(2_000)
    split = fd.split_trees(X[:1_500], y[:1_500], {"shop": GUEST}, rounds=20)
    own, join = split.host.origin[0], split.host.origin[2]
    for row, answer in zip(X[1_500:1_520], split.joint.predict(X[1_500:1_520]), strict=True):
        score = walked(own, row[HOST]) + walked(split.parts["shop"], row[GUEST])
        assert abs(1 / (1 + np.exp(-score - join["intercept"])) - answer) < 1e-6
    rest = X[1_500:]
    np.testing.assert_allclose(joined(split, rest), split.joint.predict(rest), atol=1e-6)
    right = ((split.joint.predict(rest) > 0.5) == y[1_500:]).mean()
    # An additive model of this truth, which has products of two parties' columns, cannot do well.
    assert right > 0.6 > max(y[1_500:].mean(), 1 - y[1_500:].mean())


def test_trees_are_gradient_boosting_of_one_party() -> None:
    """With one tree each leaf's value is rate x sum of residuals / sum of p (1 - p)."""
    X, y = labelled(300)
    split = fd.split_trees(X, y, {"shop": GUEST}, rounds=1, depth=1, rate=0.5)
    own = split.host.origin[0]
    at, cut = HOST[own.arrays["feature"][0, 0]], own.arrays["threshold"][0, 0]
    left = X[:, at].astype(np.float32) <= cut
    p = y.mean()
    for side, value in ((left, own.arrays["value"][0, 0]), (~left, own.arrays["value"][0, 1])):
        assert abs(value - 0.5 * (y[side] - p).sum() / (side.sum() * p * (1 - p))) < 1e-9


def joint_network(X: np.ndarray, y: np.ndarray, steps: int, seed: int = 0):
    """The same network with one encoder that sees all columns; a function of rows."""
    rng = np.random.default_rng(seed)
    sizes = [X.shape[1], 64, 36, 32, 1]
    params = [
        (rng.normal(size=(a, b)).astype("f4") / np.sqrt(a).astype("f4"), np.zeros(b, "f4"))
        for a, b in zip(sizes[:-1], sizes[1:], strict=True)
    ]

    def score(params, rows):
        for weights, bias in params[:-1]:
            rows = jnp.tanh(rows @ weights + bias)
        return (rows @ params[-1][0] + params[-1][1])[:, 0]

    optimiser = optax.adam(optax.cosine_decay_schedule(3e-3, steps))

    def loss(params, rows, truth):
        return optax.sigmoid_binary_cross_entropy(score(params, rows), truth).mean()

    @jax.jit
    def run(params, X, y, draws):
        def step(carry, places):
            now, state = carry
            updates, state = optimiser.update(jax.grad(loss)(now, X[places], y[places]), state)
            return (optax.apply_updates(now, updates), state), None

        return jax.lax.scan(step, (params, optimiser.init(params)), draws)[0][0]

    draws = rng.integers(0, len(X), (steps, 512))
    params = run(params, X.astype("f4"), y.astype("f4"), draws)
    return lambda rows: np.asarray(score(params, rows.astype("f4"))) > 0


@pytest.mark.slow
def test_the_split_network_is_as_accurate_as_the_joint_one() -> None:
    """On Adult, with three guest columns behind four numbers: within one point."""
    if not os.environ.get("XAIJAX_DATA"):
        pytest.skip("needs the Adult table: XAIJAX_DATA is not set")
    X, y = xj.datasets.adult(reading="shap")
    rows, y = X.to_numpy(np.float64), y.to_numpy(np.float64)
    order = np.random.default_rng(7).permutation(len(rows))
    train, test = order[:26_048], order[26_048:]
    rows = (rows - rows[train].mean(axis=0)) / rows[train].std(axis=0)
    guests = {"shop": [list(X).index(c) for c in ("Workclass", "Occupation", "Hours per week")]}
    split = fd.split_network(rows[train], y[train], guests, steps=1_500)
    assert split.parts["shop"].width == 4
    ours = ((split.joint.predict(rows[test]) > 0.5) == y[test]).mean()
    theirs = (joint_network(rows[train], y[train], 1_500)(rows[test]) == y[test]).mean()
    without = (joint_network(np.delete(rows[train], guests["shop"], 1), y[train], 1_500))(
        np.delete(rows[test], guests["shop"], 1)
    )
    print(
        f"\naccuracy: split {ours:.4f}, joint {theirs:.4f}, host alone "
        f"{(without == y[test]).mean():.4f}"
    )
    assert ours > theirs - 0.01
    assert ours > (without == y[test]).mean() + 0.005  # the guest's part is not idle


@pytest.mark.slow
def test_the_network_learns_across_parties() -> None:
    X, y = labelled(3_000)
    split = fd.split_network(X[:2_500], y[:2_500], {"shop": GUEST}, steps=1_200, batch=256)
    rest, truth = X[2_500:], y[2_500:]
    assert ((split.joint.predict(rest) > 0.5) == truth).mean() > 0.85
    np.testing.assert_allclose(joined(split, rest), split.joint.predict(rest), atol=1e-6)
    assert np.abs(split.parts["shop"].answers(rest[:, GUEST])).max() <= 1


@pytest.mark.slow
def test_files_hold_numbers_and_come_back(tmp_path: Path) -> None:
    X, y = labelled(200)
    for kind, split in (
        ("linear", logistic()),
        ("trees", fd.split_trees(X, y, {"shop": GUEST}, rounds=2)),
        ("network", fd.split_network(X, y, {"shop": GUEST}, steps=2)),
        ("distances", fd.split_neighbours(X[:20], X[:20, 0] > 0, {"shop": GUEST})),
    ):
        part = split.parts["shop"]
        part.save(tmp_path / "part.npz")
        split.host.save(tmp_path / "host.npz")
        again, host = fd.load_part(tmp_path / "part.npz"), fd.load_split(tmp_path / "host.npz")
        assert (again.kind, again.columns, again.width) == (kind, 3, part.width)
        np.testing.assert_array_equal(again.answers(X[:, GUEST]), part.answers(X[:, GUEST]))
        rows = np.c_[X[:, HOST], part.answers(X[:, GUEST])]
        np.testing.assert_array_equal(host.model.predict(rows), split.host.model.predict(rows))
        assert host.widths == {"shop": part.width}


def test_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive")
    np.savez(tmp_path / "pickle.npz", facts=np.array([{"kind": "linear"}], dtype=object))
    logistic().parts["shop"].save(tmp_path / "part.npz")
    for name, load in (
        ("text", fd.load_part),
        ("none", fd.load_part),
        ("pickle.npz", fd.load_part),
        ("text", fd.load_split),
        ("part.npz", fd.load_split),
    ):
        with pytest.raises(xj.InputError):
            load(tmp_path / name)


def test_parts_and_models_that_are_refused() -> None:
    X, y = labelled(50)
    one = np.ones(3)
    for kind, arrays, words in (
        ("svm", {}, "kind must be one of"),
        ("linear", {}, "do not fit"),
        ("linear", {"weights": np.array([1.0, np.nan])}, "finite"),
        ("network", {"weights0": np.ones((3, 2)), "bias0": np.ones(5)}, "do not fit"),
        ("trees", {"feature": one, "threshold": one, "value": one, "columns": one}, "do not fit"),
    ):
        with pytest.raises(xj.InputError, match=words):
            fd.Part(kind, arrays)
    with pytest.raises(xj.ModelOutputError, match="function returned"):
        fd.FunctionPart(lambda rows: rows, 3, 1).answers(X[:, :3])
    for call, words in (
        (lambda: fd.split_network(X, y, {"shop": [0]}, embedding=3), "embedding=3"),
        (lambda: fd.split_network(X, y * 0, {"shop": [0]}), "both must occur"),
        (lambda: fd.split_trees(X, y[:9], {"shop": [0]}), r"\[50\] is needed"),
        (lambda: fd.split_trees(X, y, {}), "guests is empty"),
        (lambda: fd.split_trees(X, y, {"shop": [9]}), "guests"),
        (lambda: fd.split_neighbours(X, y, {"shop": [0]}, k=51), "k=51"),
        (lambda: fd.split_logistic(np.ones((1, 4)), 0.0, {"shop": [0]}), r"model.coef_\[0\]"),
        (lambda: fd.SplitModel(3, 3, {"shop": 1}), "as_model"),
        (lambda: fd.SplitModel(logistic().joint, 3, {}), "widths must be"),
    ):
        with pytest.raises((xj.InputError, xj.InputTypeError), match=words):
            call()


def test_the_old_name_of_a_split_warns():
    with pytest.warns(DeprecationWarning, match=r"Say xaijax\.federated\.PartySplit") as caught:
        assert fd.Split is fd.PartySplit
    assert caught[0].filename == __file__ and "Split" not in dir(fd)
    with pytest.raises(AttributeError, match="has no attribute 'Splits'"):
        fd.Splits  # noqa: B018
