"""First answers in a process of their own: `python -m bench.first_jobs LIBRARY MODEL OUTPUTS`.

Prints one line of JSON and writes the values. A process imports the library that it measures and no
other, so nothing here imports one at the top.

Letters: N rows, P columns, B background rows.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

N, B = 4, 20
LIBRARIES = ("xaijax", "shap", "shapiq", "captum")
MEBI = 2**20


@dataclass(frozen=True)
class Question:
    """A model, and the rows that are explained."""

    model: Any  # as its user has it
    options: dict[str, Any]  # of `as_model`
    X: Any  # [N, P]
    background: Any  # [B, P]
    answers: Callable[[np.ndarray], np.ndarray]  # what peers ask: float rows [R, P] -> [R]
    rows: np.ndarray  # the same rows as floats, those of X first
    trees: bool = False  # whether shap reads the model's trees


def _network(seed: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    draw = np.random.default_rng(seed)
    sizes = [(8, 32), (32, 32), (32, 1)]
    layers = [
        (draw.normal(size=size) / size[0] ** 0.5, draw.normal(size=size[1])) for size in sizes
    ]
    return [(weight.astype(np.float32), bias.astype(np.float32)) for weight, bias in layers]


def _forward(tanh: Any) -> Callable[[Any, Any], Any]:
    def forward(layers: Any, X: Any) -> Any:
        for weight, bias in layers[:-1]:
            X = tanh(X @ weight + bias)
        weight, bias = layers[-1]
        return (X @ weight + bias)[:, 0]

    return forward


def _of_function(name: str, rows: np.ndarray, library: str) -> Question:
    X, background = rows[:N], rows[N : N + B]
    if name == "function":

        def product(X: Any) -> Any:
            return X[:, 0] * X[:, 1] + X[:, 2] * abs(X[:, 3])

        return Question(product, {}, X, background, product, rows)
    if name == "network":
        layers = _network()
        forward = _forward(np.tanh)

        def answers(X: np.ndarray) -> np.ndarray:
            return forward(layers, X.astype(np.float32))

        model: Any = answers
        options: dict[str, Any] = {}
        if library == "xaijax":
            import jax.numpy as jnp  # noqa: PLC0415 - ours only

            model, options = _forward(jnp.tanh), {"params": layers}
        return Question(model, options, X, background, answers, rows)

    def median(X: np.ndarray) -> np.ndarray:
        return np.median(X, axis=1) * X[:, 0]

    return Question(median, {"backend": "host"}, X, background, median, rows)


def _of_estimator(name: str, rows: np.ndarray, draw: np.random.Generator) -> Question:
    from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor  # noqa: PLC0415
    from sklearn.linear_model import LogisticRegression, Ridge  # noqa: PLC0415
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415
    from sklearn.svm import SVR  # noqa: PLC0415

    made: dict[str, Any] = {
        "ridge": Ridge(),
        "logistic": LogisticRegression(),
        "forest": RandomForestRegressor(30, max_depth=6, random_state=0),
        "boosted": GradientBoostingRegressor(n_estimators=50, random_state=0),
        "perceptron": make_pipeline(
            StandardScaler(), MLPClassifier((16,), max_iter=50, random_state=0)
        ),
        "machine": SVR(),
    }
    model = made[name]
    y = rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + draw.normal(size=len(rows)) / 10
    classifies = name in ("logistic", "perceptron")
    model.fit(rows, y > 0 if classifies else y)

    def answers(X: np.ndarray) -> np.ndarray:
        return model.predict_proba(X)[:, 1] if classifies else model.predict(X)

    options = {"output": 1} if classifies else {}
    X, background = rows[:N], rows[N : N + B]
    trees = name in ("forest", "boosted")
    return Question(model, options, X, background, answers, rows, trees)


def _of_frame(draw: np.random.Generator) -> Question:
    """A Pipeline of two texts and three numbers with gaps; peers ask it by codes of the texts."""
    import pandas as pd  # noqa: PLC0415
    from sklearn.compose import make_column_transformer  # noqa: PLC0415
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415
    from sklearn.impute import SimpleImputer  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import OneHotEncoder  # noqa: PLC0415

    texts = {"city": np.array(["Basel", "Bern", "Genf"]), "job": np.array(["cook", "nurse"])}
    codes = np.stack([draw.integers(0, len(known), 300) for known in texts.values()], axis=1)
    numbers = draw.normal(size=(300, 3)).round(2)
    numbers[draw.random((300, 3)) < 0.05] = np.nan
    rows = np.concatenate([codes, numbers], axis=1)

    def frame(rows: np.ndarray) -> Any:
        named = {
            name: known[rows[:, at].astype(int)] for at, (name, known) in enumerate(texts.items())
        }
        named |= {name: rows[:, 2 + at] for at, name in enumerate(("age", "income", "debt"))}
        return pd.DataFrame(named)

    model = make_pipeline(
        make_column_transformer(
            (OneHotEncoder(), list(texts)), (SimpleImputer(), ["age", "income", "debt"])
        ),
        RandomForestClassifier(30, max_depth=6, random_state=0),
    )
    filled = np.nan_to_num(numbers)
    model.fit(frame(rows), filled[:, 0] + codes[:, 0] * filled[:, 1] > 0)
    whole = frame(rows)

    def answers(rows: np.ndarray) -> np.ndarray:
        return model.predict_proba(frame(rows))[:, 1]

    return Question(model, {"output": 1}, whole[:N], whole[N : N + B], answers, rows)


MODELS = "function network host ridge logistic forest boosted perceptron machine pipeline".split()


def question(name: str, library: str) -> Question:
    """Makes one of the ten models, fitted in this process, with its rows."""
    draw = np.random.default_rng(0)
    if name == "pipeline":
        return _of_frame(draw)
    rows = draw.normal(size=(300, 8))
    if name in ("function", "network", "host"):
        return _of_function(name, rows, library)
    return _of_estimator(name, rows, draw)


def ours(question: Question, **options: Any) -> Callable[[slice], np.ndarray]:
    """The values of some rows of X by xaijax: a model and an explainer made anew."""
    import xaijax  # noqa: PLC0415 - each process has one library

    model = xaijax.as_model(question.model, **question.options | options)
    explainer = xaijax.Explainer(model, question.background, estimator="exact")
    return lambda rows: explainer(question.X[rows], progress=False).values


def by_shap(question: Question) -> Callable[[slice], np.ndarray]:
    """The same by shap: its TreeExplainer if it reads the trees, else the ExactExplainer."""
    import shap  # noqa: PLC0415

    X, background = question.rows[:N], question.rows[N : N + B]
    if question.trees:
        trees = shap.TreeExplainer(question.model, background)
        return lambda rows: trees.shap_values(X[rows])
    masker = shap.maskers.Independent(background, max_samples=B)
    exact = shap.explainers.Exact(question.answers, masker)
    return lambda rows: exact(X[rows], max_evals=2 ** X.shape[1], silent=True).values


def by_shapiq(question: Question) -> np.ndarray:
    """The same by shapiq's TabularExplainer, with a budget for all coalitions."""
    import shapiq  # noqa: PLC0415

    X, background = question.rows[:N], question.rows[N : N + B]
    explainer = shapiq.TabularExplainer(
        question.answers,
        background,
        imputer="marginal",
        index="SV",
        max_order=1,
        random_state=0,
        sample_size=B,
    )
    results = [explainer.explain(x, budget=2 ** X.shape[1], random_state=0) for x in X]
    return np.stack([result.get_n_order_values(1) for result in results])


