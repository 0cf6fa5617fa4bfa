"""What the compilers of a TPU and of a GPU make of the library's programs, with neither at hand.

`python -m bench --compilers` compiles the programs of the hot path for two TPUs and an H200, each
in an environment of its own (`environments.py`), and writes `bench/ACCELERATORS.md`. An explainer
whose `devices=` are described by a topology plans its run as on these devices. The programs of the
plan are compiled and never run.

`python -m bench.compilers TARGET` is the process that compiles for one target. It reads lines of
JSON from its input, as {"job": NAME} or {"export": NUMBER}, and answers each with one line.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from bench.compiler_jobs import JOBS, SMALL, Job, shapes_on
from bench.environments import compilers_environment
from bench.frame import NotRun
from bench.hlo import figures
from xaijax.games.engine.dispatch import ProgramRecipe

ROOT = Path(__file__).parent.parent
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


KNOWN = (  # that libtpu 0.0.50 describes; more chips by larger grids
    "v2:2x2 v3:2x2 v4:2x2x1 v5e:1x1 v5e:2x2 v5e:4x4 v5p:2x2x1 v6e:1x1 v6e:2x2 tpu7x:2x2x1"
).split()


@dataclass(frozen=True)
class Target:
    """A device that is compiled for."""

    name: str
    environment: str  # of `bench/peers`
    memory: int = 8 << 30  # bytes that a run may plan with: half of the device's

    @property
    def gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.environment == "cuda"

    @cached_property
    def devices(self) -> tuple[Any, ...]:
        """Descriptions of its devices, the same for all programs; raises NotRun for a topology that
        the compiler lacks.
        """
        if self.gpu:
            described = topologies.get_topology_desc(
                platform="cuda", topology_name="", target_config=H200, topology="1x1x1"
            )
            return tuple(described.devices)
        try:
            described = topologies.get_topology_desc(platform="tpu", topology_name=self.name)
        except Exception as error:
            raise NotRun(
                f"libtpu knows no target {self.name!r} ({str(error).splitlines()[0]}). Say h200, "
                f"or a TPU: {', '.join(KNOWN)}, ..."
            ) from None
        return tuple(described.devices)


TARGETS = {
    target.name: target
    for target in (
        Target("v5e:1x1", "tpu"),
        Target("v5e:2x2", "tpu"),
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


PACKAGES = "jax", "jaxlib", "libtpu", "jax-cuda13-plugin", "nvidia-cuda-nvcc", "nvidia-nvvm"
# Programs from a store would take no time, and flags are those of another compiler.
LEFT_OUT = ("JAX_COMPILATION_CACHE_DIR", "XLA_FLAGS", "LIBTPU_INIT_ARGS", "PYTHONHOME")


def target_of(name: str) -> Target:
    """The target of this name: one of TARGETS, or any TPU that libtpu may know."""
    return TARGETS.get(name) or Target(name, "tpu")


@dataclass
class Program:
    """A program of a problem, compiled."""

    problem: str
    target: str
    program: str
    rows: int  # of the problem
    runs: int
    plain: float = 0.0  # cycles of a row of the model alone; 0: not estimated
    seconds: float = 0.0  # of the processor, to compile
    error: str = ""
    arguments: int = 0
    temporaries: int = 0
    code: int = 0
    figures: dict[str, Any] = field(default_factory=dict)

    def for_each(self, name: str) -> float:
        """A figure of the whole problem, by its hybrids."""
        return self.figures[name] * self.runs / self.rows


def compiled(
    job: Job, name: str, target: str, devices: Sequence[Any], compare: bool = True
) -> Iterator[Program]:
    """Compiles every program of the job; compare: with the model alone, for one TPU."""
    gpu = devices[0].platform != "tpu"
    estimates = compare and not gpu and len(devices) == 1 and job.model is not None
    plain = plain_cycles(job, devices[0]) if estimates else 0.0
    for recipe, runs in job.programs():
        made = Program(name, target, recipe.what, job.rows, runs, plain)
        try:
            _compile(made, on_devices(recipe, devices), gpu)
        except Exception as error:
            made.error = f"{type(error).__name__}: {error}"
        yield made


def _compile(made: Program, recipe: ProgramRecipe, gpu: bool) -> None:
    started = time.process_time()
    jitted = jax.jit(recipe.function, donate_argnums=recipe.donate, out_shardings=recipe.results)
    done: Any = jitted.lower(*recipe.arguments).compile()
    made.seconds = time.process_time() - started
    memory = done.memory_analysis()
    made.arguments = memory.argument_size_in_bytes
    made.temporaries = memory.temp_size_in_bytes
    made.code = memory.generated_code_size_in_bytes
    made.figures = asdict(figures(done.as_text(), gpu))


def on_devices(recipe: ProgramRecipe, devices: Sequence[Any]) -> ProgramRecipe:
    """The recipe for these devices: arrays, which are in this process, become shapes there. As in
    a call they follow the arguments that have a place, which may be one of the devices.
    """
    leaves = jax.tree.leaves(recipe.arguments)
    places = [getattr(leaf, "sharding", None) for leaf in leaves]
    sets = [one.device_set for one in places if one is not None and one.device_set <= set(devices)]
    own = [device for device in devices if all(device in one for one in sets)]
    everywhere = NamedSharding(Mesh(np.array(own), ("tiles",)), PartitionSpec())

    def shape(leaf: Any) -> Any:
        placed = getattr(leaf, "sharding", None)
        if placed is not None and placed.device_set <= set(devices):
            return leaf
        return shapes_on(everywhere, leaf)

    return replace(recipe, arguments=jax.tree.map(shape, recipe.arguments))


def plain_cycles(job: Job, device: Any) -> float:
    """Estimated cycles of a row of the model alone, in tiles of a plan, by the TPU's compiler."""
    assert job.model is not None
    place = SingleDeviceSharding(device)
    shapes = shapes_on(place, job.params)
    own = tuple((leaf.shape, leaf.dtype.name) for leaf in jax.tree.leaves(shapes))
    key = getattr(job.model, "__name__", job.model), own, job.row, job.tile
    if key not in _plain:
        given = jax.ShapeDtypeStruct((job.tile, *job.row), jnp.float32, sharding=place)
        with jax.default_matmul_precision("highest"):
            done: Any = jax.jit(job.model).lower(shapes, given).compile()
        _plain[key] = figures(done.as_text(), gpu=False).cycles / job.tile
    return _plain[key]


