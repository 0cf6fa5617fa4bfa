"""`xaijax doctor --device`: how fast a GPU or a TPU explains two known problems, and how right.

Letters: N instances, B background rows, P players, T tiles, R rows of a tile.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.commands.programs import UnreadProgram, kernels
from xaijax.core.errors import XaiError
from xaijax.core.version import __version__
from xaijax.methods.explainer.choice import cost_of
from xaijax.methods.explainer.explainer import Explainer
from xaijax.models import as_model

SECONDS = 60.0  # after which no call of the check ends, by what those before it took, or it is left
MOST_ROWS = 4_096  # instances of a call
CHECKED = 2  # instances whose values are computed in float64
ALLOWED = 1e-5  # of the values' spread: the promise for float32
P, B, UNITS = 12, 100, 64
SIZES = (60, 6, 12, 5, 10, 5, 4, 2, 20, 12, 40, 25)  # distinct values of T3's columns

ABSENT = """\
Device check JAX sees {kinds} here, and this check is for a GPU or a TPU. There it explains rows of
             a network 12-64-64-1 exactly, with numbers (T1) and with codes (T3) as columns, for at
             most a minute, compares values with float64, and prints model rows a second, the share
             of the plain forward pass and the number of kernels, to be pasted into a report.
             Install JAX for the device: pip install "jax[cuda13]", or "jax[tpu]"."""


@dataclass(frozen=True)
class Problem:
    """A network, its background and an endless supply of instances."""

    name: str
    codes: bool  # whether columns have few values, so that pairs agree in some of them

    def rows(self, count: int, seed: int) -> np.ndarray:
        """Rows [count, P]."""
        rng = np.random.default_rng(seed)
        if not self.codes:
            return rng.normal(size=(count, P)).astype(np.float32)
        columns = [rng.integers(0, size, count) for size in SIZES]
        return np.stack(columns, axis=1).astype(np.float32)

    @cached_property
    def background(self) -> np.ndarray:
        """Rows [B, P]."""
        return self.rows(B, 1)

    @cached_property
    def params(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Weights and biases, the first layer for columns that are not normalised."""
        rng, layers = np.random.default_rng(0), []
        for rows, units in ((P, UNITS), (UNITS, UNITS), (UNITS, 1)):
            weights = rng.normal(size=(rows, units)) * math.sqrt(2 / rows)
            layers.append((weights, 0.1 * rng.normal(size=units)))
        scale = self.background.std(axis=0)
        first, bias = layers[0]
        first = first / scale[:, None]
        layers[0] = first, bias - self.background.mean(axis=0) @ first
        return [tuple(array.astype(np.float32) for array in layer) for layer in layers]


def forward(params: Any, rows: Any, xp: Any = jnp) -> Any:
    """The network, [R, P] -> [R]; xp: jax.numpy or numpy."""
    for weights, bias in params[:-1]:
        rows = xp.maximum(rows @ weights + bias, 0)
    weights, bias = params[-1]
    return (rows @ weights + bias)[:, 0]


def in_float64(problem: Problem, x: np.ndarray) -> np.ndarray:
    """Shapley values [P] of a row by the definition, over all 2^P coalitions, on the host."""
    params = [(w.astype(np.float64), b.astype(np.float64)) for w, b in problem.params]
    present = (np.arange(1 << P)[:, None] >> np.arange(P)) & 1 == 1
    v = np.zeros(1 << P)
    donors = problem.background.astype(np.float64)
    for donor in donors:
        v += forward(params, np.where(present, x.astype(np.float64), donor), np) / len(donors)
    size, values = present.sum(axis=1), np.zeros(P)
    for j in range(P):
        without = np.flatnonzero(~present[:, j])
        weights = [1 / (P * math.comb(P - 1, int(s))) for s in size[without]]
        values[j] = np.sum(weights * (v[without | 1 << j] - v[without]))
    return values


@dataclass(frozen=True)
class Finding:
    """Measurements of one problem."""

    problem: str
    instances: int
    rate: float  # model rows a second
    share: float  # the time of a plain forward pass of these rows, over ours
    kernels: tuple[int, int] | None  # of a dispatch and of the whole call; None: a form is not read
    model_rows: int  # of the call
    compile_seconds: float
    error: float  # the largest difference of a value from float64
    allowed: float
    first_seconds: float  # of the first call, compilation and comparison

    @property
    def right(self) -> bool:
        """Whether the values are as near to float64 as is promised."""
        return self.error <= self.allowed

    def lines(self) -> Iterator[str]:
        """Two lines of the block."""
        launched = "kernels not read"
        if self.kernels is not None:
            most, whole = self.kernels
            million = whole / self.model_rows * 1e6
            launched = f"{most:,} kernels a dispatch, {million:,.0f} a million rows"
        yield (
            f"{self.problem:4} {self.instances:6,} instances  {self.rate / 1e6:10,.1f} M rows/s  "
            f"{100 * self.share:5.0f} % of the plain forward pass  compiled in "
            f"{self.compile_seconds:.1f} s"
        )
        right = "right" if self.right else "WRONG"
        yield (
            f"     {launched}; {right}, {self.error:.1e} from float64 ({self.allowed:.1e} allowed)"
        )


