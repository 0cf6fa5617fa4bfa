"""A long case: AEC on 100 million generated rows, which are never held together."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import xaijax
from bench.frame import Agreement, Case, Figure, Outcome, Size
from bench.generated import Generated
from bench.jobs import MEBI, in_process

HELD = 1 << 20  # rows of the table in memory that a logistic fit is compared with


@dataclass(frozen=True)
class Stream:
    """A regression and a classification, each in a process of its own."""

    rows: int
    columns: int

    def measure(self) -> Outcome:
        """Peak, seconds and passes of each, and its effects beside what they must be."""
        figures: list[Figure] = []
        agreements: list[Agreement] = []
        notes, details = [], {}
        for labels in (False, True):
            name = "classification" if labels else "regression"
            told, effects = self._run(labels)
            figures += [
                Figure(f"{name}: peak above the start", told["peak"] / MEBI, 256, unit=" MiB"),
                Figure(f"{name}: seconds", told["seconds"], unit=" s"),
            ]
            notes.append(
                f"{name}: {told['passes']} passes; each generates all rows anew, in "
                f"{told['generation']:.0f} s"
            )
            agreements.append(self._agreement(labels, effects))
            details[name] = told
        return Outcome(tuple(figures), (), tuple(agreements), tuple(notes), details)

    def _run(self, labels: bool) -> tuple[dict[str, Any], np.ndarray]:
        with tempfile.TemporaryDirectory(prefix="xaijax-bench-") as folder:
            inputs, outputs = Path(folder) / "in.npz", Path(folder) / "out.npz"
            np.savez(inputs, rows=self.rows, columns=self.columns, labels=labels)
            told = in_process("stream", inputs, outputs)
            with np.load(outputs, allow_pickle=False) as stored:
                return told, stored["effects"]

    def _agreement(self, labels: bool, effects: np.ndarray) -> Agreement:
        table = Generated(self.rows, self.columns, labels)
        if not labels:
            expected, used, what = table.effects(), self.rows, "those of infinitely many rows"
        else:
            used, what = min(HELD, self.rows), "those of the first rows, in memory"
            few = list(Generated(used, self.columns, True))
            X, y = np.concatenate([x for x, _ in few]), np.concatenate([y for _, y in few])
            expected = xaijax.AEC(solver="newton").fit(X, y).effects_
        difference = float((np.abs(effects / expected - 1)).max())
        # The weakest slopes of M rows are off by about 1 / (l sqrt(M)), l = 0.1, relatively; 8 of
        # these are never seen, and an error of one in a thousand of the slopes is.
        reason = "8 standard errors of the weakest slope"
        return Agreement(f"effects and {what}", difference, 80 / np.sqrt(used), reason)


def setup(size: Size) -> Stream:
    """100 million rows of 20 columns."""
    return Stream(3_000, 4) if size == "smoke" else Stream(100_000_000, 20)


CASES = (
    Case(
        "stream",
        "AEC on 100 million generated rows x 20 columns, chunk by chunk, float32",
        "peak above the start <= 256 MiB",
        "",
        setup,
        long=True,
    ),
)
