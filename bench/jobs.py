"""Jobs that must have a process of their own: `python -m bench.jobs NAME inputs.npz outputs.npz`.

Prints one line of JSON. Imports as little as it can: a cold start is one of the things measured.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

import xaijax
from bench.models import forward

ROOT = Path(__file__).parent.parent
MEBI = 2**20
TILE = 1 << 13  # rows; what compiling costs hardly hangs on them
COMPILATION = tuple(
    f"/jax/core/compile/{step}_duration"
    for step in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
)


def in_process(name: str, inputs: Path, outputs: Path) -> dict[str, Any]:
    """Run a job in a fresh process of this Python and return its JSON, with the wall clock."""
    # An installed package has its bytecode; without it each process compiles every module anew.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "bench.jobs", name, str(inputs), str(outputs)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    wall = time.perf_counter() - started
    if done.returncode:
        raise RuntimeError(f"the job {name} failed:\n{done.stderr[-2_000:]}")
    return json.loads(done.stdout.splitlines()[-1]) | {"wall": wall}


def pack(path: Path, params: dict[str, Any], **arrays: Any) -> None:
    """Write a network and arrays for a job."""
    layers = {
        f"{kind}{at}": array
        for at, pair in enumerate(params["layers"])
        for kind, array in zip(("weight", "bias"), pair, strict=True)
    }
    np.savez(path, shift=params["shift"], scale=params["scale"], **layers, **arrays)


def _unpack(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    count = sum(name.startswith("weight") for name in arrays)
    layers = [(arrays.pop(f"weight{at}"), arrays.pop(f"bias{at}")) for at in range(count)]
    return {"shift": arrays.pop("shift"), "scale": arrays.pop("scale"), "layers": layers}, arrays


def cold(inputs: Path, outputs: Path) -> dict[str, Any]:
    """T24, T39: everything from the start of Python to the values, once.

    "first": seconds from the model as a function to its values, without the imports; "compilation":
    those of tracing, lowering and compiling, as JAX itself counts them; "programs": compiled;
    "processor": seconds of the processor since the start, by all threads.
    """
    spent: dict[str, list[float]] = {}

    def keep(event: str, duration_secs: float, **kwargs: Any) -> None:
        spent.setdefault(event, []).append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(keep)
    params, arrays = _unpack(inputs)
    started = time.perf_counter()
    model = xaijax.as_model(forward, params)
    explainer = xaijax.Explainer(model, arrays["background"], estimator="exact")
    explanation = explainer(arrays["X"], progress=False)
    first = time.perf_counter() - started
    np.savez(outputs, values=explanation.values, base_values=explanation.base_values)
    return {
        "first": first,
        "compilation": sum(sum(spent.get(event, ())) for event in COMPILATION),
        "programs": len(spent.get(COMPILATION[-1], ())),
        "processor": time.process_time(),
    }


def jit(inputs: Path, outputs: Path) -> dict[str, Any]:
    """T36: the processor time of compiling the network for a tile, and nothing else."""
    params, arrays = _unpack(inputs)
    tile = jax.ShapeDtypeStruct((TILE, arrays["X"].shape[1]), np.float32)
    _begin()
    started = time.process_time()
    jax.jit(forward).lower(params, tile).compile()
    return {"seconds": time.process_time() - started}


def ready(inputs: Path, outputs: Path) -> dict[str, Any]:
    """T36: the processor time of a first explanation; (traces of the model, programs compiled) of
    others after it.
    """
    compiled: list[str] = []

    def keep(event: str, duration_secs: float, **kwargs: Any) -> None:
        if event == COMPILATION[-1]:
            compiled.append(kwargs.get("fun_name", ""))

    params, arrays = _unpack(inputs)
    X, background = arrays["X"], arrays["background"]
    traced = _calls_of(forward)
    _begin()
    jax.monitoring.register_event_duration_secs_listener(keep)
    started = time.process_time()
    model = xaijax.as_model(forward, params)
    first = xaijax.Explainer(model, background[:-1])(X, progress=False)
    seconds = time.process_time() - started
    told: dict[str, Any] = {"seconds": seconds, "first": [len(traced), len(compiled)]}
    again = xaijax.as_model(forward, params)
    for label, one, donors in (
        ("another explainer", model, background[:-1]),
        ("as_model again", again, background[:-1]),
        ("one donor more", model, background),
    ):
        traced.clear()
        compiled.clear()
        xaijax.Explainer(one, donors)(X, progress=False)
        told[label] = [len(traced), len(compiled)]
    np.savez(outputs, values=first.values, base_values=first.base_values)
    return told


def _calls_of(function: Any) -> list[int]:
    """A list that grows with each call, without the function's knowing: it stays what it is."""
    calls: list[int] = []
    watch: Any = vars(sys)["monitoring"]  # Python 3.12 or later
    watch.use_tool_id(watch.PROFILER_ID, "bench")
    watch.register_callback(
        watch.PROFILER_ID, watch.events.PY_START, lambda code, place: calls.append(place)
    )
    watch.set_local_events(watch.PROFILER_ID, function.__code__, watch.events.PY_START)
    return calls


