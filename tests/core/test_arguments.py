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
        ("tile", 128, E),
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
