"""What a first answer compiles, counted: programs are most of its time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.games import run

P = 12


def network(seed: int) -> Any:
    """12 columns, two layers, one output: the demo's model, narrower."""
    rng = np.random.default_rng(seed)
    first, second = (rng.normal(size=d).astype(np.float32) for d in ((P, 8), (8, 1)))
    return lambda X: jnp.tanh(jnp.tanh((X - 0.5) @ first) @ second)[:, 0]


def rows(N: int) -> np.ndarray:
    """Codes [N, P]."""
    return np.random.default_rng(N).integers(0, 2, (N, P)).astype(np.float32)


# Donor b differs from zeros in b players: pairs of all sizes, as the demo's are.
EVERY_SIZE = np.tri(P + 1, P, k=-1, dtype=np.float32)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("structure", "sums", "wanted"),
    [
        # The probe, the structure's comparison with it, the run, and sums of pairs of up to 11 and
        # 12 players.
        (None, 2, 5),
        # The probe, the run, and sums of pairs of up to 7, 11 and 12 players.
        ("plain", 3, 5),
    ],
)
def test_programs_of_a_first_answer(
    compiled: Counter[str], structure: str | None, sums: int, wanted: int
) -> None:
    model = xj.as_model(network(0), structure=structure)
    explain = xj.Explainer(model, EVERY_SIZE, estimator="exact")
    got = explain(np.zeros((2, P), np.float32), progress=False)
    assert got.stats["structure"] == (None if structure else "first layer")
    assert sum(compiled.values()) == wanted, compiled
    names = Counter(name.removeprefix("jit(").removesuffix(")") for name in compiled.elements())
    assert names["run_tiles"] == 1 and names["reduce_pairs"] == sums, compiled
    # Neither more instances nor another explainer of the model needs another program.
    explain(rows(40), progress=False)
    xj.Explainer(model, EVERY_SIZE, estimator="exact")(rows(3), progress=False)
    assert sum(compiled.values()) == wanted, compiled


def layers(widths: tuple[int, ...], between: Any) -> Any:
    rng = np.random.default_rng(1)
    weights = [
        rng.normal(size=d).astype(np.float32) / np.float32(np.sqrt(d[0]))
        for d in zip(widths, widths[1:], strict=False)
    ]

    def f(X: Any) -> Any:
        for W in weights[:-1]:
            X = between(X @ W)
        return X @ weights[-1]

    return f


@pytest.mark.slow
@pytest.mark.parametrize(
    ("widths", "between", "wanted"),
    [
        ((4, 16, 8, 1), jnp.tanh, "first layer"),  # 64 products of 200
        ((4, 16, 128, 1), jnp.tanh, None),  # 64 of 2,240: less than one in 32
        ((4, 16, 128, 1), jnp.asarray, "additive"),  # a closed form asks no row at all
    ],
)
def test_a_structure_is_taken_where_it_spares_enough(
    compiled: Counter[str], widths: tuple[int, ...], between: Any, wanted: str | None
) -> None:
    f = layers(widths, between)
    X, donors = (np.random.default_rng(s).integers(0, 3, (6, 4)).astype("f") for s in (2, 3))
    got = xj.Explainer(xj.as_model(f), donors)(X, progress=False)
    assert got.stats["structure"] == wanted
    if wanted is None:
        # The probe, the comparison of what was found, the run, and one kind of sum.
        assert sum(compiled.values()) == 4, compiled
    whole = xj.Explainer(xj.as_model(f, structure="plain"), donors)(X, progress=False)
    if wanted is None:
        np.testing.assert_array_equal(got.values, whole.values)
    else:  # three products of up to 128 float32 terms of size two
        np.testing.assert_allclose(got.values, whole.values, rtol=0, atol=200 * 2.0**-23)
    # It does not hang on how many instances there are, or bits would.
    alone = xj.Explainer(xj.as_model(f), donors)(X[:1], progress=False)
    assert alone.stats["structure"] == wanted
    np.testing.assert_array_equal(alone.values, got.values[:1])


def test_sizes_of_few_rows_need_no_program_of_their_own(
    compiled: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that compared the structure gives its columns; many rows go by a larger one."""
    rng = np.random.default_rng(4)
    W = rng.normal(size=(4, 8)).astype(np.float32)
    A, B = (rng.normal(size=(n, 4)).astype(np.float32) for n in (40, 9))
    model = xj.as_model(lambda params, X: jnp.tanh((X * 3) @ params).sum(axis=1), W)
    explainer = xj.Explainer(model, B, path="tiled")
    assert explainer(A[:3]).stats["structure"] == "first layer"
    A[1, 2], A[2, 0], A[3, 1] = np.nan, np.inf, 3e38  # three times the last is no number
    engine = explainer._open().engine
    compiled.clear()
    few = run.largest_of(engine, A)
    assert not compiled
    monkeypatch.setattr(run, "BLOCKS", 0)
    np.testing.assert_array_equal(run.largest_of(engine, A), few)
    assert sum(compiled.values()) == 1, compiled
    terms = 3 * np.abs(A.astype(float)) * np.abs(W.astype(float)).max(axis=1)
    wanted = np.where(terms < 3e38, terms, np.inf).max(axis=1)
    np.testing.assert_allclose(few, wanted, rtol=4 * 2.0**-24)  # two products, each rounded
