"""`Explanation`: freezing, checks, slicing, its text, and its conversions."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
from example_explanation import make

import xaijax as xj
from xaijax.core.errors import InputError, InputTypeError
from xaijax.results.explanation import Explanation

# freezing and checks


def test_arrays_are_frozen_but_the_caller_s_stay_writable():
    mine = np.ones((2, 3))
    residual = np.zeros(2)
    explanation = Explanation(values=mine, base_values=np.zeros(2), stats={"residual": residual})
    assert np.shares_memory(explanation.values, mine)
    with pytest.raises(ValueError, match="read-only"):
        explanation.values[0, 0] = 5
    with pytest.raises(ValueError, match="read-only"):
        explanation.stats["residual"][0] = 5
    with pytest.raises(TypeError):
        explanation.stats["x"] = 1
    with pytest.raises(AttributeError):
        explanation.kind = "banzhaf"
    mine[0, 0] = 2
    residual[0] = 2


@pytest.mark.parametrize("again", [copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_process_pool_can_carry_it(again):
    explanation = make(K=2, stats={"seconds": 1.5}, provenance={"method": "QII"})
    other = again(explanation)
    np.testing.assert_array_equal(other.values, explanation.values)
    assert dict(other.stats) == {"seconds": 1.5} and other.output_names == ("no", "yes")


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"values": np.zeros(3)}, InputError, "values"),
        ({"values": [["a", "b"]]}, InputTypeError, "values"),
        ({"base_values": np.zeros(5)}, InputError, "base_values"),
        ({"std_errors": np.zeros((4, 2))}, InputError, "std_errors"),
        ({"data": np.zeros((3, 3))}, InputError, "data"),
        ({"data": 3.0}, InputError, "data"),
        ({"feature_names": ("a", "b")}, InputError, "feature_names"),
        ({"feature_names": ("a", "b", "a")}, InputError, "'a' is there more than once"),
        ({"feature_names": "abc"}, InputTypeError, "feature_names"),
        ({"output_names": ("no", "yes")}, InputError, "output_names"),
        ({"instance_names": ("one",)}, InputError, "instance_names"),
    ],
)
def test_fields_that_do_not_fit_are_refused(changes, error, text):
    with pytest.raises(error, match=text):
        make(**changes)


def test_names_left_out_are_made():
    explanation = Explanation(values=np.zeros((1, 2, 2)), base_values=np.zeros((1, 2)))
    assert explanation.feature_names == ("player 0", "player 1")
    assert explanation.output_names == ("output 0", "output 1")


# slicing


@pytest.mark.parametrize(
    ("key", "rows"),
    [
        (2, [2]),
        (-1, [3]),
        (np.int64(1), [1]),
        ("row2", [2]),
        (slice(1, 3), [1, 2]),
        (slice(None, None, -1), [3, 2, 1, 0]),
        ([3, 0], [3, 0]),
        (["row3", 0], [3, 0]),
        (np.array([True, False, False, True]), [0, 3]),
        ([], []),
    ],
)
def test_instances_are_sliced_with_all_that_belongs_to_them(key, rows):
    explanation = make(K=2, stats={"efficiency_residual": np.arange(4) / 7, "seconds": 3.0})
    part = explanation[key]
    assert part.shape == (len(rows), 3, 2) and len(part) == len(rows)
    np.testing.assert_array_equal(part.values, explanation.values[rows])
    np.testing.assert_array_equal(part.base_values, explanation.base_values[rows])
    np.testing.assert_array_equal(part.std_errors, explanation.std_errors[rows])
    np.testing.assert_array_equal(part.data, explanation.data[rows])
    np.testing.assert_array_equal(part.stats["efficiency_residual"], (np.arange(4) / 7)[rows])
    assert part.stats["seconds"] == 3.0
    assert part.instance_names == tuple(f"row{i}" for i in rows)


def test_half_widths():
    # Student's t from a table: 97.5 % with 3 and 10 degrees of freedom, 99.5 % with 3, the normal.
    dof = np.array([3.0, 10.0, np.inf, 0.0])
    explanation = make(K=2, std_errors=np.full((4, 3, 2), 0.5), exact=False, stats={"dof": dof})
    t = np.array([3.182446, 2.228139, 1.959964, np.nan])
    half = np.broadcast_to(0.5 * t[:, None, None], (4, 3, 2))
    np.testing.assert_allclose(explanation.half_widths(), half, rtol=1e-6)
    np.testing.assert_allclose(explanation[0].half_widths(0.99), 0.5 * 5.840909, rtol=1e-6)
    part = explanation[[1, 0], 1:, "yes"]
    np.testing.assert_allclose(part.half_widths(), half[[1, 0], 1:, 1], rtol=1e-6)
    assert explanation[:0].half_widths().shape == (0, 3, 2)
    np.testing.assert_allclose(
        make(std_errors=np.ones((4, 3)), exact=False).half_widths(), 1.959964, rtol=1e-6
    )
    assert (make(std_errors=None, exact=True).half_widths() == 0).all()
    assert np.isnan(make(std_errors=None, exact=False).half_widths()).all()


@pytest.mark.parametrize(
    ("level", "error"),
    [(0, InputError), (1, InputError), (95, InputError), ("95 %", InputTypeError)],
)
def test_half_widths_of_no_level(level, error):
    with pytest.raises(error, match="level"):
        make().half_widths(level)


def test_a_slice_copies_no_values():
    explanation = make(N=5)
    assert np.shares_memory(explanation[1:4].values, explanation.values)


@pytest.mark.parametrize("key", ["yes", 1, -1, np.int32(1)])
def test_one_output_drops_its_axis(key):
    explanation = make(K=2)
    part = explanation[1, :, key]
    assert part.shape == (1, 3) and part.output_names is None
    np.testing.assert_array_equal(part.values, explanation.values[1:2, :, 1])
    np.testing.assert_array_equal(part.base_values, explanation.base_values[1:2, 1])
    np.testing.assert_array_equal(part.std_errors, explanation.std_errors[1:2, :, 1])
    assert part.provenance["selected_output"] == "yes"
    np.testing.assert_array_equal(explanation[..., key].values, explanation.values[..., 1])


def test_several_outputs_keep_their_axis():
    part = make(K=3)[:, :, ["maybe", "no"]]
    assert part.output_names == ("maybe", "no") and part.shape == (4, 3, 2)
    np.testing.assert_array_equal(part.values[0, 0], [3, 1])


@pytest.mark.parametrize("key", [["c", "a"], [2, 0], slice(None, None, -2)])
def test_players_keep_their_columns(key):
    part = make()[:, key]
    assert part.feature_names == ("c", "a")
    np.testing.assert_array_equal(part.values[0], [21, 1])
    np.testing.assert_array_equal(part.player_data()[0], [2, 5, 8, 11])
    np.testing.assert_array_equal(part[1:].player_data()[1], [3, 6, 9])
    assert part.data.shape == (4, 3)


def test_players_in_another_order_keep_their_data():
    data = np.array([[1.0, 100.0], [2.0, 200.0]])
    explanation = Explanation(
        data * 10, np.zeros(2), data=data, feature_names=("small", "large"),
        provenance={"player_columns": ((0,), (1,))},
    )  # fmt: skip
    bare = Explanation(data * 10, np.zeros(2), data=data, feature_names=("small", "large"))
    mask, back = np.array([True, True]), slice(None, None, -1)
    for whole in (explanation, bare):
        for key, order in [
            ((slice(None), back), [1, 0]),
            ((..., back), [1, 0]),
            ((slice(None), [1, 0]), [1, 0]),
            ((slice(None), ["large", "small"]), [1, 0]),
            ((slice(None), mask), [0, 1]),
        ]:
            part = whole[key]
            assert part.feature_names == tuple(("small", "large")[j] for j in order)
            np.testing.assert_array_equal(np.stack(part.player_data(), axis=1), data[:, order])
            np.testing.assert_array_equal(part.values, data[:, order] * 10)
        twice = whole[:, ::-1][:, ::-1]
        np.testing.assert_array_equal(np.stack(twice.player_data(), axis=1), data)
        # What a person reads: the value and the data of one line belong together.
        long = whole[:, ::-1].to_dataframe(long=True)
        np.testing.assert_array_equal(long["value"], long["data"] * 10)


def test_reversed_players_of_three_outputs_and_of_groups():
    whole = make(
        K=3,
        data=np.arange(16).reshape(4, 4),
        provenance={"player_columns": ((0, 2), (1,), (3,))},
    )
    part = whole[:, ::-1, ::-1]
    assert part.provenance["player_columns"] == ((3,), (1,), (0, 2))
    assert part.output_names == whole.output_names[::-1]
    np.testing.assert_array_equal(part.values, whole.values[:, ::-1, ::-1])
    # The last of three axes is that of outputs, whose order says nothing of players.
    assert whole[..., ::-1].provenance["player_columns"] == ((0, 2), (1,), (3,))


def test_stats_of_players_and_of_outputs_are_cut_with_them():
    N, P, K = 4, 3, 2
    errors = np.arange(float(N * P * K)).reshape(N, P, K)
    apart = np.arange(float(N * K)).reshape(N, K)
    given = {"pool_std_errors": errors, "completeness": apart, "quantity": apart}
    part = make(K=K, stats=given)[1:3, ::-1, "yes"]
    np.testing.assert_array_equal(part.stats["pool_std_errors"], errors[1:3, ::-1, 1])
    np.testing.assert_array_equal(part.stats["completeness"], apart[1:3, 1])
    np.testing.assert_array_equal(part.stats["quantity"], apart[1:3, 1])
    one = make(stats={"pool_std_errors": errors[:, :, 0], "completeness": apart[:, 0]})[:, ["c"]]
    np.testing.assert_array_equal(one.stats["pool_std_errors"], errors[:, [2], 0])
    np.testing.assert_array_equal(one.stats["completeness"], apart[:, 0])


def test_player_columns_of_groups():
    explanation = make(
        data=np.arange(16).reshape(4, 4), provenance={"player_columns": ((0, 2), (1,), (3,))}
    )
    united, b, c = explanation.player_data()
    assert united is None
    np.testing.assert_array_equal(b, [1, 5, 9, 13])
    np.testing.assert_array_equal(explanation[:, "c"].player_data()[0], c)


def test_images_have_no_column_per_player():
    assert make(data=np.zeros((4, 3, 2))).player_data() == [None, None, None]


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (4, InputError, "instance 4 is out of range"),
        (-5, InputError, "instance -5"),
        ("nobody", InputError, "'nobody' is unknown"),
        (np.ones(3, dtype=bool), InputError, "mask has 3 entries; the axis has 4"),
        (True, InputTypeError, "bool"),
        (1.0, InputTypeError, "float"),
        (None, InputTypeError, "NoneType"),
        (slice("a", "b"), InputTypeError, "slices take integers"),
        (np.zeros((2, 2), dtype=int), InputTypeError, "2 axes"),
        ((0, 0, 0), InputError, "3 keys"),
        ((0, []), InputError, "no player"),
        ((..., 0, ...), InputError, "one key at most"),
        ((0, "z"), InputError, "player 'z'"),
    ],
)
def test_keys_that_mean_nothing(key, error, text):
    with pytest.raises(error, match=text):
        make()[key]


def test_names_that_are_missing_or_ambiguous():
    with pytest.raises(InputError, match="no instance names"):
        make(instance_names=None)["row1"]
    with pytest.raises(InputError, match="2 entries"):
        make(instance_names=("x", "y", "x", "z"))["x"]


def test_iteration_ends():
    assert [one.instance_names for one in make(N=3)] == [("row0",), ("row1",), ("row2",)]


# the text


def test_repr_tells_method_sizes_top_players_and_stats():
    text = repr(
        make(
            P=8,
            std_errors=None,
            exact=True,
            stats={"model_rows": 409600, "seconds": 1.25, "backend": "jax"},
            provenance={"method": "QII"},
        )
    )
    assert "QII, shapley" in text and "4 instances x 8 players" in text
    assert "exact" in text and "409,600 model rows" in text and "1.25 s" in text
    # means over i = 0..3 of 100 i + 10 j + 1 are 151 + 10 j: the last player leads
    assert "mean |value|: h 221, g 211, f 201, e 191, d 181, c 171, and 2 more" in text


def test_repr_of_players_of_each_instance():
    """No mean over players that are others in each instance."""
    present = np.array([[True, True, True], [True, True, False], [True, False, False]] * 2)
    text = repr(Explanation(np.ones((6, 3)), np.zeros(6), present=present))
    assert "players of each instance: 1 to 3" in text and "mean |value|" not in text


def test_repr_of_outputs():
    explanation = make(K=2)
    assert "x 2 outputs" in repr(explanation)
    assert "output 'yes'" in repr(explanation[:, :, "yes"])


OWN = {"outputs": np.array([2, 0, 2, 1]), "output_names": np.array(["maybe", "no", "maybe", "yes"])}
WORDS = ["maybe", "no", "maybe", "yes"]


def test_the_output_of_each_instance_is_said_in_text_and_html():
    one = make(stats=OWN)
    for text in (repr(one), one._repr_html_()):
        assert "each instance's own (maybe 2, no 1, yes 1)" in text.replace("&#x27;", "'")
    assert "output 'maybe'" in repr(one[[0, 2]]) and "output 'yes'" in repr(one[3])
    assert "output" not in repr(make())
    numbered = make(stats={"outputs": np.array([2, 0, 2, 1])})  # of outputs without names
    assert "output 2 2" in repr(numbered) and "output 'output 0'" in repr(numbered[1])
    many = Explanation(np.ones((6, 1)), np.zeros(6), stats={"outputs": np.arange(6)})
    assert "output 3 1, 2 more)" in repr(many)


def test_the_output_of_each_instance_is_a_column_of_frames():
    pytest.importorskip("pandas")
    one = make(stats=OWN)
    wide, long = one.to_dataframe(), one.to_dataframe(long=True)
    assert list(wide.columns) == ["a", "b", "c", "base_value", "output"]
    assert wide["output"].tolist() == WORDS
    np.testing.assert_array_equal(wide[["a", "b", "c"]].to_numpy(float), one.values)
    assert long["output"].tolist() == [word for word in WORDS for _ in "abc"]
    assert one[::-1].to_dataframe()["output"].tolist() == WORDS[::-1]
    assert "output" not in make().to_dataframe()
    named = make(stats=OWN, feature_names=("a", "output", "c"))
    with pytest.raises(InputError, match="a player is called 'output'"):
        named.to_dataframe()
    assert set(named.to_dataframe(long=True)["output"]) == set(WORDS)


def test_shap_is_told_the_output_of_each_instance():
    pytest.importorskip("shap")
    one = make(stats=OWN)
    assert one.to_shap().instance_names[1] == "row1, output no"
    assert one.to_shap()[1:3].instance_names == ["row1, output no", "row2, output maybe"]
    bare = make(stats=OWN, instance_names=None).to_shap()
    assert bare.instance_names == [f"output {word}" for word in WORDS]
    assert make().to_shap().instance_names is None


def test_repr_says_why_there_are_no_standard_errors():
    errors = np.full((4, 3), 0.25)
    errors[1:3] = np.nan
    text = repr(make(std_errors=errors, stats={"estimator": "kernel", "budget": 16}))
    assert "sampled" in text and "largest standard error 0.25" in text
    assert "no standard errors for 2 of 4 instances: fewer than P + 20 = 23" in text
    text = repr(make(std_errors=errors * np.nan, stats={"estimator": "permutation"}))
    assert "4 of 4 instances: fewer than 2 antithetic pairs" in text


def test_repr_of_a_mixed_result_and_of_nothing():
    exact_rows = np.array([True, False, False, True])
    assert "(2 of 4 instances exact)" in repr(make(stats={"exact_rows": exact_rows}))
    assert "0 instances" in repr(make()[:0])


# conversions


def test_wide_frame():
    frame = make().to_dataframe()
    assert list(frame.columns) == ["a", "b", "c", "base_value"]
    assert list(frame.index) == ["row0", "row1", "row2", "row3"]
    assert frame.loc["row2", "b"] == 211 and frame.loc["row2", "base_value"] == 2.5


def test_wide_frame_of_outputs():
    frame = make(K=2).to_dataframe()
    assert frame.shape == (4, 8)
    assert frame.loc["row3", ("yes", "c")] == 322
    assert frame.loc["row1", ("yes", "base_value")] == 1.6


def test_wide_frame_refuses_a_second_base_value():
    with pytest.raises(InputError, match="long=True"):
        make(feature_names=("a", "b", "base_value")).to_dataframe()


def test_long_frame():
    frame = make(K=2, instance_names=None).to_dataframe(long=True)
    assert list(frame.columns) == [
        "instance",
        "player",
        "output",
        "value",
        "std_error",
        "base_value",
        "data",
    ]
    assert len(frame) == 24
    row = frame[(frame.instance == 3) & (frame.player == "c") & (frame.output == "yes")].iloc[0]
    assert (row.value, row.std_error, row.base_value, row.data) == (322, 0.322, 3.6, 11)
    row = frame[(frame.instance == 1) & (frame.player == "b") & (frame.output == "no")].iloc[0]
    assert (row.value, row.std_error, row.base_value, row.data) == (111, 0.111, 1.5, 4)


def test_long_frame_without_errors_and_data():
    frame = make(std_errors=None, exact=True, data=None).to_dataframe(long=True)
    assert "data" not in frame and "output" not in frame and (frame.std_error == 0).all()
    assert make(std_errors=None).to_dataframe(long=True).std_error.isna().all()


def test_long_frame_of_mixed_data():
    pd = pytest.importorskip("pandas")
    data = pd.DataFrame({"c": [1.5, 2, 3, 4], "x": [0] * 4, "a": ["u", "v", None, "w"]})
    frame = make(data=data).to_dataframe(long=True)
    assert list(frame.data[:3]) == ["u", None, 1.5]  # "b" is no column of the data


def test_nullable_and_polars_columns_are_numbers():
    pd = pytest.importorskip("pandas")
    pl = pytest.importorskip("polars")
    expected = [1, np.nan, 3, 4]
    nullable = pd.DataFrame({"a": pd.array([1, None, 3, 4], dtype="Int64")})
    for data in (nullable, pl.DataFrame({"a": [1, None, 3, 4]})):
        np.testing.assert_array_equal(make(data=data).player_data()[0], expected)
        np.testing.assert_array_equal(make(data=data)[[3, 0]].player_data()[0], [4, 1])


@pytest.mark.filterwarnings("ignore")  # of shap and what it imports
def test_shap_s_plots_draw_it():
    shap = pytest.importorskip("shap")
    matplotlib = pytest.importorskip("matplotlib")
    pd = pytest.importorskip("pandas")
    matplotlib.use("Agg")
    plt = pytest.importorskip("matplotlib.pyplot")
    words = pd.DataFrame({"a": ["u", "v", "u", "w"], "b": [1.0, 2, 3, 4], "c": [1, 0, 1, 1]})
    for explanation in (make(), make(data=words), make(data=None), make(std_errors=None)):
        theirs = explanation.to_shap()
        assert isinstance(theirs, shap.Explanation)
        np.testing.assert_array_equal(theirs.values, explanation.values)
        np.testing.assert_array_equal(theirs.base_values, explanation.base_values)
        assert list(theirs.feature_names) == ["a", "b", "c"]
        for draw in (shap.plots.beeswarm, shap.plots.bar):
            draw(theirs, show=False)
            texts = [label.get_text() for label in plt.gca().get_yticklabels()]
            assert {"a", "b", "c"} <= {text.strip() for text in texts}
            plt.close("all")
        shap.plots.waterfall(theirs[1], show=False)


@pytest.mark.filterwarnings("ignore")
def test_shap_selects_an_output_by_name():
    pytest.importorskip("shap")
    theirs = make(K=2).to_shap()
    np.testing.assert_array_equal(theirs[:, :, "yes"].values, make(K=2)[..., "yes"].values)
    np.testing.assert_array_equal(theirs.error_std, make(K=2).std_errors)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "index"), [("shapley", "SV"), ("banzhaf", "BV")])
def test_shapiq_gets_one_object_per_instance(kind, index):
    pytest.importorskip("shapiq")
    explanation = make(kind=kind, stats={"budget": 64, "exact_rows": np.arange(4) == 2})
    theirs = explanation.to_shapiq()
    assert len(theirs) == 4
    assert theirs[1].index == index and theirs[1].n_players == 3
    assert theirs[1].min_order == theirs[1].max_order == 1
    assert theirs[1].baseline_value == 1.5
    assert [theirs[3][(j,)] for j in range(3)] == [301, 311, 321]
    assert (theirs[1].estimated, theirs[1].estimation_budget) == (True, 64)
    assert (theirs[2].estimated, theirs[2].estimation_budget) == (False, None)


def test_shapiq_refusals_come_before_the_import():
    with pytest.raises(InputError, match="choose one first"):
        make(K=2).to_shapiq()
    with pytest.raises(InputError, match="size-limited"):
        make(kind="size-limited(2)").to_shapiq()


def test_a_missing_library_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r'pip install "xaijax\[data\]"'):
        make().to_dataframe()


@pytest.mark.slow
def test_the_module_loads_no_optional_library():
    code = (
        "import sys, xaijax.results.explanation, xaijax.results.merge, xaijax.plots, "
        "xaijax.reports.report\n"
        "print(sorted({'pandas', 'polars', 'matplotlib', 'jinja2', 'shap'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("kind", ["explainer", "interactions", "gradients", "qii", "qii of data"])
def test_the_data_of_a_frame_are_that_frame(kind):
    """Of a model in JAX too, which reads a frame's numbers as an array; as they were given."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"b": np.arange(6) / 10, "a": np.arange(6)}, index=[f"p{i}" for i in range(6)]
    )
    model = xj.as_model(lambda X: 1 / (1 + X[:, 0] ** 2 + X[:, 1] ** 2))
    asked, wanted = frame[:3], frame[:3].copy()
    if kind == "explainer":
        found = xj.Explainer(model, frame)(asked)
    elif kind == "interactions":
        found = xj.Explainer(model, frame).interactions(asked)
    elif kind == "gradients":
        found = xj.GradientExplainer(model, frame.astype(float))(asked.astype(float))
        wanted = wanted.astype(float)
    else:
        scores = xj.QII(model, frame, quantity="individual", outcome="score", bounds=(0, 1))
        found = scores.explain(asked if kind == "qii" else None)
        wanted = wanted if kind == "qii" else frame
    pandas.testing.assert_frame_equal(found.data, wanted)
    assert isinstance(found[1:].data, pandas.DataFrame) and len(found[1:].data) == len(wanted) - 1
    if kind == "explainer":
        np.testing.assert_array_equal(found[:, ::-1].player_data()[0], wanted["a"])
        frame.loc["p0", "b"] = 99.0  # a result does not follow a frame that is changed later
        pandas.testing.assert_frame_equal(found.data, wanted)
