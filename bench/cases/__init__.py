"""All cases by name, in the order in which they run: T1 to T39, then those without a number."""

from __future__ import annotations

import importlib

from bench.frame import Case

FILES = (
    "exact host federated sampled growth background process walk aec qii structures gradients "
    "derivatives devices amortized anchors networks sweeps kills interactions certainty host_share "
    "house certain estimators trees tree_models first_answers gpu"
).split()


def _place(case: Case) -> float:
    number = case.name[1:].partition("-")[0]
    return int(number) if number.isdigit() else float("inf")


FOUND = (case for file in FILES for case in importlib.import_module(f"bench.cases.{file}").CASES)
CASES: dict[str, Case] = {case.name: case for case in sorted(FOUND, key=_place)}
