"""What the compilers of a TPU and of a GPU make of the library's programs, with neither at hand.

`python -m bench --compilers` compiles the programs of the hot path for two TPUs and an H200, each in
an environment of its own, and writes `bench/ACCELERATORS.md`. An explainer whose `devices=` are
described by a topology plans its run (`plan`) as on these devices; the programs of the plan are
compiled here, and never run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding
from xaijax.games.engine.compiled import Compiled

import xaijax
from bench.frame import NotRun
from bench.hlo import figures
from bench.models import continuous, forward, gpt, mlp, transformer, vit
from xaijax.games.run import RunCost

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = HERE / "ACCELERATORS.md"
# XLA's description of a GPU. NVIDIA's figures of an H200 SXM.
H200 = """
gpu_device_info {
  threads_per_block_limit: 1024 threads_per_warp: 32 shared_memory_per_block: 49152
  shared_memory_per_core: 233472 threads_per_core_limit: 2048 core_count: 132 fpus_per_core: 128
  block_dim_limit_x: 2147483647 block_dim_limit_y: 65535 block_dim_limit_z: 65535
  memory_bandwidth: 4800000000000 l2_cache_size: 52428800 clock_rate_ghz: 1.98
  device_memory_size: 150000000000 shared_memory_per_block_optin: 232448
  cuda_compute_capability { major: 9 }
  registers_per_core_limit: 65536 registers_per_block_limit: 65536
}
platform_name: "CUDA" dnn_version_info { major: 9 minor: 28 }
runtime_version { major: 13 minor: 5 } device_description_str: "NVIDIA H200"
"""


@dataclass(frozen=True)
class Target:
    """A device that is compiled for."""

    name: str
    environment: str  # of `bench/peers`
    memory: int  # bytes that a run may plan with: half of the device's

    def devices(self) -> list[Any]:
        """Descriptions of its devices; raises NotRun for a topology that the compiler lacks."""
        if self.environment == "cuda":
            described = topologies.get_topology_desc(
                platform="cuda", topology_name="", target_config=H200, topology="1x1x1"
            )
            return list(described.devices)
        try:
            return list(
                topologies.get_topology_desc(platform="tpu", topology_name=self.name).devices
            )
        except Exception as error:
            raise NotRun(f"libtpu knows no {self.name}: {error}") from None


TARGETS = {
    one.name: one
    for one in (
        Target("v5e:1x1", "tpu", 8 << 30),
        Target("v5e:2x2", "tpu", 8 << 30),
        Target("h200", "cuda", 70 << 30),
    )
}
OUT_OF_THE_WAY = {  # the compilers look for devices of their own, and for each other
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
}


@dataclass(frozen=True)
class Job:
    """A problem, made for the devices of a target."""

    plan: Callable[[], Any]  # plans the run; its programs are noted
    rows: int  # hybrids, or rows whose derivative is taken
    model: Any  # (f, params)
    row: tuple[int, ...]  # the shape of a row


@dataclass
class Program:
    """A program of a problem, compiled."""

    problem: str
    target: str
    program: str
    rows: int  # of the problem
    dispatches: float
    seconds: float = 0.0  # of the processor, to compile
    error: str = ""
    arguments: int = 0
    temporaries: int = 0
    code: int = 0
    figures: dict[str, Any] = field(default_factory=dict)


def compiled(job: Job, name: str, target: str, devices: Sequence[Any]) -> Iterator[Program]:
    """Compiles every program of the job's plan."""
    noted: dict[Any, list[Any]] = {}

    def counted(self: Any, calls: int, *recipes: Any) -> None:
        add(self, calls, *recipes)
        for recipe in recipes:
            if recipe is not None:
                noted.setdefault(recipe.name, [recipe, 0])[1] += calls

    def lacks(self: Any, recipe: Any) -> bool:  # asked of every program by a plan
        noted.setdefault(recipe.name, [recipe, 0])
        return True

    add = RunCost.add_calls
    with mock.patch.object(RunCost, "add_calls", counted):
        with mock.patch.object(Compiled, "lacks", lacks):
            calls = job.plan().model_calls
    for recipe, own in noted.values():  # sums follow each dispatch
        yield _one(recipe, own or calls, job, name, target, devices)


