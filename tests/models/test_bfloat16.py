"""precision="bfloat16": products of parameters are of rounded factors, on every device.

The broken versions: JAX's own word alone, by which a CPU multiplies in float32; factors that were
cast and cast back, which XLA's CPU compiler takes out again; products in loops left as they were.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import compiled_products
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import oracles
import pytest

import xaijax as xj
from bench import compilers
from bench.environments import compilers_environment
from bench.frame import NotRun
from xaijax.games.engine.evaluator import Engine
from xaijax.games.engine.plan import refuse_precision

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 8)).astype(np.float32)
DONORS = RNG.normal(size=(5, 8)).astype(np.float32)
W = [(RNG.normal(size=d) / 3).astype(np.float32) for d in ((8, 16), (16, 16), (16, 3))]
UNIT = 2.0**-24


def rounded(numbers: Any) -> np.ndarray:
    """To bfloat16, by another library."""
    return np.asarray(numbers, np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)


def layer(hidden: Any, weights: Any) -> Any:
    return rounded(hidden) @ rounded(weights)


def network(params: Any, rows: Any) -> Any:
    hidden = jnp.tanh(rows @ params[0])
    return jnp.tanh(hidden @ params[1]) @ params[2]


def on_host(rows: np.ndarray) -> np.ndarray:
    hidden = np.tanh(layer(rows, W[0]))
    return layer(np.tanh(layer(hidden, W[1])), W[2])


# Each takes one product of parameters, in another kind of step; and what it takes it of.
def plain(w: Any, x: Any) -> Any:
    return x @ w


def jitted(w: Any, x: Any) -> Any:
    return jax.jit(lambda rows: rows @ w)(x)


def scanned(w: Any, x: Any) -> Any:
    def step(carry: Any, each: Any) -> Any:
        return carry + x @ each, None

    return jax.lax.scan(step, jnp.zeros((len(x), w.shape[1])), w[None])[0]


def looped(w: Any, x: Any) -> Any:
    return jax.lax.fori_loop(0, 1, lambda i, total: total + x @ w, jnp.zeros((len(x), w.shape[1])))


def repeated(w: Any, x: Any) -> Any:
    def turn(state: Any) -> Any:
        return state[0] + 1, state[1] + x @ w

    return jax.lax.while_loop(lambda s: s[0] < s[1].shape[0], turn, (len(x) - 1, 0 * (x @ w)))[1]


def branched(w: Any, x: Any) -> Any:
    return jax.lax.cond(w[0, 0] > 9, lambda rows: rows @ w + 1, lambda rows: rows @ w, x)


def kept_again(w: Any, x: Any) -> Any:
    return jax.checkpoint(lambda rows: rows @ w)(x)


@jax.custom_vjp
def _own_rule(x: Any, w: Any) -> Any:
    return x @ w


_own_rule.defvjp(lambda x, w: (x @ w, w), lambda w, d: (d @ w.T, None))


def with_rule(w: Any, x: Any) -> Any:
    return _own_rule(x, w)


def each_row(w: Any, x: Any) -> Any:
    return jax.lax.map(lambda row: row @ w, x)


def taken_in_turn(w: Any, x: Any) -> Any:
    """The factor is found by the counter, which depends on no row."""
    parts = jnp.stack([w, 0 * w])
    return jax.lax.fori_loop(0, 2, lambda i, total: total + x @ parts[i], jnp.zeros((len(x), 16)))


def taken_until(w: Any, x: Any) -> Any:
    parts, zeros = jnp.stack([w, 0 * w]), jnp.zeros((len(x), 16))

    def turn(state: Any) -> Any:
        return state[0] + 1, state[1] + x @ parts[state[0]]

    return jax.lax.while_loop(lambda s: s[0] < 2, turn, (0, zeros))[1]


def convolved(w: Any, x: Any) -> Any:
    dims = ("NWC", "WIO", "NWC")
    return jax.lax.conv_general_dilated(x[:, None], w[None], (1,), "VALID", dimension_numbers=dims)[
        :, 0
    ]


KINDS = [
    *(plain, jitted, scanned, looped, repeated, branched, kept_again, each_row),
    *(convolved, taken_in_turn, taken_until),
]


@pytest.mark.parametrize("f", KINDS, ids=lambda f: f.__name__)
def test_factors_are_rounded_in_every_kind_of_step(f):
    found = xj.as_model(f, W[0], precision="bfloat16", structure="plain").predict(X)
    # Products of two numbers of 8 bits are exact; 8 of them are added up in float32.
    size = np.abs(rounded(X)) @ np.abs(rounded(W[0]))
    assert (np.abs(found - layer(X, W[0])) <= 8 * UNIT * size).all()
    assert np.abs(found - X.astype(np.float64) @ W[0]).max() > 1e-4


def test_other_products_are_in_full():
    """Of two rows' numbers, of whole numbers, and of a precision that the function says itself."""
    said = jax.lax.Precision.HIGHEST

    def f(w: Any, x: Any) -> Any:
        attention = jnp.einsum("rik,rjk->rij", x.reshape(-1, 2, 4), x.reshape(-1, 2, 4))
        whole = jnp.ones((3, 3), jnp.int32) @ jnp.ones((3, 3), jnp.int32)
        return jnp.stack([attention[:, 0, 1], jnp.dot(x, w, precision=said)[:, 0]], 1) + whole[0, 0]

    found = xj.as_model(f, W[0], precision="bfloat16").predict(X)
    wide = X.astype(np.float64)
    wanted = np.stack([(wide[:, :4] * wide[:, 4:]).sum(1), wide @ W[0].astype(np.float64)[:, 0]], 1)
    np.testing.assert_allclose(found, wanted + 3, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("structure", [None, "plain"])
def test_values_are_those_of_rounded_products(structure):
    """The structure rounds its columns and weights as the model does, and gives the same values."""
    model = xj.as_model(network, W, precision="bfloat16", structure=structure)
    found = xj.Explainer(model, DONORS)(X, progress=False)
    assert found.stats["structure"] == (None if structure else "first layer")
    wanted, base, _ = oracles.explain(on_host, X, DONORS, oracles.shapley_weight(8))
    # A unit of the host, in float64, is rounded to the other side once in 2^16 times: of 5 donors,
    # 2^8 hybrids and 32 units some tens are, each of which moves an answer by 2^-8 of a term.
    off = np.abs(found.values - wanted).max()
    assert off <= 2e-4
    np.testing.assert_allclose(found.base_values, np.stack(base), rtol=0, atol=1e-3)
    full = xj.Explainer(xj.as_model(network, W), DONORS)(X, progress=False)
    assert np.abs(full.values - wanted).max() > 4 * off
    assert np.abs(full.values - wanted).max() < 0.02


def test_a_layer_that_is_not_the_models_is_still_refused():
    """Tolerances are wider in bfloat16; a layer of other weights is far outside."""
    wrong = xj.FirstLayer(
        weights=lambda p: (jnp.asarray(p[0]) * 1.1, jnp.zeros(16)),
        head=lambda p, hidden: jnp.tanh(jnp.tanh(hidden) @ p[1]) @ p[2],
    )
    model = xj.as_model(network, W, precision="bfloat16", structure=wrong)
    with pytest.raises(xj.InputError, match="does not describe"):
        xj.Explainer(model, DONORS)(X, progress=False)


def test_rows_that_depend_on_each_other_are_still_refused():
    model = xj.as_model(lambda w, x: (x - x.mean(axis=0)) @ w, W[0], precision="bfloat16")
    with pytest.raises(xj.ModelOutputError, match="depends on the batch"):
        xj.Explainer(model, DONORS)(X, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda model: xj.Explainer(model, DONORS, estimator="permutation", budget=60), {}),
        (lambda model: xj.Explainer(model, DONORS, estimator="kernel", budget=60), {}),
        (lambda model: xj.GradientExplainer(model, DONORS), {}),
        (lambda model: xj.GradientExplainer(model, DONORS[:1], path="integrated"), {}),
    ],
)
def test_other_explainers_take_it(make, options):
    values = [
        make(xj.as_model(network, W, precision=one, **options))(X, progress=False).values
        for one in ("float32", "bfloat16")
    ]
    off = np.abs(values[0] - values[1]).max()
    assert 1e-5 < off < 0.03 * np.abs(values[0]).max()


