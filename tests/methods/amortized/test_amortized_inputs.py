"""What is refused, and every kind of rows, model and network that is taken."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.methods.amortized.inputs import MOST, Inputs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3)).astype(np.float32)
MODEL = xj.as_model(lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 2])
EXPLAINER = xj.Explainer(MODEL, X[:4])
FEW = {"judge": 10, "steps": 3, "progress": False}
quiet = pytest.mark.filterwarnings(
    "ignore:.*rows have been explained by a network:xaijax.XaiWarning"
)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"explainer": MODEL}, xj.InputTypeError, "explainer must be an xaijax.Explainer"),
        ({"explainer": lambda X: X}, xj.InputTypeError, "explainer must be"),
        ({"explainer": xj.Explainer(MODEL, X, index="banzhaf")}, xj.InputError, "do not add up"),
        (
            {"explainer": xj.Explainer(MODEL, xj.Baseline(lambda rows: rows * 0))},
            xj.InputError,
            "for each instance",
        ),
        (
            {"explainer": xj.Explainer(MODEL, X, players=np.array([-1, 0, 1]))},
            xj.InputError,
            "never replaced",
        ),
        (
            {"explainer": xj.Explainer(MODEL, X, players=np.zeros((60, 3), int))},
            xj.InputError,
            "for each instance",
        ),
        ({"hidden": (8, 0)}, xj.InputError, "hidden must be at least 1"),
        ({"hidden": (8, 2.5)}, xj.InputTypeError, "hidden must be a whole number"),
        ({"hidden": 8}, xj.InputTypeError, "hidden must be a list of widths"),
        ({"hidden": "8"}, xj.InputTypeError, "hidden must be a list of widths"),
        ({"seed": -1}, xj.InputError, "seed"),
        ({"network": 3}, xj.InputTypeError, "network must be a Model of xaijax.as_model"),
        ({"layers": (8,)}, xj.InputTypeError, "no keyword 'layers'"),
    ],
)
def test_bad_arguments(options, error, text):
    with pytest.raises(error, match=text):
        xj.AmortizedExplainer(**{"explainer": EXPLAINER, **options})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"judge": 8}, xj.InputError, "judge=8 rows are too few"),
        ({"judge": 9, "confidence": 0.95}, xj.InputError, "Say judge=19"),
        ({"judge": 41}, xj.InputError, "leaves 19 to learn from"),
        ({"judge": 600}, xj.InputError, "leaves 0 to learn from"),
        ({"judge": 10.0}, xj.InputTypeError, "judge must be a whole number"),
        ({"confidence": 1.0}, xj.InputError, "confidence"),
        ({"steps": 0}, xj.InputError, "steps"),
        ({"batch": 0}, xj.InputError, "batch"),
        ({"learning_rate": -1.0}, xj.InputError, "learning_rate"),
        ({"judge_by": MODEL}, xj.InputTypeError, "explainer must be"),
        (
            {"judge_by": xj.Explainer(MODEL, X[:5])},
            xj.InputError,
            "other background rows",
        ),
        ({"progress": 1}, xj.InputTypeError, "progress must be"),
        ({"epochs": 3}, xj.InputTypeError, "no keyword 'epochs'"),
        ({"X": X[0]}, xj.InputError, "X has shape"),
        ({"X": X[:, :2]}, xj.InputError, "rows of shape"),
    ],
)
def test_bad_arguments_of_fit_are_refused_before_anything_is_explained(
    options, error, text, monkeypatch
):
    monkeypatch.setattr(xj.Explainer, "__call__", None)
    with pytest.raises(error, match=text):
        xj.AmortizedExplainer(EXPLAINER, (4,)).fit(**{"X": X, **FEW, **options})


def test_before_fit_it_says_fit(tmp_path):
    amortized = xj.AmortizedExplainer(EXPLAINER, (4,))
    assert "not fitted" in repr(amortized)
    for ask in (
        lambda: amortized(X),
        lambda: amortized.stats_,
        lambda: amortized.save(tmp_path / "a.npz"),
        lambda: amortized.with_explainer(EXPLAINER),
    ):
        with pytest.raises(xj.InputError, match=r"is not fitted.*\.fit\(X\) first"):
            ask()


@pytest.fixture(scope="module")
def amortized():
    return xj.AmortizedExplainer(EXPLAINER, (4,)).fit(X, **FEW)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"X": X[:, :2]}, xj.InputError, r"rows of shape \(2,\), but the background has \(3,\)"),
        ({"X": X[0]}, xj.InputError, "one row"),
        ({"X": X * np.nan}, xj.InputError, "NaN"),
        ({"fallback": 1.5}, xj.InputError, "fallback must be a share"),
        ({"fallback": -0.1}, xj.InputError, "fallback must be a share"),
        ({"fallback": True}, xj.InputTypeError, "fallback must be a share"),
        ({"fallback": "all"}, xj.InputTypeError, "fallback must be a share"),
        ({"progress": "yes"}, xj.InputTypeError, "progress must be"),
        ({"outputs": 0}, xj.InputTypeError, "no keyword 'outputs'"),
    ],
)
def test_bad_arguments_of_a_call(amortized, options, error, text):
    with pytest.raises(error, match=text):
        amortized(**{"X": X, **options})


def test_frames_of_other_columns_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = xj.AmortizedExplainer(xj.Explainer(MODEL, frame[:4]), (4,)).fit(frame, **FEW)
    with pytest.raises(xj.InputError, match="in another order"):
        named(frame[["b", "a", "c"]])
    with pytest.raises(xj.InputError, match="other columns"):
        named(frame.rename(columns={"a": "z"}))


def test_values_that_are_not_finite_cannot_be_learned():
    model = xj.as_model(lambda rows: 1 / (rows[:, 0] > -9) / rows[:, 1], nonfinite="propagate")
    rows = X.copy()
    rows[5:, 1] = 0.0
    with pytest.raises(xj.ModelOutputError, match="not finite"):
        xj.AmortizedExplainer(xj.Explainer(model, X[:4]), (4,)).fit(rows, **FEW)


def adds_up(found, answers):
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, answers, atol=1e-12 * (1 + np.abs(answers).max()))
    assert np.isfinite(found.values).all() and found.bounds.shape == (len(found),)


@pytest.mark.slow
@quiet
def test_several_outputs_and_players_of_several_columns():
    W = RNG.normal(size=(3, 4)).astype(np.float32)
    model = xj.as_model(lambda rows: jnp.tanh(rows @ W), output_names=["u", "v", "w", "z"])
    own = xj.Explainer(model, X[:4], players={"both": [0, 2]})
    amortized = xj.AmortizedExplainer(own, (4,)).fit(X, **FEW)
    found = amortized(X[:30], fallback=0.1)
    assert found.shape == (30, 2, 4) and found.feature_names == ("both", "x1")
    assert found.output_names == ("u", "v", "w", "z")
    sent = found.stats["fallback_rows"]
    np.testing.assert_array_equal(found.values[sent], own(X[:30][sent]).values)
    adds_up(found[~sent], model.predict(X[:30][~sent]))
    assert found[:, :, "v"].bounds.shape == (30,)


@pytest.mark.slow
@quiet
def test_frames_of_texts_for_a_model_on_the_host():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "city": RNG.choice(["Rome", "Oslo", "Bern"], 60),
            "age": RNG.integers(20, 60, 60),
            "member": RNG.random(60) < 0.5,
            "kind": pd.Categorical(RNG.choice(["a", "b"], 60)),
        }
    )

    def answer(rows):
        return (rows["city"] == "Rome") * rows["age"] + 3.0 * rows["member"]

    model = xj.as_model(answer, backend="host")
    amortized = xj.AmortizedExplainer(xj.Explainer(model, frame[:3]), (4,)).fit(frame, **FEW)
    other = frame[:9].assign(city="Kyiv")  # not learned, and no error: the bound must tell
    adds_up(amortized(frame[:9], fallback=0.0), model.predict(frame[:9]))
    with pytest.warns(xj.XaiWarning, match="9 of 9 rows are outside the range"):
        found = amortized(other, fallback=0.0)
    adds_up(found, model.predict(other))
    assert np.isinf(found.bounds).all()
    names = amortized._fitted.inputs.texts
    assert names[0] == ("Bern", "Oslo", "Rome") and names[3] == ("a", "b")


@pytest.mark.slow
@quiet
def test_rows_in_several_arrays():
    rows = {"a": X, "b": RNG.integers(0, 4, 60)}
    model = xj.as_model(lambda rows: rows["a"][:, 0] * rows["b"] + rows["a"][:, 1])
    background = {"a": X[:3], "b": rows["b"][:3]}
    amortized = xj.AmortizedExplainer(xj.Explainer(model, background), (4,)).fit(rows, **FEW)
    found = amortized({"a": X[:9], "b": rows["b"][:9]}, fallback=0.2)
    assert found.feature_names == ("a[0]", "a[1]", "a[2]", "b")
    sent = found.stats["fallback_rows"]
    adds_up(found[~sent], (X[:9, 0] * rows["b"][:9] + X[:9, 1])[~sent])
    assert len(amortized._fitted.inputs.hot_columns) == 4  # the whole numbers, one by one


@quiet
def test_a_memory_map_is_read_in_pieces(tmp_path, amortized):
    np.save(tmp_path / "rows.npy", X)
    mapped = np.load(tmp_path / "rows.npy", "r")
    found, wanted = amortized(mapped, fallback=0.1), amortized(X, fallback=0.1)
    np.testing.assert_array_equal(found.values, wanted.values)


def linen():
    flax = pytest.importorskip("flax.linen")
    module = flax.Dense(3)
    return xj.as_model(module, module.init(jax.random.key(0), jnp.ones((1, 3))))


def nnx():
    found = pytest.importorskip("flax.nnx")
    return xj.as_model(found.Linear(3, 3, rngs=found.Rngs(0)))


def equinox():
    found = pytest.importorskip("equinox")
    return xj.as_model(found.nn.Linear(3, 3, key=jax.random.key(0)))


def function():
    params = {"W": jnp.zeros((3, 3)), "calls": jnp.zeros((), int)}  # a count is not trained
    return xj.as_model(lambda params, rows: jnp.tanh(rows) @ params["W"], params)


@pytest.mark.slow
@quiet
@pytest.mark.parametrize("make", [linen, nnx, equinox, function])
def test_a_network_of_ones_own(make, tmp_path):
    network = make()
    amortized = xj.AmortizedExplainer(EXPLAINER, network=network)
    amortized.fit(X, judge=10, steps=200, progress=False)
    assert amortized.stats_["r2"] > 0.3  # a product is not linear, but the third column is
    before = jax.tree.leaves(network.params)
    trained = amortized._predictor.network.params
    assert any(not np.array_equal(one, two) for one, two in zip(before, trained, strict=False))
    found = amortized(X, fallback=0.0)
    adds_up(found, MODEL.predict(X))
    amortized.save(tmp_path / "own.npz")
    loaded = xj.load(tmp_path / "own.npz")
    with pytest.raises(xj.InputError, match="network=xaijax.as_model"):
        loaded.with_explainer(EXPLAINER)
    again = loaded.with_explainer(EXPLAINER, network=make())
    np.testing.assert_array_equal(again(X, fallback=0.0).values, found.values)


def test_networks_that_do_not_fit_are_refused():
    def fit(network, rows=X, own=EXPLAINER):
        xj.AmortizedExplainer(own, network=network).fit(rows, **FEW)

    with pytest.raises(xj.InputError, match="there are 3 values"):
        fit(xj.as_model(lambda W, rows: rows @ W, np.zeros((3, 2), np.float32)))
    with pytest.raises(xj.InputError, match="no parameters to train"):
        fit(xj.as_model(lambda rows: rows))
    with pytest.raises(xj.InputError, match="runs on the host"):
        fit(xj.as_model(lambda rows: np.asarray(rows), backend="host"))


def test_inputs_are_of_the_training_rows():
    rows = np.array([[1.0, 5, 0, 7, np.nan], [3.0, 5, 1, 8, 1], [5.0, 5, 1, 9, 2]] * 9)
    rows[:, 0] += 0.01 * np.arange(27)
    inputs = Inputs.of(rows)
    assert inputs.numbers.tolist() == [0, 2, 3, 4]  # the second never varies
    # Three values of the fourth and of the last, NaN among them; two are told by one number.
    assert inputs.hot_columns.tolist() == [3, 3, 3, 4, 4, 4]
    encoded = np.asarray(inputs.encoded(jnp.asarray(inputs.read(rows))))
    assert encoded.shape == (27, inputs.width) and np.isfinite(encoded).all()
    np.testing.assert_allclose(encoded[:, :3].mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(encoded[:, :3].std(axis=0), 1, rtol=1e-5)
    np.testing.assert_array_equal(encoded[:, 4:7].sum(axis=1), 1)
    np.testing.assert_array_equal(encoded[:, 7:].sum(axis=1), 1)
    assert (encoded[::3, 3] == 0).all()  # NaN: the mean
    other = np.asarray(inputs.encoded(jnp.asarray(inputs.read(rows + 0.5))))
    np.testing.assert_array_equal(other[1::3, 4:], 0)  # values that were not met
    many = Inputs.of(np.arange(MOST + 1.0)[:, None])
    assert len(many.hot_columns) == 0
