"""`Plan`: what an explainer would ask of its model, told before it asks.

Letters: N instances.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from xaijax.core.public import public_class

HEADS = ("estimator", "instances", "model rows of one", "model rows")


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """What a run would ask for; `plan(X)` of an explainer makes it, and only probes the model.

    A translated estimator is compared with its translation on the first rows of each kind. The plan
    follows from sizes, the background and the probe, as the run itself does. Printed, it is a
    table with a line for each estimator.

    Attributes:
        estimator: str [N]. Who answers each instance: "exact", "permutation", "kernel",
            "gaussian-process", "wls", "sampled" (`QII` with samples), or the search of
            `AnchorExplainer`.
        model_rows: int64 [N]. Model rows of each instance: exact ones will be asked, but for equal
            hybrids that a host model with one background row is asked once. Of sampled instances
            and draws it is the most that will be asked, of searches for rules about as many. For
            quantities of the whole data there is one entry. The rows by which a structure is
            checked (N + B) are not among them.
        structure: str or None. What answers in place of the whole model; see docs/structures.md.
        tile: int. Rows of one call of the compiled model; of a host model rows of one call.
        model_calls: int. Dispatches of the compiled model, or calls of a host model; of searches
            for rules the fewest.
        shares: dict of str to int. The bytes that are planned for each share of `max_memory`:
            "tile" (rows in the model), "answers", "results" (tables, sums, values of coalitions),
            "instances", "pairs" (which players differ from which background row), "lists" (of
            coalitions), and beside them "background". A share that the run does not need is
            missing.
        programs: int. Programs that are still to be compiled; of draws of QII and of searches for
            rules the fewest.
        backend: "jax" or "host".

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

    @property
    def memory(self) -> int:
        """Bytes that are planned in all: the sum of the shares."""
        return sum(self.shares.values())

    def __repr__(self) -> str:
        rows = [HEADS, *self._lines()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([*lines, self._below()])

    def _repr_html_(self) -> str:
        def row(cells: tuple[str, ...], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(one)}</{tag}>" for one in cells) + "</tr>"

        body = "".join(row(line, "td") for line in self._lines())
        return f"<table>{row(HEADS, 'th')}{body}</table><p>{escape(self._below())}</p>"

    def _lines(self) -> list[tuple[str, str, str, str]]:
        """A line for each estimator, in the order in which they are met."""
        lines = []
        for name in dict.fromkeys(self.estimator.tolist()):
            own = self.model_rows[self.estimator == name]
            low, high = int(own.min()), int(own.max())
            each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
            total = sum(own.tolist())  # of Python, which does not overflow
            lines.append((str(name), f"{len(own):,}", each, f"{total:,}"))
        return lines

    def _below(self) -> str:
        who = f"structure {self.structure!r}" if self.structure else "the model"
        many = f"{self.programs} program{'s' * (self.programs != 1)} to compile"
        shares = ", ".join(f"{name} {size / 1e6:,.1f}" for name, size in self.shares.items())
        return (
            f"{who} in {self.backend} answers in {self.model_calls:,} "
            f"call{'s' * (self.model_calls != 1)}, tile {self.tile:,}; {many}; "
            f"about {self.memory / 1e6:,.1f} MB ({shares})"
        )