def test_weights_that_f_transforms_leave_the_tile_as_it_is():
    """The broken version: a rounded or masked weight of H H numbers counted as H H / 32 for each
    row, so that tiles became 16 times smaller.
    """
    H, rng = 1_024, np.random.default_rng(3)
    weights = [(rng.normal(size=d) / 30).astype(np.float32) for d in ((30, H), (H, H), (H, 1))]
    mask = np.tri(H, dtype=np.float32)

    def masked(w: Any, x: Any) -> Any:
        return network((w[0], w[1] * mask, w[2]), x)

    rows = rng.normal(size=(4, 30)).astype(np.float32)
    tiles = {}
    for f, precision in ((network, "float32"), (network, "bfloat16"), (masked, "float32")):
        model = xj.as_model(f, weights, precision=precision, structure="plain")
        explainer = xj.Explainer(model, rows, estimator="permutation", budget=62)
        tiles[f.__name__, precision] = explainer.plan(rows[:1]).tile
    assert len(set(tiles.values())) == 1, tiles


@pytest.mark.slow
def test_programs_and_records_tell_precisions_apart():
    found = {}
    for precision in ("float32", "tf32", "bfloat16"):
        model = xj.as_model(network, W, precision=precision)
        found[precision] = xj.Explainer(model, DONORS)(X, progress=False)
    assert {one.provenance["precision"] for one in found.values()} == set(found)
    assert len({one.stats["model_fingerprint"] for one in found.values()}) == 3
    for one, other in (("float32", "bfloat16"), ("tf32", "bfloat16"), ("float32", "tf32")):
        assert found[one].fingerprint.why_not(found[other].fingerprint) == ["model"]
    with pytest.raises(xj.InputError, match="model"):
        xj.merge([found["float32"], found["bfloat16"]])
    assert not np.array_equal(found["float32"].values, found["bfloat16"].values)
    assert "precision='bfloat16'" in repr(model)


