"""`Interactions` and `CoalitionTable.interactions`: values, checks, slicing, files, other forms."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import oracles_interactions as oracle
import pytest

import xaijax as xj

SETS = tuple(oracle.sets_of(3, 2))


def make(N: int = 3, K: int | None = None, **fields: Any) -> xj.Interactions:
    rng = np.random.default_rng(0)
    shape = (N, len(SETS)) if K is None else (N, len(SETS), K)
    given: dict[str, Any] = {
        "values": rng.normal(size=shape),
        "base_values": rng.normal(size=shape[:1] + shape[2:]),
        "sets": SETS,
        "std_errors": np.abs(rng.normal(size=shape)),
        "data": rng.normal(size=(N, 3)),
        "feature_names": ("age", "pay", "sex"),
        "output_names": None if K is None else tuple("abcdef"[:K]),
        "instance_names": tuple(f"row {n}" for n in range(N)),
        "exact": False,
        "stats": {"dof": np.full(N, 9.0), "seconds": 1.0},
        "provenance": {"method": "Explainer", "players": 3},
    }
    return xj.Interactions(**(given | fields))


# of tables


@pytest.mark.parametrize("index", list(oracle.ORACLES))
@pytest.mark.parametrize("P, order", [(1, 1), (3, 2), (4, 4)])
def test_a_table_gives_the_definition(index, P, order):
    values = np.random.default_rng(P).normal(size=(2, 1 << P))
    found = xj.CoalitionTable(values).interactions(order=order, index=index)
    expected = [oracle.interactions(index, oracle.game_of(v), P, order) for v in values]
    # 2^P numbers of size 1 and a least-squares problem in the oracle of "fsii".
    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-11)
    assert found.sets == tuple(oracle.sets_of(P, order))
    assert (found.index, found.order, found.exact) == (index, order, True)
    np.testing.assert_array_equal(found.base_values, values[:, 0])


def test_replaced_players_turn_the_sign_of_pairs_and_keep_singles():
    """QII's tables count replaced players, Explainer's games kept ones: the game turned round."""
    kept = np.random.default_rng(1).normal(size=16)
    replaced = kept[-1] - kept[::-1]
    ours, theirs = (xj.CoalitionTable(v).interactions(order=3) for v in (kept, replaced))
    sign = [-((-1.0) ** len(S)) for S in ours.sets]
    np.testing.assert_allclose(theirs.values[0], ours.values[0] * sign, rtol=0, atol=1e-13)


def test_singles_of_a_table_are_its_ordinary_values():
    table = xj.CoalitionTable(np.random.default_rng(2).normal(size=(3, 32)))
    for index, values in (("sii", table.shapley()), ("banzhaf", table.banzhaf())):
        found = table.interactions(index=index)
        np.testing.assert_allclose(found[:, :5].values, values, rtol=0, atol=1e-13)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"order": 0}, xj.InputError, "order"),
        ({"order": 4}, xj.InputError, "order=4 is larger than the 3 players"),
        ({"order": 1.5}, xj.InputTypeError, "order"),
        ({"order": True}, xj.InputTypeError, "order"),
        ({"index": "shapley"}, xj.InputError, "index must be one of"),
        ({"index": None}, xj.InputTypeError, "index must be one of"),
        ({"degree": 2}, xj.InputTypeError, "degree"),
    ],
)
def test_bad_arguments_of_a_table(arguments, error, words):
    with pytest.raises(error, match=words):
        xj.CoalitionTable(np.arange(8.0)).interactions(**arguments)


# the result


def test_the_matrix_is_symmetric_with_singles_on_its_diagonal():
    for found in (make(), make(K=2)):
        matrix = found.matrix
        assert matrix.shape == (3, 3, 3, *found.shape[2:])
        np.testing.assert_array_equal(matrix, matrix.swapaxes(1, 2))
        for m, S in enumerate(SETS):
            np.testing.assert_array_equal(matrix[:, S[0], S[-1]], found.values[:, m])
    with pytest.raises(xj.InputError, match="age & pay"):
        _ = make()[:, :3].matrix
    alone = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
    with pytest.raises(xj.InputError, match="needs every player and every pair"):
        _ = alone.interactions(np.ones((1, 2)), order=1).matrix


def test_slices():
    found = make(K=2)
    one = found["row 1", ("sex", "age"), "b"]
    assert one.sets == ((0, 2),) and one.set_names == (("age", "sex"),)
    np.testing.assert_array_equal(one.values, found.values[1:2, 4:5, 1])
    assert one.output_names is None and one.provenance["selected_output"] == "b"
    assert one.order == 2 and one.stats["dof"].shape == (1,)
    assert found[:, "pay"].sets == ((1,),)
    assert found[:, [(0, 1), "age"]].sets == ((0, 1), (0,))
    assert found[:, [True, False, False, True, False, False]].sets == ((0,), (0, 1))
    assert found[[0, 2], ..., "a"].shape == (2, 6)
    assert [len(one) for one in found] == [1, 1, 1]


@pytest.mark.parametrize("K", [None, 2])
@pytest.mark.parametrize(
    ("key", "order"),
    [
        ([("pay", "sex"), "age"], [5, 0]),
        (["sex", ("age", "pay"), "age"], [2, 3, 0]),
        ([4, 1, 3], [4, 1, 3]),
        (np.array([5, -6]), [5, 0]),
        (slice(None, None, -1), [5, 4, 3, 2, 1, 0]),
        (slice(4, None, -2), [4, 2, 0]),
    ],
)
def test_sets_come_in_the_order_of_the_key(key, order, K, tmp_path):
    found = make(K=K)
    part = found[:, key]
    assert part.sets == tuple(SETS[m] for m in order)
    for name in ("values", "std_errors"):
        np.testing.assert_array_equal(getattr(part, name), getattr(found, name)[:, order])
    np.testing.assert_array_equal(part.half_widths(), found.half_widths()[:, order])
    frame = part.to_dataframe()
    joined = [" & ".join(("age", "pay", "sex")[p] for p in SETS[m]) for m in order]
    columns = frame.columns if K is None else [set_ for o, set_ in frame.columns if o == "a"]
    assert list(columns) == [*joined, "base_value"]
    first = found.values if K is None else found.values[..., 0]
    np.testing.assert_array_equal(frame.to_numpy()[:, : len(order)], first[:, order])
    part.save(tmp_path / "part.npz")
    assert xj.load(tmp_path / "part.npz").sets == part.sets
    if len(order) == len(SETS):
        np.testing.assert_array_equal(part.matrix, found.matrix)


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        ((0, ("age", "height")), xj.InputError, "height"),
        ((0, ("age", "pay", "sex")), xj.InputError, "not among these 6 sets"),
        ((0, 9), xj.InputError, "out of range"),
        ((0, 0, 0), xj.InputError, "axes are instance, set"),
        ((0, []), xj.InputError, "selects no set"),
        ((0, ["age", (0, 1), (0,)]), xj.InputError, "more than once"),
        ((0, [3, 1, 3]), xj.InputError, "more than once"),
        ((0, 1.5), xj.InputTypeError, "set key"),
    ],
)
def test_bad_keys(key, error, words):
    with pytest.raises(error, match=words):
        make()[key]


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"values": np.zeros(3)}, xj.InputError, "accepted are"),
        ({"base_values": np.zeros(2)}, xj.InputError, "base_values"),
        ({"std_errors": np.zeros((3, 2))}, xj.InputError, "std_errors"),
        ({"sets": SETS[:-1]}, xj.InputError, "sets: got 5"),
        ({"sets": (*SETS[:-1], (0, 1))}, xj.InputError, r"\(0, 1\) is there more than once"),
        ({"sets": (*SETS[:-1], (1, 3))}, xj.InputError, "3 players"),
        ({"sets": (*SETS[:-1], (2, 1))}, xj.InputError, "ascending"),
        ({"sets": tuple("abcdef")}, xj.InputTypeError, "sets"),
        ({"index": "shapley"}, xj.InputError, "index"),
        ({"order": 1}, xj.InputError, "order"),
        ({"order": 4}, xj.InputError, "order"),
        ({"feature_names": ("a", "a", "b")}, xj.InputError, "differ"),
    ],
)
def test_bad_fields(fields, error, words):
    with pytest.raises(error, match=words):
        make(**fields)


def test_arrays_are_frozen():
    found = make()
    for array in (found.values, found.matrix, found.base_values, found.stats["dof"]):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


@pytest.mark.parametrize("K", [None, 2])
def test_files_pickles_and_copies_come_back(K, tmp_path):
    found = make(K=K, present=np.array([[True, True, False]] * 3))
    found.save(tmp_path / "pairs.npz")
    for again in (xj.load(tmp_path / "pairs.npz"), pickle.loads(pickle.dumps(found))):
        assert isinstance(again, xj.Interactions)
        for name in ("values", "base_values", "std_errors", "data", "present"):
            np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
        for name in ("sets", "index", "order", "exact", "feature_names", "output_names"):
            assert getattr(again, name) == getattr(found, name)
        assert dict(again.provenance) == dict(found.provenance)
        assert again.stats["seconds"] == 1.0
    assert copy.deepcopy(found).sets == SETS


def test_merge_undoes_slicing():
    whole = make(N=4, K=2)
    merged = xj.merge([whole[:1], whole[1:]])
    assert isinstance(merged, xj.Interactions)
    for name in ("values", "base_values", "std_errors", "data"):
        np.testing.assert_array_equal(getattr(merged, name), getattr(whole, name))
    assert merged.sets == whole.sets and merged.instance_names == whole.instance_names
    np.testing.assert_array_equal(merged.stats["dof"], whole.stats["dof"])


@pytest.mark.parametrize(
    ("other", "error", "words"),
    [
        (lambda: make(index="stii"), xj.InputError, "index"),
        (lambda: make()[:, :3], xj.InputError, "sets"),
        (lambda: make(order=3), xj.InputError, "order"),
        (lambda: xj.Explanation(np.zeros((1, 3)), np.zeros(1)), xj.InputTypeError, "each kind"),
    ],
)
def test_merge_refuses_other_questions(other, error, words):
    with pytest.raises(error, match=words):
        xj.merge([make(), other()])


def test_release_is_refused_with_the_reason():
    pytest.importorskip("opendp")
    with pytest.raises(xj.PrivacyError, match="is proved for the values of single players only"):
        xj.privacy.release(make(), epsilon=1.0)


def test_frames_have_a_column_or_a_row_for_each_set():
    pytest.importorskip("pandas")
    wide = make().to_dataframe()
    assert list(wide.columns) == ["age", "pay", "sex", "age & pay", "age & sex", "pay & sex"] + [
        "base_value"
    ]
    np.testing.assert_array_equal(wide.to_numpy()[:, :6], make().values)
    long = make(K=2).to_dataframe(long=True)
    assert len(long) == 3 * 6 * 2
    own = long[(long["set"] == "age & sex") & (long["output"] == "b")]
    np.testing.assert_array_equal(own["value"], make(K=2).values[:, 4, 1])
    np.testing.assert_array_equal(own["std_error"], make(K=2).std_errors[:, 4, 1])
    assert set(own["size"]) == {2}


def test_shapiq_gets_every_set():
    pytest.importorskip("shapiq")
    found = make()
    for n, theirs in enumerate(found.to_shapiq()):
        assert (theirs.index, theirs.n_players, theirs.max_order) == ("SII", 3, 2)
        assert theirs.baseline_value == found.base_values[n]
        np.testing.assert_array_equal([theirs[S] for S in SETS], found.values[n])
    with pytest.raises(xj.InputError, match="choose one first"):
        make(K=2).to_shapiq()


def test_shapiqs_answers_come_back():
    shapiq = pytest.importorskip("shapiq")
    found = make(std_errors=None, exact=True)
    back = xj.Interactions.from_shapiq(found.to_shapiq(), found.feature_names)
    np.testing.assert_array_equal(back.values, found.values)
    np.testing.assert_array_equal(back.base_values, found.base_values)
    assert (back.sets, back.index, back.order) == (found.sets, "sii", 2)
    assert back.exact and back.feature_names == found.feature_names
    one = shapiq.InteractionValues(
        values=np.array([5.0, 2.0, 1.5]), index="STII", min_order=0, max_order=2, n_players=3,
        interaction_lookup={(): 0, (1,): 1, (0, 2): 2}, baseline_value=5.0, estimated=True,
    )  # fmt: skip
    sampled = xj.Interactions.from_shapiq(one)
    np.testing.assert_array_equal(sampled.values, [[0, 2.0, 0, 0, 1.5, 0]])
    assert np.isnan(sampled.std_errors).all() and not sampled.exact
    assert sampled.matrix[0, 2, 0] == 1.5
    other = shapiq.InteractionValues(
        values=np.array([1.0]), index="SV", min_order=1, max_order=1, n_players=3,
        interaction_lookup={(0,): 0}, baseline_value=0.0,
    )  # fmt: skip
    players = xj.Interactions.from_shapiq(other, ["a", "b", "c"])
    assert (players.index, players.sets) == ("sii", ((0,), (1,), (2,)))
    alone = found[:, [0, 1, 2]]
    back = xj.Interactions.from_shapiq(alone.to_shapiq())
    np.testing.assert_array_equal(back[:, [0, 1, 2]].values, alone.values)
    for names in (["a"], "abc"):
        with pytest.raises(xj.InputError, match="3 players to name"):
            xj.Interactions.from_shapiq(other, names)
    assert "shapiq gives none" in repr(sampled)
    other.index = "top-k"
    for given, words in (
        (other, "'top-k' has no counterpart"),
        ([], "none"),
        ([one, other], "differ"),
    ):
        with pytest.raises(xj.InputError, match=words):
            xj.Interactions.from_shapiq(given)
    with pytest.raises(xj.InputTypeError, match="ndarray"):
        xj.Interactions.from_shapiq(np.zeros(3))


def test_the_text_names_the_largest_pairs():
    text = repr(make())
    assert "sii, order 2" in text and "3 instances x 6 sets" in text and " & " in text
    assert "standard error" in text
    assert "exact" in repr(make(std_errors=None, exact=True))


def test_interactions_say_their_output_too():
    pytest.importorskip("pandas")
    found = make(stats={"output_names": np.array(["no", "yes", "no"])})
    assert "output: each instance's own (no 2, yes 1)" in repr(found)
    assert found.to_dataframe()["output"].tolist() == ["no", "yes", "no"]
    long = found.to_dataframe(long=True)["output"].tolist()
    assert long == [word for word in ("no", "yes", "no") for _ in SETS]
    assert "output 'b'" in repr(make(K=2)[:, :, "b"]) and "output" not in repr(make())


def test_intervals_are_those_of_students_t():
    found = make()
    # The 97.5 % quantile of t with 9 degrees of freedom, from a table.
    np.testing.assert_allclose(found.half_widths(), 2.262157 * found.std_errors, rtol=1e-6)
    with pytest.raises(xj.InputError, match="level"):
        found.half_widths(1.5)


def test_sets_of_one_name_need_the_long_frame():
    table = xj.CoalitionTable([0, 1, 1, 4, 0, 1, 1, 4], ["a", "b", "a & b"])
    found = table.interactions()
    with pytest.raises(xj.InputError, match="two sets are called 'a & b'"):
        found.to_dataframe()
    assert len(found.to_dataframe(long=True)) == 6
