"""Rows in several arrays: the values of the concatenated array, leaves in their own dtypes.

The oracles are written from the definitions (`oracles`), or the same numbers in one array.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import oracles
import pytest
from often import some_slow

import xaijax as xj

RNG = np.random.default_rng(21)
N, B, L, VOCABULARY = 5, 6, 4, 9
W = RNG.normal(size=(5, 3)).astype("f4")
V = RNG.normal(size=(3, 2)).astype("f4")
EMBEDDINGS = RNG.normal(size=(VOCABULARY, 3)).astype("f4")


class Image(NamedTuple):
    pixels: Any  # [M, 2, 2]
    age: Any  # [M]


def halves(rows: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """(rows of two arrays, the same in one)."""
    whole = RNG.normal(size=(rows, 5)).astype("f4")
    return {"first": whole[:, :3], "second": whole[:, 3:]}, whole


def of_one(z: Any) -> Any:
    return jnp.tanh(z @ W) @ V


def of_both(z: Any) -> Any:
    return of_one(jnp.concatenate([z["first"], z["second"]], axis=1))


ROWS, WHOLE = halves(N)
DONORS, WHOLE_DONORS = halves(B)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"estimator": "permutation", "budget": 24, "seed": 3},
        {"estimator": "kernel", "budget": 20, "seed": 3},
        {"batch_size": 7},
    ],
    ids=["exact", "permutation", "kernel", "batches"],
)
@pytest.mark.parametrize("structure", some_slow([None, "plain"]))
def test_values_are_those_of_the_concatenated_array_to_the_bit(
    options: dict[str, Any], structure: str | None
) -> None:
    apart = xj.Explainer(xj.as_model(of_both, structure=structure), DONORS, **options)(ROWS)
    one = xj.Explainer(xj.as_model(of_one, structure=structure), WHOLE_DONORS, **options)(WHOLE)
    np.testing.assert_array_equal(apart.values, one.values)
    np.testing.assert_array_equal(apart.base_values, one.base_values)
    if one.std_errors is not None:
        np.testing.assert_array_equal(apart.std_errors, one.std_errors)
    assert apart.stats["structure"] == one.stats["structure"]
    assert apart.stats["model_rows"] == one.stats["model_rows"]
    assert apart.feature_names == (*(f"first[{j}]" for j in range(3)), "second[0]", "second[1]")


def test_values_of_a_named_tuple_are_those_of_the_definition() -> None:
    def model(z: Image) -> Any:
        return jnp.sin(z.pixels.sum(axis=(1, 2))) * z.age + z.pixels[:, 0, 1] ** 2

    def on_whole(z: np.ndarray) -> np.ndarray:
        return np.sin(z[:, :4].sum(axis=1)) * z[:, 4] + z[:, 1] ** 2

    x, d = RNG.normal(size=(N, 5)).astype("f4"), RNG.normal(size=(B, 5)).astype("f4")
    given = Image(x[:, :4].reshape(-1, 2, 2), x[:, 4])
    found = xj.Explainer(xj.as_model(model), Image(d[:, :4].reshape(-1, 2, 2), d[:, 4]))(given)
    assert found.feature_names == (*(f"pixels[{i},{j}]" for i in (0, 1) for j in (0, 1)), "age")
    values, base, _ = oracles.explain(
        on_whole, x.astype(float), d.astype(float), oracles.shapley_weight(5)
    )
    # 2^5 answers of size 4, each to float32's 24 bits and a sine's few.
    np.testing.assert_allclose(found.values, values, rtol=0, atol=2e-5)
    np.testing.assert_allclose(found.base_values, base, rtol=0, atol=2e-5)


def tokens(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Ids [M, L] of a small language, and which of them are words, the others padding."""
    rng = np.random.default_rng(seed)
    length = rng.integers(2, L + 1, rows)
    words = np.arange(L) < length[:, None]
    return {"ids": np.where(words, rng.integers(1, VOCABULARY, (rows, L)), 0), "words": words}