def test_what_it_cannot_do_is_refused():
    with pytest.raises(xj.InputError, match=r"one of .*'bfloat16'|bfloat16"):
        xj.as_model(network, W, precision="bf16")
    with pytest.raises(xj.InputError, match="models that JAX traces"):
        xj.as_model(lambda rows: rows[:, 0], backend="host", precision="bfloat16")

    def solves(w: Any, x: Any) -> Any:
        square = w[:8, :8] @ w[:8, :8].T + jnp.eye(8)
        return x @ jax.scipy.sparse.linalg.cg(lambda v: square @ v, jnp.ones(8))[0]

    with pytest.raises(xj.InputError, match="takes inside custom_linear_solve"):
        xj.as_model(solves, W[0], precision="bfloat16").predict(X)
    with pytest.raises(xj.InputError, match="takes inside custom_vjp_call"):
        xj.as_model(with_rule, W[0], precision="bfloat16").predict(X)

    def of_experts(w: Any, x: Any) -> Any:
        return jax.lax.ragged_dot(x, w[None], jnp.array([len(x)]))

    with pytest.raises(xj.InputError, match="takes by ragged_dot"):
        xj.as_model(of_experts, W[0], precision="bfloat16").predict(X)


DEVICES = [
    ("tf32", {"platform": "tpu", "device_kind": "TPU v5 lite"}, "Say precision='bfloat16'"),
    (
        "tf32",
        {"compute_capability": "gfx942", "device_kind": "AMD Instinct MI300X"},
        "AMD.* has none",
    ),
    ("tf32", {"platform": "METAL", "device_kind": "Metal"}, "Metal has none"),
    ("tf32", {"platform": "cpu", "device_kind": "cpu"}, None),
    ("tf32", {"compute_capability": "9.0"}, None),
    ("tf32", {"compute_capability": "7.5"}, "compute capability 8.0"),
    ("bfloat16", {"compute_capability": "7.0"}, "Say precision='float32'"),
    ("bfloat16", {"compute_capability": "9.0"}, None),
    ("bfloat16", {"platform": "tpu", "device_kind": "TPU v4"}, None),
    ("bfloat16", {"compute_capability": "gfx942"}, None),
    ("float32", {"compute_capability": "6.1"}, None),
]


@pytest.mark.parametrize(("precision", "facts", "words"), DEVICES)
def test_devices_without_the_format_are_refused(precision, facts, words, monkeypatch):
    device = SimpleNamespace(**{"platform": "gpu", "device_kind": "a GPU", **facts})
    monkeypatch.setattr(Engine, "devices", (device,))
    if words is None:
        refuse_precision(precision, device, "f")
        return
    model = xj.as_model(network, W, precision=precision)
    with pytest.raises(xj.InputError, match=words):
        xj.Explainer(model, DONORS, max_memory=1 << 30)._open(X)


# What compilers make of it. Two products are of parameters, one is of the network's own numbers.

WANTED: dict[str, dict[str, Any]] = {
    "cpu": {"tf32": {"float32": 3}},
    "v5e:1x1": {"tf32": None},
    "h200": {"tf32": {"tf32": 3}},
}
EVERYWHERE = {"float32": {"float32": 3}, "bfloat16": {"bfloat16": 2, "float32": 1}}


@pytest.mark.slow
def test_products_as_compiled_for_a_cpu():
    for precision, wanted in {**EVERYWHERE, **WANTED["cpu"]}.items():
        assert compiled_products.products(compiled_products.compiled(precision), "cpu") == wanted


@pytest.mark.slow
@pytest.mark.compilers
@pytest.mark.parametrize("target", ["v5e:1x1", "h200"])
def test_products_as_compiled_for_an_accelerator(target):
    """In a process of the environment that has the compiler."""
    try:
        python = compilers_environment(compilers.TARGETS[target].environment)
    except NotRun as error:
        pytest.skip(str(error))
    paths = [ROOT, ROOT / "kernels", ROOT / "tests" / "cases"]
    env = os.environ | compilers.OUT_OF_THE_WAY | {"PYTHONPATH": ":".join(map(str, paths))}
    for name in ("JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS"):  # of another compiler
        env.pop(name, None)
    script = [str(python), compiled_products.__file__, target]
    done = subprocess.run(script, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for precision, wanted in {**EVERYWHERE, **WANTED[target]}.items():
        if wanted is None:
            assert "format of NVIDIA" in found[precision]["error"]
        else:
            assert found[precision] == wanted, precision
