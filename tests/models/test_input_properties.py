"""Whatever the arrays: an error of the family, or finite values that add up to the answer."""

import warnings

import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as hnp

import xaijax as xj

DTYPES = [
    "f2", "f4", ">f4", "f8", ">f8", "g", "i1", "<i2", ">i4", "i8", "u1", "u4", "u8", "?",
    "c8", "U3", "S2", "O", "M8[D]", "m8[s]", "V4",
]  # fmt: skip
SHAPES = [(3,), (2, 3), (5, 3), (1, 3), (0, 3), (2, 0), (2, 4), (2, 3, 1), ()]
LIKELY = st.sampled_from(["f4", "f8", ">f8", "f2", "i8", "u1", "?"])
QUIET = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def elements(dtype):
    if dtype.kind == "f":
        plain = st.sampled_from([0.0, -0.0, 1.0, -2.5, 3.0, 1e-30])
        odd = st.sampled_from([np.nan, np.inf, -np.inf, 6e4, 1e300, 5e-324])
        return st.one_of(plain, plain, plain, odd).map(lambda v: with_dtype(v, dtype))
    if dtype.kind == "O":
        return st.sampled_from([None, 1, 2.5, "text", True, (1, 2), 10**30])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return st.sampled_from([0, 1, 3, info.max, info.min])
    return None


def with_dtype(value, dtype):
    with np.errstate(over="ignore"):
        return np.asarray(value).astype(dtype)[()]


@st.composite
def arrays(draw):
    """An array of any dtype, shape, order and stride, read-only or not; most often a good one."""
    likely = draw(st.integers(0, 3)) > 0
    dtype = np.dtype(draw(LIKELY if likely else st.sampled_from(DTYPES)))
    shape = draw(st.sampled_from(SHAPES[1:4] if likely else SHAPES))
    structured = dtype.kind == "V"
    array = (
        np.zeros(shape, dtype)
        if structured
        else draw(hnp.arrays(dtype, shape, elements=elements(dtype)))
    )
    for axis in range(array.ndim):
        change = draw(st.sampled_from(["", "", "reverse", "spread"]))
        if change == "reverse":
            array = np.flip(array, axis)
        elif change == "spread":
            array = np.repeat(array, 2, axis)[(slice(None),) * axis + (slice(None, None, 2),)]
    if draw(st.booleans()):
        array = np.asfortranarray(array)
    array.flags.writeable = array.flags.writeable and draw(st.booleans())
    return array


def check(backend, X, background, model):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", xj.XaiWarning)
        try:
            explanation = xj.Explainer(model, background)(X)
        except xj.XaiError as error:
            assert any(name in str(error) for name in ("X", "background", "model", "rows"))
            return "refused"
        answer = model.predict(X if backend == "jax" else X.astype(background.dtype))
    assert np.isfinite(explanation.values).all() and np.isfinite(explanation.base_values).all()
    residual = explanation.stats["efficiency_residual"]
    assert (residual <= explanation.stats["efficiency_bound"]).all()
    total = explanation.base_values + explanation.values.sum(axis=1)
    atol = 4 * (1e-5 if backend == "jax" or background.dtype.itemsize < 8 else 1e-12)
    np.testing.assert_allclose(total, answer, rtol=0, atol=atol)
    return "explained"


def bounded(xp):
    """An answer in [-4, 4] for any finite rows, with interactions."""

    def function(rows):
        rows = rows * xp.ones((), rows.dtype if rows.dtype.kind == "f" else xp.float32)
        squashed = xp.where(abs(rows) > 1, xp.sign(rows), rows)
        return squashed[:, 0] * squashed[:, -1] + squashed.sum(axis=1)

    return function


MODELS = {
    "jax": xj.as_model(bounded(jnp)),
    "host": xj.as_model(bounded(np), backend="host"),
}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "host"])
def test_arrays_are_refused_or_explained(backend):
    outcomes = []

    @QUIET
    @given(X=arrays(), background=arrays())
    def run(X, background):
        outcomes.append(check(backend, X, background, MODELS[backend]))

    run()
    assert outcomes.count("explained") >= 5 and outcomes.count("refused") >= 5