def of_tokens(z: Any) -> Any:
    """The mean of the words' embeddings, through a layer; whole numbers and bools are needed."""
    assert jnp.issubdtype(z["ids"].dtype, jnp.integer) and z["words"].dtype == bool
    found = jnp.asarray(EMBEDDINGS)[z["ids"]] * z["words"][:, :, None]
    mean = found.sum(axis=1) / z["words"].sum(axis=1, keepdims=True)
    return jnp.tanh(mean @ jnp.asarray(V))[:, 0]


def of_numbers(z: dict[str, np.ndarray]) -> np.ndarray:
    """The same in NumPy, which reads whole numbers and bools too."""
    assert z["ids"].dtype == np.int64 and z["words"].dtype == bool
    assert not z["ids"].flags.writeable
    found = EMBEDDINGS.astype(float)[z["ids"]] * z["words"][:, :, None]
    mean = found.sum(axis=1) / z["words"].sum(axis=1, keepdims=True)
    return np.tanh(mean @ V.astype(float))[:, 0]


PLAYERS = {"ids": np.arange(L), "words": -1}


def by_definition(rows: dict[str, np.ndarray], donors: dict[str, np.ndarray]) -> np.ndarray:
    """Shapley values of the ids [N, L]; the words of an instance stay as they are."""
    out = []
    for n in range(len(rows["ids"])):

        def model(z: np.ndarray, n: int = n) -> np.ndarray:
            words = np.tile(rows["words"][n], (len(z), 1))
            ids = z.astype(int)
            ids.flags.writeable = False
            return of_numbers({"ids": ids, "words": words})

        one = oracles.explain(
            model, rows["ids"][n : n + 1], donors["ids"], oracles.shapley_weight(L)
        )
        out.append(one[0][0])
    return np.stack(out)


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_ids_stay_whole_numbers_and_padding_is_not_read(backend: str) -> None:
    rows, donors = tokens(N, 1), tokens(B, 2)
    model = xj.as_model(of_tokens) if backend == "jax" else xj.as_model(of_numbers, backend="host")
    explain = xj.Explainer(model, donors, players=PLAYERS)
    found = explain(rows)
    assert found.feature_names == tuple(f"ids[{j}]" for j in range(L))
    # 2^4 answers of size 1 in float32.
    atol = 1e-6 if backend == "jax" else 1e-12
    np.testing.assert_allclose(found.values, by_definition(rows, donors), rtol=0, atol=atol)
    # A pad is not read, whatever id stands there.
    assert not rows["words"].all()
    np.testing.assert_allclose(found.values[~rows["words"]], 0, rtol=0, atol=atol)
    # What keeping no player gives hangs on the words that stay.
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, model.predict(rows), rtol=0, atol=2e-6)
    with pytest.raises(xj.InputTypeError, match=r"ids.*int"):
        explain({"ids": rows["ids"] + 0.5, "words": rows["words"]})


def test_leaves_of_half_precision_stay_so() -> None:
    seen = []

    def model(z: Any) -> Any:
        seen.append((z["a"].dtype, z["b"].dtype))
        return (z["a"].astype(jnp.float32) * z["b"]).sum(axis=1)

    rows = {
        "a": jnp.asarray(RNG.normal(size=(N, 2)), jnp.bfloat16),
        "b": RNG.normal(size=(N, 2)).astype("f4"),
    }
    donors = jax.tree.map(lambda leaf: leaf[:3], rows)
    found = xj.Explainer(xj.as_model(model), donors)(rows)
    assert set(seen) == {(np.dtype(jnp.bfloat16), np.dtype(np.float32))}
    x = np.concatenate([np.asarray(leaf, float) for leaf in rows.values()], axis=1)
    values, *_ = oracles.explain(
        lambda z: z[:, 0] * z[:, 2] + z[:, 1] * z[:, 3], x, x[:3], oracles.shapley_weight(4)
    )
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-5)


