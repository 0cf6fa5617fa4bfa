"""What a release tells the curator, and what it does not let private values decide."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from privacy_cases import MODEL, D

import xaijax as xj

pytest.importorskip("opendp", reason="needs the extra [privacy]")


def told(explanation):
    """The warnings of a release."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        xj.privacy.release(explanation, 1.0)
    return [str(one.message) for one in caught]


@pytest.mark.slow
def test_copies_of_rows_of_the_data_are_told_to_the_curator_only():
    """All rows of X= or pool= equal to rows of the data: a warning, and no part of the copy."""
    away = D + 2
    sample = xj.privacy.subsample(D, 0.5)
    asked = {
        "copy": (xj.QII(MODEL, D, pool=D.copy(), quantity="average").explain(), "pool="),
        "part": (xj.QII(MODEL, D, pool=D[:3].copy(), quantity="average").explain(), "pool="),
        "row": (xj.QII(MODEL, D, pool=xj.Baseline(D[0].copy()), quantity="rate").unary(), "pool="),
        "median": (
            xj.QII(MODEL, D, pool=xj.Baseline("median", D.copy()), quantity="rate").unary(),
            "pool=",
        ),
        "sample": (xj.QII(MODEL, sample, pool=D.copy(), quantity="rate").unary(), "pool="),
        "person": (xj.QII(MODEL, D).explain(D[:1].copy()), "X="),
    }
    for name, (explanation, argument) in asked.items():
        (text,) = told(explanation)
        assert text.startswith(argument) and "as private as the data" in text, name
    public = {
        "pool": xj.QII(MODEL, D, pool=away, quantity="average").explain(),
        "some": xj.QII(
            MODEL, D, pool=np.concatenate([D[:7], away[:1]]), quantity="average"
        ).explain(),
        "median": xj.QII(MODEL, D, pool=xj.Baseline("median", away), quantity="rate").unary(),
        "person": xj.QII(MODEL, D).explain(away[:1]),
    }
    for name, explanation in public.items():
        assert told(explanation) == [], name


def test_copies_of_rows_of_a_frame_are_told():
    pd = pytest.importorskip("pandas", reason="needs the extra [data]")
    frame = pd.DataFrame({"a": list("xyzx"), "b": [1.0, 2, 1, 2]})
    model = xj.as_model(
        lambda r: (r["a"] == "x").to_numpy() * 1, backend="host", output="label", classes=[0, 1]
    )
    other = pd.DataFrame({"a": list("uvwu"), "b": [1.0, 2, 1, 2]})
    for pool, warned in ((frame.iloc[[0, 2]].copy(), 1), (other, 0)):
        found = told(xj.QII(model, frame, pool=pool, quantity="rate").unary())
        assert len(found) == warned


@pytest.mark.slow
@pytest.mark.parametrize("labels", [(1, 2), (-1, 1), (3, 4), (0, 1)])
def test_whether_it_is_released_does_not_depend_on_the_labels_that_came(labels):
    """Of classes that were not declared 1 is positive, whichever labels the data show."""
    low, high = labels
    model = xj.as_model(lambda X: jnp.where(X[:, 0] > 0, high, low) * 1.0, output="label")
    for data in (D, np.zeros_like(D), np.ones_like(D)):
        explanation = xj.QII(model, data, quantity="rate").unary()
        seen = {high if row[0] > 0 else low for row in data}
        assert len(told(explanation)) == (not seen <= {0, 1})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            private = xj.privacy.release(explanation, 1e6)
        assert private.provenance["positive"] == 1
        ones = [(high if row[0] > 0 else low) == 1 for row in data]
        share = np.mean(ones)
        assert private.values[0, 0] == pytest.approx(share - share, abs=1e-4)
