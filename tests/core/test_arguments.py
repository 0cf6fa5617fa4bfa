"""Arguments of wrong types and values, and keywords that nothing takes, at every public door."""

import inspect

import jax
import numpy as np
import pandas as pd
import pytest

import xaijax as xj

X = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
B = np.random.default_rng(1).normal(size=(4, 3)).astype(np.float32)
E, T = xj.InputError, xj.InputTypeError


def f(rows):
    return rows[:, 0] * rows[:, 1] - rows[:, 2]


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("model", 3, T),
        ("model", None, T),
        ("background", None, T),
        ("background", 3.0, E),
        ("background", "median", T),
        ("background", {"a": [1]}, T),
        ("background", object(), T),
        ("background", iter(B), T),
        ("background", pd.Series([1.0, 2.0, 3.0]), E),
        ("background", pd.DataFrame(index=range(3)), E),
        ("background", xj.Baseline(B), E),
        ("background", xj.Baseline(3.0), E),
        ("background", xj.Baseline("median", B[0]), E),
        ("background", xj.Baseline("mean", B[:0]), E),
        ("background", xj.Baseline("mean", [["a"]]), T),
        ("background", xj.Baseline([1.0, np.nan, 0.0]), E),
        ("background", xj.Baseline(pd.DataFrame(B)), E),
        ("players", 3, T),
        ("players", "abc", T),
        ("players", {"a": [5]}, E),
        ("players", {"a": [0.5]}, E),
        ("players", {"a": [None]}, E),
        ("players", {"a": []}, E),
        ("players", {"a": [0], "b": [0]}, E),
        ("players", {"x1": [0]}, E),
        ("players", ["nobody"], E),
        ("players", [[0, 0]], E),
        ("players", [0, 2, 2], E),
        ("players", [-2, 0, 1], E),
        ("players", [0, 1, 10**15], E),
        ("players", np.array([0, 1]), E),
        ("players", np.array([0.0, 1.0, 2.0]), T),
        ("players", np.array([True, False, True]), T),
        ("index", "shaply", E),
        ("index", None, T),
        ("index", 3, T),
        ("index", np.ones(3), T),
        ("index", xj.SizeLimited(3), E),
        ("index", lambda s: np.nan, E),
        ("index", lambda s: "much", T),
        ("index", lambda s: None, T),
        ("index", lambda: 1.0, T),
        ("estimator", "kernal", E),
        ("estimator", None, T),
        ("estimator", 3, T),
        ("budget", 2.0, T),
        ("budget", [10], T),
        ("link", "probit", E),
        ("link", None, T),
        ("link", 1.0, T),
        ("seed", -1, E),
        ("seed", 1.5, T),
        ("seed", None, T),
        ("seed", True, T),
        ("seed", "0", T),
        ("batch_size", "all", T),
        ("batch_size", 1.5, T),
        ("batch_size", None, T),
        ("batch_size", np.array([1, 2]), T),
        ("batch_size", True, T),
        ("max_memory", 0, E),
        ("max_memory", "1GB", T),
        ("max_memory", 1e9, T),
        ("devices", 0, E),
        ("devices", 10_000, E),
        ("devices", "cpu", T),
        ("devices", [], T),
        ("devices", [0], T),
        ("devices", jax.devices()[0], T),
        ("devices", jax.devices()[:1] * 2, E),
        ("weights", "equal", T),
        ("weights", 1.0, E),
        ("weights", [[1, 1, 1, 1]], E),
        ("weights", [1, 1, 1, np.inf], E),
        ("weights", [[1], [1, 2]], T),
        ("weights", {"a": 1}, T),
        ("tolerance", 0, E),
        ("tolerance", -0.1, E),
        ("tolerance", np.nan, E),
        ("tolerance", np.inf, E),
        ("tolerance", "0.1", T),
        ("tolerance", True, T),
        ("tile", 0, E),
        ("tile", 300, E),
        ("tile", 16, E),
        ("tile", 256.0, T),
        ("tile", "auto", T),
    ],
)
def test_arguments_of_explainer(argument, value, error, backend):
    calls = []
    model = xj.as_model(lambda rows: calls.append(1) or f(rows), backend=backend)
    given = {"model": model, "background": B, argument: value}
    with pytest.raises(error, match=argument) as caught:
        xj.Explainer(**given)
    assert type(caught.value) is error
    assert not calls


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        (("median",), E, "needs the rows"),
        (("mode", B), E, "row must be one of"),
        ((B[0], B), E, "not both"),
    ],
)
def test_arguments_of_baseline(arguments, error, match):
    with pytest.raises(error, match=match):
        xj.Baseline(*arguments)


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [((-1,), E, "k must"), ((1.5,), T, "k must"), ((1, "no"), T, "normalised must")],
)
def test_arguments_of_size_limited(arguments, error, match):
    with pytest.raises(error, match=match):
        xj.SizeLimited(*arguments)


