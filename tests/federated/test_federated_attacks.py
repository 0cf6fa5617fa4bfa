"""What a curious host can do with what it is told; each attack works where no policy stops it.

All secrets and tables are fixed, so these tests have no false alarms.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from parties import SECRET, names

import xaijax as xj
from xaijax import federated as fd

pytest.importorskip("google.protobuf", reason="needs the extra [federated]")
pytest.importorskip("cryptography", reason="needs the extra [federated]")
pytestmark = pytest.mark.filterwarnings("ignore::xaijax.XaiWarning")  # that is what is shown here

N, LEAKED = 1_000, 50
NOISE = fd.Policy(fewest=1, most_queries=100, epsilon=2.0, bounds=(-3.0, 3.0))
OFF = fd.Policy(fewest=1)


@functools.cache
def additive() -> tuple[fd.SplitModel, np.ndarray, np.ndarray]:
    """A sum of three host columns and one of the guest; the host's columns, the guest's."""
    rng = np.random.default_rng(5)
    own = fd.Part("linear", {"weights": np.array([1.0, -0.5, 0.25])})
    model = fd.SplitModel.of(own, {"shop": 1}, "score", {"intercept": np.array(0.2)})
    return model, rng.normal(size=(N, 3)), rng.normal(size=(N, 1))


def united(policy: fd.Policy, secret: bytes = SECRET) -> tuple[np.ndarray, xj.Explanation]:
    """The guest's column, and what a host is told."""
    model, mine, theirs = additive()
    part = fd.Part("linear", {"weights": np.ones(1)})
    guest = fd.Guest(theirs, names(N), part, policy=policy, secret=secret)
    host = fd.Host(model, mine, {"shop": fd.InMemory(guest)}, names(N))
    return theirs[:, 0], host(mine, progress=False)


def r_squared(truth: np.ndarray, told: np.ndarray) -> float:
    """Of the best line through the leaked rows, on the others."""
    line = np.polyfit(told[:LEAKED], truth[:LEAKED], 1)
    rest = truth[LEAKED:]
    left = ((rest - np.polyval(line, told[LEAKED:])) ** 2).sum()
    return 1 - left / ((rest - rest.mean()) ** 2).sum()


@pytest.mark.slow
def test_a_column_from_united_values() -> None:
    """One guest column, an additive model, 50 leaked rows: the reading, 5.5."""
    truth, plain = united(OFF)
    _, noisy = united(NOISE)
    column = plain.feature_names.index("shop")
    open_, closed = (r_squared(truth, one.values[:, column]) for one in (plain, noisy))
    error = np.abs(noisy.values - plain.values)
    size = np.abs(plain.values[:, column]).mean()
    print(
        f"\nR2 of the column: {open_:.3f} without noise, {closed:.3f} with epsilon=2; the united "
        f"value is {size:.2f} on average and off by {error[:, column].mean():.2f}, the host's own "
        f"by {error[:, :column].max():.2f} at most"
    )
    assert open_ >= 0.9
    assert closed <= 0.2
    # What protects a person drowns the person's value.
    assert error[:, column].mean() > size
    assert error[:, :column].max() < 1e-5  # additive: the host's own values hold no guest


def test_the_cost_falls_in_the_mean_over_people() -> None:
    """What noise leaves: the mean united value of many, to the noise's own error."""
    _, plain = united(OFF)
    _, noisy = united(NOISE)
    off = noisy.values[:, -1].mean() - plain.values[:, -1].mean()
    scale = 6.0 / 2.0
    # The reference has noise too, which all values share.
    shared = (noisy.base_values - plain.base_values)[0]
    assert abs(off + shared) < 5 * np.sqrt(2 / N) * scale


def answers_of(policy: fd.Policy, secret: bytes) -> np.ndarray:
    """What one connection to a guest that has just started tells; [N]."""
    model, mine, theirs = additive()
    part = fd.Part("linear", {"weights": np.ones(1)})
    guest = fd.Guest(theirs, names(N), part, policy=policy, secret=secret)
    host = fd.Host(model, mine, {"shop": fd.InMemory(guest)}, names(N))
    return host(mine, progress=False).values[:, -1]


@pytest.mark.slow
def test_averaging_over_ten_connections() -> None:
    """It helps against noise that is drawn anew, and not against noise that is a function."""
    truth, _ = united(OFF)

    def off(means: np.ndarray) -> float:
        return float((means - truth).std())

    one = off(answers_of(NOISE, SECRET))
    same = np.mean([answers_of(NOISE, SECRET) for _ in range(10)], axis=0)
    fresh = np.mean([answers_of(NOISE, bytes([i]) * 32) for i in range(10)], axis=0)
    assert off(same) == pytest.approx(one, rel=1e-12)
    assert r_squared(truth, same) <= 0.2
    # 1 / sqrt(10) = 0.32: what a guest without a long-term secret would give away.
    assert off(fresh) < 0.4 * one


