"""Every case of the bench on tiny sizes: it runs, and its results agree."""

from __future__ import annotations

import os

import pytest

from bench.cases import CASES
from bench.environments import HERE

NEED_ADULT = {
    "T3",
    "T5",
    "T6",
    "T11",
    "T12",
    "T12-svm",
    "T24",
    "T25",
    "T26",
    "T28",
    "T29",
    "T32",
    "T35",
    "T39",
}
OWN_ENVIRONMENT = {
    "T13": "alibi",
    "T14": "anchor-exp",
    "T15": "alibi",
    "T16": "alibi",
    "T72": "gradients",
}
# The newest shapiq for Python 3.11 is older than LeverageSHAP; the whole bench runs on a newer one.
NO_PEER = ("shap is not installed", "shapiq is not installed", "this shapiq has no LeverageSHAP")
EXTRA = ("grpc", "flax", "pyarrow", "xgboost", "torch")
NO_EXTRA = tuple(f"{name} is not installed" for name in EXTRA)


@pytest.mark.slow  # all cases together take minutes, and are about speed, not about a version
@pytest.mark.parametrize("name", CASES)
def test_case_runs_and_agrees(name: str) -> None:
    if name in NEED_ADULT and not os.environ.get("XAIJAX_DATA"):
        pytest.skip("needs the Adult table: XAIJAX_DATA is not set")
    own = OWN_ENVIRONMENT.get(name, "").split()
    if not all((HERE / ".envs" / one / "installed").exists() for one in own):
        pytest.skip("makes environments of its own, in the bench only")
    outcome = CASES[name].run("smoke")
    if outcome.not_run.startswith((*NO_PEER, *NO_EXTRA)):
        pytest.skip(outcome.not_run)
    assert not outcome.not_run
    assert outcome.figures and outcome.agreements
    assert outcome.agrees, outcome.agreements
