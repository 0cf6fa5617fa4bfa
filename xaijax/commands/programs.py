"""Reads an optimised program of one of XLA's compilers: its kernels, and its loops opened.

An operation at the level of the program, or of a loop's body, is one kernel on a GPU and one fused
step on a TPU. Its parts are in a computation that it calls. The compiler writes down how
many times a loop runs, or its condition shows them, or the library named the loop by the most that
it can take (`tiles.MOST_TURNS`). Any other loop raises `UnreadProgram`.

The bench reads more of a program (`bench/hlo.py`), and so do tests of its products.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

HEAD = re.compile(r"^(ENTRY )?%([\w.\-]+) \(.*\{\s*$")
OPERATION = re.compile(r"^\s*(?:ROOT )?%([\w.\-]+) = (\(.*?\)|\S+) ([a-z][\w\-]*)\((.*)$")
NO_KERNEL = (  # operations that run nothing, or that end an asynchronous one
    "parameter constant tuple get-tuple-element bitcast after-all partition-id replica-id "
    "opt-barrier async-done fusion-done copy-done slice-done dynamic-slice-done"
).split()
LOOPS = "while conditional".split()
NAMED_TURNS = re.compile(r'at_most_(\d+)_turns/while"')  # as `tiles.MOST_TURNS` names a loop
CONSTANT = re.compile(r"= [su]32\[\]\S* constant\((\d+)\)")


class UnreadProgram(ValueError):
    """A program has a form that is not read here: its figures would be guesses."""


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
        match = re.search(r"(?:calls|to_apply)=%([\w.\-]+)", self.line)
        return match[1] if match else None

    @cached_property
    def cycles(self) -> int:
        """The cycles that the compiler for a TPU estimates."""
        match = re.search(r'"estimated_cycles":"(\d+)"', self.line)
        return int(match[1]) if match else 0


class ProgramText:
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
            elif name is not None and (match := OPERATION.match(line)):
                self.computations[name].append(Operation(match[1], match[2], match[3], line))

    def steps(self) -> Iterator[tuple[tuple[int, ...], int, Operation]]:
        """(trips of the loops around it, how often it runs, operation) of all kernels and loops."""
        yield from self._steps(self.entry, 1, ())

    def _steps(
        self, name: str, times: int, path: tuple[int, ...]
    ) -> Iterator[tuple[tuple[int, ...], int, Operation]]:
        for step in self.computations.get(name, ()):
            if step.kind == "while":
                trips, _ = self.trip_count(step)
                yield path, times, step
                body = re.search(r"body=%([\w.\-]+)", step.line)
                assert body is not None
                yield from self._steps(body[1], times * trips, (*path, trips))
            elif step.kind == "conditional":
                yield path, times, step
                names = re.findall(r"%([\w.\-]+)", step.line.partition("computation")[2])
                branches = [list(self._steps(branch, times, path)) for branch in names]
                yield from max(branches, key=_cost, default=[])
            elif step.kind == "call" and step.calls is not None:
                yield from self._steps(step.calls, times, path)
            elif step.kind not in NO_KERNEL:
                yield path, times, step

    def trip_count(self, loop: Operation) -> tuple[int, bool]:
        """(trips of a loop, whether these are the most that an argument of the program allows).

        JAX's loops count from 0 by 1: a constant in the condition is their number.
        """
        known = re.search(r'"known_trip_count":\{"n":"(\d+)"', loop.line)
        condition = re.search(r"condition=%([\w.\-]+)", loop.line)
        if known is None and condition is not None:
            steps = self.computations[condition[1]]
            values = {step.name: CONSTANT.search(step.line) for step in steps}
            below = steps[-1].kind == "compare" and "direction=LT" in steps[-1].line
            known = values.get(self.names(steps[-1])[1]) if below else None
        if known is not None:
            return int(known[1]), False
        named = NAMED_TURNS.search(loop.line)
        if named is None:
            raise UnreadProgram(
                "nothing says how often this loop runs; name it by MOST_TURNS: "
                + loop.line.strip()[-300:]
            )
        return int(named[1]), True

    def inside(self, operation: Operation) -> list[Operation]:
        """The operation, or those of the computation that it runs, and of those in it."""
        if operation.calls is None or operation.calls not in self.computations:
            return [operation]
        return [each for step in self.computations[operation.calls] for each in self.inside(step)]

    @staticmethod
    def names(operation: Operation) -> list[str]:
        """The operations whose results it is given."""
        operands = operation.line.partition(f" {operation.kind}(")[2]
        return re.findall(r"%([\w.\-]+)", operands.split("), ")[0])


def kernels(text: str) -> int:
    """Kernels that one call of a program starts."""
    return sum(times for _, times, step in ProgramText(text).steps() if step.kind not in LOOPS)


def _cost(steps: list[tuple[tuple[int, ...], int, Operation]]) -> tuple[int, int]:
    return sum(times * step.cycles for _, times, step in steps), sum(times for _, times, _ in steps)
