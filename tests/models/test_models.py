"""`as_model` and `Model`: outputs, labels, new parameters, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from xaijax.core.errors import InputError, InputTypeError, ModelOutputError, XaiError
from xaijax.models import Model, as_model
from xaijax.models.base.outputs import output_names_for
from xaijax.results.shared_fields import player_columns

RNG = np.random.default_rng(0)
X = RNG.normal(size=(23, 4)).astype(np.float32)
WEIGHTS = RNG.normal(size=(4, 3)).astype(np.float32)
SCORES = X.astype(np.float64) @ WEIGHTS.astype(np.float64)  # [23, 3]
# Four products and three sums in float32, each within half an ulp of a term below 8.
ATOL = 8 * 8 * np.finfo(np.float32).eps


def three(rows):
    return rows @ WEIGHTS


def one(rows):
    return rows @ WEIGHTS[:, 0]


def linear(params, rows):
    return rows @ params["w"] + params["b"]


@pytest.fixture
def x64():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


# Values.


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_values_are_float64_of_the_function(backend):
    all_outputs = as_model(three, backend=backend).predict(X)
    assert all_outputs.dtype == np.float64
    np.testing.assert_allclose(all_outputs, SCORES, atol=ATOL)
    np.testing.assert_allclose(
        as_model(three, backend=backend, output=1).predict(X), SCORES[:, 1], atol=ATOL
    )
    column = as_model(lambda rows: rows[:, :1] * 2, backend=backend).predict(X)
    np.testing.assert_array_equal(column, 2.0 * X[:, 0])  # [R, 1] is read as [R]


@pytest.mark.parametrize("rows", [1, 16, 17, 9_000])
def test_padding_and_cutting_do_not_show(rows):
    many = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    np.testing.assert_array_equal(as_model(lambda x: x[:, 1]).predict(many), many[:, 1])


def test_instances_of_higher_rank():
    images = RNG.normal(size=(5, 3, 2)).astype(np.float32)
    model = as_model(lambda x: x[:, 2, 1], input_shape=(3, 2))
    np.testing.assert_array_equal(model.predict(images), images[:, 2, 1])
    with pytest.raises(InputError, match=r"x\[None\]"):
        model.predict(images[0])
    with pytest.raises(InputError, match=r"\(3, 2\)"):
        model.predict(images[:, :2])


def test_precision_sets_products_and_dtype(x64):
    seen = []

    def f(rows):
        seen.append((rows.dtype, jax.config.jax_default_matmul_precision))
        return rows.sum(axis=1)

    for precision in ("float32", "tf32", "float64"):
        as_model(f, precision=precision).predict(X)
    assert seen == [
        (np.float32, "highest"),
        (np.float32, "tensorfloat32"),
        (np.float64, "highest"),
    ]
    wide = np.full((1, 2), 1.0 + 2.0**-40)
    assert as_model(lambda rows: rows[:, 0], precision="float64").predict(wide)[0] == wide[0, 0]


def test_float64_needs_64_bit_jax():
    with pytest.raises(InputError, match="jax_enable_x64"):
        as_model(one, precision="float64")


# Parameters.


def test_one_trace_serves_new_parameters():
    traces = []

    def f(params, rows):
        traces.append(rows.shape)
        return linear(params, rows)

    params = {"w": jnp.ones(4), "b": jnp.zeros(())}
    model = as_model(f, params)
    first = model.predict(X)
    other = model.replace(params={"w": 2 * jnp.ones(4), "b": jnp.ones(())}, nonfinite="propagate")
    assert other.apply is model.apply and other.compiled is model.compiled
    np.testing.assert_allclose(other.predict(X), 2 * first + 1, atol=ATOL)
    assert len(traces) == 1
    np.testing.assert_array_equal(model.predict(X), first)  # the first model is as it was


@pytest.mark.parametrize(
    "params", [{"w": np.ones(4)}, {"w": np.ones(5), "b": 0.0}, {"w": "text", "b": 0.0}]
)
def test_replace_refuses_other_parameters(params):
    model = as_model(linear, {"w": np.ones(4), "b": 0.0})
    with pytest.raises((InputError, InputTypeError), match="params="):
        model.replace(params=params)


def test_replace_checks_what_as_model_checks():
    host = as_model(one, backend="host")
    assert host.replace(timeout=3, max_rows=5).timeout == 3.0
    for change in ({"timeout": 0}, {"max_rows": True}, {"nonfinite": "ignore"}, {"params": 1.0}):
        with pytest.raises(XaiError, match=next(iter(change))):
            host.replace(**change)
    with pytest.raises(InputError, match="max_rows="):
        as_model(one).replace(max_rows=5)
    with pytest.raises(InputError, match="thread_safe="):
        as_model(one).replace(thread_safe=True)


# Labels: each case of the contract.


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, SCORES.argmax(axis=1)),
        ({"classes": ["a", "b", "c"]}, np.array(["a", "b", "c"])[SCORES.argmax(axis=1)]),
        ({"classes": [1, 2, 5]}, np.array([1, 2, 5])[SCORES.argmax(axis=1)]),
        ({"classes": [1, 2, 5], "output": 2}, np.array([1, 2, 5])[SCORES.argmax(axis=1)]),
        ({"output": 2}, SCORES.argmax(axis=1)),
        ({"output": 2, "threshold": 0.3}, (SCORES[:, 2] > 0.3).astype(int)),
    ],
)
def test_labels_of_columns(backend, options, expected):
    labels = as_model(three, backend=backend, **options).labels(X)
    assert labels.dtype.kind == expected.dtype.kind
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.parametrize("backend", ["jax", "host"])
@pytest.mark.parametrize(
    ("options", "cut"),
    [
        ({"output": "proba"}, 0.5),
        ({"output": "decision"}, 0.0),
        ({"threshold": 1.25}, 1.25),
        ({"output": "proba", "threshold": 0.75}, 0.75),
    ],
)
def test_labels_of_one_score(backend, options, cut):
    scores = np.array([[-1.0], [0.0], [0.25], [0.5], [0.625], [0.75], [1.0], [1.25], [1.5]])
    expected = scores[:, 0] > cut
    assert expected.any() and not expected.all()
    model = as_model(lambda rows: rows[:, 0], backend=backend, **options)
    np.testing.assert_array_equal(model.labels(scores), expected)
    named = as_model(lambda rows: rows[:, 0], backend=backend, classes=["no", "yes"], **options)
    np.testing.assert_array_equal(named.labels(scores), np.where(expected, "yes", "no"))


def test_labels_ties_go_to_the_lowest_column():
    assert as_model(lambda rows: rows * 0).labels(X).tolist() == [0] * len(X)


def test_labels_as_returned():
    def text(rows):
        return np.where(rows[:, 0] > 0, "up", "down")

    model = as_model(text, backend="host", output="label")
    np.testing.assert_array_equal(model.labels(X), text(X))
    with pytest.raises(ModelOutputError, match="labels that are no numbers"):
        model.predict(X)
    whole = as_model(lambda rows: (rows[:, 0] > 0).astype(jnp.int32), output="label").labels(X)
    assert whole.dtype == np.int32
    np.testing.assert_array_equal(whole, X[:, 0] > 0)


def test_labels_without_a_rule():
    with pytest.raises(InputError, match=r"say output='label', threshold= or classes="):
        as_model(one).labels(X)


def test_threshold_of_a_selected_class_names_that_class():
    model = as_model(lambda r: r[:, :2], classes=["no", "yes"], output="no", threshold=0.5)
    np.testing.assert_array_equal(model.labels(X), np.where(X[:, 0] > 0.5, "no", "yes"))


def test_a_number_is_a_label_where_classes_are_known():
    model = as_model(three, classes=[1, 2, 5], output=2)
    np.testing.assert_allclose(model.predict(X), SCORES[:, 1], atol=ATOL)
    with pytest.raises(InputError, match="never as an index"):
        as_model(three, classes=[1, 2, 5], output=0)


def test_names_of_outputs():
    assert output_names_for(None, ("a", 2), 2) == ("a", "2")
    assert output_names_for(("risk",), None, None) == ("risk",)
    assert output_names_for(None, ("a", "b"), None) is None
    with pytest.raises(InputError, match="output_names="):
        output_names_for(("a", "b"), None, 3)


# What is refused.


def branching(rows):
    return rows[:, 0] if rows[0, 0] > 0 else rows[:, 1]


def numpy_call(rows):
    return np.asarray(rows).sum(axis=1)


def writing(rows):
    rows[:, 0] = 0
    return rows[:, 0]


def python_float(rows):
    return jnp.full(len(rows), float(rows[0, 0]))


@pytest.mark.parametrize("f", [branching, numpy_call, writing, python_float])
def test_a_function_that_does_not_trace_is_an_error_with_a_hint(f):
    model = as_model(f)  # nothing is traced at wrapping time
    with pytest.raises(InputTypeError, match=r"f= .*backend='host'") as caught:
        model.predict(X)
    assert caught.value.__cause__ is not None
    if f is not writing:
        assert as_model(f, backend="host").predict(X).shape == (len(X),)


def test_the_functions_own_exception_comes_through_with_a_note():
    def broken(rows):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        as_model(broken).predict(X)
    assert "while JAX traced broken" in caught.value.__notes__[0]


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda rows: rows[1:, 0], "returned 22 rows|returned 15 rows|returned 31 rows"),
        (lambda rows: rows.sum(), "single value"),
        (lambda rows: 1.0, "single value"),
        (lambda rows: None, "None"),
        (lambda rows: (rows, rows), "tuple"),
        (lambda rows: jnp.zeros((len(rows), 2, 2)), r"\[R, K\]"),
        (lambda rows: jnp.zeros((len(rows), 0)), "no outputs"),
        (lambda rows: rows[:, 0] * 1j, "complex64"),
    ],
)
def test_answers_of_traced_functions_are_checked(f, message):
    with pytest.raises(ModelOutputError, match=message):
        as_model(f).predict(X)


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_nonfinite_answers(backend):
    def f(rows):
        return rows[:, 0] / (rows[:, 1] != 0)

    rows = np.array([[1.0, 1.0], [1.0, 0.0]], dtype=np.float32)
    with np.errstate(divide="ignore"):
        with pytest.raises(ModelOutputError, match="row 1.*nonfinite='propagate'"):
            as_model(f, backend=backend).predict(rows)
        values = as_model(f, backend=backend, nonfinite="propagate").predict(rows)
    assert values.tolist() == [1.0, np.inf]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (X[0], r"x\[None\]"),
        (X[:0], "X has 0 rows"),
        (X[:, :0], "X has 0 columns"),
        (np.where(X > 1, np.nan, X), "allow_nan"),
        (X * np.inf, "X contains -?inf at row 0, column 0"),
        (X.astype(np.float64) * 1e300, "infinite in float32"),
        (X.astype(str), "numbers are needed"),
        (X.astype(complex), "real numbers are needed"),
        ([[1.0], [1.0, 2.0]], "rows of one length"),
        (X[None], "input_shape="),
    ],
)
def test_rows_that_are_refused(rows, message):
    calls = []
    with np.errstate(invalid="ignore"), pytest.raises(XaiError, match=message):
        as_model(lambda r: calls.append(1) or r[:, 0]).predict(rows)
    assert not calls


def test_missing_values_where_they_are_allowed():
    rows = np.array([[np.nan, 1.0]])
    assert as_model(lambda r: r[:, 1], allow_nan=True).predict(rows).tolist() == [1.0]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"backend": "gpu"}, InputError),
        ({"backend": None}, InputTypeError),
        ({"output": "probability"}, InputError),
        ({"output": -1}, InputError),
        ({"output": 1.5}, InputTypeError),
        ({"output": [1]}, InputTypeError),
        ({"classes": "ab"}, InputTypeError),
        ({"classes": ["a"]}, InputError),
        ({"classes": ["a", "a"]}, InputError),
        ({"classes": [["a"], "b"]}, InputTypeError),
        ({"threshold": "0.5"}, InputTypeError),
        ({"threshold": float("nan")}, InputError),
        ({"threshold": True}, InputTypeError),
        ({"feature_names": "abcd"}, InputTypeError),
        ({"feature_names": ["a", "a"]}, InputError),
        ({"output_names": [1, 2]}, InputTypeError),
        ({"output_names": []}, InputError),
        ({"input_shape": 4}, InputTypeError),
        ({"input_shape": (0,)}, InputError),
        ({"allow_nan": 1}, InputTypeError),
        ({"deterministic": "no"}, InputTypeError),
        ({"thread_safe": None}, InputTypeError),
        ({"max_rows": 0, "backend": "host"}, InputError),
        ({"max_rows": 10}, InputError),
        ({"timeout": -1, "backend": "host"}, InputError),
        ({"timeout": "1", "backend": "host"}, InputTypeError),
        ({"timeout": 1.0}, InputError),
        ({"thread_safe": True}, InputError),
        ({"precision": "bfloat8"}, InputError),
        ({"precision": "tf32", "backend": "host"}, InputError),
        ({"structure": "tree"}, InputTypeError),
        ({"nonfinite": "warn"}, InputError),
        ({"params": {"a": "text"}}, InputTypeError),
        ({"params": 1.0, "backend": "host"}, InputError),
    ],
)
def test_options_that_are_refused(options, error):
    with pytest.raises(error, match=f"{next(iter(options))}="):
        as_model(one, **options)


@pytest.mark.parametrize(
    ("f", "params", "message"),
    [
        (linear, None, "give params="),
        (one, {"w": 1.0}, "Leave params= out"),
        (3.0, None, "f="),
        (None, None, "f="),
        (dict, None, "Pass an instance"),
        (object(), None, "f="),
    ],
)
def test_models_that_are_refused(f, params, message):
    with pytest.raises(InputTypeError, match=message):
        as_model(f, params)


def test_selecting_what_is_not_there():
    with pytest.raises(InputError, match="output=7"):
        as_model(three, output=7).predict(X)
    with pytest.raises(InputError, match="one number per row"):
        as_model(one, classes=["a", "b"], output="b").predict(X)
    with pytest.raises(ModelOutputError, match="2 classes"):
        as_model(three, classes=["a", "b"], output="b").predict(X)


def test_a_model_comes_back_as_it_is():
    model = as_model(one)
    assert isinstance(model, Model)
    assert as_model(model) is model
    with pytest.raises(InputError, match=r"model.replace\(allow_nan"):
        as_model(model, allow_nan=True)


def test_repr_says_backend_reason_output_and_classes():
    text = repr(as_model(three, classes=["a", "b", "c"], output="b"))
    assert text.startswith("Model(three, backend='jax' (a function, traced by JAX), output='b'")
    assert "classes=['a', 'b', 'c']" in text
    assert "backend='host' was said" in repr(as_model(three, backend="host"))


@pytest.mark.parametrize("backend", ["jax", "host"])
def test_a_named_output_is_its_column(backend):
    def three(rows):
        return jnp.stack([rows[:, 0], rows[:, 1] * rows[:, 2], rows[:, 2]], axis=1)

    names = ["a", "b", "c"]
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    for output in ("b", 1):
        model = as_model(three, backend=backend, output=output, output_names=names)
        np.testing.assert_array_equal(model.predict(rows), rows[:, 1] * rows[:, 2])
    with pytest.raises(InputError, match="got 2 names for 3 outputs"):
        as_model(three, backend=backend, output="b", output_names=names[:2]).predict(rows)
    with pytest.raises(InputError, match="output"):
        as_model(three, backend=backend, output="d", output_names=names)


class Compared(str):
    """A name that counts how often it is compared."""

    times = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)


def test_many_names_are_not_compared_with_each_other():
    names = [Compared(f"c{j}") for j in range(1_000)]
    Compared.times = 0
    model = as_model(lambda X: X[:, 0], backend="host", feature_names=names)
    assert model.feature_names == tuple(names) and Compared.times < 20 * len(names)
    with pytest.raises(InputError, match="got .*'c7'.* more than once"):
        as_model(lambda X: X[:, 0], backend="host", feature_names=[*names, "c7"])


def test_many_columns_of_a_frame_are_not_compared_with_each_other():
    columns = [f"c{j}" for j in range(1_000)]
    frame = pd.DataFrame(np.zeros((1, 1_000)), columns=columns)
    players = [Compared(name) for name in reversed(columns)]
    Compared.times = 0
    assert player_columns(frame, players, None) == list(range(1_000))[::-1]
    assert Compared.times < 20 * len(players)
