"""The noise is discrete Laplace, and has one source; a loss in utility is its tail.

Each chi-square test of sound noise fails with chance 1e-7, 4e-7 a run; the other statistical tests
say theirs, 1e-9 and less.
"""

from __future__ import annotations

import ast
import math
import re

import numpy as np
import oracles_privacy as oracles
import pytest
from repository import ROOT, library_modules, parsed
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


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.6, 3.7, 1000.25, 345678.9])
def test_noise_is_discrete_laplace(scale):
    draws = np.array(mechanism.noisy([0] * DRAWS, scale))
    assert chi_square(draws, scale) > NOISE_ALARM
    # 14 standard errors of 100,000 draws (the kurtosis of Laplace is 6): never by chance.
    assert mechanism.standard_error(scale) * LATTICE == pytest.approx(draws.std(), rel=0.05)


def test_the_chi_square_test_sees_other_noise():
    rng = np.random.default_rng(0)
    rounded = np.rint(rng.laplace(0, 3.7, 5 * DRAWS)).astype(int)  # continuous noise, rounded
    # p is about 1e-44 and 1e-50 here: 1e-9 is missed with chance far below 1e-9.
    narrow = np.array(mechanism.noisy([0] * DRAWS, 3.5))
    assert chi_square(rounded, 3.7) < 1e-9 and chi_square(narrow, 3.7) < 1e-9


def test_draws_never_repeat():
    one, other = (mechanism.noisy([0] * 100, 1e14) for _ in range(2))
    # Two alike: chance 1 / (4 scale) for each of 19,900 pairs, 5e-11 a run.
    assert len({*one, *other}) == 200


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


# Modules by which chance, or any module at all, can be had.
SOURCES = {
    "random", "secrets", "uuid", "opendp", "scipy", "importlib", "runpy", "ctypes", "subprocess",
    "numpy.random", "jax.random", "jax._src.random", "os.urandom", "os.getrandom",
}  # fmt: skip
NAMES = {"random", "urandom", "getrandom", "rng_uniform", "rng_bit_generator", "prng"}
CALLS = {"__import__", "exec", "eval", "compile", "import_module", "require", "optional"}
ALLOWED = {
    "xaijax/privacy/mechanism.py": {"opendp.prelude"},  # the noise
    "xaijax/results/subsample.py": {"secrets"},  # which rows a subsample has
    "xaijax/privacy/ledger.py": {"secrets"},  # salts, keys of unknown questions, names of new files
}
# What a release reaches and other methods use as well: sources of chance for estimators and files.
ELSEWHERE = {
    "xaijax/core/optional.py": {"importlib", "import_module"},
    "xaijax/core/process.py": {"scipy.linalg"},  # only loaded, so that its BLAS can be limited
    "xaijax/results/files/npz.py": {"uuid"},  # the names of files that are being made
    "xaijax/tables/plain_frames.py": {"require"},  # pandas and polars
    # Intervals, and bounds that hold at every look: Student's t and the incomplete gamma
    # function, which draw nothing.
    "xaijax/core/sequences.py": {
        "scipy.special",
        *(f"scipy.special.{name}" for name in ("stdtr", "stdtrit", "gammainc", "gammaln")),
    },
    "xaijax/methods/qii/arguments.py": {"numpy.random (np.random)"},  # samplers, not released
    # Hybrids by which a declared Split is compared with the model, drawn with a fixed seed. They
    # decide no value, and a release asks without a structure (methods/qii/recount.py).
    "xaijax/games/certify.py": {"numpy.random (np.random)", "numpy.random (rng.random)"},
    "kernels/xaijax_kernels/games/sampling.py": {
        "numpy.random (np.random)"
    },  # sampled runs, as well
    # Keys and generators of a model are read or recognised: nothing is drawn from them.
    "xaijax/core/same.py": {"numpy.random (jax.random)"},
    "xaijax/models/identity/identity.py": {
        "numpy.random (np.random)",
        "numpy.random (jax.random)",
    },
    "xaijax/models/identity/fit_fingerprint.py": {"numpy.random (np.random)"},
    # Rows by which a structure or a translation is compared with the model, drawn with a fixed
    # seed when the model is read. They decide no value that a release counts.
    "xaijax/models/structure/agreement.py": {
        "numpy.random (np.random)",
        "numpy.random (np.random.default_rng(0).random)",
    },
    "xaijax/models/structure/found.py": {"numpy.random (jax.random)"},
    "xaijax/models/queries/comparison.py": {"numpy.random (np.random)"},
    "xaijax/tables/frames.py": {"require"},  # pandas and polars
}


