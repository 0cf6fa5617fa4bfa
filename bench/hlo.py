"""Reads the optimised programs that XLA's compilers make for a TPU and for a GPU.

Kernels and loops are read by the library itself (`xaijax/commands/programs.py`), which
`xaijax doctor --device` uses too. Here are bytes, products and what else the tables hold. `figures`
opens the loops; `arithmetic` says in which numbers the products of a program multiply.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from functools import cached_property

from xaijax.commands import programs
from xaijax.commands.programs import Operation

ARRAY = re.compile(r"\b(pred|s8|u8|bf16|f16|s16|u16|f32|s32|u32|f64|s64|u64)\[([\d,]*)\]")
BYTES = dict(pred=1, s8=1, u8=1, bf16=2, f16=2, s16=2, u16=2, f32=4, s32=4, u32=4)
BYTES |= dict(f64=8, s64=8, u64=8)
NAMES = dict(f32="float32", f16="float16", bf16="bfloat16", f64="float64", tf32="tf32")
COLLECTIVES = (
    "all-reduce all-gather reduce-scatter collective-permute all-to-all collective-broadcast"
).split()
HOST = "send recv infeed outfeed".split()
PRODUCTS = "dot convolution".split()
SLICES = "slice dynamic-slice dynamic-update-slice gather".split()
LIBRARY = re.compile(r'custom_call_target="__(cublas|cudnn)[^"]*(gemm|matmul|conv)')
LEAST_SHARE = 0.01  # of the products of a loop: what is less does not count as its smallest one


@dataclass(frozen=True)
class Product:
    """A product of matrices: [rows, inner] x [inner, columns]."""

    rows: int  # the larger of the two sides, times the batch
    columns: int
    inner: int
    arithmetic: str  # in which it multiplies: "float32", "tf32", "bfloat16", "bfloat16 x3", ...
    sums: str  # the dtype of its sums

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
    loops: list[str] = field(default_factory=list)  # turns of each, from the outermost on
    smallest: int | None = None  # rows of the smallest product in the innermost loop that has one
    arithmetic: dict[str, int] = field(default_factory=dict)  # operations in each kind of numbers
    collectives: int = 0
    host: int = 0  # transfers, and counts and conditions that the host must read
    float64: bool = False


def figures(text: str, gpu: bool) -> Figures:
    """The figures of a program; of two branches those of the one that costs more."""
    program = Program(text, gpu)
    made = Figures(float64="f64[" in text)
    levels: dict[int, list[Product]] = {}
    for path, times, step in program.steps():
        if step.kind == "while":
            trips, stops = program.trip_count(step)
            made.loops.append(" x ".join(map(str, [*path, trips])))
            made.host += times * gpu * stops
        elif step.kind == "conditional":
            made.host += times * gpu
        else:
            made.kernels += times
            made.cycles += times * step.cycles
            made.bytes += times * program.traffic(step)
            made.collectives += times * any(step.kind.startswith(kind) for kind in COLLECTIVES)
            made.host += times * _asks_host(step)
            for product in program.products(step):
                made.operations += times * product.operations
                before = made.arithmetic.get(product.arithmetic, 0)
                made.arithmetic[product.arithmetic] = before + times * product.operations
                levels.setdefault(len(path), []).append(product)
    if levels:
        inner = levels[max(levels)]
        least = LEAST_SHARE * sum(product.operations for product in inner)
        made.smallest = min(product.rows for product in inner if product.operations >= least)
    return made


def arithmetic(text: str, gpu: bool) -> dict[str, set[str]]:
    """The numbers in which a program's products multiply, and the dtypes of their sums."""
    program = Program(text, gpu)
    kinds: dict[str, set[str]] = {}
    for _, _, step in program.steps():
        for product in program.products(step):
            kinds.setdefault(product.arithmetic, set()).add(product.sums)
    return kinds


def _asks_host(step: Operation) -> bool:
    return step.kind in HOST or "callback" in step.line.split("metadata")[0]