def check(
    devices: list[Any],
    seconds: float = SECONDS,
    most: int = MOST_ROWS,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[str]:
    """Yields the lines of the block; raises XaiError after them if a value is wrong.

    most: instances of a call. seconds: no call begins that would end after them.
    """
    until, longest = clock() + seconds, 0.0
    device = devices[0]
    yield "--- xaijax device check ---"
    yield f"xaijax {__version__}, jax {jax.__version__}, {len(devices)} x {device.device_kind}"
    version = getattr(device.client, "platform_version", "")
    yield f"{device.platform}; {version.partition(chr(10))[0]}"
    wrong = []
    problems = Problem("T1", codes=False), Problem("T3", codes=True)
    for place, problem in enumerate(problems):
        started = clock()
        if started + longest > until:
            yield f"{problem.name} is left out: it would end after {seconds:.0f} seconds"
            continue
        share = (until - started) / (len(problems) - place)
        run = partial(measured, problem, devices, started + share, most, clock)
        try:
            finding = within(until - started, run)
        except TimeoutError:
            yield (
                f"{problem.name} did not end within {seconds:.0f} seconds, most likely because its "
                "programs were still being compiled; nothing was measured"
            )
            break
        longest = max(longest, finding.first_seconds)
        yield from finding.lines()
        wrong += [finding.problem] * (not finding.right)
    yield "--- end ---"
    if wrong:
        raise XaiError(
            f"values of {' and '.join(wrong)} on {device.device_kind} are not those of float64. Do "
            "not trust this device with this version of JAX; please report the block above."
        )


def within(seconds: float, work: Callable[[], Finding]) -> Finding:
    """Returns the result of `work`; raises TimeoutError if it takes longer. The work continues,
    since only the end of the process ends a compilation.
    """
    future: Future[Finding] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future.result(max(0.0, seconds))


def measured(
    problem: Problem, devices: list[Any], until: float, most: int, clock: Callable[[], float]
) -> Finding:
    """Explains more and more rows of the problem, up to `most`. No call begins that would end after
    `until` by what those before it took.
    """
    model = as_model(forward, problem.params)
    begun = clock()
    explainer = Explainer(model, problem.background, estimator="exact", devices=devices)
    X = problem.rows(most, 2)

    def timed(count: int) -> tuple[float, Any]:
        """(seconds without compilation, the explanation) of a call."""
        started = clock()
        explanation = explainer(X[:count], progress=False)
        return clock() - started - float(explanation.stats["compile_seconds"]), explanation

    took, first = timed(CHECKED)
    compiled = float(first.stats["compile_seconds"])
    wanted = np.stack([in_float64(problem, x) for x in X[:CHECKED]])
    count, explanation, first_seconds = CHECKED, first, clock() - begun
    # The first call of a number of rows may compile a program, and is made once more.
    while count < most and clock() + 8 * took + compiled < until:
        count = min(4 * count, most)
        timed(count)
        took, explanation = timed(count)
    times = [took]
    while len(times) < 3 and clock() + took < until:
        took, explanation = timed(count)
        times.append(took)
    took, rows = statistics.median(times), int(explanation.stats["model_rows"])
    return Finding(
        problem.name,
        count,
        rows / took,
        forward_seconds(problem, devices, rows, clock) / took,
        program_kernels(explainer, X[:count]),
        rows,
        compiled,
        float(np.abs(first.values - wanted).max()),
        ALLOWED * float(np.abs(wanted).max()),
        first_seconds,
    )


def program_kernels(explainer: Explainer, X: np.ndarray) -> tuple[int, int] | None:
    """(kernels of a dispatch, those of an explanation of X): the most of one program, and the sum
    over programs of their own kernels times their runs, as the plan counts them. None: one of the
    programs has a form that is not read.
    """
    _, game, choice = explainer._begun(X, lambda rows: None, explainer._choose, False, None)
    cost_of(game, choice, explainer.seed, explainer.exact)
    programs = game.engine.compiled.cache
    try:
        each = [(kernels(programs[n].call.as_text()), runs) for n, runs in game.cost.runs.items()]
    except (UnreadProgram, KeyError):  # KeyError: the run took another program than planned
        return None
    return max((count for count, _ in each), default=0), sum(count * runs for count, runs in each)


def forward_seconds(
    problem: Problem, devices: list[Any], rows: int, clock: Callable[[], float]
) -> float:
    """Seconds of a plain forward pass of this number of rows, in tiles, over all devices."""
    T, R = 8, 1 << 16 if devices[0].platform != "cpu" else 1 << 12
    device = devices[0]
    tiles = jax.device_put(problem.rows(T * R, 3).reshape(T, R, P), device)
    params = jax.device_put(problem.params, device)

    def all_tiles(params: Any, tiles: Any) -> Any:
        return jax.lax.map(lambda rows: forward(params, rows), tiles)

    with jax.default_matmul_precision("highest"):
        run = jax.jit(all_tiles).lower(params, tiles).compile()
    jax.block_until_ready(run(params, tiles))
    calls, took = 1, 0.0
    while took < 0.2 and calls < 1 << 12:  # several are under way: the host's share is hidden
        calls *= 2
        started = clock()
        jax.block_until_ready([run(params, tiles) for _ in range(calls)])
        took = clock() - started
    return took / (calls * T * R) * rows / len(devices)


def report(devices: list[Any]) -> Iterator[str]:
    """The text that `xaijax doctor --device` prints for JAX's devices."""
    others = [device for device in devices if device.platform != "cpu"]
    if not others:
        kinds = ", ".join(sorted({device.device_kind for device in devices}))
        yield ABSENT.format(kinds=f"{len(devices)} device(s) of kind {kinds}")
        return
    yield from check(others)
