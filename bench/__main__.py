"""The command line: `python -m bench [--case T1 ...] [--size smoke] [--gpu] [--list] [--stale]`,
and `python -m bench --compilers [--target h200 ...] [--case "permutation, P = 64" ...]`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

import jax

from bench import accelerators, report
from bench.cases import CASES
from bench.frame import Outcome


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, print and keep what they found.

    Returns:
        0; 1 when results disagreed, a case or a compilation failed, or `--stale` found rows; 2 for
        a wrong name, a missing GPU or a missing compiler.
    """
    options = _parser().parse_args(arguments)
    if options.compilers:
        return accelerators.main(options.target, options.case, options.write)
    wanted = [name for names in options.case for name in names.split(",") if name]
    unknown = [name for name in wanted if name not in CASES]
    if unknown:
        print(f"No case {', '.join(unknown)}; there are {', '.join(CASES)}.", file=sys.stderr)
        return 2
    if options.list:
        for case in CASES.values():
            long = " (long: run by --case only)" if case.long else ""
            print(f"{case.name:4} {case.measures}{long}")
        return 0
    if options.stale:
        return 1 if _tell_stale() else 0
    if options.gpu and (missing := _missing_gpu()):
        print(missing, file=sys.stderr)
        return 2
    # float32 means float32 for peers and references too; JAX would multiply it as TF32 on a GPU.
    with jax.default_matmul_precision(None if jax.default_backend() == "cpu" else "highest"):
        failed = _measure(options, wanted)
    if failed:
        print(f"FAILED: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _measure(options: argparse.Namespace, wanted: list[str]) -> list[str]:
    """Run the cases and keep what they found; the names of those that failed."""
    where = report.machine()
    failed: list[str] = []
    for name in wanted or [name for name, case in CASES.items() if not case.long]:
        case = CASES[name]
        print(f"{name}: {case.measures}", flush=True)
        started = time.perf_counter()
        try:
            outcome = case.run(options.size)
        except Exception as error:
            # The other cases still run; this one is reported and fails the run.
            outcome = Outcome(not_run=f"{type(error).__name__}: {error}")
            failed.append(name)
            if options.fail_fast:
                raise
        if not outcome.agrees:
            failed.append(name)
        _show(outcome, time.perf_counter() - started)
        if options.write:
            report.write_json(options.out, case, options.size, outcome, where)
            if options.size == "full" and case.page and outcome.table:
                report.write_page(report.ROOT / case.page, outcome, where)
            if options.size == "full":  # case by case: a run that is cut off keeps what it has
                row = report.row(case, outcome, where)
                if row.verdict:
                    report.keep(row)
    if options.write and options.size == "full":
        _tell_stale()
    return failed


def _tell_stale() -> list[report.Stale]:
    """Print the results that are older than the code, and how to measure them again."""
    rows = report.stale(report.read())
    for row in rows:
        print(f"stale: {row}")
    for on in sorted({row.on for row in rows}):
        names = ",".join(dict.fromkeys(row.case for row in rows if row.on == on))
        print(f"on {on}: python -m bench --case {names}")
    old = accelerators.stale()
    for row in old:
        print(f"stale: {row}")
    if old:
        print("anywhere: make compilers")
    return rows + old


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--case", action="append", default=[], help="names, as T1 or T1,T3")
    parser.add_argument("--size", choices=("full", "smoke"), default="full")
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument("--stale", action="store_true", help="rows older than the code, and stop")
    parser.add_argument("--gpu", action="store_true", help="refuse to run without a GPU")
    parser.add_argument(
        "--compilers", action="store_true", help="compile for TPUs and an H200 that are not here"
    )
    parser.add_argument(
        "--target", action="append", default=[], help="for --compilers: h200, v5e:2x2, another TPU"
    )
    parser.add_argument("--out", type=Path, default=report.HERE / "out", help="for JSON files")
    parser.add_argument("--no-write", dest="write", action="store_false", help="only print")
    parser.add_argument("--fail-fast", action="store_true", help="show a failing case's traceback")
    return parser


def _missing_gpu() -> str:
    """Why there is no GPU to run on; empty when there is one."""
    try:
        platforms = {device.platform for device in jax.devices()}
    except Exception as error:  # JAX ends in an assertion where the only platform allowed is absent
        why = (str(error) or type(error).__name__).splitlines()[0]
        why = f"JAX found no device for JAX_PLATFORMS={os.environ.get('JAX_PLATFORMS')} ({why})"
    else:
        if "gpu" in platforms:
            return ""
        why = f"JAX sees {', '.join(sorted(platforms))} only"
    return (
        f"No GPU that JAX can use: {why}. Nothing was measured. On a machine with an NVIDIA GPU: "
        'pip install "jax[cuda13]" into the environment, then make bench-gpu; without: make bench.'
    )


def _show(outcome: Outcome, seconds: float) -> None:
    if outcome.not_run:
        print(f"  not run: {outcome.not_run}", flush=True)
        return
    for timing in outcome.timings:
        print(f"  {timing.name}: {timing.best:.3g} s (first call {timing.first:.3g} s)")
    for figure in outcome.figures:
        goal = f" (target {figure.target:g}, {figure.verdict})" if figure.target is not None else ""
        print(f"  {figure.label}: {figure.value:.4g}{figure.unit}{goal}")
    for agreement in outcome.agreements:
        word = "agrees" if agreement.holds else "DISAGREES"
        sizes = f"{agreement.difference:.2e} of {agreement.tolerance:.2e} accepted"
        print(f"  {agreement.between} {word}: {sizes}")
    for note in outcome.notes:
        print(f"  note: {note}")
    for line in outcome.table:
        print(f"  {' | '.join(line)}")
    print(f"  [{seconds:.0f} s]", flush=True)


if __name__ == "__main__":
    sys.exit(main())
