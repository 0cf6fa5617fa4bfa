"""The tree of prefixes gives what a fold of each hybrid by itself gives; counts of its steps."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from structured_kernels import LAYER, P, recurrence

from xaijax_kernels.structures.prefixes import Prefixes


class Counting:
    """A fold whose rows are counted as they are stepped."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.rows = inner, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def step(self, params: Any, state: Any, part: Any) -> Any:
        self.rows += len(part)
        return self.inner.step(params, state, part)


def layer(**kind: bool) -> Prefixes:
    rng = np.random.default_rng(0)
    return recurrence([jnp.asarray(rng.normal(size=one.shape), "float32") for one in LAYER], **kind)


@pytest.mark.parametrize("free", [[0, 1, 2], [2, 0, 1], [1, 2], [P - 1, 0]])
@pytest.mark.parametrize("drops", [False, True])
def test_leaves_are_folds_of_hybrids(free: list[int], drops: bool) -> None:
    known, rng, bits = layer(drops=drops), np.random.default_rng(1), 3
    x, donors = (jnp.asarray(rng.normal(size=(2, P)), "float32") for _ in range(2))
    kept = np.zeros((2, bits + 1, P), bool)
    for bit, player in enumerate(free):
        kept[:, bit, player] = True
    others = [p for p in range(P) if p not in free]
    kept[0, -1, others[:1]] = True  # the first slot keeps one more player in all of its rows
    found = np.asarray(known.subsets(lambda hidden: hidden, x, donors, jnp.asarray(kept), "cpu"))
    found = found.reshape(2, 1 << bits, -1)
    for slot in range(2):
        for subset in range(1 << len(free)):
            own = kept[slot, -1].copy()
            for bit, player in enumerate(free):
                own[player] = subset >> bit & 1
            state = known.fold.start(known.params, x[:1])
            for p in range(P):
                if own[p] or not drops:
                    part = (x if own[p] else donors)[slot : slot + 1, p : p + 1]
                    state = known.fold.step(known.params, state, part)
            expected = known.fold.read(known.params, state, x[:1])[0]
            # A few roundings of sums of H numbers of size 1.
            np.testing.assert_allclose(found[slot, subset], expected, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("drops", "steps"), [(True, 2**P - 1), (False, 2 ** (P + 1) - 2)])
def test_each_prefix_is_stepped_once(drops: bool, steps: int) -> None:
    known = layer(drops=drops, last=True)
    counted: Any = Counting(known.fold)
    whole = Prefixes(known.params, counted, known.segments, 3, P, True, drops)
    kept = jnp.concatenate([jnp.eye(P, dtype=bool), jnp.zeros((1, P), bool)])[None]
    rows = jnp.zeros((1, P))
    whole.subsets(lambda hidden: hidden, rows, rows + 1, kept, "cpu")
    assert counted.rows == steps == known.steps(P)
