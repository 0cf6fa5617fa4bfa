"""Parameters that are sharded over devices stay as they are, and give the values of one device."""

from __future__ import annotations

import eight_devices
import numpy as np
import pytest

import xaijax as xj
from xaijax.games.engine.dispatch import mesh_of

F, H = 6, 16
RNG = np.random.default_rng(8)
PARAMS = {"first": RNG.normal(size=(F, H)), "second": RNG.normal(size=(H, 2)), "bias": np.zeros(2)}
PARAMS = {name: value.astype("f4") for name, value in PARAMS.items()}
X, DONORS = (RNG.normal(size=(rows, F)).astype("f4") for rows in (9, 4))
WAYS = {
    "exact": {},
    "plain": {"structure": "plain"},
    "orders": {"estimator": "permutation", "budget": 40},
    "kernel": {"estimator": "kernel", "budget": 40},
}


def network(params, rows):
    import jax.numpy as jnp  # noqa: PLC0415

    return jnp.tanh(rows @ params["first"]) @ params["second"] + params["bias"]


def explained(params, way: str) -> tuple[xj.Model, xj.Explanation]:
    options = dict(WAYS[way])
    model = xj.as_model(network, params, structure=options.pop("structure", None))
    return model, xj.Explainer(model, DONORS, **options)(X)


SCRIPT = """
import pytest
import test_sharded_params as own, xaijax as xj
from jax.sharding import Mesh, NamedSharding, PartitionSpec as Spec

mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
how = {"first": Spec(None, "model"), "second": Spec("model", "data"), "bias": Spec()}
put = {k: jax.device_put(v, NamedSharding(mesh, how[k])) for k, v in own.PARAMS.items()}
for way in own.WAYS:
    model, found = own.explained(put, way)
    assert len(found.stats["devices"]) == 8
    out[way] = found.values
    programs = next(kept for key, kept in model.compiled.items() if key[0] == "probe")
    kept = [getattr(one, "call", None) for one in programs.values()]
    kept = [one for one in kept if hasattr(one, "input_shardings")]
    shardings = {str(s.spec) for one in kept for s in jax.tree.leaves(one.input_shardings)
                 if isinstance(s, NamedSharding)}
    # The programs take the parameters in the pieces that they were given in.
    assert {str(how["first"]), str(how["second"])} <= shardings, shardings
    assert all(model.params[k].sharding == put[k].sharding for k in put)
with pytest.raises(xj.InputError, match="devices=.*Leave devices= out"):
    xj.Explainer(model, own.DONORS, devices=1)
other = Mesh(np.array(jax.devices()[:2]), ("model",))
mixed = put | {"first": jax.device_put(own.PARAMS["first"], NamedSharding(other, Spec("model")))}
with pytest.raises(xj.InputError, match="one mesh"):
    xj.Explainer(xj.as_model(own.network, mixed), own.DONORS)
"""


@pytest.mark.slow
def test_sharded_parameters_stay_as_they_are(tmp_path):
    found = eight_devices.outcome(SCRIPT, tmp_path)
    for way in WAYS:
        one = explained(PARAMS, way)[1].values
        # Sums of 16 terms of size 3 in another order of devices: some units of 2^-24 each.
        np.testing.assert_allclose(found[way], one, rtol=0, atol=2e-5)


def test_usual_parameters_have_no_mesh():
    assert mesh_of(PARAMS) is None and mesh_of(None) is None
