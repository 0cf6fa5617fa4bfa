"""Host models and functions of one's own that return views of a buffer: every answer is copied."""

import numpy as np
import pytest
from small_case import B, X, f64

import xaijax as xj
from xaijax.federated.split.parts import FunctionPart


class Buffered:
    """A function that writes every answer into one buffer, as `out=` and ONNX sessions do."""

    def __init__(self, function):
        self.function, self.buffer = function, None

    def __call__(self, *given):
        made = np.asarray(self.function(*given))
        if self.buffer is None or self.buffer.shape[1:] != made.shape[1:]:
            self.buffer = np.empty((1 << 17, *made.shape[1:]), made.dtype)
        self.buffer[: len(made)] = made
        return self.buffer[: len(made)]


def three(rows):
    return f64(rows)[:, None] * np.array([1.0, -2.0, 0.5])


def host(function, **options):
    return xj.as_model(function, backend="host", **options)


WIDE = np.random.default_rng(2).normal(size=(6, 14))

ASKED = {
    "max_rows": lambda wrap: xj.Explainer(host(wrap(f64), max_rows=7), B)(X).values,
    "one output of three": lambda wrap: (
        xj.Explainer(host(wrap(three), output=1, max_rows=7), B)(X).values
    ),
    "tables": lambda wrap: xj.Explainer(host(wrap(f64), max_rows=7), B, link=np.arctan)(X).values,
    "sampled": lambda wrap: (
        xj.Explainer(host(wrap(f64)), WIDE[3:], budget=64, tile=256)(WIDE[:3]).values
    ),
    "one reference row": lambda wrap: (
        xj.Explainer(host(wrap(f64), max_rows=7), xj.Baseline(B[0]))(X).values
    ),
    "QII of scores": lambda wrap: (
        xj.QII(
            host(wrap(lambda rows: 1 / (1 + np.exp(-f64(rows)))), output="proba", max_rows=7),
            np.concatenate([X, B]),
            outcome="score",
            quantity="individual",
        )
        .explain()
        .values
    ),
    "predict": lambda wrap: host(wrap(f64), max_rows=2).predict(B),
    "labels": lambda wrap: host(wrap(f64), threshold=1.0, max_rows=2).labels(B),
    "labels of its own": lambda wrap: host(
        wrap(lambda rows: f64(rows) > 1), output="label", max_rows=2
    ).labels(B),
}


@pytest.mark.parametrize("what", ASKED)
def test_a_view_of_one_buffer_is_as_good_as_an_array_of_its_own(what):
    """The earlier answers must not become those of the last call."""
    asked = ASKED[what]
    np.testing.assert_array_equal(
        np.asarray(asked(Buffered), object), np.asarray(asked(lambda function: function), object)
    )


def test_a_random_model_that_writes_into_one_buffer_is_found():
    """Two views of one buffer agree, whatever was written into it."""
    rng = np.random.default_rng(0)
    model = host(Buffered(lambda rows: f64(rows) + rng.normal(size=len(rows))))
    with pytest.raises(xj.NonDeterministicModelError):
        xj.Explainer(model, B)(X)


def test_a_guests_function_may_return_views_of_one_buffer():
    part = FunctionPart(Buffered(f64), 4)
    first, second = part.answers(X), part.answers(B[:3])
    np.testing.assert_array_equal(first[:, 0], f64(X))
    np.testing.assert_array_equal(second[:, 0], f64(B[:3]))


def test_a_difference_that_writes_into_one_buffer():
    """It is asked for d(p, p) right after d(p, q)."""
    model = host(
        lambda rows: np.where(f64(rows)[:, None] > 1, [0.8, 0.2], [0.2, 0.8]),
        output="proba",
        classes=[0, 1],
    )
    own = Buffered(lambda p, q: np.abs(p - q).sum(-1))
    wanted, found = (
        xj.QII(model, np.concatenate([X, B]), quantity="individual", outcome="proba", difference=d)
        .explain()
        .values
        for d in (own.function, own)
    )
    assert np.abs(wanted).max() > 0.1
    np.testing.assert_array_equal(found, wanted)
