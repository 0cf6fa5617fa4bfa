"""`as_model(mask=)` against the definition: each coalition's items alone through a NumPy encoder.

An answer is a sum of a few hundred products of numbers of size 1: a thousand roundings, 1e-4.
"""

from __future__ import annotations

import pickle
from typing import Any

import jax.numpy as jnp
import numpy as np
import prompt_values
import pytest

import xaijax as xj

V, D, T = 12, 4, 4
rng = np.random.default_rng(0)
PARAMS = {
    "words": rng.normal(size=(V, D)).astype(np.float32),
    "places": rng.normal(size=(T, D)).astype(np.float32),
    "mixes": rng.normal(size=(3, D, D)).astype(np.float32) / 2,
    "head": rng.normal(size=(D, 2)).astype(np.float32),
}
IDS = np.array([[1, 4, 7, 4], [1, 3, 3, 8], [1, 11, 10, 0]])
SEEN = np.arange(T) < np.array([[4], [4], [3]])  # the last text is shorter
TEXT = {"ids": IDS, "mask": SEEN}
NONE = {"ids": np.eye(1, T, dtype=int), "mask": np.arange(T)[None] < 1}  # the first token stays
PLAYERS = {"ids": np.arange(T) - 1, "mask": np.arange(T) - 1}
LENGTHS: set[int] = set()


def encoded(params: Any, h: Any, mask: Any) -> Any:
    """The first item's answers [R, 2], one layer of attention behind h [R, T, D]."""
    LENGTHS.add(h.shape[1])
    q, k, v = (h @ one for one in params["mixes"])
    scores = jnp.where(mask[:, None], q @ k.swapaxes(1, 2), -jnp.inf)
    scores = scores - scores.max(axis=2, keepdims=True)
    shares = jnp.exp(scores) / jnp.exp(scores).sum(axis=2, keepdims=True)
    return jnp.tanh(h + shares @ v)[:, 0] @ params["head"]


def reads(params: Any, rows: Any) -> Any:
    places = jnp.cumsum(rows["mask"], axis=1) - 1
    h = params["words"][rows["ids"]] + params["places"][places]
    return encoded(params, h, rows["mask"])


def in_place(params: Any, rows: Any) -> Any:
    """The same with positions that do not follow the mask."""
    h = params["words"][rows["ids"]] + params["places"][: rows["ids"].shape[1]]
    return encoded(params, h, rows["mask"])


def alone(items: Any) -> Any:
    """The answers [2] of items [t, D], in float64 without a mask."""
    q, k, v = (items @ np.float64(one) for one in PARAMS["mixes"])
    shares = np.exp(q[0] @ k.T - (q[0] @ k.T).max())
    mixed = shares @ v / shares.sum()
    return np.tanh(items[0] + mixed) @ np.float64(PARAMS["head"])


def text_of(ids: list[int]) -> Any:
    return np.float64(PARAMS["words"][ids]) + np.float64(PARAMS["places"][: len(ids)])


def of_text(n: int) -> np.ndarray:
    """Shapley values [T - 1, 2] of the tokens behind the first, absent ones left out."""
    count = int(SEEN[n].sum())

    def value(S: frozenset[int]) -> np.ndarray:
        return alone(text_of([1, *(int(IDS[n, 1 + p]) for p in sorted(S))]))

    values = np.zeros((T - 1, 2))
    values[: count - 1] = prompt_values.shapley_of(count - 1, value)
    return values


@pytest.mark.parametrize("path", ["small", pytest.param("tiled", marks=pytest.mark.slow)])
def test_absent_items_are_left_out(path: Any) -> None:
    model = xj.as_model(reads, PARAMS, mask="mask")
    LENGTHS.clear()
    found = xj.Explainer(model, NONE, players=PLAYERS, path=path)(TEXT)
    assert min(LENGTHS) == 1 and max(LENGTHS) == T
    wanted = np.stack([of_text(n) for n in range(3)])
    np.testing.assert_allclose(found.values, wanted, atol=1e-4)
    np.testing.assert_allclose(
        model.predict(TEXT), [alone(text_of(IDS[n][SEEN[n]].tolist())) for n in range(3)], atol=1e-4
    )


@pytest.mark.slow
def test_sampled_values_are_those_of_masked_rows() -> None:
    options: Any = {"players": PLAYERS, "estimator": "permutation", "budget": 4}
    masked, dropped = (
        xj.Explainer(xj.as_model(reads, PARAMS, mask=mask), NONE, **options)(TEXT)
        for mask in (None, "mask")
    )
    np.testing.assert_allclose(dropped.values, masked.values, atol=1e-4)
    assert masked.std_errors is not None and dropped.std_errors is not None
    np.testing.assert_allclose(dropped.std_errors, masked.std_errors, atol=1e-4)


