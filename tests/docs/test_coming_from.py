"""The jobs of docs/coming_from.md in captum and alibi, as they stand there, against ours.

The page's blocks run in order: its own in this process; a peer's, of which the title says whose it
is, in the peer's environment. At commit bd038fca96 (2026-11-28) the mean coverage of alibi's rules
was 0.286, that of ours 0.206.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bench.environments import HERE, Worker, environment
from bench.frame import Agreement

PAGE = HERE.parent / "docs" / "coming_from.md"
FENCE = re.compile(r'^```python(?: title="(\w+) [\d.]+")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
# By peer: where it is installed, what its block is given by name, and what is asked of it.
PEERS: dict[str, dict[str, Any]] = {
    "captum": {"in": "gradients", "given": ("weights", "rows"), "arrays": ("theirs", "delta")},
    "alibi": {
        "in": "alibi",
        "given": ("data", "target", "X"),
        "lists": ("names",),
        "arrays": ("labels", "precision", "coverage"),
        "texts": ("anchors",),
    },
}
# "13.37 < mean radius <= 15.78" and what is left of it where a side is open, as alibi writes it.
CONDITION = re.compile(r"(?:(\S+) < )?(.+?)(?: (<=|>) (\S+))?$")


@pytest.mark.slow
def test_the_blocks_of_all_libraries_run_and_agree() -> None:
    for library in ("shap", "shapiq"):
        pytest.importorskip(library)
    if not all((HERE / ".envs" / one["in"] / "installed").exists() for one in PEERS.values()):
        pytest.skip("no environments of the peers: python -m bench.environments alibi gradients")
    names: dict[str, Any] = {"__name__": PAGE.stem}
    found = {}
    for peer, block in _blocks():
        if not peer:
            exec(block, names)
        else:
            found[peer] = _answers(PEERS[peer], block, names)
    rules = _rules(names, found["alibi"])
    gradients = _gradients("50 steps", names, found["captum"])
    for one in (*gradients, *_few_steps(names), *rules):
        assert one.holds, one


def _blocks() -> list[tuple[str, str]]:
    """(the peer, or "" for the page's own; the text) of each block, in order."""
    return FENCE.findall(PAGE.read_text("utf-8"))


def _few_steps(names: dict[str, Any]) -> tuple[Agreement, ...]:
    """The gradients along 3 points, whose sums are far from the answers: which sign they have."""
    own, theirs = dict(names), {}
    for peer, block in _blocks():
        short = block.replace("steps=50", "steps=3")
        if peer and short != block:
            theirs = _answers(PEERS[peer], short, names)
        elif short != block:
            exec(short, own)
    assert np.abs(theirs["delta"]).min() > 1e-3, "too close to see a sign"
    return _gradients("3 steps", own, theirs)


def _answers(peer: dict[str, Any], block: str, names: dict[str, Any]) -> dict[str, Any]:
    """Run a peer's block in its environment."""
    asked = {name: peer.get(name, ()) for name in ("lists", "arrays", "texts")}
    sent = {name: np.asarray(names[name]) for name in (*peer["given"], *asked["lists"])}
    with Worker(environment(peer["in"]), HERE / "peers" / "page_worker.py") as worker:
        found = worker.call("run", options={"block": block, **asked}, **sent)[1]
    return found | {name: json.loads(str(found[name])) for name in asked["texts"]}


def _gradients(how: str, names: dict[str, Any], theirs: dict[str, Any]) -> tuple[Agreement, ...]:
    """The values, and how far their sums are from the answers."""
    reason = "float32 sums of the gradients in another order, of values below 2"
    values = np.abs(names["ours"].values - theirs["theirs"]).max()
    missing = np.abs(names["delta"][:, 3] - theirs["delta"]).max()
    return (
        Agreement(f"captum's values, {how}", float(values), 1e-5, reason),
        Agreement(f"captum's convergence delta, {how}", float(missing), 1e-5, reason),
    )


def _rules(names: dict[str, Any], theirs: dict[str, Any]) -> tuple[Agreement, ...]:
    """alibi's rules measured here, on the data rows that satisfy them."""
    data = names["data"]
    quartiles = np.percentile(data, (25, 50, 75), axis=0).T
    edges = dict(zip(names["names"], quartiles, strict=True))
    again = [
        names["anchors"].evaluate(_predicates(rule, edges), x)
        for rule, x in zip(theirs["anchors"], names["X"], strict=True)
    ]
    precision = np.array([one.precision for one in again]) - theirs["precision"]
    coverage = np.array([one.coverage for one in again]) - theirs["coverage"]
    # Standard errors of alibi's: of p = 0.95 on 100 draws at least, of 0.5 on 10,000.
    reason = "alibi's is of a sample; 5 standard errors"
    other = float((names["forest"].predict(data) != theirs["labels"]).mean())
    held = np.array([rule.accepted for rule in names["rules"]])
    differ = float((held != (theirs["precision"] >= 0.95)).sum())
    return (
        Agreement("the forests' classes", other, 0.0, "two versions of scikit-learn fit it"),
        Agreement("rows with a rule of 95 %", differ, 0.0, "the page says so of these five rows"),
        Agreement("precision of alibi's rules", float(np.abs(precision).max()), 0.11, reason),
        Agreement("coverage of alibi's rules", float(np.abs(coverage).max()), 0.025, reason),
    )


def _predicates(
    texts: Sequence[str], edges: dict[str, np.ndarray]
) -> list[tuple[str, float, float]]:
    """alibi's conditions as (column, low, high); two of one column become one.

    alibi prints edges with two digits: 0.09 stands for the quartile 0.09263, the nearest one.
    """
    ends: dict[str, tuple[float, float]] = {}
    for text in texts:
        match = CONDITION.fullmatch(text)
        assert match is not None
        low, name, sign, number = match.groups()

        def edge(printed: str, of: np.ndarray = edges[name]) -> float:
            return float(of[np.abs(of - float(printed)).argmin()])

        floor = edge(low) if low else edge(number) if sign == ">" else -math.inf
        top = edge(number) if sign == "<=" else math.inf
        before = ends.get(name, (-math.inf, math.inf))
        ends[name] = max(floor, before[0]), min(top, before[1])
    return [(name, *both) for name, both in ends.items()]
