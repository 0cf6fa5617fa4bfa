"""What a run must not be silent about: standard kinds that left JAX, and peers that did not run.

The kinds are those that the tests fit (`tests/cases/translated_kinds.py`), each on its own ordinary
data.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from bench import report

KINDS = report.ROOT / "tests" / "cases" / "translated_kinds.py"
BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"


def kinds() -> Any:
    """The table of the tests as a module."""
    name = KINDS.stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, KINDS)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def of_kinds(table: Any) -> tuple[str, list[str]]:
    """(the line for the report, the kinds that are on the host and are not known to be)."""
    reasons = {}
    for name in table.KINDS:
        model, _ = table.asked(name)
        if model.backend == "host":
            reasons[name] = model.reason
    known = [name for name in reasons if table.KINDS[name].backend == "host"]
    left = {name: why for name, why in reasons.items() if name not in known}
    total = len(table.KINDS)
    line = f"{total - len(reasons)} of {total} standard kinds run in JAX"
    line += f"; on the host, as they must be: {'; '.join(known)}." if known else "."
    if left:
        told = "; ".join(f"{name} ({why})" for name, why in left.items())
        line += f" LEFT JAX: {told}."
    return line, list(left)


def of_peers(page: str) -> str:
    """The line for the report, of the table in `bench/README.md`: what stands there as not run."""
    names: list[str] = []
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if len(cells) >= 2 and any(c == "not run" or "not run: " in c for c in cells[2:]):
            name = f"{cells[0]} on {cells[1]}"
            names += [name] if name not in names else []
    told = f" ({', '.join(names)})" if names else ""
    return f"Peer comparisons that could not run: {len(names)}{told}."


def tell(write: bool, all_cases: bool) -> list[str]:
    """Print the lines, put them over the table where it is kept; names for the exit status.

    all_cases: else only some were asked for, and the kinds are not counted anew.
    """
    path: Path = report.HERE / "README.md"
    page = path.read_text()
    if BEGIN not in page:
        page = page.replace(report.BEGIN, f"{BEGIN}\n{END}\n\n{report.BEGIN}", 1)
    head, rest = page.split(BEGIN, 1)
    old, tail = rest.split(END, 1)
    line, left = old.strip().splitlines()[0] if old.strip() else "", []
    if all_cases:
        line, left = of_kinds(kinds())
    peers = of_peers(tail)
    print(f"{line}\n{peers}", flush=True)
    if write:
        path.write_text(f"{head}{BEGIN}\n{line}\n\n{peers}\n{END}{tail}")
    return ["standard kinds"] if left else []
