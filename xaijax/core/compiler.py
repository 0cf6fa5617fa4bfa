"""Programs compiled so that a known fault of the compiler does not reach their answers.

XLA's CPU compiler fuses products of matrices with what follows them, for its library YNN. Where a
product's operand is one number or vector that is repeated (a matrix of ones, say), and a sum,
a mean or a maximum of at least 4,096 numbers is in the same fusion, the program that it makes reads
memory that is not the operand's (jaxlib 0.12.0.1): its answers are wrong.
"""

from __future__ import annotations

import re
from typing import Any

# Without fusions for that library; other products and sums are compiled as before.
WITHOUT_FUSIONS = {"xla_cpu_experimental_ynn_fusion_type": ""}

_FUSION = "__ynn_fusion"
_CALLED = re.compile(r"calls=%?([\w.-]+)[^\n]*" + _FUSION)
_STEP = re.compile(r"^\s+(?:ROOT )?%?([\w.-]+) = \S+ ([\w-]+)\(([^)]*)\)", re.MULTILINE)
_SAME = ("bitcast", "convert", "copy", "reshape", "transpose")  # the same numbers, elsewhere


def compile_sound(lowered: Any) -> Any:
    """`lowered.compile()`; without the fusions that are compiled wrongly, where there is one."""
    program = lowered.compile()
    if repeats_an_operand(program.as_text() or ""):
        return lowered.compile(compiler_options=WITHOUT_FUSIONS)
    return program


def repeats_an_operand(text: str) -> bool:
    """Whether a program, as the compiler prints it, has a fusion of a product that repeats an
    operand.
    """
    if _FUSION not in text:
        return False
    return any(_repeats(text, name) for name in set(_CALLED.findall(text)))


def _repeats(text: str, name: str) -> bool:
    """The same of the fused computation with this name."""
    start = re.search(rf"^%?{re.escape(name)} \(", text, re.MULTILINE)
    if start is None:
        return True  # not read: compiled without fusions, it is right
    body = text[start.start() : text.find("\n}", start.start())]
    steps = {made: (kind, given) for made, kind, given in _STEP.findall(body)}

    def repeated(operand: str) -> bool:
        words = operand.split("%")[-1].split()
        if not words or words[-1] not in steps:
            return True  # not read: compiled without fusions, it is right
        kind, given = steps[words[-1]]
        return kind == "broadcast" or (kind in _SAME and repeated(given))

    products = (given for kind, given in steps.values() if kind == "dot")
    return any(repeated(one) for given in products for one in given.split(","))
