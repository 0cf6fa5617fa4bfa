"""Every kind of model and every question on several devices: the values of one device.

A step that is jitted (relu is one) was traced with placed parameters, and fitted one mesh only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from tempfile import mkdtemp
from typing import Any

import eight_devices
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen, nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from often import some_slow
from sklearn.neural_network import MLPClassifier

import xaijax as xj

F, H, N, B = 6, 8, 12, 8
RNG = np.random.default_rng(11)
PARAMS = {"W": RNG.normal(size=(F, H)).astype("f4"), "V": RNG.normal(size=H).astype("f4")}
X, DONORS, MORE = (RNG.normal(size=(rows, F)).astype("f4") for rows in (N, B, 32))
TILE = 256  # 12 x 8 pairs of 64 corners are 24 tiles


def of_step(step: Callable[[Any], Any], params: Any = PARAMS, **options: Any) -> xj.Model:
    def network(params: Any, rows: Any) -> Any:
        return step(rows @ params["W"]) @ params["V"]

    return xj.as_model(network, params, **options)


def relu(**options: Any) -> xj.Model:
    return of_step(jax.nn.relu, **options)


def silu(**options: Any) -> xj.Model:
    return of_step(jax.nn.silu, **options)


def where(**options: Any) -> xj.Model:
    return of_step(lambda h: jnp.where(h > 0, h, 0.1 * h), **options)


def clip(**options: Any) -> xj.Model:
    return of_step(lambda h: jnp.clip(h, 0, 1), **options)


def own_jit(**options: Any) -> xj.Model:
    return of_step(jax.jit(lambda h: jax.nn.relu(h) * h), **options)  # a rule of derivatives within


def of_linen(**options: Any) -> xj.Model:
    module = linen.Sequential([linen.Dense(H), linen.relu, linen.Dense(1)])
    return xj.as_model(module, module.init(jax.random.key(0), X[:1]), **options)


def of_nnx(**options: Any) -> xj.Model:
    rngs = nnx.Rngs(0)
    linear = nnx.Linear(F, H, rngs=rngs), nnx.Linear(H, 1, rngs=rngs)
    module = nnx.Sequential(linear[0], nnx.relu, linear[1])
    return xj.as_model(module, **options)


def equinox(**options: Any) -> xj.Model:
    module = eqx.nn.MLP(F, 1, H, 1, key=jax.random.key(0))
    return xj.as_model(module, **options)


def classifier(**options: Any) -> xj.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it does not converge
        fitted = MLPClassifier((H,), max_iter=20, random_state=0).fit(X, X[:, 0] > 0)
    options.pop("threshold", None)  # it decides by itself
    return xj.as_model(fitted, output=1, **options)


KINDS = {
    f.__name__: f for f in (relu, silu, where, clip, own_jit, of_linen, of_nnx, equinox, classifier)
}


def explained(make: Callable[..., xj.Model], devices: int | None, **options: Any) -> xj.Explainer:
    return xj.Explainer(make(), DONORS, devices=devices, tile=TILE, **options)


def values(make: Callable[..., xj.Model], devices: int | None, **options: Any) -> np.ndarray:
    return explained(make, devices, **options)(X, progress=False).values


def interactions(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    return explained(make, devices).interactions(X, progress=False).values


def top(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)  # the budget does not suffice for all
        made = explained(make, devices, estimator="permutation", budget=48)
        return made(X, top=2, progress=False).values


def gradients(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    made = xj.GradientExplainer(make(), DONORS, steps=8, devices=devices, tile=TILE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)  # few steps for kinks
        return made(X, progress=False).values


def shapley_values(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    """The parameters are where the devices are: it runs there."""
    model = make()
    assert model.apply is not None
    mesh = Mesh(np.array(jax.devices()[:devices]), ("all",))
    params = jax.device_put(model.params, NamedSharding(mesh, PartitionSpec()))
    return np.asarray(xj.shapley_values(model.apply, X[0], DONORS, params=params))


def qii(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    options = {"quantity": "individual", "outcome": "score", "bounds": (-99, 99)}
    return xj.QII(make(), X, **options, devices=devices, tile=TILE).unary().values


def anchors(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    made = xj.AnchorExplainer(make(threshold=0.5), X, devices=devices, tile=TILE)
    rules = made.explain(X[:3], search="kl-lucb", coverage_samples=100, progress=False)
    return np.array([[rule.precision, rule.coverage, len(rule.predicates)] for rule in rules])


def amortized(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xj.XaiWarning)  # a poor network
        made = xj.AmortizedExplainer(explained(make, devices), hidden=(4,))
        made.fit(MORE, judge=9, steps=10, batch=4, progress=False)
        return made(X, fallback=0, progress=False).values


def swept(make: Callable[..., xj.Model], devices: int | None) -> np.ndarray:
    run = xj.sweep(explained(make, devices), X, mkdtemp(), rows_per_part=7, progress=False)
    return run.explanation().values


QUESTIONS: dict[str, Callable[..., np.ndarray]] = {
    "exact": values,
    "kernel": partial(values, estimator="kernel", budget=30),
    "permutation": partial(values, estimator="permutation", budget=24),
    "interactions": interactions,
    "top": top,
    "gradients": gradients,
    "shapley_values": shapley_values,
    "qii": qii,
    "anchors": anchors,
    "amortized": amortized,
    "sweep": swept,
}
ALL = [(kind, question) for question in QUESTIONS for kind in KINDS]
# Each kind of model and each question once; other pairs of them on eight devices than on two.
FEW = {
    2: [(list(KINDS)[n % len(KINDS)], question) for n, question in enumerate(QUESTIONS)],
    8: [(list(KINDS)[(n + 5) % len(KINDS)], question) for n, question in enumerate(QUESTIONS)],
}


def asked(out: dict[str, np.ndarray], pairs: list[tuple[str, str]]) -> None:
    """The answers by all devices and by one, in the process that has them."""
    warnings.simplefilter("error", xj.XaiWarning)
    for n, (kind, question) in enumerate(pairs):
        # The second finds what the first has traced and compiled.
        for devices in (None, 1) if n % 2 else (1, None):
            found = QUESTIONS[question](KINDS[kind], devices)
            out[f"{kind} {question} {devices or len(jax.devices())}"] = found


def close(kind: str, question: str, several: np.ndarray, one: np.ndarray) -> None:
    what = f"{kind}, {question}"
    size = np.abs(one).max()
    assert np.isfinite(one).all() and size > 0, what
    # A module under vmap rounds by the rows of a call: some units of 2^-24.
    if kind == "equinox":
        np.testing.assert_allclose(several, one, rtol=0, atol=1e-6 * size, err_msg=what)
    else:
        np.testing.assert_array_equal(several, one, err_msg=what)


def answered(
    count: int, pairs: list[tuple[str, str]], folder: Any
) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """(kind, question, the answers by that number of devices, those by one)."""
    script = f"\nimport test_several_devices as own\nown.asked(out, {pairs!r})\n"
    found = eight_devices.outcome(script, folder, count)
    for kind, question in pairs:
        several, one = (found[f"{kind} {question} {devices}"] for devices in (count, 1))
        yield kind, question, several, one


def compare(count: int, pairs: list[tuple[str, str]], folder: Any) -> None:
    for pair in answered(count, pairs, folder):
        close(*pair)


@pytest.mark.slow
@pytest.mark.parametrize("count", some_slow(FEW))
def test_devices_give_the_values_of_one(count, tmp_path):
    compare(count, FEW[count], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("count", FEW)
def test_devices_give_the_values_of_one_for_every_model(count, question, tmp_path):
    compare(count, [pair for pair in ALL if pair[1] == question], tmp_path)


PLACED = """
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as Spec
import test_several_devices as own

