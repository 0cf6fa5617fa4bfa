"""`as_jax`: a host model inside jit, vmap and other JAX functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from xaijax.core.errors import InputError, InputTypeError
from xaijax.models import as_jax, as_model

X = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
TARGET = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)

needs_callbacks = pytest.mark.skipif(
    jax.__version_info__ < (0, 12), reason="callbacks of a host model need jax >= 0.12"
)


def counted():
    calls = []

    def f(rows):
        assert type(rows) is np.ndarray
        calls.append(rows.shape)
        return rows.sum(axis=1)

    return as_model(f, backend="host"), calls


@needs_callbacks
def test_jit_and_composition():
    fitted = LogisticRegression().fit(X, TARGET)
    function = as_jax(as_model(fitted))
    composed = jax.jit(lambda rows: jnp.log(function(2 * rows)).sum(axis=1))
    expected = np.log(fitted.predict_proba(2 * X)).sum(axis=1)
    # Probabilities are rounded to float32 once, their logarithms and sum a few times more.
    np.testing.assert_allclose(composed(X), expected, rtol=1e-5)


@needs_callbacks
def test_vmap_is_one_call():
    model, calls = counted()
    batch = np.stack([X, 2 * X, 3 * X, 4 * X])
    values = jax.jit(jax.vmap(as_jax(model)))(batch)
    np.testing.assert_allclose(values, batch.sum(axis=2), rtol=1e-6, atol=1e-6)
    assert calls == [(40, 3)]
    twice = jax.vmap(jax.vmap(as_jax(model)))(batch[:, None])
    assert twice.shape == (4, 1, 10)


@needs_callbacks
def test_leading_axes_and_instances_of_higher_rank():
    images = np.arange(48, dtype=np.float32).reshape(2, 4, 3, 2)
    model = as_model(lambda rows: rows[:, 2, 1], backend="host", input_shape=(3, 2))
    np.testing.assert_array_equal(as_jax(model)(images), images[:, :, 2, 1])
    with pytest.raises(InputError, match="instance of 2 axes"):
        as_jax(model)(images[0, 0])


@pytest.mark.slow
@needs_callbacks
@pytest.mark.parametrize(
    ("options", "columns"),
    [({}, 3), ({"output": 1}, None), ({"output": "decision"}, 3), ({"output": "label"}, None)],
)
def test_the_number_of_outputs_is_read_from_the_model(options, columns):
    model = as_model(LogisticRegression().fit(X, TARGET), **options)
    values = as_jax(model)(X)
    assert values.shape == ((10,) if columns is None else (10, columns))
    np.testing.assert_allclose(values, model.predict(X), rtol=1e-6)


@needs_callbacks
def test_the_number_of_outputs_given():
    fitted = LinearRegression().fit(X, np.stack([TARGET, -TARGET], axis=1))
    model = as_model(fitted, backend="host")
    np.testing.assert_allclose(as_jax(model, outputs=2)(X), fitted.predict(X), rtol=1e-5, atol=1e-6)
    # JAX hands errors of a callback on as its own, with the text inside.
    with pytest.raises(Exception, match="outputs=2"):
        jax.block_until_ready(as_jax(model)(X))
    binary = LogisticRegression().fit(X, TARGET > 0)
    binary = as_model(binary, output="decision", backend="host")
    assert as_jax(binary)(X).shape == (10,)


@needs_callbacks
def test_the_dtype_is_that_of_the_rows():
    seen = []
    model = as_model(lambda rows: seen.append(rows.dtype) or rows[:, 0] / 3.0, backend="host")
    function = as_jax(model)
    assert function(X).dtype == jnp.float32
    assert function(jnp.arange(6).reshape(2, 3)).dtype == jnp.float32
    assert seen == [np.float32, np.int32]


def test_a_traced_model_is_passed_through():
    model = as_model(lambda params, rows: rows @ params, params=np.ones(3, dtype=np.float32))
    gradient = jax.grad(lambda rows: as_jax(model)(rows).sum())(X)
    np.testing.assert_array_equal(gradient, np.ones_like(X))
    with pytest.raises(InputError, match="outputs="):
        as_jax(model, outputs=1)


def test_old_jax_is_refused_with_the_reason(monkeypatch):
    monkeypatch.setattr(jax, "__version_info__", (0, 11, 4))
    model, calls = counted()
    with pytest.raises(InputError, match=r"jax >= 0.12; got jax 0.11.4.*block"):
        as_jax(model)
    assert not calls


@needs_callbacks
@pytest.mark.parametrize(("outputs", "error"), [(0, InputError), (1.5, InputTypeError)])
def test_mistakes(outputs, error):
    with pytest.raises(error, match="outputs="):
        as_jax(counted()[0], outputs=outputs)
    with pytest.raises(InputTypeError, match="as_model"):
        as_jax(len)
