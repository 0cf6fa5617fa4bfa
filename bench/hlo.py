"""Reads the optimised programs that XLA's compilers make for a TPU and for a GPU.

An operation at the level of the program, or of a loop's body, is one kernel on a GPU and one fused
step on a TPU. What it is made of stands in a computation that it calls.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

HEAD = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\{\s*$")
OPERATION = re.compile(r"^\s*(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)$")
ARRAY = re.compile(r"\b(pred|s8|u8|bf16|f16|s16|u16|f32|s32|u32|f64|s64|u64)\[([\d,]*)\]")
BYTES = dict(pred=1, s8=1, u8=1, bf16=2, f16=2, s16=2, u16=2, f32=4, s32=4, u32=4)
BYTES |= dict(f64=8, s64=8, u64=8)
NO_KERNEL = (  # of a program's level: nothing is run, or the end of what was begun
    "parameter constant tuple get-tuple-element bitcast after-all partition-id replica-id "
    "opt-barrier async-done fusion-done copy-done slice-done dynamic-slice-done"
).split()
COLLECTIVES = (
    "all-reduce all-gather reduce-scatter collective-permute all-to-all collective-broadcast"
).split()
HOST = "send recv infeed outfeed".split()
PRODUCTS = "dot convolution".split()


@dataclass(frozen=True)
class Operation:
    """A line of a computation."""

    name: str
    type: str
    kind: str
    line: str

    @cached_property
    def calls(self) -> str | None:
        """The computation that it runs."""
        found = re.search(r"(?:calls|to_apply)=%([\w.\-]+)", self.line)
        return found[1] if found else None

    @cached_property
    def turns(self) -> int | None:
        """Of a loop whose number of turns the compiler knows."""
        found = re.search(r'"known_trip_count":\{"n":"(\d+)"', self.line)
        return int(found[1]) if found else None

    @cached_property
    def cycles(self) -> int:
        """As the compiler for a TPU estimates them."""
        found = re.search(r'"estimated_cycles":"(\d+)"', self.line)
        return int(found[1]) if found else 0


@dataclass(frozen=True)
class Product:
    """A product of matrices: [rows, inner] x [inner, columns]."""

    rows: int  # the larger of the two sides, times the batch
    columns: int
    inner: int
    dtypes: tuple[str, ...]  # of the operands

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.columns * self.inner


@dataclass
class Figures:
    """What a program runs in one dispatch, its loops opened."""

    kernels: int = 0
    cycles: int = 0
    bytes: int = 0  # that kernels read at most, and write
    operations: int = 0  # of products
    loops: list[int | None] = field(
        default_factory=list
    )  # turns of each, the outer before the inner
    smallest: int | None = None  # rows of the smallest product in the innermost loop that has one
    products: Counter[tuple[str, ...]] = field(default_factory=Counter)  # dtypes of operands
    collectives: int = 0
    host: int = 0  # transfers, and counts and conditions that the host must read
    float64: bool = False


def figures(text: str, turns: Sequence[int], gpu: bool) -> Figures:
    """Reads a program.

    turns: of loops whose number the compiler does not know, by how deep they are; 1 beyond these.
    """
    program = Program(text)
    found = Figures(float64="f64[" in text)
    deepest, rows = 0, {}
    for path, times, one in program.steps(tuple(turns)):
        if one.kind == "while":
            found.loops.append(one.turns)
            found.host += times * gpu * (one.turns is None)
            continue
        if one.kind == "conditional":
            found.host += times * gpu
            continue
        found.kernels += times
        found.cycles += times * one.cycles
        found.bytes += times * program.traffic(one)
        found.collectives += times * any(one.kind.startswith(kind) for kind in COLLECTIVES)
        found.host += times * (one.kind in HOST or "callback" in one.line.split("metadata")[0])
        for product in program.products(one):
            found.operations += times * product.operations
            found.products[product.dtypes] += 1
            deepest = max(deepest, len(path))
            rows.setdefault(len(path), []).append(product.rows)
    found.smallest = min(rows[deepest]) if rows else None
    return found


class Program:
    """The computations of a program."""

    def __init__(self, text: str) -> None:
        self.computations: dict[str, list[Operation]] = {}
        self.entry, name = "", None
        for line in text.splitlines():
            head = HEAD.match(line)
            if head:
                name = head[2]
                self.computations[name] = []
                self.entry = name if head[1] else self.entry
            elif line.startswith("}"):
                name = None
            elif name is not None and (found := OPERATION.match(line)):
                self.computations[name].append(Operation(found[1], found[2], found[3], line))

    def steps(self, turns: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int, Operation]]:
        """(turns of the loops around it, how often it runs, operation) of all kernels and loops."""
        yield from self._steps(self.entry, 1, (), turns)

    def _steps(
        self, name: str, times: int, path: tuple[int, ...], turns: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], int, Operation]]:
        for one in self.computations.get(name, ()):
            if one.kind == "while":
                yield path, times, one
                known = one.turns is not None
                count = one.turns if known else (turns or (1,))[0]
                body = re.search(r"body=%([\w.\-]+)", one.line)
                assert body is not None and count is not None
                rest = turns if known else turns[1:]
                yield from self._steps(body[1], times * count, (*path, count), rest)
            elif one.kind == "conditional":
                yield path, times, one
                branches = re.findall(r"%([\w.\-]+)", one.line.partition("computation")[2])
                for branch in branches:  # the cost of all: which one runs is not known
                    yield from self._steps(branch, times, path, turns)
            elif one.kind == "call" and one.calls is not None:
                yield from self._steps(one.calls, times, path, turns)
            elif one.kind not in NO_KERNEL:
                yield path, times, one

    def inside(self, one: Operation) -> list[Operation]:
        """The operation, or those of the computation that it runs, and of those in it."""
        if one.calls is None or one.calls not in self.computations:
            return [one]
        return [each for step in self.computations[one.calls] for each in self.inside(step)]

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of each operation by its name."""
        return {one.name: one.type for all in self.computations.values() for one in all}

    def operands(self, one: Operation) -> list[str]:
        """Types of what an operation is given."""
        given = one.line.partition(f" {one.kind}(")[2]
        names = re.findall(r"%([\w.\-]+)", given.split("), ")[0])
        return [self.types.get(name, "") for name in names]

    def traffic(self, one: Operation) -> int:
        """Bytes that it writes, and reads at most: an operand that it looks up in counts whole."""
        return size_of(one.type) + sum(map(size_of, self.operands(one)))

    def products(self, one: Operation) -> list[Product]:
        """The products of an operation."""
        found = []
        for each in self.inside(one):
            library = each.kind == "custom-call" and "gemm" in each.line
            if each.kind in PRODUCTS or library:
                found.append(self._product(each))
        return [product for product in found if product is not None]

    def _product(self, one: Operation) -> Product | None:
        operands = [dims_of(type) for type in self.operands(one)[:2]]
        out = dims_of(one.type)
        if len(operands) < 2 or out is None or None in operands:
            return None
        (left, of_left), (right, of_right) = operands  # type: ignore[misc]
        inner = 1
        axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", one.line)
        axes = axes or re.search(r'"lhs_contracting_dimensions":\["?([\d",]*)"?\]', one.line)
        if axes is not None:
            inner = math.prod(left[int(axis)] for axis in re.findall(r"\d+", axes[1]))
        elif one.kind == "convolution":
            inner = max(
                1, math.isqrt(math.prod(left) * math.prod(right) // max(1, math.prod(out[0])))
            )
        whole = math.prod(out[0])
        columns = max(1, min(math.prod(left), math.prod(right)) // max(1, inner))
        columns = min(columns, whole)
        return Product(max(whole // columns, 1), columns, inner, (of_left, of_right))


def size_of(type: str) -> int:
    """Bytes of a type, all parts of a tuple together."""
    arrays = ARRAY.findall(type)
    return sum(
        BYTES[kind] * math.prod(int(d) for d in dims.split(",") if d) for kind, dims in arrays
    )


def dims_of(type: str) -> tuple[tuple[int, ...], str] | None:
    """(dimensions, dtype) of an array's type, of a tuple's first one."""
    found = ARRAY.search(type)
    if found is None:
        return None
    return tuple(int(d) for d in found[2].split(",") if d), found[1]
