"""Modules of neural libraries: their own answers in inference form, and the module untouched."""

from __future__ import annotations

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import xaijax as xj
from xaijax.core.errors import InputError, InputTypeError
from xaijax.models import as_model

KEY = jax.random.key(0)
F, H, K = 4, 6, 3
X = np.asarray(jax.random.normal(KEY, (20, F)), np.float64)
NARROW = X.astype(np.float32)
# float32 answers of two orders of summation: some units in the last place of numbers near 1.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def pair():
    nn = pytest.importorskip("flax.linen")
    module = nn.Sequential([nn.Dense(8), nn.relu, nn.Dense(3), nn.softmax])
    return module, module.init(KEY, jnp.zeros((1, F)))


class TestLinen:
    nn = pytest.importorskip("flax.linen")

    @pytest.mark.slow
    def test_answers_and_labels(self, pair):
        module, variables = pair
        model = as_model((module, variables), output="proba", classes=["a", "b", "c"])
        expected = np.asarray(module.apply(variables, NARROW))
        assert (model.backend, model.name) == ("jax", "Sequential")
        np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5)
        labels = np.array(list("abc"))[expected.argmax(axis=1)]
        np.testing.assert_array_equal(model.labels(X), labels)
        zeros = model.replace(params=jax.tree.map(jnp.zeros_like, variables))
        np.testing.assert_allclose(zeros.predict(X), 1 / 3, rtol=1e-6)

    @pytest.mark.slow
    def test_two_arguments_are_the_pair(self, pair):
        assert np.array_equal(as_model(*pair).predict(X), as_model(pair).predict(X))

    @pytest.mark.slow
    def test_a_train_state(self, pair):
        optax = pytest.importorskip("optax")
        train_state = pytest.importorskip("flax.training.train_state")
        module, variables = pair
        state = train_state.TrainState.create(
            apply_fn=module.apply, params=variables["params"], tx=optax.sgd(0.1)
        )
        model = as_model(state)
        assert model.name == "Sequential"
        assert np.array_equal(model.predict(X), as_model(pair).predict(X))

    @pytest.mark.slow
    def test_norms_and_dropout_in_inference_form(self):
        nn = self.nn

        class Net(nn.Module):
            @nn.compact
            def __call__(self, x, train: bool = True):
                x = nn.BatchNorm(use_running_average=not train)(nn.Dense(H)(x))
                return nn.Dense(K)(nn.Dropout(0.5, deterministic=not train)(nn.relu(x)))

        module = Net()
        variables = module.init(KEY, jnp.zeros((1, F)), train=False)
        expected = np.asarray(module.apply(variables, NARROW, train=False))
        np.testing.assert_allclose(as_model(module, variables).predict(X), expected, **CLOSE)

    def test_the_mode_of_a_field(self):
        nn = self.nn

        class Net(nn.Module):
            train: bool = True

            @nn.compact
            def __call__(self, x):
                return nn.Dropout(0.5, deterministic=not self.train)(nn.Dense(K)(x))

        quiet = Net(train=False)
        module = Net()
        variables = quiet.init(KEY, jnp.zeros((1, F)))
        expected = np.asarray(quiet.apply(variables, NARROW))
        np.testing.assert_allclose(as_model(module, variables).predict(X), expected, **CLOSE)
        assert module.train

    @pytest.mark.parametrize("layer", ["norm", "dropout"])
    def test_a_mode_that_cannot_be_changed_is_refused(self, layer):
        nn = self.nn
        made = {
            "norm": lambda: nn.BatchNorm(use_running_average=False),
            "dropout": lambda: nn.Dropout(0.5, deterministic=False),
        }[layer]

        class Net(nn.Module):
            @nn.compact
            def __call__(self, x):
                return made()(nn.Dense(K)(x))

        module = Net()
        variables = module.init({"params": KEY, "dropout": KEY}, jnp.zeros((2, F)))
        with pytest.raises(InputTypeError, match="in training mode.*train=False"):
            as_model(module, variables).predict(X)

    def test_a_mode_by_field_and_by_call(self):
        """Of the same name: the call's own default would win, were it not said in the call, too."""
        nn = self.nn

        class Both(nn.Module):
            train: bool = True

            @nn.compact
            def __call__(self, x, train=True):
                return nn.Dense(K)(x) * (100 if train or self.train else 1)

        variables = Both().init(KEY, NARROW)
        expected = np.asarray(Both(train=False).apply(variables, NARROW, train=False))
        np.testing.assert_allclose(as_model(Both(), variables).predict(X), expected, **CLOSE)

    def test_variables_without_batch_stats(self):
        module = self.nn.BatchNorm(use_running_average=True)  # said by a field, not in the call
        variables = module.init(KEY, NARROW)
        np.testing.assert_allclose(as_model(module, variables).predict(X), NARROW, rtol=1e-4)
        with pytest.raises(InputTypeError, match="collection that its variables lack.*batch_stats"):
            as_model(module, {"params": {}}).predict(X)

    def test_mistakes(self, pair):
        module, variables = pair
        for f in (module, (module,), (module, 3)):
            with pytest.raises(InputTypeError, match="module, variables"):
                as_model(f)
        with pytest.raises(InputError, match="params"):
            as_model((module, variables["params"]))
        for options in ({"backend": "host"}, {"params": variables}, {"state": 1}):
            with pytest.raises(InputError, match=next(iter(options))):
                as_model(pair, **options)

    def test_a_module_of_more_than_rows_names_what_to_write(self):
        nn = self.nn

        class Masked(nn.Module):
            @nn.compact
            def __call__(self, x, mask):
                return nn.Dense(K)(x * mask)

        variables = Masked().init(KEY, jnp.zeros((1, F)), jnp.ones(F))
        with pytest.raises(InputTypeError, match="takes mask besides rows.*module.apply"):
            as_model(Masked(), variables)