def test_what_is_made_of_an_explanation_takes_several_arrays(tmp_path: Any) -> None:
    rows, donors = tokens(N, 1), tokens(B, 2)
    explain = xj.Explainer(xj.as_model(of_tokens), donors, players=PLAYERS)
    found = explain(rows)
    found.save(tmp_path / "found.npz")
    again = xj.load(tmp_path / "found.npz")
    np.testing.assert_array_equal(again.values, found.values)
    for name in rows:
        np.testing.assert_array_equal(again.data[name], rows[name])
        assert again.data[name].dtype == found.data[name].dtype
        assert again.data[name].dtype.kind == rows[name].dtype.kind
    parts = [explain(jax.tree.map(lambda leaf, n=n: leaf[n : n + 1], rows)) for n in range(N)]
    merged = xj.merge(parts)
    np.testing.assert_array_equal(merged.values, found.values)
    np.testing.assert_array_equal(merged.data["ids"], rows["ids"])
    some = found[1:3]
    np.testing.assert_array_equal(some.data["ids"], rows["ids"][1:3])
    assert len(found.to_dataframe()) == N and len(found.to_dataframe(long=True)) == N * L
    shap_data = found.to_dataframe(long=True)["data"]
    assert shap_data.iloc[0] == rows["ids"][0, 0]


class OwnFrame:
    """Rows without one dtype, as a frame has them."""

    shape = (2, L)


