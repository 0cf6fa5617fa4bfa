"""Work is dealt to several devices evenly, and no bit of an answer hangs on how many there are."""

from __future__ import annotations

import eight_devices
import numpy as np
import pytest

import xaijax as xj
from xaijax.games.engine.dispatch import dealt

P, N, B = 5, 90, 16


@pytest.mark.parametrize("devices", [1, 3, 8])
@pytest.mark.parametrize("each", [1, 4])
def test_dealing(devices: int, each: int) -> None:
    """Every number of tiles, against the definition: no place twice, each in its device's part."""
    T, before, done = devices * each, 0, np.zeros(devices, int)
    for tiles in [*range(1, T + 1), 1, 1, 1, T]:
        place, counts = dealt(tiles, T, devices, before)
        assert len(set(place.tolist())) == tiles == counts.sum()
        for device, count in enumerate(counts):
            own = place[place // each == device] - device * each
            assert sorted(own.tolist()) == list(range(count))
        if tiles == T:
            assert (place == np.arange(T)).all()
        before += tiles
        done += counts
        assert done.max() - done.min() <= 1


def rows(count: int) -> np.ndarray:
    """Codes [count, P]: pairs of all sizes."""
    return np.random.default_rng(count).integers(0, 3, (count, P)).astype(np.float32)


def network(params, X):
    import jax.numpy as jnp  # noqa: PLC0415

    return jnp.tanh(X @ params) @ jnp.ones(4, "float32")


WEIGHTS = np.random.default_rng(3).normal(size=(P, 4)).astype(np.float32)
WAYS = {
    "pairs": {},
    "tables": {"link": np.arctan},
    "kernel": {"estimator": "kernel", "budget": 20},
    "orders": {"estimator": "permutation", "budget": 40},
}
CALLS = 5  # of one row each: a tile or less, so that most devices have none of one call


def explained(way: str, devices: int) -> np.ndarray:
    """The values of many rows at once, and of some one by one."""
    structure = None if way == "orders" else "plain"
    model = xj.as_model(network, WEIGHTS, structure=structure)
    explain = xj.Explainer(model, rows(B), tile=256, devices=devices, **WAYS[way])
    some = [explain(rows(N)[n : n + 1], progress=False).values for n in range(CALLS)]
    return np.concatenate([explain(rows(N), progress=False).values, *some])


SCRIPT = """
import test_even_devices as own
from xaijax.games.engine import dispatch

from xaijax_kernels.engine import tiles as turns

dealt, shares = dispatch.dealt, []
def noted(*given):
    place, counts = dealt(*given)
    shares.append(counts)
    return place, counts
dispatch.dealt = noted
for way in own.WAYS:
    for devices in (1, 3, 8):
        shares.clear()
        out[f"{way} {devices}"] = own.explained(way, devices)
        out[f"{way} {devices} shares"] = np.sum(shares, axis=0)
turns.counted = lambda platform: True
out["pairs as on GPUs"] = own.explained("pairs", 8)
"""


@pytest.mark.slow
def test_eight_devices_share_evenly_and_keep_the_bits(tmp_path) -> None:
    found = eight_devices.outcome(SCRIPT, tmp_path)
    for way in WAYS:
        one = found[f"{way} 1"]
        assert way != "pairs" or found["pairs as on GPUs"].tobytes() == one.tobytes()
        assert one[N : N + CALLS].tobytes() == one[:CALLS].tobytes()
        for devices in (3, 8):
            assert found[f"{way} {devices}"].tobytes() == one.tobytes(), (way, devices)
            shares = found[f"{way} {devices} shares"]
            # The tiles are the same ones, and of any two devices one has one more at most.
            assert len(shares) == devices and shares.sum() == found[f"{way} 1 shares"].sum()
            assert shares.min() >= 1 and shares.max() - shares.min() <= 1, (way, shares)
