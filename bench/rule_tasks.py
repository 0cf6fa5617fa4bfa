"""What Anchors are measured on: a network or a forest on Adult's codes, and the network alone."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.neural_network import MLPClassifier

import xaijax
from bench.frame import Size
from bench.models import adult_table, forward

CATEGORIES = [1, 3, 4, 5, 6, 7, 11]
FOREST: dict[str, Any] = {"n_estimators": 100, "max_depth": 10, "random_state": 0}


class Task:
    """A model on Adult's codes, the rows to explain and the data of the spaces."""

    def __init__(self, kind: str, size: Size) -> None:
        self.kind, self.size = kind, size
        X, y = adult_table("shap")
        rows, labels = X.to_numpy(np.float32), y.to_numpy().astype(int)
        full = size == "full"
        self.B, N, train = (1_000, 1_000, 5_000) if full else (60, 4, 300)
        N = N if kind == "network" or not full else 200
        self.data = rows[: self.B]
        known = np.all([np.isin(rows[:, j], self.data[:, j]) for j in CATEGORIES], axis=0)
        self.X = rows[train:][known[train:]][:N]
        self.train, self.labels = rows[:train], labels[:train]
        self.model = self._network() if kind == "network" else self._forest()

    def _network(self) -> Any:
        shift, scale = self.train.mean(axis=0), self.train.std(axis=0) + 1e-6
        rounds = 40 if self.size == "full" else 5
        fitted = MLPClassifier(
            (64, 64), max_iter=rounds, random_state=0, tol=0, n_iter_no_change=99
        )
        with np.errstate(all="ignore"):
            import warnings  # noqa: PLC0415 - the fit is cut short on purpose, and says so

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fitted.fit((self.train - shift) / scale, self.labels)
        layers = [
            (w.astype(np.float32), b.astype(np.float32))
            for w, b in zip(fitted.coefs_, fitted.intercepts_, strict=True)
        ]
        self.params = {"shift": shift, "scale": scale, "layers": layers}
        return xaijax.as_model(forward, self.params, output="decision")

    def _forest(self) -> Any:
        fitted = RandomForestClassifier(**FOREST).fit(self.train, self.labels)
        return xaijax.as_model(fitted)

    def anchors(self, space: Any) -> xaijax.AnchorExplainer:
        """Ours in one space."""
        return xaijax.AnchorExplainer(
            self.model, self.data, categories=CATEGORIES, perturbation=space
        )

    def answers(self) -> np.ndarray:
        """Classes 0 and 1 of the data."""
        return np.asarray(self.model.labels(self.data)).astype(int)

    def sent(self) -> dict[str, np.ndarray]:
        """What the peer needs to have the same model."""
        if self.kind == "forest":
            return {"data": self.data, "train": self.train, "labels": self.labels}
        arrays = {"data": self.data, "shift": self.params["shift"], "scale": self.params["scale"]}
        for i, (weight, bias) in enumerate(self.params["layers"]):
            arrays |= {f"weight{i}": weight, f"bias{i}": bias}
        return arrays


@cache
def task(kind: str, size: Size) -> Task:
    """Fitted once for all cases of a run."""
    return Task(kind, size)


TILES = 16


def rows_of_pass(one: Task) -> int:
    return TILES * (16_384 if one.size == "full" else 256)


@cache
def _tiles(one: Task) -> jax.Array:
    """Rows for the plain forward, on the device: making them is no part of it."""
    tile = rows_of_pass(one) // TILES
    return jax.device_put(np.resize(one.data, (TILES, tile, one.data.shape[1])))


def forward_pass(one: Task, count: int) -> None:
    del count
    _mapped(one.params, _tiles(one)).block_until_ready()


@jax.jit
def _mapped(params: Any, tiles: jax.Array) -> jax.Array:
    return jax.lax.map(lambda rows: forward(params, rows), tiles)