def by_captum(question: Question) -> np.ndarray:
    """Shapley values of the network by captum: 25 permutations, each background row a baseline."""
    torch, captum = _torch(), import_module("captum.attr")

    layers = [[torch.from_numpy(array) for array in layer] for layer in _network()]
    forward = _forward(torch.tanh)
    rows = torch.from_numpy(question.rows.astype(np.float32))
    sampling = captum.ShapleyValueSampling(lambda X: forward(layers, X))
    baselines = rows[N : N + B].repeat(N, 1)
    X = rows[:N].repeat_interleave(B, 0)
    values = sampling.attribute(X, baselines=baselines, n_samples=25)
    return values.reshape(N, B, -1).mean(1).numpy()


def quickstart(alone: bool) -> Callable[[], np.ndarray]:
    """T52: the README's quickstart after its fit; alone: jax.jit of its model, and one call."""
    import jax  # noqa: PLC0415
    from sklearn.datasets import load_breast_cancer  # noqa: PLC0415
    from sklearn.neural_network import MLPClassifier  # noqa: PLC0415
    from sklearn.pipeline import make_pipeline  # noqa: PLC0415
    from sklearn.preprocessing import StandardScaler  # noqa: PLC0415

    import xaijax  # noqa: PLC0415

    tumours: Any = load_breast_cancer()
    X, names = tumours.data[:, :10], tumours.feature_names[:10]
    network: Any = make_pipeline(StandardScaler(), MLPClassifier(max_iter=600, random_state=0))
    network.fit(X, tumours.target)
    jax.jit(lambda x: x + 1)(np.ones(3, np.float32)).block_until_ready()  # once in a process
    scaler, perceptron = network[0], network[1]
    params = [
        (weight.astype(np.float32), bias.astype(np.float32))
        for weight, bias in zip(perceptron.coefs_, perceptron.intercepts_, strict=True)
    ]
    scaled = ((X - scaler.mean_) / scaler.scale_).astype(np.float32)

    def forward(layers: Any, X: Any) -> Any:
        (first, shift), (second, bias) = layers
        return jax.nn.sigmoid(jax.nn.relu(X @ first + shift) @ second + bias)[:, 0]

    def model_alone() -> np.ndarray:
        return np.asarray(jax.jit(forward)(params, scaled))

    def explained() -> np.ndarray:
        model = xaijax.as_model(network, output=1, feature_names=names)
        return xaijax.Explainer(model, X[:100])(X[100:], progress=False).values

    return model_alone if alone else explained