def test_weights_do_not_go_with_a_baseline():
    with pytest.raises(E, match="weights"):
        xj.Explainer(xj.as_model(f), xj.Baseline(B[0]), weights=[1.0])


@pytest.mark.parametrize("index", [xj.SizeLimited(2), lambda s: 1.0])
def test_more_players_than_a_weight_can_tell(index):
    with pytest.raises(E, match="players: there are 1,001"):
        xj.Explainer(xj.as_model(f), np.zeros((1, 1001)), index=index)


def test_a_memory_limit_that_is_no_number(monkeypatch):
    monkeypatch.setenv("XAIJAX_MEMORY_LIMIT", "a lot")
    with pytest.raises(E, match="XAIJAX_MEMORY_LIMIT"):
        xj.Explainer(xj.as_model(f), B)(X)


def test_progress_is_a_choice():
    with pytest.raises(T, match="progress"):
        xj.Explainer(xj.as_model(f), B)(X, progress="yes")


def public_callables():
    """(name, callable) of every public function and class, with the public methods of classes.

    Error and warning classes are left out: they are caught, not called.
    """
    found = {}
    for space, module in (("xj", xj), ("xj.datasets", xj.datasets), ("xj.plots", xj.plots)):
        for name in dir(module):  # AEC is there before it is loaded
            value = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(value) or not callable(value):
                continue
            if isinstance(value, type) and issubclass(value, BaseException):
                continue
            if not value.__module__.startswith("xaijax"):
                continue
            found[f"{space}.{name}"] = value
            for key, member in vars(value).items() if isinstance(value, type) else ():
                if inspect.isfunction(member) and (key == "__call__" or not key.startswith("_")):
                    found[f"{space}.{name}.{key}"] = member
    return found


PUBLIC = public_callables()


def test_the_public_callables_are_found():
    assert {
        "xj.AEC", "xj.AEC.fit", "xj.AEC.fit_chunks", "xj.normalized_movement_rate",
        "xj.as_model", "xj.Explainer", "xj.Explainer.__call__", "xj.Baseline", "xj.SizeLimited",
        "xj.Explanation", "xj.Explanation.save", "xj.Model.predict", "xj.Model.replace", "xj.load",
        "xj.merge", "xj.report", "xj.players_of", "xj.as_jax", "xj.datasets.adult",
        "xj.datasets.wine", "xj.plots.bar", "xj.plots.beeswarm", "xj.plots.waterfall",
    } <= set(PUBLIC)  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_an_unknown_keyword_is_refused(name):
    with pytest.raises(T, match="has no keyword 'colour'") as caught:
        PUBLIC[name](colour="red")
    takes = [p for p in inspect.signature(PUBLIC[name]).parameters if p != "self"]
    assert all(parameter in str(caught.value) for parameter in takes)


@pytest.mark.parametrize("name", [n for n in PUBLIC if n != "xj.merge"])
def test_too_many_arguments_are_refused(name):
    with pytest.raises(T, match="it takes"):
        PUBLIC[name](*range(40))


