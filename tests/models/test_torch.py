"""PyTorch modules: their own answers in inference form, on the host and through torchax."""

from __future__ import annotations

import functools
import importlib

import numpy as np
import pytest

import xaijax as xj
from xaijax.core.errors import InputError, InputTypeError, ModelOutputError
from xaijax.models import as_model

torch = pytest.importorskip("torch", reason="needs PyTorch")

F, H, K, L = 4, 6, 3, 5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, F)).astype(np.float32)
# float32 answers of two orders of summation: some units in the last place of numbers near 1.
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


def network() -> torch.nn.Module:
    torch.manual_seed(0)
    nn = torch.nn
    layers = [nn.Linear(F, H), nn.BatchNorm1d(H), nn.Tanh(), nn.Dropout(0.5), nn.Linear(H, K)]
    module = nn.Sequential(*layers)
    module(torch.from_numpy(X))  # in training mode: moves the running averages
    return module


class Reader(torch.nn.Module):
    """The mean of the words' embeddings, of {"ids", "words"}."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.last = torch.nn.Embedding(9, H), torch.nn.Linear(H, K)

    def forward(self, given):
        assert not given["ids"].is_floating_point() and given["words"].dtype == torch.bool
        found = self.table(given["ids"]) * given["words"][:, :, None]
        return self.last(torch.tanh(found.sum(1)))


def sentences(rows: int) -> dict[str, np.ndarray]:
    words = np.arange(L) < RNG.integers(2, L + 1, rows)[:, None]
    return {"ids": np.where(words, RNG.integers(1, 9, (rows, L)), 0), "words": words}


def own(module, given) -> np.ndarray:
    quiet = module.eval()
    with torch.no_grad():
        if isinstance(given, dict):
            return quiet({name: torch.from_numpy(leaf) for name, leaf in given.items()}).numpy()
        return quiet(torch.from_numpy(given)).numpy()


def test_in_inference_form_and_untouched():
    module = network()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    model = as_model(module)
    found = model.predict(X)
    assert module.training and (model.backend, model.name) == ("host", "Sequential")
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    np.testing.assert_allclose(found, own(module, X), **CLOSE)
    assert np.array_equal(model.predict(X), found)


def test_rows_in_several_arrays():
    module, rows = Reader(), sentences(6)
    model = as_model(module)
    np.testing.assert_allclose(model.predict(rows), own(module, rows), **CLOSE)
    found = xj.Explainer(model, sentences(4), players={"ids": None, "words": -1})(rows)
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, own(module, rows), rtol=0, atol=2e-6)


def test_refused():
    class Masked(torch.nn.Module):
        def forward(self, rows, mask):
            return (rows * mask).sum(1)

    with pytest.raises(InputTypeError, match="takes mask besides rows.*self.module"):
        as_model(Masked())
    with pytest.raises(InputError, match="params= is not accepted"):
        as_model(network(), params={})


@functools.cache
def why_not() -> str | None:
    """Why torchax cannot be used beside this PyTorch; None: it can."""
    try:
        importlib.import_module("torchax")
    except Exception as reason:
        return f"torchax cannot be imported beside this PyTorch: {reason}"
    return None


@pytest.fixture
def torchax() -> None:
    if why_not() is not None:
        pytest.skip(str(why_not()))


def test_without_torchax_the_message_says_what_to_do():
    if why_not() is None:
        pytest.skip("torchax is there")
    with pytest.raises(InputError, match="torchax.*leave backend= out"):
        as_model(network(), backend="jax")


class TestThroughTorchax:
    def test_answers_and_values(self, torchax):
        module = network()
        traced, called = as_model(module, backend="jax"), as_model(module)
        assert traced.backend == "jax" and "torchax" in repr(traced)
        np.testing.assert_allclose(traced.predict(X), own(module, X), **CLOSE)
        found = xj.Explainer(traced, X[:5])(X)
        # 2^4 answers of size 1, each some roundings of float32 apart.
        same = xj.Explainer(called, X[:5])(X)
        np.testing.assert_allclose(found.values, same.values, rtol=0, atol=2e-6)
        zeros = traced.replace(params={n: 0 * one for n, one in traced.params.items()})
        assert np.array_equal(xj.Explainer(zeros, X[:5])(X).values, np.zeros((20, F, K)))

    def test_rows_in_several_arrays(self, torchax):
        module, rows, donors = Reader(), sentences(6), sentences(4)
        players = {"ids": None, "words": -1}
        found = [
            xj.Explainer(as_model(module, backend=backend), donors, players=players)(rows).values
            for backend in ("jax", "auto")
        ]
        np.testing.assert_allclose(*found, rtol=0, atol=2e-6)

    def test_another_answer_is_an_error(self, torchax):
        class Sided(torch.nn.Module):
            """Answers tensors of torchax otherwise than its own."""

            def __init__(self):
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(F))

            def forward(self, rows):
                own = type(rows) is torch.Tensor
                return torch.tanh(rows @ self.weight) + (0.0 if own else 0.1) * (rows[:, 0] > 0)

        explain = xj.Explainer(as_model(Sided(), backend="jax"), X[:5])
        with pytest.raises(
            ModelOutputError, match="differs from the module's own answers by up.*0.1"
        ):
            explain(X)


class Answers(dict):
    """What Hugging Face's modules answer with: fields by name and by attribute."""

    __getattr__ = dict.get