@pytest.mark.slow
def test_patches_with_their_places_as_a_leaf() -> None:
    def sees(params: Any, rows: Any) -> Any:
        h = rows["patches"] + params["places"][rows["place"]]
        return encoded(params, h, rows["seen"])

    patches = rng.normal(size=(2, T, D)).astype(np.float32)
    place, seen = np.tile(np.arange(T), (2, 1)), np.ones((2, T), bool)
    image = {"patches": patches, "place": place, "seen": seen}
    black = {"patches": np.zeros((1, T, D)), "place": place[:1], "seen": seen[:1] & (place[:1] < 1)}
    black["patches"][:, 0] = patches[0, 0]
    image["patches"][:, 0] = patches[0, 0]
    owner = np.arange(T) - 1
    players = {"patches": np.repeat(owner[:, None], D, 1), "place": -1, "seen": owner}
    model = xj.as_model(sees, PARAMS, mask="seen")
    found = xj.Explainer(model, black, players=players)(image)

    def value(S: frozenset[int], n: int) -> np.ndarray:
        kept = [0, *(p + 1 for p in sorted(S))]
        return alone(np.float64(patches[n, kept]) + np.float64(PARAMS["places"][kept]))

    wanted = [prompt_values.shapley_of(T - 1, lambda S, n=n: value(S, n)) for n in range(2)]
    np.testing.assert_allclose(found.values, wanted, atol=1e-4)


def test_positions_that_do_not_follow_the_mask_are_refused() -> None:
    explain = xj.Explainer(xj.as_model(in_place, PARAMS, mask="mask"), NONE, players=PLAYERS)
    for _ in range(2):  # a second call does not forget it
        with pytest.raises(xj.InputError, match=r"mask='mask'.*cumsum.*leave mask= out"):
            explain(TEXT)
    model = xj.as_model(in_place, PARAMS, mask="mask")
    np.testing.assert_allclose(model.predict(TEXT), in_place(PARAMS, TEXT), atol=1e-6)


def test_rows_are_not_shortened_after_a_trace_that_fails() -> None:
    model = xj.as_model(in_place, PARAMS, mask="mask")
    with pytest.raises(xj.InputError, match="one array"):
        xj.Explainer(model, IDS)(IDS)
    np.testing.assert_allclose(model.predict(TEXT), in_place(PARAMS, TEXT), atol=1e-6)


@pytest.mark.slow
def test_other_params_are_compared_again() -> None:
    still = PARAMS | {"places": np.zeros_like(PARAMS["places"])}
    model = xj.as_model(in_place, still, mask="mask")
    xj.Explainer(model, NONE, players=PLAYERS)(TEXT)
    copy = model.replace(params=PARAMS)
    moved = xj.Explainer(copy, NONE, players=PLAYERS)
    np.testing.assert_allclose(copy.predict(TEXT), in_place(PARAMS, TEXT), atol=1e-6)
    with pytest.raises(xj.InputError, match="mask='mask'"):
        moved(TEXT)
    np.testing.assert_allclose(copy.predict(TEXT), in_place(PARAMS, TEXT), atol=1e-6)


def test_a_model_with_a_mask_travels() -> None:
    model = pickle.loads(pickle.dumps(xj.as_model(reads, PARAMS, mask="mask")))
    LENGTHS.clear()
    xj.Explainer(model, NONE, players=PLAYERS)(TEXT)
    assert min(LENGTHS) == 1


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (TEXT, {"mask": "words"}, "mask='words'.* 'ids', 'mask'"),
        (IDS, {"mask": "mask"}, "mask='mask'.*one array"),
        (TEXT | {"mask": SEEN * 1.0}, {"mask": "mask"}, "must be bool"),
        (TEXT, {"mask": "mask", "structure": xj.Prefix(len, len, len)}, "structure= cannot"),
        (TEXT, {"mask": "mask", "backend": "host"}, "mask= is for functions that JAX traces"),
        (TEXT, {"mask": 1}, "mask must be the name of a leaf"),
    ],
)
def test_bad_masks(rows: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises((xj.InputError, xj.InputTypeError), match=message):
        given = (len, None) if "backend" in options else (reads, PARAMS)
        xj.Explainer(xj.as_model(*given, **options), rows)(rows)