@pytest.mark.parametrize(
    ("keyword", "own"),
    [
        ("nsamples", "budget"),
        ("max_evals", "budget"),
        ("random_state", "seed"),
        ("masker", "background"),
        ("imputer", "background"),
        ("baselines", "background"),
        ("data", "background"),
        ("n_samples", "budget"),
        ("feature_mask", "players"),
        ("clustering", "players"),
        ("groups", "players"),
        ("aggregation", "index"),
    ],
)
def test_words_of_other_libraries_are_answered_with_ours(keyword, own):
    with pytest.raises(T, match=f"For {keyword}, say {own}="):
        xj.Explainer(xj.as_model(f), B, **{keyword: 1})


@pytest.mark.parametrize("made", [xj.Explainer, xj.GradientExplainer])
def test_the_output_is_said_of_the_model(made):
    with pytest.raises(T, match=r"has no keyword 'target'\. Say as_model\(output=\)"):
        made(xj.as_model(f), B, target=1)
    with pytest.raises(T, match="For class_index, say output="):
        xj.as_model(f, class_index=1)


def test_tau_is_threshold():
    with pytest.raises(T, match="For tau, say threshold="):
        xj.as_model(f, tau=0.5)
    with pytest.raises(T) as caught:  # no hint where there is no such parameter
        xj.Explainer(xj.as_model(f), B, tau=0.5)
    assert "threshold" not in str(caught.value)


VALUES, BASE = np.zeros((2, 3)), np.zeros(2)
SETS = ((0,), (1,), (2,))
NO_RESULT = [
    ("std_errors", -np.ones((2, 3)), E),
    ("std_errors", np.full((2, 3), "1"), T),
    ("std_errors", np.ones(3), E),
    ("values", np.zeros((2, 3), "datetime64[D]"), T),
    ("values", [["1", "2", "3"]] * 2, T),
    ("exact", "no", T),
    ("exact", None, T),
    ("exact", np.ones(3), T),
    ("present", np.ones((2, 3)), T),
    ("present", [[1], [1, 2]], T),
    ("feature_names", 3, T),
    ("feature_names", {"a": 1, "b": 2, "c": 3}, T),
    ("feature_names", {"a", "b", "c"}, T),
    ("feature_names", np.zeros((3, 2)), T),
    ("instance_names", 1.5, T),
    ("instance_names", "ab", T),
    ("stats", None, T),
    ("stats", [("a", 1)], T),
    ("stats", {1: "a"}, T),
    ("provenance", None, T),
    ("provenance", "", T),
    ("data", {}, T),
    ("data", [[1], [1, 2]], T),
    ("data", {"a": np.zeros((2, 1)), "b": np.zeros((0, 1))}, E),
    ("data", {1: X, "b": X}, T),
]


@pytest.mark.parametrize(("argument", "value", "error"), NO_RESULT)
@pytest.mark.parametrize("made", [xj.Explanation, xj.Interactions])
def test_fields_of_results(made, argument, value, error):
    given = {"values": VALUES, "base_values": BASE}
    given |= {"sets": SETS} if made is xj.Interactions else {}
    made(**given)
    with pytest.raises(error, match=argument) as caught:
        made(**{**given, argument: value})
    assert type(caught.value) is error


@pytest.mark.parametrize(("bounds", "error"), [([-1, 0], E), ([[0], [0]], E), (["1", "2"], T)])
def test_bounds_of_values(bounds, error):
    with pytest.raises(error, match="bounds"):
        xj.Explanation(VALUES, BASE, bounds=bounds)
    # Unknown and unbounded are no negative bounds.
    found = xj.Explanation(VALUES, BASE, bounds=[np.nan, np.inf], std_errors=VALUES * np.nan)
    np.testing.assert_array_equal(found.bounds, [np.nan, np.inf])


def not_traced(rows):
    return rows[:, 0] if rows[0, 0] > 0 else rows[:, 1]


