"""`Plan`: what an explanation would cost, computed before it is run.

Letters: N instances.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax.core import html
from xaijax.core.checks import count
from xaijax.core.public import public_class
from xaijax.results.summary import text_table

HEADS = ("estimator", "instances", "model rows of one", "model rows")


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """Says what a run would cost; made by `plan(X)` of an explainer, which only probes the model.

    A translated estimator is compared with its translation on the first rows of each kind. The plan
    depends on sizes, the background and the probe, like the run itself. It is printed as a table
    with a line for each estimator.

    Attributes:
        estimator: str [N]. The estimator of each instance: "exact", "permutation", "kernel",
            "gaussian-process", "wls", "sampled" (`QII` with samples), or the search of
            `AnchorExplainer`.
        model_rows: int64 [N]. Model rows of each instance. They are exact for exact instances,
            except for equal hybrids that a host model with one background row evaluates once. For
            sampled instances and draws they are an upper limit, for searches for rules an estimate.
            There is one entry for quantities of the whole data. The rows that check a structure (N
            + B) are not included.
        structure: str or None. The structure that is used in place of the full model; see
            docs/structures.md.
        tile: int. Rows of one call of the compiled model, or of the host model.
        model_calls: int. Dispatches of the compiled model, or calls of a host model; a lower limit
            for searches for rules.
        shares: dict of str to int. The bytes that are planned for each share of `max_memory`:
            "tile" (rows in the model), "answers", "results" (tables, sums, values of coalitions),
            "instances", "pairs" (which players differ from which background row), "lists" (of
            coalitions), and also "background". A share that the run does not need is missing.
        programs: int. Number of programs still to be compiled; a lower limit for draws of QII and
            searches for rules.
        backend: "jax" or "host".
        path: "tiled" (by the engine's programs), "small" (few rows, which need none) or "closed
            form".
        tokens: (int, int) or None. The token positions of prompts that the model reads, and those
            that it would read if no prefix were read once for several coalitions.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.zeros((1, 2)))
        >>> plan = explainer.plan(np.array([[1.0, 2.0], [1.0, 0.0]]))
        >>> plan.model_rows, plan.model_calls
        (array([4, 2]), 1)
    """

    estimator: np.ndarray
    model_rows: np.ndarray
    structure: str | None
    tile: int
    model_calls: int
    shares: dict[str, int]
    programs: int
    backend: str
    path: str = "tiled"
    tokens: tuple[int, int] | None = None

    @property
    def memory(self) -> int:
        """Total planned bytes: the sum of the shares."""
        return sum(self.shares.values())

    def __repr__(self) -> str:
        return "\n".join([*text_table([HEADS, *self._lines()]), self._below()])

    def _repr_html_(self) -> str:
        rows = [list(map(html.text, line)) for line in self._lines()]
        return f"{html.table(HEADS, rows)}<p>{html.text(self._below(), 1_000)}</p>"

    def _lines(self) -> list[tuple[str, str, str, str]]:
        """A line for each estimator, in order of occurrence."""
        lines = []
        for name in dict.fromkeys(self.estimator.tolist()):
            model_rows = self.model_rows[self.estimator == name]
            low, high = int(model_rows.min()), int(model_rows.max())
            each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            total = sum(model_rows.tolist())  # Python integers, which do not overflow
            lines.append((str(name), f"{len(model_rows):,}", each, f"{total:,}"))
        return lines

    def _below(self) -> str:
        who = f"structure {self.structure!r}" if self.structure else "the model"
        many = f"{count(self.programs, 'program')} to compile"
        shares = ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in self.shares.items())
        read = ""
        if self.tokens is not None:
            read = f"{self.tokens[0]:,} token positions ({self.tokens[1]:,} without prefixes); "
        return read + (
            f"{who} in {self.backend} answers in {count(self.model_calls, 'call')}, "
            f"path {self.path}, tile {self.tile:,}; {many}; "
            f"about {self.memory / 1e6:,.1f} MB ({shares})"
        )