def test_equal_rows_of_different_people_have_different_noise() -> None:
    """Else a column of few values would stay readable: equal answers, equal rows."""
    model, mine, _ = additive()
    theirs = np.repeat([[0.0], [1.0]], N // 2, axis=0)
    part = fd.Part("linear", {"weights": np.ones(1)})
    policy = fd.Policy(fewest=1, epsilon=2.0, bounds=(-3.0, 3.0), allow_binary=True)
    guest = fd.Guest(theirs, names(N), part, policy=policy, secret=SECRET)
    host = fd.Host(model, mine, {"shop": fd.InMemory(guest)}, names(N))
    told = host(mine, progress=False).values[:, -1]
    assert len(np.unique(told)) > 0.9 * N
    open_guest = fd.Guest(theirs, names(N), part, policy=fd.Policy(fewest=1, allow_binary=True))
    host = fd.Host(model, mine, {"shop": fd.InMemory(open_guest)}, names(N))
    assert len(np.unique(host(mine, progress=False).values[:, -1].round(4))) == 2


def distances_table(policy: fd.Policy) -> tuple[np.ndarray, np.ndarray]:
    """The training customers' guest columns [B, 3], and what a host holds of them after a sweep."""
    rng = np.random.default_rng(9)
    train, X = rng.normal(size=(300, 5)), rng.normal(size=(60, 5))
    split = fd.split_neighbours(train, train[:, 0] > 0, {"shop": [2, 3, 4]})
    part = split.parts["shop"]
    guest = fd.Guest(X[:, 2:], names(60), part, policy=policy, secret=SECRET)
    host = fd.Host(split.host, X[:, :2], {"shop": fd.InMemory(guest)}, names(60))
    host(X[:, :2], progress=False)
    return train[:, 2:], host._answers["shop"].rows(range(60))


def rebuilt(told: np.ndarray, known: np.ndarray) -> np.ndarray:
    """A table [B, 3] from squared distances to it [n, B], and its first rows; section 5.5.

    Centred both ways the distances are -2 x . t, of rank 3; what is left open is an affine map.
    """
    centred = told - told.mean(axis=0) - told.mean(axis=1, keepdims=True) + told.mean()
    _, sizes, right = np.linalg.svd(centred, full_matrices=False)
    places = np.c_[np.ones(told.shape[1]), right[:3].T * sizes[:3]]
    return places @ np.linalg.lstsq(places[: len(known)], known, rcond=None)[0]


@pytest.mark.parametrize("noise", [False, True], ids=["without noise", "with noise"])
def test_a_table_from_distances(noise: bool) -> None:
    """60 answers and eight known customers give the guest's whole table; not with noise."""
    more = {"epsilon": 2.0, "bounds": (0.0, 50.0)} if noise else {}
    truth, told = distances_table(fd.Policy(fewest=1, allow_distance_leak=True, **more))
    found = rebuilt(told, truth[:8])[8:]
    rest = truth[8:]
    fit = 1 - ((found - rest) ** 2).sum() / ((rest - rest.mean(axis=0)) ** 2).sum()
    print(f"\nR2 of {rest.size} values of the guest's table: {max(fit, -1):.4f}")
    if noise:
        assert fit <= 0.2
    else:
        assert np.abs(found - rest).max() < 1e-6


@pytest.mark.slow
def test_a_guest_cannot_tell_coalitions_from_what_it_is_asked() -> None:
    """The guest's own attack: its part is called with its own rows and the reference, once each."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 5))
    heard: list[bytes] = []

    def listening(rows: np.ndarray) -> np.ndarray:
        heard.extend(row.tobytes() for row in rows)
        return rows.sum(axis=1)

    part = fd.FunctionPart(listening, columns=3)
    guest = fd.Guest(X[:, 2:], names(30), part, policy=OFF)
    own = fd.Part("linear", {"weights": np.ones(2)})
    model = fd.SplitModel.of(own, {"shop": 1}, "logistic", {"intercept": np.array(0.0)})
    fd.Host(model, X[:, :2], {"shop": fd.InMemory(guest)}, names(30))(X[:, :2], progress=False)
    known = [row.tobytes() for row in X[:, 2:]] + [np.median(X[:, 2:], axis=0).tobytes()]
    assert sorted(heard) == sorted(known)
