"""T43 and T44: what one image sends to a device, and whether several devices answer as one does.

Both count, and neither depends on a clock. T44 asks the questions of
`tests/methods/test_several_devices.py`, each in a process that sees so many virtual devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xaijax
from bench.cases.house import of_tests
from bench.compiler_jobs import planned
from bench.frame import Agreement, Case, Figure, Outcome, Several, Size

PATCH = 16
MEMORY = 8 << 30
ROUNDING = 1e-6  # of a module under vmap, which rounds by the rows of a call


@dataclass(frozen=True)
class Image:
    """An image, its baseline, and the estimator that asks about squares of pixels."""

    side: int
    estimator: str

    def measure(self) -> Outcome:
        """The arguments of the largest program that holds the model."""
        rng = np.random.default_rng(0)
        dims = (1, self.side, self.side, 3)
        # Small, and of two sizes: the largest tanh of each is far from 1 and from the other's.
        X, baseline = (rng.normal(0, size, dims).astype(np.float32) for size in (0.2, 0.1))
        row = np.arange(self.side) // PATCH
        numbers = row[:, None] * (self.side // PATCH) + row
        players = np.broadcast_to(numbers[..., None], dims[1:]).copy()
        model = xaijax.as_model(lambda images: jnp.tanh(images).max(axis=(1, 2, 3)))
        few = int(numbers.max()) + 1 < 10  # then so many coalitions would be all
        options: dict[str, Any] = {"estimator": self.estimator, "budget": 12 if few else 400}
        made = xaijax.Explainer(model, baseline, players=players, max_memory=MEMORY, **options)
        found = [one for one, _ in planned(partial(made.plan, X)) if one.key[0] == "run"]
        sent = max(_bytes(one.arguments) for one in found)
        label = "bytes of arguments over those of the image and its baseline"
        figure = Figure(label, sent / (X.nbytes + baseline.nbytes), 2, 1.1, unit="x")
        values = made(X, progress=False).values
        ends = [float(np.tanh(one).max()) for one in (X, baseline)]
        difference = abs(float(values.sum()) - (ends[0] - ends[1]))
        reason = "float32 roundings of 400 coalitions"
        agreement = Agreement("values and f(x) - f(baseline)", difference, 1e-5, reason)
        return Outcome((figure,), (), (agreement,))


def _bytes(arguments: Any) -> int:
    shapes = ((one.shape, one.dtype) for one in jax.tree.leaves(arguments))
    return sum(int(np.prod(shape)) * np.dtype(dtype).itemsize for shape, dtype in shapes)


def arguments(size: Size) -> Several:
    """Measures what one image of 224 x 224 x 3 and its baseline send to a device."""
    side = 224 if size == "full" else 32
    return Several({name: Image(side, name) for name in ("kernel", "permutation")})


@dataclass(frozen=True)
class VirtualDevices:
    """Pairs of a kind of model and a question, by the number of devices."""

    pairs: Mapping[int, Sequence[tuple[str, str]]]

    def measure(self) -> Outcome:
        """Pairs that give the results of one device; a pair that does not run is an error."""
        test, equinox = of_tests("test_several_devices"), 0.0
        figures: list[Figure] = []
        same: Counter[int] = Counter()
        for count, pairs in self.pairs.items():
            for question in dict.fromkeys(question for _, question in pairs):
                some = [pair for pair in pairs if pair[1] == question]
                with TemporaryDirectory() as folder:
                    for kind, _, several, one in test.answered(count, some, Path(folder)):
                        apart = float(np.abs(several - one).max() / np.abs(one).max())
                        if kind == "equinox":
                            equinox = max(equinox, apart)
                        same[count] += apart <= (ROUNDING if kind == "equinox" else 0)
            label = f"{count} devices: pairs with the results of one"
            figures.append(Figure(label, same[count], len(pairs), better="more"))
        reason = "an Equinox module under vmap rounds by the rows of a call"
        agreement = Agreement("Equinox on several devices and on one", equinox, ROUNDING, reason)
        return Outcome(tuple(figures), (), (agreement,))


def several(size: Size) -> VirtualDevices:
    """Measures nine kinds of models and eleven questions on 2 and 8 virtual devices: pairs of them
    that run, with identical results to one device (Equinox within 1e-6).
    """
    test = of_tests("test_several_devices")
    return VirtualDevices({n: test.ALL if size == "full" else test.FEW[n][:1] for n in test.FEW})


CASES = (Case("T43", arguments), Case("T44", several))