def _one(
    recipe: Any, calls: int, job: Job, name: str, target: str, devices: Sequence[Any]
) -> Program:
    found = Program(name, target, recipe.what, job.rows, calls)
    gpu = devices[0].platform != "tpu"
    started = time.process_time()
    jitted = jax.jit(recipe.function, donate_argnums=recipe.donate, out_shardings=recipe.results)
    try:
        done = jitted.lower(*jax.tree.map(_shape, recipe.arguments)).compile()
    except Exception as error:
        found.error = f"{type(error).__name__}: {error}"
        return found
    found.seconds = time.process_time() - started
    memory = done.memory_analysis()
    found.arguments = memory.argument_size_in_bytes
    found.temporaries = memory.temp_size_in_bytes
    found.code = memory.generated_code_size_in_bytes
    found.figures = asdict(figures(done.as_text(), _turns(recipe), gpu))
    return found


def _shape(leaf: Any) -> Any:
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array) else leaf


def _turns(recipe: Any) -> list[int]:
    """Turns of the loops whose number is an argument: tiles of a dispatch, then the blocks of one."""
    function, shape = recipe.function, None
    for one in getattr(function, "args", ()):
        shape = one if hasattr(one, "blocks") else shape
    tiles = [leaf.shape[0] for leaf in jax.tree.leaves(recipe.arguments[-3:]) if leaf.ndim > 1]
    return [max(tiles, default=1), *([shape.blocks] if shape is not None else [])]


def plain_cycles(job: Job, device: Any, rows: int = 1 << 16) -> float:
    """Estimated cycles of a row of the model alone, by the compiler for a TPU."""
    f, params = job.model
    place = SingleDeviceSharding(device)
    shapes = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf), sharding=place),
        params,
    )
    given = jax.ShapeDtypeStruct((rows, *job.row), jnp.float32, sharding=place)
    with jax.default_matmul_precision("highest"):
        text = jax.jit(f).lower(shapes, given).compile().as_text()
    return figures(text, [], gpu=False).cycles / rows


def of_explainer(
    f: Callable[..., Any],
    params: Any,
    X: np.ndarray,
    background: np.ndarray,
    given: dict[str, Any],
    structure: Any = None,
    kind: Any = None,
    options: dict[str, Any] | None = None,
    **arguments: Any,
) -> Job:
    """The job of an explainer of f(params, rows); `options`: of the model."""
    model = xaijax.as_model(f, params, structure=structure, **(options or {}))
    made = (kind or xaijax.Explainer)(model, background, **arguments, **given)
    plan = made.plan(X)
    rows = int(plan.model_rows.sum())
    return Job(lambda: made.plan(X), rows, (f, params), X.shape[1:])


def network(
    given: dict[str, Any], N: int = 1_000, B: int = 100, P: int = 12, **arguments: Any
) -> Job:
    """T1's network of 64 and 64 units."""
    X, background = continuous(N, B, P)
    return of_explainer(forward, mlp((P, 64, 64, 1), background), X, background, given, **arguments)


def codes(given: dict[str, Any]) -> Job:
    """T3: columns of few values, so that pairs agree in about half of them."""
    rng = np.random.default_rng(3)
    sizes = (60, 6, 12, 5, 10, 5, 4, 2, 20, 12, 40, 25)
    X, background = (
        np.stack([rng.integers(0, size, rows) for size in sizes], 1).astype(np.float32)
        for rows in (1_000, 100)
    )
    return of_explainer(forward, mlp((12, 64, 64, 1), background), X, background, given)


def logistic(given: dict[str, Any]) -> Job:
    """A logistic regression's chances."""
    X, background = continuous(1_000, 100, 12)

    def f(p: Any, rows: Any) -> Any:
        return jax.nn.sigmoid(rows @ p["w"] + p["b"])

    return of_explainer(f, {"w": X[0].copy(), "b": np.float32(0.1)}, X, background, given)