class TestNnx:
    nnx = pytest.importorskip("flax.nnx")

    def net(self):
        nnx = self.nnx

        class Net(nnx.Module):
            def __init__(self, rngs):
                self.first = nnx.Linear(F, H, rngs=rngs)
                self.norm = nnx.BatchNorm(H, rngs=rngs)
                self.drop = nnx.Dropout(0.5, rngs=rngs)
                self.last = nnx.Linear(H, K, rngs=rngs)

            def __call__(self, x):
                return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))

        module = Net(nnx.Rngs(0))
        module(NARROW)  # in training mode: moves the running averages away from zero and one
        return module

    @pytest.mark.slow
    def test_in_inference_mode_and_untouched(self):
        nnx = self.nnx
        module = self.net()
        before = jax.tree.map(
            np.asarray, nnx.to_pure_dict(nnx.state(module, nnx.Not(nnx.RngState)))
        )
        model = as_model(module)
        found = model.predict(X)
        after = jax.tree.map(np.asarray, nnx.to_pure_dict(nnx.state(module, nnx.Not(nnx.RngState))))
        assert jax.tree.all(jax.tree.map(np.array_equal, before, after))
        assert not module.norm.use_running_average and not module.drop.deterministic
        quiet = nnx.clone(module)
        quiet.eval()
        np.testing.assert_allclose(found, quiet(NARROW), **CLOSE)
        assert (model.backend, model.name) == ("jax", "Net")

    def test_images_as_they_come(self):
        """A network says itself which rows it takes: input_shape= is for those who want a check."""
        conv = self.nnx.Conv(1, 2, (3, 3), rngs=self.nnx.Rngs(0))
        images = np.random.default_rng(0).normal(size=(5, 4, 6, 1)).astype("f4")
        expected = np.asarray(conv(images)).mean(axis=(1, 2))
        mean = self.nnx.Sequential(conv, lambda z: z.mean(axis=(1, 2)))
        model = as_model(mean)
        np.testing.assert_allclose(model.predict(images), expected, **CLOSE)
        np.testing.assert_array_equal(model.labels(images), expected.argmax(axis=1))
        with pytest.raises(InputError, match="input_shape="):
            as_model(mean, feature_names=list("ab")).predict(images)
        with pytest.raises(InputError, match=r"\(4, 4, 1\)"):
            as_model(mean, input_shape=(4, 4, 1)).predict(images)

    def test_other_params(self):
        model = as_model(self.nnx.Linear(F, K, rngs=self.nnx.Rngs(0)))
        zeros = model.replace(params=jax.tree.map(jnp.zeros_like, model.params))
        assert np.array_equal(zeros.predict(X), np.zeros((20, K)))

    def test_refused(self):
        nnx = self.nnx

        class Masked(nnx.Module):
            def __call__(self, x, mask):
                return (x * mask).sum(1)

        with pytest.raises(InputTypeError, match=r"takes mask besides rows.*nnx.split\(module\)"):
            as_model(Masked())
        normed = nnx.BatchNorm(F, rngs=nnx.Rngs(0))
        normed.train()
        with pytest.raises(InputTypeError, match="changes a Flax nnx module.*as_model.module"):
            as_model(lambda rows: normed(rows)).predict(X)
        for options in ({"backend": "host"}, {"params": {}}, {"state": 1}):
            with pytest.raises(InputError, match=next(iter(options))):
                as_model(nnx.Linear(F, K, rngs=nnx.Rngs(0)), **options)