class Program(programs.ProgramText):
    """The computations of a program; gpu: whether it is a GPU's."""

    def __init__(self, text: str, gpu: bool) -> None:
        super().__init__(text)
        self.gpu = gpu

    @cached_property
    def types(self) -> dict[str, str]:
        """The type of each operation by its name."""
        return {step.name: step.type for all in self.computations.values() for step in all}

    def operands(self, step: Operation) -> list[str]:
        """Types of what an operation is given."""
        return [self.types.get(name, "") for name in self.names(step)]

    def traffic(self, operation: Operation) -> int:
        """Bytes that it reads and writes; of an array that it slices or updates, the part."""
        steps = self.computations.get(operation.calls or "", [operation])
        if steps == [operation]:
            return self._slices(
                operation, size_of(operation.type) + sum(map(size_of, self.operands(operation)))
            )
        read, made = 0, {step.name: step for step in steps}
        for step in steps:
            if step.kind == "parameter":
                users = [user for user in steps if step.name in self.names(user)]
                parts = [user.kind in SLICES and self.names(user)[0] == step.name for user in users]
                read += sum(map(self._part, users)) if all(parts) else size_of(step.type)
        root = steps[-1]
        written = self.names(root) if root.kind == "tuple" else [root.name]
        return read + sum(self._written(made[name]) for name in written if name in made)

    def _slices(self, operation: Operation, whole: int) -> int:
        return 2 * self._part(operation) if operation.kind in SLICES else whole

    def _written(self, operation: Operation) -> int:
        return (
            self._part(operation)
            if operation.kind == "dynamic-update-slice"
            else size_of(operation.type)
        )

    def _part(self, operation: Operation) -> int:
        """Bytes of a slice, or of what is put into an array."""
        updates = operation.kind == "dynamic-update-slice"
        return size_of(self.operands(operation)[1] if updates else operation.type)

    def products(self, operation: Operation) -> list[Product]:
        """The products of an operation."""
        products = []
        for each in self.inside(operation):
            library = each.kind == "custom-call" and LIBRARY.search(each.line)
            if each.kind in PRODUCTS or library:
                products.append(self._product(each))
        return [product for product in products if product is not None]

    def _arithmetic(self, operation: Operation, dtypes: tuple[str, str]) -> str:
        """In which numbers a product multiplies; float32 operands may be rounded on the way."""
        named = re.search(r"\balgorithm=dot_(\w+)", operation.line)
        named = named or re.search(r'"algorithm":"ALG_DOT_(\w+)"', operation.line)
        if named:
            kind, *rest = named[1].lower().split("_")  # bf16_bf16_f32_x3
            times = [f" {part}" for part in rest if part.startswith("x")]
            return NAMES.get(kind, kind) + "".join(times)
        if "f32" not in dtypes:
            return NAMES.get(dtypes[0], dtypes[0])
        stated = re.search(r"operand_precision=\{([\w,]+)\}", operation.line)
        stated = stated or re.search(r'"operand_precision":\[([\w",]+)\]', operation.line)
        levels = set(re.findall(r"\w+", stated[1].lower())) if stated else {"default"}
        if levels == {"highest"}:
            return "float32"
        if self.gpu:
            return "tf32"
        return "bfloat16" if "default" in levels else "bfloat16 x3"

    def _product(self, operation: Operation) -> Product | None:
        operands = [dims_of(type) for type in self.operands(operation)[:2]]
        out = dims_of(operation.type)
        if len(operands) < 2 or out is None or None in operands:
            return None
        (left, of_left), (right, of_right) = operands  # type: ignore[misc]
        whole, inner, columns = math.prod(out[0]), 1, 0
        axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", operation.line)
        axes = axes or re.search(r'"lhs_contracting_dimensions":\["?([\d",]*)"?\]', operation.line)
        labels = re.search(r"dim_labels=(\w+)_(\w+)->", operation.line)
        if axes is not None:
            inner = math.prod(left[int(axis)] for axis in re.findall(r"\d+", axes[1]))
        elif labels is not None and set(labels[2]) - set("io"):  # a window moves over one side
            sides = left[labels[1].index("b")], right[labels[2].index("o")]
            # If the window is the larger of the two, each answer sees one place of the smaller.
            moves = math.prod(left) > left[labels[1].index("f")] * sides[0]
            columns = sides[1] if moves else min(sides)
            inner = right[labels[2].index("i")] * (_places(operation.line) if moves else 1)
        elif labels is not None:
            inner = max(1, math.isqrt(math.prod(left) * math.prod(right) // max(1, whole)))
        columns = columns or max(1, min(math.prod(left), math.prod(right)) // max(1, inner))
        columns = min(columns, max(1, whole))
        kind, sums = self._arithmetic(operation, (of_left, of_right)), out[1]
        return Product(max(whole // columns, 1), columns, inner, kind, NAMES.get(sums, sums))


def _places(line: str) -> int:
    """Places that a window sees at a time. Along an axis that is filled up with as many zeros as
    the window is long it sees one: this is how a TPU's compiler writes products of a batch.
    """
    window = dict(re.findall(r"(size|lhs_dilate)=([\dx]+)", line))
    sizes = [int(size) for size in window["size"].split("x")]
    filled = [
        int(zeros) for zeros in window.get("lhs_dilate", "x".join("1" * len(sizes))).split("x")
    ]
    return math.prod(size for size, zeros in zip(sizes, filled, strict=True) if zeros == 1)


def size_of(type: str) -> int:
    """Bytes of a type, all parts of a tuple together."""
    arrays = ARRAY.findall(type)
    return sum(
        BYTES[kind] * math.prod(int(d) for d in dims.split(",") if d) for kind, dims in arrays
    )


def dims_of(type: str) -> tuple[tuple[int, ...], str] | None:
    """(dimensions, dtype) of an array's type, of a tuple's first one."""
    match = ARRAY.search(type)
    if match is None:
        return None
    return tuple(int(d) for d in match[2].split(",") if d), match[1]
