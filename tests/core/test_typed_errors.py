"""Errors that came out raw from the edges of the library: each is typed, and says what to do."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from repository import ROOT

import xaijax as xj
from xaijax.privacy import mechanism

D = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], np.float32)

ANSWERS = {
    "[R, 2, 2]": lambda X: jnp.zeros((X.shape[0], 2, 2)),
    "a scalar": lambda X: X.sum(),
    "typed keys": lambda X: jax.random.split(jax.random.key(0), X.shape[0]),
    "one typed key": lambda X: jax.random.key(0),
    "a dict": lambda X: {"score": X[:, 0]},
    "a dict of a jitted function": jax.jit(lambda X: {"score": X[:, 0]}),
    "a list": lambda X: [X[:, 0], X[:, 1]],
    "fewer rows": lambda X: X[1:, 0],
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_that_are_no_rows_of_numbers(name):
    model = xj.as_model(ANSWERS[name])
    for ask in (lambda: xj.Explainer(model, D)(D), lambda: model.predict(D)):
        with pytest.raises(xj.ModelOutputError, match=r"\[R\]|real numbers"):
            ask()


@pytest.mark.parametrize("given", [None, 3])
def test_merge_of_what_is_no_list(given):
    with pytest.raises(xj.InputTypeError, match="explanations must be a list of Explanations"):
        xj.merge(given)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"epsilon": 1e-200, "delta": 0.1}, "epsilon=1e-200.*larger epsilon"),
        ({"epsilon": 0.1, "delta": 5e-324}, "larger epsilon or delta"),
        ({"epsilon": 0.1, "delta": 0.1, "indices": 10**400}, "fewer indices"),
        ({"epsilon": 0.1, "delta": 0.1, "rates": 10**400}, "fewer indices or rates"),
        ({"epsilon": 1e-9, "delta": 0.1, "width": 1e308}, "width=1e"),
        (
            {"epsilon": 10**400, "delta": 0.1},
            "epsilon must be a positive.*beyond the floats",
        ),
    ],
)
def test_samples_that_cannot_be_counted(arguments, text):
    with pytest.raises(xj.InputError, match=text):
        xj.samples_needed(**arguments)


def report(rate=None):
    model = xj.as_model(lambda X: X[:, 0], backend="host")
    data = np.repeat(D, 4, axis=0)
    if rate is not None:
        data = xj.privacy.subsample(data, rate)
    options = {"quantity": "rate", "outcome": "score", "bounds": (0, 1), "pool": D}
    return xj.QII(model, data, **options).explain()


@pytest.mark.filterwarnings("ignore::xaijax.core.errors.XaiWarning")  # a paper's noise; equal rows
@pytest.mark.parametrize("options", [{}, {"composition": "sequential"}, {"calibration": "paper"}])
@pytest.mark.parametrize("rate", [None, 0.5])
def test_an_epsilon_without_noise_is_refused_with_the_largest_that_has_some(options, rate):
    pytest.importorskip("opendp")
    found = report(rate)
    for epsilon in (1e300, 1e308):
        with pytest.raises(xj.PrivacyError, match="leaves no noise.*largest epsilon") as caught:
            xj.privacy.release(found, epsilon, **options)
    most = float(str(caught.value).rpartition(" ")[2].rstrip("."))
    # Six digits are printed: one part in 1e5 to either side is past their rounding.
    with pytest.raises(xj.PrivacyError, match="leaves no noise"):
        xj.privacy.release(found, most * (1 + 1e-5), **options)
    copy = xj.privacy.release(found, most * (1 - 1e-5), **options)
    assert copy.mechanism["scale"] * 2**20 == pytest.approx(mechanism.LEAST_NOISE, rel=1e-4)


def test_the_least_noise_is_what_its_reason_says():
    q = math.exp(-1 / mechanism.LEAST_NOISE)
    assert 2 * q / (1 + q) == pytest.approx(1 / 20)


def test_what_a_sample_spends_and_its_inverse():
    for epsilon in (1e-3, 1.0, 499.0, 501.0, 1e6):
        back = mechanism.of_all_rows(mechanism.amplified(epsilon, 0.3), 0.3)
        assert back == pytest.approx(epsilon, rel=1e-9)  # amplified takes off a part in 1e12


@pytest.mark.slow
def test_an_interrupt_while_opendp_is_imported_leaves_it_usable():
    """OpenDP registers names while it imports scikit-learn, and cannot be imported twice."""
    pytest.importorskip("opendp")
    script = (
        "import signal, sys\n"
        "from xaijax.privacy import mechanism\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'sklearn.base' and self in sys.meta_path:\n"
        "            sys.meta_path.remove(self)\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "try:\n"
        "    mechanism.library()\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted', len(mechanism.noisy([5], 1.0)))\n"
    )
    path = f"{ROOT}:{ROOT / 'kernels'}"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.stdout == "interrupted 1\n", run.stderr


@pytest.mark.parametrize("timeout", [1e10, 10**400, float("nan"), 0])
def test_a_timeout_that_no_clock_counts(timeout):
    with pytest.raises(xj.InputError, match="timeout= must be a positive number of seconds, at"):
        xj.as_model(lambda rows: rows[:, 0], backend="host", timeout=timeout)


def test_an_index_that_is_no_text():
    with pytest.raises(xj.InputTypeError, match="kind: got list"):
        xj.Explanation(values=[[1.0]], base_values=[0.0], kind=[])


def test_whole_numbers_beyond_the_floats_are_no_answers():
    model = xj.as_model(lambda X: [10**400] * len(X), backend="host")
    with pytest.raises(xj.ModelOutputError, match="beyond the floats"):
        model.predict(np.zeros((2, 3)))