def sources_of_chance(source: str) -> set[str]:
    """Modules and names in a file by which random numbers could be had."""
    found = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found |= {module, *(f"{module}.{one.name}" for one in node.names)}
        elif isinstance(node, ast.Attribute) and node.attr in NAMES:
            found.add(f"numpy.random ({ast.unparse(node)})")
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            constant = node.args and isinstance(node.args[0], ast.Constant)
            builtin = called not in ("exec", "eval", "compile") or isinstance(node.func, ast.Name)
            if called in CALLS and builtin:
                found.add(str(node.args[0].value) if constant else called)
    return {
        name
        for name in found
        if name in CALLS
        or any(name == one or name.startswith((f"{one}.", f"{one} ")) for one in SOURCES)
    }


def reached(start: list[str]) -> set[str]:
    """The modules of ours that these import, and so on."""
    paths = library_modules()
    done: set[str] = set()
    waiting = list(start)
    while waiting:
        module = waiting.pop()
        if module in done or module == "xaijax":  # which imports everything
            continue
        done.add(module)
        for node in ast.walk(parsed(paths[module].read_text("utf-8"))):
            named = []
            if isinstance(node, ast.Import):
                named = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                named = [node.module or ""]
                named += [f"{node.module}.{one.name}" for one in node.names]
            waiting += [one for one in named if one in paths]
    return done


@pytest.mark.slow
def test_noise_has_one_source():
    """Of all files of the release, and of all that these import."""
    ours = [name for name in library_modules() if name.startswith("xaijax.privacy")]
    assert len(ours) == len(list((ROOT / "xaijax" / "privacy").rglob("*.py"))) > 0
    others = [
        "xaijax.methods.qii.recount",
        "xaijax.results.subsample",
        "xaijax.results.private_explanation",
    ]
    modules = reached([*ours, *others])
    assert {"xaijax.results.recount", "xaijax.games.strategies.plain"} <= modules
    allowed = ALLOWED | ELSEWHERE
    for name in sorted(modules):
        path = library_modules()[name]
        place = path.relative_to(ROOT).as_posix()
        found = sources_of_chance(path.read_text("utf-8"))
        assert found == allowed.get(place, set()), place
    drawing = [
        path.name
        for name, path in library_modules().items()
        if name in {*ours, *others}
        and re.search(r"\.noisy\(|\bmake_\w+\(", path.read_text("utf-8"))
    ]
    assert sorted(drawing) == ["mechanism.py", "releasing.py"]


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "import random as r",
        "from random import gauss",
        "x = np.random.default_rng(0)",
        "from numpy import random",
        "from numpy import random as r",
        "import numpy.random as r",
        "from numpy.random import laplace",
        "n.random.laplace()",
        "jax.random.laplace(key)",
        "from jax import random",
        "import jax.random as r",
        "from jax.random import laplace",
        "jnp.random",
        "os.urandom(8)",
        "from os import urandom",
        "os.getrandom(8)",
        "import secrets",
        "from secrets import randbelow",
        "import uuid",
        "import scipy.stats",
        "from scipy.stats import laplace",
        "from opendp.measurements import make_gaussian",
        "d = require('opendp.prelude', 'x')",
        "import importlib",
        "importlib.import_module('random')",
        "importlib.import_module(name)",
        "__import__('random')",
        "exec(text)",
    ],
)
def test_the_search_for_noise_sees_what_it_looks_for(source):
    assert sources_of_chance(source)


def test_the_search_for_noise_leaves_others_alone():
    assert not sources_of_chance("import os, numpy as np\nre.compile('a')\nnp.sort(x)")