@pytest.mark.parametrize(
    ("f", "params", "match"),
    [
        (not_traced, None, "JAX traces.*jnp.where"),
        (lambda rows: np.sin(np.asarray(rows))[:, 0], None, "JAX traces.*jax.numpy"),
        (lambda rows: rows[:, int(rows[0, 0])], None, "JAX traces"),
        (lambda rows: jax.numpy.zeros(3)[rows[:, 0] > 0], None, "JAX traces"),
        (lambda: 1.0, None, r"f is called as f\(rows\)"),
        (lambda rows: rows[:, 0], 1.0, r"f is called as f\(params, rows\)"),
    ],
)
def test_functions_of_shapley_values(f, params, match):
    with pytest.raises(T, match=match):
        xj.shapley_values(f, X[0], B, params=params)


def test_an_error_of_the_function_itself_keeps_its_type():
    def broken(rows):
        raise KeyError("lost")

    with pytest.raises(KeyError, match="lost") as caught:
        xj.shapley_values(broken, X[0], B)
    assert any("raised by f(rows)" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize(
    "second", [[], (), {}, None, np.zeros((2, 0)), np.zeros((0, 3)), np.array(1.0), "a", object()]
)
def test_a_second_input_that_is_none(backend, second):
    asked = []

    def two(rows):
        asked.append(1)
        return rows[0][:, 0] * rows[1][:, 1]

    model = xj.as_model(two, backend=backend)
    labels = xj.as_model(two, backend=backend, classes=[0, 1], output="label")
    explainer, rows = xj.Explainer(model, (B, B)), (X, second)
    doors = [
        lambda: explainer(rows),
        lambda: explainer.interactions(rows),
        lambda: explainer.check(rows),
        lambda: xj.Explainer(model, rows)((X, X)),
        lambda: model.predict(rows),
        lambda: labels.labels(rows),
        lambda: xj.QII(labels, rows, quantity="individual").explain(),
    ]
    for door in doors:
        with pytest.raises(xj.XaiError):
            door()
    assert not asked


def several_levels():
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y"), ("b", "x")])
    return pd.DataFrame(B, columns=columns)


@pytest.mark.parametrize(
    "door",
    [
        lambda model, labels, frame: xj.Explainer(model, frame)(frame),
        lambda model, labels, frame: xj.GradientExplainer(model, frame)(frame),
        lambda model, labels, frame: xj.FederatedExplainer(model, frame, {"g": [2]})(frame),
        lambda model, labels, frame: xj.QII(labels, frame).explain(),
        lambda model, labels, frame: xj.AnchorExplainer(labels, frame).explain(frame),
        lambda model, labels, frame: xj.AEC().fit(frame, np.arange(4.0)),
        lambda model, labels, frame: xj.Explainer(model, xj.Baseline("median", frame))(frame),
    ],
)
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_columns_of_several_levels(door, backend):
    asked = []
    model = xj.as_model(lambda rows: asked.append(1) or f(rows), backend=backend)
    labels = xj.as_model(lambda rows: asked.append(1) or f(rows) > 0, backend=backend,
                         output="label")  # fmt: skip
    frame = several_levels()
    if backend == "host" or "Gradient" not in inspect.getsource(door):
        with pytest.raises(xj.XaiError, match="several levels|gradient|host"):
            door(model, labels, frame)
    assert not asked
    frame.columns = ["_".join(c) for c in frame.columns]  # what the message says
    found = xj.Explainer(xj.as_model(f), frame)(frame)
    assert found.feature_names == ("a_x", "a_y", "b_x")


@pytest.mark.slow
@pytest.mark.parametrize("index", ["shapley", "banzhaf"])
def test_the_case_of_an_index_does_not_matter(index):
    model, loud = xj.as_model(f), index.upper()
    quiet = xj.Explainer(model, B, index=index)(X)
    found = xj.Explainer(model, B, index=loud)(X)
    assert found.kind == index
    np.testing.assert_array_equal(found.values, quiet.values)
    assert xj.merge([quiet, found]).kind == index
    decided = xj.as_model(f, threshold=0.0)
    assert xj.QII(decided, B).explain(index=loud).kind == index
    assert xj.FederatedExplainer(model, B, {"g": [2]}, index=loud)(X).kind == index
    np.testing.assert_array_equal(
        xj.shapley_values(f, X, B, index=loud), xj.shapley_values(f, X, B, index=index)
    )


def test_the_case_of_other_indices():
    explainer = xj.Explainer(xj.as_model(f), B)
    for index in ("SII", "k-SII", "STII", "FSII", "Banzhaf", "Moebius"):
        found = explainer.interactions(X, index=index)
        assert found.index == index.lower()
    assert xj.CoalitionTable([0, 1, 1, 3]).interactions(index="SII").index == "sii"
    assert xj.Interactions(VALUES, BASE, SETS, index="SII").index == "sii"
    votes = xj.as_model(lambda rows: (rows[:, 0] > 0).astype(int), backend="host", output="label")
    game = xj.QII(votes, B, quantity="rate")
    assert game.explain(index="Deegan-Packel", threshold=0.1).kind == "deegan-packel"
    with pytest.raises(E, match="index must be one of"):
        explainer.interactions(X, index="SHAP")


@pytest.mark.parametrize(
    ("index", "order"),
    [("moebius", 2), ("stii", 2), ("fsii", 2), ("banzhaf", 2), ("sii", 1), ("sii", 3)],
)
def test_unbiased_where_nothing_is_sampled(index, order):
    calls = []
    model = xj.as_model(lambda rows: calls.append(1) or f(rows), backend="host")
    with pytest.raises(E, match="unbiased"):
        xj.Explainer(model, B).interactions(X, order=order, index=index, unbiased=True)
    assert not calls


@pytest.mark.parametrize(
    ("names", "error"),
    [
        (["../x"], E), (["a/b"], E), ([""], E), (["a\0"], E), (["."], E), (["x" * 65], E),
        (["authority"], E), (["a", "a"], E), ([], E), ("ab", T), (3, T), ([None], T), ([b"a"], T),
    ],
)  # fmt: skip
def test_names_of_certificates(tmp_path, names, error):
    folder = tmp_path / "own" / "certificates"
    with pytest.raises(error, match="names"):
        xj.federated.make_certificates(folder, names)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("columns", "error"),
    [("abc", T), ([], T), ([1, 2], T), (3, T), ({"a": 1}, T), (["a", "a"], E), (["a", None], T)],
)
def test_columns_of_batches(columns, error):
    explainer = xj.Explainer(xj.as_model(f), B)
    with pytest.raises(error, match="columns"):
        xj.batches(explainer, columns=columns)


