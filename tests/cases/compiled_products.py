"""How the products of a compiled program are taken, read from its optimised HLO.

`python tests/cases/compiled_products.py TARGET` compiles the program that holds a small network, in
each precision, for "cpu" or for a target of `bench.compilers`, and prints the counts as JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import xaijax as xj
from bench import compilers
from xaijax.commands import programs
from xaijax.commands.programs import Operation
from xaijax.games.run import RunCost

PRODUCT = ("dot", "convolution")
MOVES = "bitcast copy transpose reshape convert broadcast slice dynamic-slice".split()


def products(text: str, platform: str) -> Counter[str]:
    """The number of products by how they are taken: "float32", "tf32", "bfloat16"."""
    program = Program(text)
    counts: Counter[str] = Counter()
    for place, line in program.lines():
        if line.kind in PRODUCT:
            counts[program.taken(place, line, platform)] += 1
    return counts


class Program(programs.ProgramText):
    """The computations of a program, and from where each is called."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.callers: dict[str, list[tuple[str, Operation]]] = {}
        for name, line in self.lines():
            for called in re.findall(r"(?:calls|to_apply|body|condition)=%([\w.\-]+)", line.line):
                self.callers.setdefault(called, []).append((name, line))

    def lines(self) -> list[tuple[str, Operation]]:
        return [(name, line) for name, body in self.computations.items() for line in body]

    def line(self, place: str, name: str) -> Operation:
        return next(step for step in self.computations[place] if step.name == name)

    def taken(self, place: str, line: Operation, platform: str) -> str:
        """How a product is taken. If none is said a GPU multiplies in TF32 and a TPU in bfloat16; a
        CPU always multiplies in float32, where the factors may be rounded.
        """
        said = re.search(r"operand_precision=\{(\w+),(\w+)\}", line.line)
        if "algorithm=dot_bf16_bf16_f32" in line.line and platform == "gpu":
            return "bfloat16"
        if said and "highest" in said.groups():
            return "float32"
        if platform == "gpu":
            return "tf32"
        if platform == "tpu":
            return "three of bfloat16" if said else "bfloat16"
        rounded = [self.rounded(place, factor) for factor in self.names(line)]
        return "bfloat16" if all(rounded) else "float32"

    def rounded(self, place: str, name: str, depth: int = 0) -> bool:
        """Whether numbers are cut to the 7 bits of bfloat16."""
        if depth > 40:
            return False
        line = self.line(place, name)
        if line.kind == "reduce-precision":
            return "mantissa_bits=7" in line.line
        if line.kind in MOVES:
            return self.rounded(place, self.names(line)[0], depth + 1)
        if line.kind in ("fusion", "call"):
            assert line.calls
            root = self.computations[line.calls][-1].name
            return self.rounded(line.calls, root, depth + 1)
        if line.kind == "get-tuple-element":
            index = int(re.findall(r"index=(\d+)", line.line)[0])
            return self.element(place, self.names(line)[0], index, depth + 1)
        if line.kind == "parameter":
            number = int(line.line.partition(" parameter(")[2].partition(")")[0])
            callers = self.callers.get(place, [])
            return bool(callers) and all(
                caller.kind in ("fusion", "call")
                and self.rounded(where, self.names(caller)[number], depth + 1)
                for where, caller in callers
            )
        return False

    def element(self, place: str, name: str, index: int, depth: int) -> bool:
        """The same of an element of a tuple; what a loop is given and hands on is the first one."""
        line = self.line(place, name)
        if line.kind == "tuple":
            return self.rounded(place, self.names(line)[index], depth + 1)
        if line.kind == "parameter":
            loops = [(at, loop) for at, loop in self.callers[place] if loop.kind == "while"]
            elements = [self.element(at, self.names(loop)[0], index, depth) for at, loop in loops]
            return bool(elements) and all(elements)
        return False


def compiled(precision: Any, **options: Any) -> Any:
    """The text of a network's program: two products of parameters, and one of its own numbers."""
    rng = np.random.default_rng(0)
    params = [rng.normal(size=d).astype(np.float32) for d in ((64, 128), (128, 64))]
    X, background = (rng.normal(size=(n, 64)).astype(np.float32) for n in (4, 3))

    def network(params: Any, rows: Any) -> Any:
        hidden = jnp.tanh(jnp.tanh(rows @ params[0]) @ params[1]).reshape(-1, 8, 8)
        return (hidden @ hidden.swapaxes(1, 2)).max(axis=(1, 2))

    model = xj.as_model(network, params, precision=precision, structure="plain")
    options |= {"estimator": "kernel", "budget": 200, "path": "tiled"}
    explainer = xj.Explainer(model, background, **options)
    by_key: dict[Any, Any] = {}
    add = RunCost.add_calls

    def noted(self: Any, calls: int, *recipes: Any) -> None:
        add(self, calls, *recipes)
        by_key.update(self.recipes)

    with mock.patch.object(RunCost, "add_calls", noted):
        explainer.plan(X)
    (recipe,) = (call for call in by_key.values() if call.key[0] == "run")

    def shape(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if isinstance(leaf, jax.Array) else leaf

    jitted = jax.jit(recipe.function, out_shardings=recipe.results)
    return jitted.lower(*jax.tree.map(shape, recipe.arguments)).compile().as_text()


def main(target: str) -> None:
    """Prints {precision: {how: number}}; a refusal is {"error": text}."""
    report, platform, options = {}, "cpu", {}
    if target != "cpu":
        made = compilers.TARGETS[target]
        devices = made.devices
        platform = devices[0].platform
        options = {"devices": devices, "max_memory": made.memory}
    for precision in ("float32", "tf32", "bfloat16"):
        try:
            report[precision] = dict(products(compiled(precision, **options), platform))
        except xj.InputError as error:
            report[precision] = {"error": str(error)}
    print(json.dumps(report))


if __name__ == "__main__":
    main(sys.argv[1])