class TestEquinox:
    eqx = pytest.importorskip("equinox")

    @pytest.mark.slow
    def test_in_inference_mode_and_mapped_over_rows(self):
        eqx = self.eqx
        keys = jax.random.split(KEY, 2)
        linear = [eqx.nn.Linear(F, H, key=keys[0]), eqx.nn.Linear(H, 2, key=keys[1])]
        module = eqx.nn.Sequential([linear[0], eqx.nn.Dropout(0.5), linear[1]])
        model = as_model(module)
        quiet = eqx.nn.inference_mode(module)
        expected = np.stack([np.asarray(quiet(x)) for x in NARROW])
        np.testing.assert_allclose(model.predict(X), expected, **CLOSE)
        assert "mapped over rows" in repr(model)
        doubled = jax.tree.map(lambda leaf: 2 * leaf, eqx.filter(module, eqx.is_array))
        # Two linear layers with doubled weights and biases: 4 W2 W1 x + 4 W2 b1 + 2 b2.
        shifted = 4 * expected - 2 * np.asarray(module.layers[2].bias)
        other = model.replace(params=doubled)
        np.testing.assert_allclose(other.predict(X), shifted, rtol=1e-4, atol=1e-5)
        # A wrapper takes what it wraps: a batch.
        wrapped = as_model(eqx.filter_jit(eqx.filter_vmap(quiet)))
        np.testing.assert_allclose(wrapped.predict(X), expected, **CLOSE)
        with pytest.raises(InputError, match="structure"):
            model.replace(params=module)
        with pytest.raises(InputError, match="backend="):
            as_model(module, backend="host")

    def stateful(self):
        eqx = self.eqx

        class Normed(eqx.Module):
            linear: eqx.nn.Linear
            norm: eqx.nn.BatchNorm

            def __init__(self, key):
                self.linear = eqx.nn.Linear(F, H, key=key)
                self.norm = eqx.nn.BatchNorm(H, axis_name="batch", mode="ema")

            def __call__(self, x, state):
                out, state = self.norm(jnp.tanh(self.linear(x)), state)
                return out.sum(), state

        module, state = eqx.nn.make_with_state(Normed)(KEY)
        trained = jax.vmap(module, axis_name="batch", in_axes=(0, None), out_axes=(0, None))
        return module, trained(NARROW, state)[1]

    @pytest.mark.slow
    def test_a_state_is_read_and_never_written(self):
        module, state = self.stateful()
        quiet = self.eqx.nn.inference_mode(module)
        expected = np.asarray(jax.vmap(lambda x: quiet(x, state)[0])(NARROW))
        forms = [as_model(module, state=state), as_model(module, state), as_model((module, state))]
        for model in forms:
            np.testing.assert_allclose(model.predict(X), expected, **CLOSE)
            assert np.array_equal(model.predict(X), model.predict(X))

    @pytest.mark.slow
    def test_refused(self):
        eqx = self.eqx
        module, state = self.stateful()
        with pytest.raises(InputTypeError, match="Normed, which takes state.*state=state"):
            as_model(module)
        with pytest.raises(InputError, match="given twice"):
            as_model((module, state), state=state)
        with pytest.raises(InputError, match="Linear does not"):
            as_model(eqx.nn.Linear(F, K, key=KEY), state=state)
        layers = [eqx.nn.Linear(F, 3, key=KEY), eqx.nn.BatchNorm(3, "batch", mode="ema")]
        for nest in (lambda one: one, lambda one: eqx.nn.Sequential([one])):
            make = eqx.nn.make_with_state(lambda nest=nest: nest(eqx.nn.Sequential(layers)))
            with pytest.raises(InputTypeError, match="Sequential, which takes state"):
                as_model(make()[0])

        dropped = eqx.nn.Sequential([eqx.nn.Linear(F, K, key=KEY), eqx.nn.Dropout(0.5)])
        with pytest.raises(InputTypeError, match="Equinox module in training mode.*inference_mode"):
            as_model(lambda rows: jax.vmap(dropped)(rows)).predict(X)

        class Noisy(eqx.Module):
            def __call__(self, x, key):
                return x.sum() + jax.random.normal(key)

        with pytest.raises(InputTypeError, match="Noisy, which takes key besides a row.*of them"):
            as_model(Noisy())

    def test_a_state_that_may_be_left_out(self):
        eqx = self.eqx

        class Optional(eqx.Module):
            index: eqx.nn.StateIndex

            def __call__(self, x, state=None, *, key=None):
                return x.sum()

        model = as_model(Optional(eqx.nn.StateIndex(jnp.zeros(()))))
        assert xj.Explainer(model, X[:5])(X).stats["structure"] == "additive"