REFUSED = {
    "lengths": ({"ids": np.zeros((2, L), int), "words": np.ones((3, L), bool)}, "same number"),
    "structure": ({"ids": np.zeros((2, L), int)}, "X lacks 'words', which the background has"),
    "another container": (
        [np.zeros((2, L), int), np.ones((2, L), bool)],
        "lacks 'ids', 'words'.*and has 'x0', 'x1'",
    ),
    "keys": ({"ids": np.zeros((2, L), int), 3: np.ones((2, L), bool)}, "do not sort"),
    "twice": (
        {"a.b": np.zeros((2, L), int), "a": {"b": np.ones((2, L), bool)}},
        "two leaves are called 'a.b'",
    ),
    "shape": ({"ids": np.zeros((2, 3), int), "words": np.ones((2, L), bool)}, "shape"),
    "texts": ({"ids": np.full((2, L), "a"), "words": np.ones((2, L), bool)}, "'ids'"),
    "dtype": ({"ids": np.zeros((2, L)), "words": np.ones((2, L), bool)}, "dtype"),
    "too large": ({"ids": np.full((2, L), 2**40), "words": np.ones((2, L), bool)}, "'ids'"),
    "no rows": ({"ids": np.zeros((0, L), int), "words": np.ones((0, L), bool)}, "row"),
    "a list": ({"ids": [[1, 2, 3, 4]], "words": np.ones((1, L), bool)}, "'ids"),
    "an array": (np.zeros((2, 8)), "X is one array, but the background has the leaves"),
    "nothing": ({"ids": np.zeros((2, L), int), "words": None}, "'words' is None"),
    "a frame": (
        {"ids": OwnFrame(), "words": np.ones((2, L), bool)},
        "'ids' is a OwnFrame.*to_numpy",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_rows_are_refused_by_the_leaf(name: str) -> None:
    given, said = REFUSED[name]
    explain = xj.Explainer(xj.as_model(of_tokens), tokens(B, 2))
    with pytest.raises(xj.XaiError, match=said):
        explain(given)


BAD_PLAYERS = {
    "holes": ({"ids": np.array([0, 1, 2, 4]), "words": np.full(L, -1)}, "missing"),
    "shape": ({"ids": np.arange(3), "words": np.full(L, -1)}, "'ids'"),
    "none": ({"ids": np.full(L, -1), "words": np.full(L, -1)}, "never replaced"),
    "below": ({"ids": np.arange(L), "words": np.full(L, -2)}, "-2"),
    "structure": ({"ids": np.arange(L)}, "players lacks 'words', which one row has"),
    "left out": ({"ids": None}, "players lacks 'words', which one row has"),
}


@pytest.mark.parametrize("name", BAD_PLAYERS)
def test_other_players_are_refused(name: str) -> None:
    players, said = BAD_PLAYERS[name]
    with pytest.raises(xj.XaiError, match=said):
        xj.Explainer(xj.as_model(of_tokens), tokens(B, 2), players=players)


@pytest.mark.slow
def test_one_output_of_each_instance() -> None:
    rows, donors = tokens(N, 1), tokens(B, 2)

    def model(z: Any) -> Any:
        return jnp.stack([of_tokens(z), 0.25 + 0 * of_tokens(z)], axis=1)

    explain = xj.Explainer(xj.as_model(model), donors, players=PLAYERS)
    every, own = explain(rows), explain(rows, outputs="predicted")
    best = xj.as_model(model).predict(rows).argmax(axis=1)
    assert set(best) == {0, 1} and np.array_equal(own.stats["outputs"], best)
    np.testing.assert_array_equal(own.values, every.values[np.arange(N), :, best])
    np.testing.assert_array_equal(explain(rows, outputs=best).values, own.values)
    with pytest.raises(xj.InputError, match=f"each of the {N} instances"):
        explain(rows, outputs=[0])
    with pytest.raises(xj.InputTypeError, match=r"column numbers.*got 'yes', a str"):
        explain(rows, outputs=["yes"] * N)
    named = xj.as_model(model, output_names=["yes", "no"])
    of_names = xj.Explainer(named, donors, players=PLAYERS)
    by_name = of_names(rows, outputs=np.array(["yes", "no"])[best])
    np.testing.assert_array_equal(by_name.values, own.values)
    with pytest.raises(xj.InputError, match=r"names of outputs, \['yes', 'no'\]; got 'maybe'"):
        of_names(rows, outputs=["maybe"] * N)


def test_a_player_may_own_entries_of_several_leaves() -> None:
    rows, donors = tokens(N, 1), tokens(B, 2)
    both = {"ids": np.arange(L), "words": np.arange(L)}
    found = xj.Explainer(xj.as_model(of_tokens), donors, players=both)(rows)
    x, d = (np.concatenate([r["ids"], r["words"]], axis=1) for r in (rows, donors))

    def model(z: np.ndarray) -> np.ndarray:
        ids = z[:, :L].astype(int)
        ids.flags.writeable = False
        return of_numbers({"ids": ids, "words": z[:, L:] > 0})

    groups = [[j, L + j] for j in range(L)]
    values, *_ = oracles.explain(model, x, d, oracles.shapley_weight(L), groups)
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-6)
    assert found.feature_names[0] == "ids[0]+words[0]"


@pytest.mark.slow
def test_columns_that_stay_are_those_of_the_instance_in_one_array_too() -> None:
    model = xj.as_model(of_one, output=0)
    found = xj.Explainer(model, WHOLE_DONORS, players=np.array([0, 1, 2, -1, -1]))(WHOLE)
    wanted = []
    for n in range(N):
        donors = WHOLE_DONORS.copy()
        donors[:, 3:] = WHOLE[n, 3:]
        wanted.append(xj.Explainer(model, donors)(WHOLE[n : n + 1]).values[0, :3])
    np.testing.assert_allclose(found.values, np.stack(wanted), rtol=0, atol=2e-6)


def test_narrow_numbers_beside_whole_ones() -> None:
    ids = RNG.integers(0, 5, (N, 2)).astype(np.int32)
    rows = {"ids": ids, "a": jnp.asarray(RNG.normal(size=(N, 2)), jnp.bfloat16)}

    def model(z: Any) -> Any:
        return (z["a"].astype(jnp.float32) * z["ids"]).sum(axis=1)

    donors = jax.tree.map(lambda leaf: leaf[:3], rows)
    found = xj.Explainer(xj.as_model(model), donors)(rows)
    x = np.concatenate([np.asarray(rows["a"], float), ids.astype(float)], axis=1)
    values, *_ = oracles.explain(
        lambda z: z[:, 0] * z[:, 2] + z[:, 1] * z[:, 3], x, x[:3], oracles.shapley_weight(4)
    )
    # 2^4 answers of size 20 in float32.
    np.testing.assert_allclose(found.values, values, rtol=0, atol=1e-5)
    assert len(found.to_dataframe(long=True)) == 4 * N
