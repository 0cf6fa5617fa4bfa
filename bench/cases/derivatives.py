"""T34: the derivative of `shapley_values` beside its forward pass, time and memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import xaijax
from bench.cases.exact import Problem, network
from bench.definition import REASON, shapley, tolerance
from bench.frame import (
    Agreement,
    Case,
    Contender,
    Duel,
    Figure,
    Job,
    Outcome,
    Ratio,
    Results,
    Several,
    Size,
)
from bench.jobs import MEBI
from bench.models import forward, predict

FORWARD, DERIVATIVE = "forward", "derivative"


def _size(params: Any, X: np.ndarray, background: np.ndarray, **more: Any) -> jax.Array:
    """The mean square of all values: what a loss may hold."""
    values = xaijax.shapley_values(forward, X, background, params=params, **more)
    return jnp.mean(values**2)


def _time(problem: Problem) -> Duel:
    """Exact values, and the derivative of their mean square with respect to all parameters."""
    X, background = problem.X, problem.background
    ask = partial(_size, X=X, background=background)
    programs = {FORWARD: jax.jit(ask), DERIVATIVE: jax.jit(jax.grad(ask))}

    def contender(name: str) -> Contender:
        return Contender(
            name, lambda n: jax.block_until_ready(programs[name](problem.params)), len(X)
        )

    def check(results: Results) -> tuple[Agreement, ...]:
        wanted = shapley(partial(predict, problem.params), X[0], background)
        found = xaijax.shapley_values(forward, X[0], background, params=problem.params)
        difference = float(np.abs(np.asarray(found) - wanted).max())
        of = Agreement("ours and the definition", difference, tolerance(problem.outputs), REASON)
        return of, _slope(ask, problem.params, results[DERIVATIVE])

    share = Ratio("time, derivative / forward", DERIVATIVE, FORWARD, 6, 4)
    return Duel([contender(name) for name in programs], check, [share], rounds=5)


def _slope(ask: Any, params: Any, derivative: Any) -> Agreement:
    """A step along the derivative changes the mean square by its length, to the second order."""
    square = sum(float(jnp.vdot(one, one)) for one in jax.tree.leaves(derivative))
    step = 1e-3 / np.sqrt(square)
    up, down = (
        float(ask(jax.tree.map(lambda p, d, by=by: p + by * step * d, params, derivative)))
        for by in (0.5, -0.5)
    )
    expected = step * square
    reason = "of a step of 1e-3 in the parameters: its float32 roundings and its third order"
    return Agreement(
        "the derivative and a difference", abs((up - down) / expected - 1), 0.05, reason
    )


def _memory(ask: Any, params: Any) -> float:
    """MiB of a compiled program: beside its arguments, for them and for what it gives."""
    told = jax.jit(ask).lower(params).compile().memory_analysis()
    assert told is not None
    whole = told.temp_size_in_bytes + told.argument_size_in_bytes + told.output_size_in_bytes
    return whole / MEBI


@dataclass(frozen=True)
class Memory:
    """What compiled programs of sampled orders need beside their arguments."""

    problem: Problem
    orders: tuple[int, int]

    def measure(self) -> Outcome:
        """The derivative's over the forward's, and how it grows with the orders."""
        figures, details = [], {}
        for orders in self.orders:
            ask = partial(
                _size,
                X=self.problem.X,
                background=self.problem.background,
                orders=orders,
                key=jax.random.key(0),
            )
            needed = [_memory(one, self.problem.params) for one in (ask, jax.grad(ask))]
            details[str(orders)] = needed
            label = f"{orders} orders: memory, derivative / forward"
            figures.append(Figure(label, needed[1] / needed[0], 2))
        return Outcome(tuple(figures), details=details)


def setup(size: Size) -> Several:
    """Measures shapley_values under grad: time for the parameters of an MLP 64-64 with 12 players,
    exact, and memory for 12 and 100 players, sampled.

    12 players by all coalitions; 100 players by orders.
    """
    full = size == "full"
    exact = network(2, 100, (12, 64, 64, 1)) if full else network(2, 3, (4, 5, 1))
    jobs: dict[str, Job] = {"exact": _time(exact)}
    for P in (12, 100) if full else (6,):
        problem = network(8, 100, (P, 64, 64, 1)) if full else network(2, 3, (P, 5, 1))
        jobs[f"P={P}"] = Memory(problem, (16, 256) if full else (2, 4))
    return Several(jobs)


CASES = (Case("T34", setup),)