@pytest.fixture(scope="module")
def keras():
    os.environ.setdefault("KERAS_BACKEND", "jax")  # read once, when it is imported
    keras = pytest.importorskip("keras")
    if keras.backend.backend() != "jax":
        pytest.skip("Keras runs on another backend here; KERAS_BACKEND=jax")
    return keras


class TestKeras:
    @pytest.mark.slow
    def test_in_inference_form(self, keras):
        layers = keras.layers
        net = keras.Sequential(
            [
                keras.Input((F,)),
                layers.Dense(H),
                layers.BatchNormalization(),
                layers.Dropout(0.5),
                layers.Dense(K),
            ]
        )
        net(NARROW, training=True)  # moves the running averages
        expected = np.asarray(net(NARROW, training=False))
        model = as_model(net)
        assert model.backend == "jax"
        np.testing.assert_allclose(model.predict(X), expected, **CLOSE)
        host = as_model(net, backend="host")
        np.testing.assert_allclose(host.predict(X), expected, **CLOSE)
        params = {"trainable": [0 * one for one in model.params["trainable"]]}
        zeros = model.replace(params=params | {"fixed": model.params["fixed"]})
        assert np.array_equal(zeros.predict(X), np.zeros((20, K)))
        np.testing.assert_allclose(np.asarray(net(NARROW, training=False)), expected, **CLOSE)

    @pytest.mark.slow
    def test_refused(self, keras):
        with pytest.raises(InputError, match="Call it once"):
            as_model(keras.Sequential([keras.layers.Dense(K)]))
        both = self.of_two_inputs(keras)
        for model in (as_model(both), as_model(both, backend="host")):
            with pytest.raises(InputTypeError, match=r"takes 2 arrays.*\['left', 'right'\]"):
                model.predict(X)

    @pytest.mark.slow
    def test_of_several_heads(self, keras):
        given = keras.Input((F,))
        first, second = keras.layers.Dense(1)(given), keras.layers.Dense(3)(given)
        rows = np.ones((2, F), np.float32)
        for outputs in ([first, second], {"a": first, "b": second}):
            m = keras.Model(given, outputs)
            with pytest.raises(InputError, match=r"with 2 outputs.*keras.Model\(m.inputs, m.outp"):
                as_model(m)
            chosen = as_model(keras.Model(m.inputs, m.outputs[1])).predict(rows)
            np.testing.assert_allclose(
                chosen, np.asarray(m(rows)["b" if isinstance(outputs, dict) else 1]), 1e-5
            )

    def of_two_inputs(self, keras):
        one, two = keras.Input((F,), name="left"), keras.Input((2,), name="right")
        joined = keras.layers.Concatenate()([one, two])
        return keras.Model({"left": one, "right": two}, keras.layers.Dense(K)(joined))

    @pytest.mark.slow
    def test_several_inputs(self, keras):
        both = self.of_two_inputs(keras)
        rows = {"left": NARROW, "right": NARROW[:, :2] ** 2}
        expected = np.asarray(both(rows, training=False))
        for model in (as_model(both), as_model(both, backend="host")):
            np.testing.assert_allclose(model.predict(rows), expected, **CLOSE)
        swapped = {"years": rows["right"], "zeal": rows["left"]}  # sorted, they would fit
        with pytest.raises(InputTypeError, match=r"rows have \['years', 'zeal'\].*'left', 'right'"):
            as_model(both).predict(swapped)
        found = xj.Explainer(as_model(both), {n: leaf[:3] for n, leaf in rows.items()})(rows)
        assert found.values.shape == (20, F + 2, K)


