"""Which of QII's axes go together, arguments that would have no effect, members by their index."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import xaijax as xj

RNG = np.random.default_rng(0)
D = RNG.normal(size=(6, 3)).astype(np.float32)
E, T = xj.InputError, xj.InputTypeError
MASK = np.array([True, False, True, False, False, False])
GAP = {"quantity": "disparity", "members": MASK}


def noisy(output="proba"):
    noise = np.random.default_rng(0)

    def f(rows):
        p = 0.5 + 0.1 * np.tanh(rows[:, 0]) + noise.uniform(-0.1, 0.1, len(rows))
        return np.stack([1 - p, p], 1)

    return xj.as_model(f, backend="host", output=output, classes=[0, 1], deterministic=False)


@pytest.mark.parametrize("samples", [None, 50])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (GAP, "Say signed=True with deterministic=False"),
        ({**GAP, "quantity": "ratio"}, "quantity='disparity' with signed=True"),
        (
            {
                "quantity": xj.quantities.Interest("m", "members and rest", combine=lambda m: m[0]),
                "members": MASK,
            },
            r"combine=\(1, -1\)",
        ),
    ],
)
def test_noise_would_bias_what_is_made_of_two_means(given, says, samples):
    """Drawn or not, and whatever is asked: nothing of link=, which QII has not."""
    with pytest.raises(E, match=says) as caught:
        xj.QII(noisy(), D, outcome="score", samples=samples, **given)
    assert "link" not in str(caught.value)
    signed = xj.QII(noisy(), D, outcome="score", samples=samples, **GAP, signed=True)
    assert (signed.unary().std_errors > 0).all()


def test_noise_would_bias_direct_distances_too():
    given = {"quantity": "individual", "outcome": "proba", "difference": "l1"}
    with pytest.raises(E, match="difference='subtract' with deterministic=False"):
        xj.QII(noisy(), D, **given).marginal(0, [1], D[:1], direct=True)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"combine": (1, -1)}, E, "combine makes one of two means"),
        ({"whom": "all", "combine": lambda m: m[0]}, E, "combine makes one of two means"),
        ({"agrees": True, "score": lambda a, o: a}, E, "takes the place of agrees"),
        ({"whom": "members and rest"}, E, "combine is needed"),
        ({"whom": "members and rest", "combine": 3}, T, "combine must be two numbers or a"),
        ({"whom": "members and rest", "combine": (1, 2, 3)}, T, "combine must be two numbers"),
        ({"whom": "members and rest", "combine": (1, np.nan)}, E, "combine must be finite"),
        ({"whom": "x"}, E, "whom must be one of"),
        ({"score": 3}, T, "score must be a function"),
    ],
)
def test_interests(arguments, error, match):
    with pytest.raises(error, match=match):
        xj.quantities.Interest("mine", **arguments)


def test_a_floor_above_an_equal_share_leaves_nothing():
    for classes in ([False, True], None):
        model = xj.as_model(
            lambda r: np.stack([0 * r[:, 0] + 0.3, 0 * r[:, 0] + 0.7], 1), backend="host",
            output="proba", classes=classes,
        )  # fmt: skip
        given = {"quantity": "individual", "outcome": "proba", "difference": "kl"}
        with pytest.raises(E, match="floor must be below 1/2 for 2 classes"):
            xj.QII(model, D, floor=0.5, **given).unary(D[:1])
        assert xj.QII(model, D, floor=np.float32(0.49), **given).unary(D[:1]).values.max() == 0


def test_numbers_of_numpy_are_numbers():
    given = {"epsilon": np.float32(0.25), "delta": np.float64(0.1)}
    model = xj.as_model(
        lambda r: r[:, 0] > 0, backend="host", output="label", classes=[False, True]
    )
    q = xj.QII(model, D, samples=9, stop="bernstein", **given)
    with pytest.warns(xj.XaiWarning, match="epsilon=0.25"):
        assert q.unary(D[:1]).provenance["epsilon"] == 0.25


def test_members_as_a_series_go_by_their_index():
    """pandas aligns; a mask in another order is that of the same rows, not of other ones."""
    frame = pd.DataFrame(D, columns=["a", "b", "c"], index=list("uvwxyz"))
    model = xj.as_model(lambda f: (f["b"] > 0).to_numpy(), backend="host", output="label",
                        classes=[False, True])  # fmt: skip
    mask = frame["a"] > 0
    assert (mask.to_numpy() != mask[::-1].to_numpy()).any()

    def asked(members, data=frame):
        return xj.QII(model, data, quantity="group", members=members).unary().stats["quantity"]

    wanted = np.mean(D[mask.to_numpy(), 1] > 0)
    assert asked(mask) == asked(mask[::-1]) == asked(mask.to_numpy()) == wanted
    assert asked(lambda f: (f["a"] > 0)[::-1]) == wanted
    twice = frame.set_axis(list("uuwxyz"))
    assert asked(twice["a"] > 0, twice) == wanted
    for other in (mask.reset_index(drop=True), mask[:4], (twice["a"] > 0)):
        with pytest.raises(E, match="members is a Series of . rows whose index is not that"):
            asked(other)
    with pytest.raises(E, match="whose index is not that of the data"):
        asked((twice["a"] > 0)[::-1], twice)
    array = xj.as_model(lambda r: r[:, 1] > 0, backend="host", output="label",
                        classes=[False, True])  # fmt: skip

    def by_array(members):
        return xj.QII(array, D, quantity="group", members=members).unary().stats["quantity"]

    assert by_array(mask.reset_index(drop=True)) == wanted
    with pytest.raises(E, match="whose index is not that"):
        by_array(mask)