class Classifier(torch.nn.Module):
    """Logits of {"ids", "mask"}, given as keywords, among other answers."""

    def __init__(self, fields=("loss", "logits")) -> None:
        super().__init__()
        self.table, self.last, self.fields = torch.nn.Embedding(9, H), torch.nn.Linear(H, K), fields

    def forward(self, ids=None, mask=None):
        mask = torch.ones_like(ids) if mask is None else mask
        own = self.table(ids) * mask[..., None]
        found = {"loss": None, "logits": self.last(own.mean(dim=1)), "states": own}
        return Answers({field: found[field] for field in self.fields})


@pytest.mark.parametrize("several", [False, True])
def test_logits_of_inputs_by_name(several):
    torch.manual_seed(0)
    module = Classifier()
    ids, mask = RNG.integers(1, 9, (6, L)), RNG.integers(0, 2, (6, L))
    rows = {"ids": ids, "mask": mask} if several else ids
    given = {name: torch.from_numpy(one) for name, one in (("ids", ids), ("mask", mask))}
    with torch.no_grad():
        wanted = module(**given if several else {"ids": given["ids"]})["logits"].numpy()
    assert np.allclose(as_model(module).predict(rows), wanted, **CLOSE)
    first, last = ({n: r[part] for n, r in rows.items()} if several else rows[part]
                   for part in (slice(0, 2), slice(2, 4)))  # fmt: skip
    explanation = xj.Explainer(module, first)(last)
    total = explanation.base_values + explanation.values.sum(axis=1)
    assert np.allclose(total, wanted[2:4], rtol=1e-4, atol=1e-4)


def test_answers_without_logits_are_refused():
    with pytest.raises(ModelOutputError, match="answers with a Answers with states, which has no"):
        as_model(Classifier(("states",))).predict(RNG.integers(1, 9, (3, L)))


def test_a_module_of_hugging_face():
    hugging = pytest.importorskip("transformers", reason="needs transformers")
    sizes = {"vocab_size": 9, "hidden_size": 8, "intermediate_size": 8, "num_labels": K}
    sizes |= {"num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 8}
    module = hugging.BertForSequenceClassification(hugging.BertConfig(**sizes)).eval()
    ids, mask = RNG.integers(1, 9, (6, L)), np.ones((6, L), int)
    with torch.no_grad():
        wanted = module(torch.from_numpy(ids)).logits.numpy()
    found = as_model(module).predict({"input_ids": ids, "attention_mask": mask})
    assert np.allclose(found, wanted, **CLOSE)


def test_a_call_is_as_large_as_the_widest_layer_allows():
    """Images of 3 x 16 x 16, of which the first layer makes 32 x 32 x 32 numbers."""
    nn = torch.nn
    layers = [nn.Upsample(scale_factor=2), nn.Conv2d(3, 32, 3, padding=1), nn.ReLU()]
    module = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 1))
    model = as_model(module, input_shape=(3, 16, 16))
    images = RNG.normal(size=(6, 3, 16, 16)).astype(np.float32)
    assert model.probe(images).width == 32 * 32 * 32
    patches = np.broadcast_to(np.arange(16).reshape(4, 4).repeat(4, 0).repeat(4, 1), (3, 16, 16))
    found = xj.Explainer(model, images[:1], players=patches, budget=400)(images)
    assert found.stats["tile"] == 1 << 10  # 2^25 numbers