@pytest.mark.slow
def test_a_recurrent_nnx_module_that_counts_its_draws():
    nnx = pytest.importorskip("flax.nnx")

    class Last(nnx.Module):
        def __init__(self, rngs):
            self.cells = nnx.RNN(nnx.LSTMCell(2, 3, rngs=rngs), rngs=rngs)
            self.out = nnx.Linear(3, K, rngs=rngs)

        def __call__(self, rows):
            return self.out(self.cells(rows)[:, -1])

    module = Last(nnx.Rngs(0))
    rows = NARROW.reshape(10, 4, 2)
    model = as_model(module)
    found = model.predict(rows)
    np.testing.assert_allclose(found, np.asarray(module(jnp.asarray(rows))), **CLOSE)
    assert np.array_equal(found, model.predict(rows))
    explanation = xj.Explainer(module, rows[:1], players=np.arange(8).reshape(4, 2) // 2)(rows[1:3])
    total = explanation.base_values + explanation.values.sum(axis=1)
    np.testing.assert_allclose(total, found[1:3], rtol=1e-5, atol=1e-5)


def test_a_linen_module_that_writes_a_cache():
    nn = pytest.importorskip("flax.linen")

    class Counts(nn.Module):
        @nn.compact
        def __call__(self, rows):
            calls = self.variable("cache", "calls", lambda: jnp.zeros(()))
            calls.value += 1.0
            return nn.Dense(K)(rows)

    module = Counts()
    variables = module.init(KEY, jnp.zeros((1, F)))
    wanted = np.asarray(module.apply(variables, NARROW, mutable=["cache"])[0])
    np.testing.assert_allclose(as_model((module, variables)).predict(NARROW), wanted, **CLOSE)


def test_predict_of_a_keras_model_is_the_model(keras):
    module = keras.Sequential([keras.layers.Input((F,)), keras.layers.Dense(K, "tanh")])
    found, wanted = as_model(module.predict), as_model(module)
    assert repr(found) == repr(wanted)
    assert np.array_equal(found.predict(NARROW), wanted.predict(NARROW))