def machine(given: dict[str, Any]) -> Job:
    """A machine of 2,000 support vectors and an RBF kernel."""
    X, background = continuous(100, 20, 12)
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2_000, 12)).astype(np.float32)

    def f(p: Any, rows: Any) -> Any:
        squares = (rows**2).sum(1)[:, None] + (p["c"] ** 2).sum(1) - 2 * rows @ p["c"].T
        return jnp.exp(-0.1 * squares) @ p["a"]

    params = {"c": centres, "a": rng.normal(size=2_000).astype(np.float32)}
    return of_explainer(f, params, X, background, given)


def convolution(given: dict[str, Any]) -> Job:
    """A small convolutional network of 28 x 28 pixels, 49 patches, by permutations."""
    X, background = (a.reshape(-1, 28, 28, 1) for a in continuous(100, 10, 784))
    rng = np.random.default_rng(0)
    params = {
        "kernel": (0.3 * rng.normal(size=(5, 5, 1, 16))).astype(np.float32),
        "out": (0.05 * rng.normal(size=(24 * 24 * 16, 10))).astype(np.float32),
    }

    def f(p: Any, images: Any) -> Any:
        made = jax.lax.conv_general_dilated(
            images, p["kernel"], (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        return jax.nn.relu(made).reshape(len(images), -1) @ p["out"]

    row = np.arange(28) // 4
    players = (row[:, None] * 7 + row[None])[..., None]
    return of_explainer(
        f, params, X, background, given, players=players, estimator="permutation", budget=100
    )


def images(given: dict[str, Any]) -> Job:
    """A vision transformer of 5 M parameters and 64 patches, by permutations."""
    X, background = (a.reshape(-1, 64, 64, 3) for a in continuous(4, 1, 64 * 64 * 3))
    row = np.arange(64) // 8
    players = np.broadcast_to((row[:, None] * 8 + row[None])[..., None], (64, 64, 3)).copy()
    params = transformer(64, 256, 6, 8 * 8 * 3, 10)
    return of_explainer(
        vit, params, X, background, given, players=players, estimator="permutation", budget=130
    )


def words(given: dict[str, Any]) -> Job:
    """A causal transformer of 5 M parameters and 64 tokens, by permutations."""
    rng = np.random.default_rng(0)
    X, background = rng.integers(1, 500, (4, 64)), np.zeros((1, 64), np.int64)
    params = transformer(64, 256, 6, 500, 500)
    return of_explainer(gpt, params, X, background, given, estimator="permutation", budget=130)


def gradients(given: dict[str, Any], path: str) -> Job:
    """Integrated or expected gradients of T1's network, 100 columns."""
    X, background = continuous(1_000, 100, 100)
    baseline = background[:1] if path == "integrated" else background
    return of_explainer(
        forward,
        mlp((100, 64, 64, 1), background),
        X,
        baseline,
        given,
        kind=xaijax.GradientExplainer,
        path=path,
    )


def influence(given: dict[str, Any]) -> Job:
    """QII of all pairs of T1's network."""
    X, background = continuous(100, 100, 12)
    options = {"threshold": 0.0}
    params = mlp((12, 64, 64, 1), background)
    return of_explainer(forward, params, X, background, given, kind=xaijax.QII, options=options)


def rules(given: dict[str, Any]) -> Job:
    """Anchors of T1's network."""
    X, background = continuous(100, 1_000, 12)
    options = {"threshold": 0.0}
    params = mlp((12, 64, 64, 1), background)
    return of_explainer(
        forward, params, X, background, given, kind=xaijax.AnchorExplainer, options=options
    )


JOBS: dict[str, Callable[[dict[str, Any]], Job]] = {
    "T1": network,
    "T1, plain": lambda given: network(given, structure="plain"),
    "T1, one instance": lambda given: network(given, N=1),
    "T3": codes,
    "logistic": logistic,
    "RBF machine": machine,
    "first convolution": convolution,
    "kernel, P = 64": lambda given: network(given, P=64, estimator="kernel", budget=2_048),
    "permutation, P = 64": lambda given: network(
        given, P=64, estimator="permutation", budget=2_048
    ),
    "permutation, P = 784": lambda given: network(
        given, N=100, B=10, P=784, estimator="permutation", budget=4_096
    ),
    "QII, all pairs": influence,
    "Anchors": rules,
    "integrated gradients": lambda given: gradients(given, "integrated"),
    "expected gradients": lambda given: gradients(given, "expected"),
    "ViT": images,
    "GPT": words,
}