@pytest.mark.parametrize("content", [b"junk", b"", b"\x93NUMPY\x01\x00", b"\x93NUMPY\x09\x09" * 9])
def test_a_file_that_is_no_array(tmp_path, content):
    (tmp_path / "junk.npy").write_bytes(content)
    explainer = xj.Explainer(xj.as_model(f), B)
    with pytest.raises(E, match=r"X: .*junk.npy is no .npy file"):
        xj.sweep(explainer, str(tmp_path / "junk.npy"), tmp_path / "out")
    pytest.importorskip("pyarrow")
    (tmp_path / "junk.parquet").write_bytes(content)
    with pytest.raises(E, match=r"X: .*junk.parquet is no Parquet file"):
        xj.sweep(explainer, str(tmp_path / "junk.parquet"), tmp_path / "out")


@pytest.mark.parametrize("rows", [3, True, np.array(1.0), {}, {"a": 1}, {1: X, "b": X}])
def test_no_rows_of_a_sweep(tmp_path, rows):
    with pytest.raises(xj.XaiError, match="X"):
        xj.sweep(xj.Explainer(xj.as_model(f), B), rows, tmp_path / "out")


def test_a_run_that_is_no_folder(tmp_path):
    for out in (3, None, b"run", ["run"]):
        with pytest.raises(T, match="out: got"):
            xj.open_run(out)
    run = xj.sweep(xj.Explainer(xj.as_model(f), B), X, tmp_path / "run")
    for part, error in ((1, E), (-1, E), ("0", T), (0.0, T), (None, T)):
        with pytest.raises(error, match="part"):
            run.explanation_of(part)
        with pytest.raises(error, match="part"):
            run.range_of(part)
    with pytest.raises(T, match="lazy"):
        run.explanation(lazy="no")


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: xj.as_model(f, feature_names={"a": 1}), "feature_names"),
        (lambda: xj.as_model(f, classes={1, 2}), "classes"),
        (lambda: xj.as_model(f, params={1: 2.0, "a": 3.0}), "params"),
        (lambda: xj.AnchorExplainer(xj.as_model(f, threshold=0.0), B, feature_names=3), "feature"),
        (lambda: xj.AnchorExplainer(xj.as_model(f, threshold=0.0), B, target=3), "target"),
        (lambda: xj.QII(xj.as_model(f, threshold=0.0), B, positive=np.ones(2)), "positive"),
        (lambda: xj.QII(xj.as_model(f), B, outcome="score", bounds={0, 1}), "bounds"),
        (lambda: xj.CoalitionTable([0, 1, 1, 3], player_names=3), "player_names"),
        (lambda: xj.FirstLayer(None, f), "weights"),
        (lambda: xj.Split(f, 3), "rest"),
        (lambda: xj.federated.FunctionPart(None, 3), "function"),
        (lambda: xj.federated.FunctionPart(f, "3"), "columns"),
        (lambda: xj.federated.Part("linear", None), "arrays"),
        (lambda: xj.federated.InMemory(3), "party"),
        (lambda: xj.federated.split_logistic([1.0, 2.0], "no", {"g": [1]}), "intercept"),
        (lambda: xj.federated.verify_audit("audit.jsonl", "secret"), "secret"),
        (lambda: xj.federated.serve(3, "127.0.0.1:0", None), "party"),
        (lambda: xj.quantities.Interest(3), "name"),
        (lambda: xj.quantities.Interest("own", agrees="no"), "agrees"),
        (lambda: xj.observational.measures([[1], [1, 2]], [True, False]), "members"),
        (lambda: xj.privacy.subsample(3.0, 0.5), "data"),
        (lambda: xj.engines.ray(num_gpus="one"), "num_gpus"),
        (lambda: xj.AmortizedExplainer(xj.Explainer(xj.as_model(f), B), hidden={8, 9}), "hidden"),
        (lambda: xj.merge(np.array(1.0)), "explanations"),
        (lambda: xj.AEC().fit_chunks(lambda: 3), "chunks"),
    ],
)
def test_a_thing_of_another_kind(call, match):
    with pytest.raises(T, match=match):
        call()


