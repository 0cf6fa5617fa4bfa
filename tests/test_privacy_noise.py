"""The noise is discrete Laplace, and has one source; a loss in utility is its tail.

Each chi-square test of sound noise fails with chance 1e-7: 4e-7 a run.
"""

from __future__ import annotations

import ast
import math

import numpy as np
import oracles_privacy as oracles
import pytest
from repository import ROOT
from scipy.stats import chi2

import xaijax as xj
from xaijax.privacy import mechanism

pytest.importorskip("opendp", reason="needs the extra [privacy]")

DRAWS = 100_000
LATTICE = 1 << 20
NOISE_ALARM = 1e-7  # each of the chi-square tests below; four of them


def chi_square(draws, scale, cells=60):
    """The p value of draws against the discrete Laplace distribution, in cells of like chance."""
    q = math.exp(-1 / scale)
    reach = max(3, math.ceil(12 * scale))
    k = np.arange(-reach, reach + 1)
    chance = oracles.discrete_laplace(k, scale)
    total = np.cumsum(chance)
    cell = np.minimum((total * cells).astype(int), cells - 1)
    expected = np.bincount(cell, chance, cells)
    expected[[0, -1]] += q ** (reach + 1) / (1 + q)  # the tails
    used = expected > 0
    seen = np.bincount(cell[np.clip(draws, -reach, reach) + reach], minlength=cells)
    gap = (seen - len(draws) * expected) ** 2 / np.where(used, len(draws) * expected, 1)
    return chi2.sf(gap[used].sum(), used.sum() - 1)


@pytest.mark.parametrize("scale", [0.6, 3.7, 1000.25, 345678.9])
def test_noise_is_discrete_laplace(scale):
    draws = np.array(mechanism.noisy([0] * DRAWS, scale))
    assert chi_square(draws, scale) > NOISE_ALARM
    assert mechanism.standard_error(scale) * LATTICE == pytest.approx(draws.std(), rel=0.05)


def test_the_chi_square_test_sees_other_noise():
    rng = np.random.default_rng(0)
    rounded = np.rint(rng.laplace(0, 3.7, 5 * DRAWS)).astype(int)  # continuous noise, rounded
    narrow = np.array(mechanism.noisy([0] * DRAWS, 3.6))
    assert chi_square(rounded, 3.7) < 1e-9 and chi_square(narrow, 3.7) < 1e-9


def test_draws_never_repeat():
    one, other = (mechanism.noisy([0] * 100, 1e9) for _ in range(2))
    assert len({*one, *other}) == 200  # two alike: chance 2e4 / 1e9 at most


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan, 2.0**50])
def test_scales_that_opendp_lets_pass_are_refused(scale):
    with pytest.raises(xj.PrivacyError, match="scale"):
        mechanism.noisy([1], scale)


def test_the_scale_is_one_that_opendp_proves():
    for sensitivity in (1, 3, 834567, 2**40):
        for epsilon in (0.01, 0.3, 1.0, math.pi, 50.0):
            scale = mechanism.scale_for(sensitivity, epsilon)
            assert mechanism.measurement(scale).map(sensitivity) <= epsilon
            assert scale == pytest.approx(sensitivity / epsilon, rel=1e-4)


def test_amplification():
    assert mechanism.amplified(1.0, 1.0) == 1.0
    for epsilon in (1e-6, 0.5, 3.0, 499.0):
        # ln(1 + rate (e^x - 1)), the general form of Theorem 13, takes it back.
        spent = math.log1p(0.1 * math.expm1(mechanism.amplified(epsilon, 0.1)))
        assert spent == pytest.approx(epsilon, rel=1e-9) and spent <= epsilon * (1 + 1e-15)
    assert mechanism.amplified(1000.0, 0.1) == pytest.approx(1000 + math.log(10))


def test_numbers_near_the_end_of_i64_are_refused():
    with pytest.raises(xj.PrivacyError, match=r"2\^50"):
        mechanism.noisy([1 << 50], 1.0)


NOISE = {"random", "secrets", "opendp", "opendp.prelude", "numpy.random", "scipy", "uuid"}
ALLOWED = {
    "mechanism.py": {"opendp.prelude"},  # the noise
    "sampling.py": {"secrets"},  # which rows a subsample has
    "ledger.py": {"secrets"},  # the salt of a ledger
}


def sources_of_chance(source: str) -> set[str]:
    """Modules and names in a file by which random numbers could be had."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
        elif isinstance(node, ast.Attribute) and ast.unparse(node) in (
            "np.random",
            "numpy.random",
            "jax.random",
            "os.urandom",
            "os.getrandom",
        ):
            found.add("numpy.random")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "require":
            found.add(ast.literal_eval(node.args[0]))
    return {name for name in found if name in NOISE or name.split(".")[0] in NOISE}


def test_noise_has_one_source():
    folder = ROOT / "xaijax" / "privacy"
    files = sorted(folder.glob("*.py"))
    assert len(files) >= 10
    for path in files:
        assert sources_of_chance(path.read_text("utf-8")) == ALLOWED.get(path.name, set()), path
    noisy = [
        path.name for path in files if ".noisy(" in path.read_text() or "make_" in path.read_text()
    ]
    assert noisy == ["mechanism.py", "releasing.py"]


def test_the_search_for_noise_sees_what_it_looks_for():
    assert sources_of_chance("import random") == {"random"}
    assert sources_of_chance("x = np.random.default_rng(0)") == {"numpy.random"}
    assert sources_of_chance("from numpy.random import laplace") == {"numpy.random"}
    assert sources_of_chance("jax.random.laplace(key)") == {"numpy.random"}
    assert sources_of_chance("d = require('opendp.prelude', 'x')") == {"opendp.prelude"}