def _begin() -> None:
    """What JAX does once in a process, whatever is compiled."""
    jax.jit(lambda x: x + 1).lower(np.ones(3, np.float32)).compile()


def memory(inputs: Path, outputs: Path) -> dict[str, Any]:
    """T22: the peak above the level after import and a warm-up on two instances, and the bytes of
    the arrays that stay."""
    params, arrays = _unpack(inputs)
    sampled = bool(arrays.get("sampled", False))  # by one pair of orders
    explainer = xaijax.Explainer(
        xaijax.as_model(forward, params),
        arrays["background"],
        estimator="permutation" if sampled else "exact",
        budget=2 * arrays["X"].shape[1] if sampled else None,
        max_memory=int(arrays["max_memory"]),
        # A link that changes nothing, yet is asked of the mean: the full tables are built.
        link=np.positive if arrays["tables"] else "identity",
    )
    X = arrays["X"]
    explainer(X[:2], progress=False)
    peak, explanation = _peak_above(lambda: explainer(X, progress=False))
    np.savez(outputs, values=explanation.values, base_values=explanation.base_values)
    held = (*vars(explanation).values(), *explanation.stats.values())
    kept = sum(one.nbytes for one in held if isinstance(one, np.ndarray))
    return {"peak": peak, "kept": kept, "seconds": explanation.stats["seconds"]}


def gradients(inputs: Path, outputs: Path) -> dict[str, Any]:
    """T33: the same of integrated gradients."""
    params, arrays = _unpack(inputs)
    explainer = xaijax.GradientExplainer(
        xaijax.as_model(forward, params),
        arrays["background"],
        path="integrated",
        steps=int(arrays["steps"]),
    )
    X = arrays["X"]
    explainer(X[:2], progress=False)
    peak, explanation = _peak_above(lambda: explainer(X, progress=False))
    np.savez(outputs, values=explanation.values, base_values=explanation.base_values)
    return {"peak": peak, "seconds": explanation.stats["seconds"]}


def _peak_above(run: Callable[[], Any]) -> tuple[float, Any]:
    """Bytes that a call needs at its peak above what is held when it starts, and its result."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        before = (device.memory_stats() or {}).get("bytes_in_use", 0)
        result = run()
        return (device.memory_stats() or {}).get("peak_bytes_in_use", 0) - before, result
    try:
        # Linux: "5" sets the process's own high-water mark back to what it holds now.
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        result = run()
        return _status("VmHWM") - before, result
    except OSError:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        result = run()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before, result


def _status(name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise OSError(f"no {name} in /proc/self/status")
    return float(found[1]) * 1024


if __name__ == "__main__":
    jobs = {"cold": cold, "jit": jit, "memory": memory, "ready": ready}
    jobs |= {"gradients": gradients}
    job = jobs[sys.argv[1]]
    print(json.dumps(job(Path(sys.argv[2]), Path(sys.argv[3]))))
