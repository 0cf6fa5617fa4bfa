"""All cases by name, in the order in which they run."""

from __future__ import annotations

from bench.cases import exact, growth, host, process
from bench.frame import Case

CASES: dict[str, Case] = {
    case.name: case
    for case in sorted(
        (*exact.CASES, *host.CASES, *growth.CASES, *process.CASES),
        key=lambda case: int(case.name[1:]),
    )
}