auto = Mesh(np.array(jax.devices()), ("all",))
explicit = jax.make_mesh((4,), ("all",), axis_types=(AxisType.Explicit,))
halves = {"W": Spec(None, "all"), "V": Spec("all")}
places = {
    "arrays": own.PARAMS,
    "device": jax.device_put(own.PARAMS, jax.devices()[-1]),
    "copies": jax.device_put(own.PARAMS, NamedSharding(auto, Spec())),
    "explicit": jax.device_put(own.PARAMS, NamedSharding(explicit, Spec())),
    "sharded": {k: jax.device_put(own.PARAMS[k], NamedSharding(auto, halves[k])) for k in halves},
}
for place, params in places.items():
    for devices in (None,) if place == "sharded" else (None, 2, 1):
        for question in ("exact", "gradients"):
            found = own.QUESTIONS[question](lambda: own.of_step(jax.nn.relu, params), devices)
            out[f"{place} {question} {devices}"] = found
model = own.of_step(jax.nn.relu, places["arrays"])
out["replaced exact None"] = own.values(lambda: model.replace(params=places["copies"]), None)
"""


@pytest.mark.slow
def test_parameters_may_be_on_any_devices(tmp_path):
    found = eight_devices.outcome(PLACED, tmp_path, 4)
    for name, there in found.items():
        here = found[f"arrays {name.split()[1]} 1"]
        if name.startswith("sharded"):
            # Sums of 8 terms of size 3 at most, in another order: some units of 2^-22 each.
            np.testing.assert_allclose(there, here, rtol=0, atol=1e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(there, here, err_msg=name)


AHEAD = """
import test_several_devices as own
from xaijax.games.engine import dispatch

under_way, most = [0], [0]
begun, run = dispatch.submit, dispatch.Dispatches.run


def beside(*given):
    under_way[0] += 1
    most[0] = max(most[0], under_way[0])
    return begun(*given)


def counted(*given, **named):
    for one in run(*given, **named):
        under_way[0] -= 1
        yield one


dispatch.submit, dispatch.Dispatches.run = beside, counted
for devices in (2, 1):
    for question, options in own.LOOKED_AHEAD.items():
        most[0] = 0
        options = {"batch_size": 2 * own.TILE, **options}
        model = own.relu(structure=options.pop("structure", None))
        made = own.explained(lambda: model, devices, **options)
        out[f"{question} {devices}"] = made(np.tile(own.X, (2, 1)), progress=False).values
        out[f"most {question} {devices}"] = np.array(most[0])
"""
LOOKED_AHEAD: dict[str, dict[str, Any]] = {
    "exact": {},
    "plain": {"structure": "plain"},
    "kernel": {"estimator": "kernel", "budget": 30, "structure": "plain"},
    "permutation": {"estimator": "permutation", "budget": 60, "structure": "plain"},
}


@pytest.mark.slow
def test_dispatches_under_way_on_two_devices_give_the_values_of_one(tmp_path):
    """The call needs several dispatches, so that others begin before the first is read."""
    found = eight_devices.outcome(AHEAD, tmp_path, 2)
    for question in LOOKED_AHEAD:
        assert found[f"most {question} 2"] > 1, question
        np.testing.assert_array_equal(found[f"{question} 2"], found[f"{question} 1"], question)
