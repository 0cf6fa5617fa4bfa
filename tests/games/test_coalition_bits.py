"""The same bits of v(S) whatever the batch size, the order, the neighbours or the devices."""

from __future__ import annotations

from functools import cache

import eight_devices
import games
import numpy as np
import pytest
from listed import agreeing, coalitions_of, game_of

import xaijax as xj
from xaijax.games import queries
from xaijax.games.engine import device
from xaijax.games.engine import evaluator as setting

P, C, N = 40, 41, 96
A = games.weights(P)
MASKS = coalitions_of(P, C)
WEIGHTS = [0.4, 0.1, 0.3, 0.2]


@cache
def model_of(backend: str) -> xj.Model:
    """One for all tests: its programs are compiled once."""
    if backend == "jax":
        return xj.as_model(games.three_outputs, params=A)
    return xj.as_model(lambda X: games.three_outputs_host(X, A), backend="host")


def data() -> tuple[np.ndarray, np.ndarray]:
    """Half of the instances by sub-coalitions, half by list, mixed up."""
    X, donors = agreeing(P)
    X = np.concatenate([np.tile(X, (N // 8, 1)), games.rows(N // 2, P, "continuous", 3)])
    return X[np.random.default_rng(6).permutation(N)], donors


def asked(backend: str, X: np.ndarray, donors: np.ndarray, rows=None, **options) -> np.ndarray:
    game = game_of(model_of(backend), X, donors, weights=WEIGHTS, tile=256, **options)
    return queries.values(game, MASKS, rows)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_batch_size_order_and_neighbours(backend):
    X, donors = data()
    whole = asked(backend, X, donors)
    for batch_size in (1, 700):
        assert same_bits(asked(backend, X, donors, batch_size=batch_size), whole), batch_size
    order = np.random.default_rng(3).permutation(N)
    assert same_bits(asked(backend, X[order], donors), whole[order])
    assert same_bits(asked(backend, X, donors, order), whole[order])
    for rows in (np.array([17]), np.array([80, 3, 4, 5, 47])):
        assert same_bits(asked(backend, X[rows], donors), whole[rows])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_instances_planned_together(backend, monkeypatch):
    X, donors = data()
    whole = asked(backend, X, donors)
    monkeypatch.setattr(setting, "instances_at_a_time", lambda *sizes: 37)
    assert same_bits(asked(backend, X, donors), whole)


@pytest.mark.slow
def test_equal_rows_have_equal_bits():
    X, donors = data()
    X[[50, 92]] = X[7]
    values = asked("jax", X, donors)
    assert same_bits(values[50], values[7]) and same_bits(values[92], values[7])


@pytest.mark.slow
def test_a_device_out_of_memory_is_asked_again_with_half_the_tile(monkeypatch):
    X, donors = data()
    whole = asked("jax", X, donors)
    launch = device.DeviceBackend._tiles
    launched = []

    def short_of_memory(self, *arguments):
        launched.append(self.sizes.tile.rows)
        if self.sizes.tile.rows > 256 and len(launched) > 2:
            raise RuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate")
        return launch(self, *arguments)

    monkeypatch.setattr(device.DeviceBackend, "_tiles", short_of_memory)
    game = game_of(model_of("jax"), X, donors, weights=WEIGHTS, tile=512, batch_size=512)
    with pytest.warns(xj.XaiWarning, match="ran out of memory with tile=512"):
        got = queries.values(game, MASKS)
    assert same_bits(got, whole)
    calm = game_of(model_of("jax"), X, donors, weights=WEIGHTS, tile=256)
    queries.values(calm, MASKS)
    assert game.count == calm.count  # what was lost is not counted twice


ON_DEVICES = """
import test_coalition_bits as here
X, donors = here.data()
for devices in (None, 3):
    for count in (96, 3):
        out[f"{devices} {count}"] = here.asked("jax", X[:count], donors, devices=devices)
"""


@pytest.mark.slow
def test_eight_devices_give_the_bits_of_one(tmp_path):
    """Uneven tiles over 8 and 3 devices, and fewer instances than devices."""
    found = eight_devices.outcome(ON_DEVICES, tmp_path)
    X, donors = data()
    whole = asked("jax", X, donors, devices=1)
    assert len(found) == 4
    for name, values in found.items():
        assert same_bits(values, whole[: len(values)]), name