@pytest.mark.parametrize("name", ["bar", "beeswarm", "heatmap", "waterfall", "force"])
@pytest.mark.parametrize("output", [np.ones(3), pd.DataFrame(B), ["a"], 0, 3.0])
def test_an_output_that_plots_do_not_have(name, output):
    pytest.importorskip("matplotlib")
    explained = xj.Explanation(VALUES[:1], BASE[:1])
    with pytest.raises(E, match="output"):
        getattr(xj.plots, name)(explained, output=output)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda one: xj.plots.convergence([]), "explanations: got none"),
        (lambda one: xj.plots.convergence(()), "explanations: got none"),
        (lambda one: xj.plots.waterfall(one, instance=[[0], [0, 1]]), "instance"),
        (lambda one: xj.plots.waterfall(one, instance=...), "instance"),
        (lambda one: xj.plots.scatter(one, [[0], [0, 1]]), "player"),
        (lambda one: xj.plots.groups(one, [[0], [0, 1]][:0]), "groups"),
        (lambda one: xj.plots.image(one, shape=(1, 3), players=[[0], [0, 1]]), "players"),
        (lambda one: xj.plots.image(one, shape=(1, 3), colorbar="no"), "colorbar"),
        (lambda one: xj.plots.tokens(one, np.array("abc")), "words"),
    ],
)
def test_plots_of_junk(call, match):
    pytest.importorskip("matplotlib")
    with pytest.raises(xj.XaiError, match=match):
        call(xj.Explanation(VALUES[:1], BASE[:1]))