def images() -> Callable[[], np.ndarray]:
    """T72: ResNet-18 in PyTorch on the host, four images of 224 x 224 in 16 patches."""
    import xaijax  # noqa: PLC0415

    torch, module = _torch(), resnet18()
    draw = np.random.default_rng(0)
    X = draw.normal(size=(4, 3, 224, 224)).astype(np.float32)
    patches = np.arange(16).reshape(4, 4).repeat(56, 0).repeat(56, 1)
    torch.set_num_threads(2)

    def explained() -> np.ndarray:
        model = xaijax.as_model(module, input_shape=(3, 224, 224), output=0)
        players = np.broadcast_to(patches, (3, 224, 224))
        baseline = xaijax.Baseline(np.zeros((3, 224, 224), np.float32))
        explainer = xaijax.Explainer(model, baseline, players=players, budget=32)
        return explainer(X, progress=False).values

    return explained


def resnet18() -> Any:
    """ResNet-18 with drawn weights, as its paper has it: 11.7 million parameters."""
    torch: Any = _torch()
    nn = torch.nn

    def conv(i: int, o: int, size: int, stride: int) -> Any:
        made = nn.Conv2d(i, o, size, stride, size // 2, bias=False)
        return nn.Sequential(made, nn.BatchNorm2d(o))

    class Block(nn.Module):
        def __init__(self, i: int, o: int, stride: int) -> None:
            super().__init__()
            self.first, self.second = conv(i, o, 3, stride), conv(o, o, 3, 1)
            self.skip = nn.Identity() if i == o else conv(i, o, 1, stride)

        def forward(self, X: Any) -> Any:
            return torch.relu(self.second(torch.relu(self.first(X))) + self.skip(X))

    torch.manual_seed(0)
    sizes = [(64, 64), (64, 128), (128, 256), (256, 512)]
    blocks = [
        block for i, o in sizes for block in (Block(i, o, 1 if i == o else 2), Block(o, o, 1))
    ]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)]
    start = [conv(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*start, *blocks, *head)


def _torch() -> Any:
    return import_module("torch")


def measured(run: Callable[[], np.ndarray]) -> tuple[dict[str, float], np.ndarray]:
    """Seconds of a call by the clock and by the processor, and what it returns."""
    wall, processor = time.perf_counter(), time.process_time()
    values = run()
    spent = time.perf_counter() - wall, time.process_time() - processor
    return dict(zip(("wall", "processor"), spent, strict=True)), values


def _imports_jax() -> np.ndarray:
    """The measure of our own import."""
    import jax  # noqa: F401, PLC0415

    return np.zeros(0)


def _imports_names() -> np.ndarray:
    """`import xaijax`, and what a first call uses of it."""
    import xaijax  # noqa: PLC0415

    return np.zeros(0) if xaijax.as_model and xaijax.Explainer else np.ones(1)


def main(library: str, name: str, outputs: Path) -> dict[str, Any]:
    """Runs one job: the imports of the library, the first answer, and the same cell again."""
    if library in ("jax", "xaijax names"):
        report, _ = measured(_imports_jax if library == "jax" else _imports_names)
        return {"imports": report}
    if library == "quickstart":
        report, values = measured(quickstart(name == "alone"))
        np.savez(outputs, values=values)
        return {"first": report}
    if library == "images":
        run = images()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        report, values = measured(run)
        np.savez(outputs, values=values)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024  # MiB on Linux
        return {"first": report, "peak": peak, "before": before}
    imports, _ = measured(lambda: __import__(library.partition(" ")[0]) and np.zeros(0))
    task = question(name, library.partition(" ")[0])
    every = slice(None)
    runs: dict[str, Callable[[], np.ndarray]] = {
        "xaijax": lambda: ours(task)(every),
        "xaijax host": lambda: ours(task, backend="host")(every),
        "shap": lambda: by_shap(task)(every),
        "shapiq": lambda: by_shapiq(task),
        "captum": lambda: by_captum(task),
    }
    first, values = measured(runs[library])
    again, _ = measured(runs[library])
    X, answers = task.rows[:N], task.answers(task.rows[: N + B])
    np.savez(outputs, values=np.asarray(values).reshape(X.shape), answers=answers)
    return {"imports": imports, "first": first, "again": again}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