_plain: dict[Any, float] = {}


def run_job(name: str, target: Target, small: bool = False, compare: bool = True) -> list[Program]:
    """Compiles a job of JOBS for a target; small: the one of SMALL, if it has one for it."""
    devices = target.devices
    jobs = JOBS | SMALL if small and not target.gpu else JOBS
    job = jobs[name]({"devices": list(devices), "max_memory": target.memory})
    return list(compiled(job, name, target.name, devices, compare))


def run_export(number: int, target: Target) -> Program:
    """Compiles a case of `tests/kernels/test_export.py`, on all devices of the target."""
    name, function, arguments = export_cases(target)[number]
    recipe = ProgramRecipe((name,), function, arguments, what=name)
    made = Program(name, target.name, name, 1, 1)
    devices = target.devices
    _compile(made, on_devices(recipe, devices), target.gpu)
    return made


@cache
def export_cases(target: Target) -> list[Any]:
    """The kernels of that test, for the devices of the target."""
    for folder in ("tests/kernels", "tests/cases"):
        sys.path.append(str(ROOT / folder))
    test_export = importlib.import_module("test_export")  # tests are no part of the bench

    mesh = Mesh(np.array(target.devices), ("tiles",))
    return list(test_export.kernels(mesh.size, mesh))


def serve(target: Target) -> None:
    """Answers lines of requests, until there are no more."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "versions" in request:
                _ = target.devices
                answer: dict[str, Any] = {"versions": _versions()}
            elif "job" in request:
                made = run_job(request.pop("job"), target, **request)
                answer = {"programs": [asdict(program) for program in made]}
            else:
                answer = {"programs": [asdict(run_export(request["export"], target))]}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def _versions() -> dict[str, str]:
    found = {one.name.lower(): one.version for one in importlib.metadata.distributions()}
    return {name: found[name] for name in PACKAGES if name in found}


class Compiler:
    """A process that compiles for one target; raises NotRun if its environment is missing."""

    def __init__(self, target: Target) -> None:
        python = compilers_environment(target.environment)
        self.target = target
        self._process = subprocess.Popen(
            [str(python), "-m", "bench.compilers", target.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=own_environment(),
        )

    def job(self, name: str, small: bool = False, compare: bool = True) -> list[Program]:
        """The programs of a job; raises CompilationError if one is not compiled."""
        return self._ask({"job": name, "small": small, "compare": compare})

    def export(self, number: int) -> Program:
        """A kernel of `tests/kernels/test_export.py`, by its number."""
        return self._ask({"export": number})[0]

    def versions(self) -> dict[str, str]:
        """Versions of JAX and the compiler. Waits for the target's description; raises NotRun if
        the compiler does not know it.
        """
        answer = self._answer({"versions": True})
        if "error" in answer:
            self.close()
            raise NotRun(answer["error"].removeprefix("NotRun: "))
        return answer["versions"]

    def _ask(self, request: dict[str, Any]) -> list[Program]:
        answer = self._answer(request)
        programs = [Program(**program) for program in answer.get("programs", ())]
        for why in (answer.get("error"), *(one.error for one in programs)):
            if why:
                raise CompilationError(why)
        return programs

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
        line = stdout.readline()
        if not line:
            return {"error": f"the process ended with {self._process.wait()}"}
        return json.loads(line)

    def close(self) -> None:
        """Ends the process, which reads no further line."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._process.wait()


class CompilationError(RuntimeError):
    """A program was not compiled."""


def own_environment() -> dict[str, str]:
    """The variables of a process that compiles."""
    own = {key: value for key, value in os.environ.items() if key not in LEFT_OUT}
    return own | OUT_OF_THE_WAY | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"}


if __name__ == "__main__":
    os.environ.update(OUT_OF_THE_WAY)
    serve(target_of(sys.argv[1]))
