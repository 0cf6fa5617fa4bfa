"""`Judgement`: how far an attribution is from the truth; `Judgements`: several, as a table.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.results.convert import frame_of
from xaijax.results.explanation import Explanation
from xaijax.results.shared_fields import FrozenDict, freeze_arrays

COLUMNS = {  # of the tables: field -> what it is called
    "relative_error": "relative error",
    "pooled_error": "pooled error",
    "p95": "p95 of a row",
    "top1": "top 1",
    "top3": "top 3",
    "sign_flips": "sign flips",
    "efficiency": "sum is off by",
    "insertion": "insertion",
    "deletion": "deletion",
    "model_rows": "model rows",
}
SHARES = ("relative_error", "pooled_error", "top1", "top3", "sign_flips")


@dataclass(frozen=True, eq=False)
class Curves:
    """What the model answers as players come (insertion) and go (deletion), largest value first.

    Attributes:
        insertion: float64 [N, P + 1, K]. v with the first s players kept, s = 0 to P, in the order
            of an instance's own values from the largest to the smallest, signs counted.
        deletion: float64 [N, P + 1, K]. v with the first s players replaced.
        model_rows: int. Rows that the model was asked for both.
    """

    insertion: np.ndarray
    deletion: np.ndarray
    model_rows: int

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def area(self, which: str) -> tuple[float, float]:
        """(mean area under a curve, its standard error over the rows).

        The area is the mean of v(s) - v(nothing kept) over s by the trapezium rule, so it is in
        units of v; of several outputs their mean. which: "insertion" or "deletion".
        """
        if which not in ("insertion", "deletion"):
            raise InputError(f"which: got {which!r}; say 'insertion' or 'deletion'.")
        curve = getattr(self, which) - self.insertion[:, :1]
        each = ((curve[:, 1:] + curve[:, :-1]) / 2).mean(axis=(1, 2))
        error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
        return float(each.mean()), float(error)


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Judgement:
    """How far one attribution is from the truth; `xaijax.judge` makes it.

    phi^ are the values that were judged, phi the true ones. Where the truth was sampled, its own
    variance is taken off every squared error. An output of an instance counts as a row.

    Attributes:
        name: str. What the attribution was called; "values" of a single one.
        relative_error: float. Mean over rows of |phi^ - phi|^2 / |phi|^2. Rows whose true values
            are all 0 are left out; NaN where all are.
        relative_std_error: float. Its standard error over the rows, as a sample of many. NaN for
            fewer than two.
        pooled_error: float. Sum over rows of |phi^ - phi|^2, over the sum of |phi|^2.
        p95: float. 95th percentile over rows of |phi^ - phi|, in units of v (the model's output).
            No value of such a row is further off than that.
        top1, top3: float. The share of the 1 (3) largest |phi^| that are among the 1 (3) largest
            |phi|, mean over rows. What ties counts.
        sign_flips: float. The share of values with the wrong sign, among true values of at least
            10 % of their row's span (largest less smallest, 0 included), and of a sampled truth at
            least 3 standard errors from 0. NaN where there is none.
        efficiency: float. Mean over rows of |sum of phi^ - (f(x) - base value)|, in units of v. NaN
            where the index does not add up to that.
        model_rows: int or None. Model rows that the attribution cost, where it is an xaijax
            Explanation, which tells.
        row_errors: float64 [N, K]. |phi^ - phi| of each row.
        truth: `Explanation`. What it was held against; `truth.exact` says whether it is exact, its
            stats what it cost.
        curves: `Curves`, or None where they were not asked for.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [3.0, 1.0]])
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] + X[:, 1]), np.zeros((1, 2)))
        >>> judged = xj.judge(1.1 * X, explainer, X)
        >>> round(judged.relative_error, 6), judged.top1
        (0.01, 1.0)
    """

    name: str
    relative_error: float
    relative_std_error: float
    pooled_error: float
    p95: float
    top1: float
    top3: float
    sign_flips: float
    efficiency: float
    model_rows: int | None
    row_errors: np.ndarray
    truth: Explanation
    curves: Curves | None = None

    def __post_init__(self) -> None:
        freeze_arrays(self)

    def __repr__(self) -> str:
        return repr(Judgements({self.name: self}))

    def to_dict(self) -> dict[str, Any]:
        """The numbers by the names of the fields; of the curves their areas and errors."""
        out = {name: getattr(self, name) for name in COLUMNS if hasattr(self, name)}
        out["relative_std_error"] = self.relative_std_error
        if self.curves is not None:
            for which in ("insertion", "deletion"):
                out[which], out[f"{which}_std_error"] = self.curves.area(which)
        return out

    def to_dataframe(self) -> Any:
        """A pandas DataFrame of one row; needs `pip install "xaijax[data]"`."""
        return Judgements({self.name: self}).to_dataframe()


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Judgements(Mapping[str, Judgement]):
    """Several attributions against one truth; `xaijax.judge` makes it of a dict.

    A mapping: `judgements["name"]` is a `Judgement`. Its repr is a table.

    Attributes:
        of: mapping of names to `Judgement`, in the order given.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.array([[1.0, 2.0], [3.0, 1.0]])
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] + X[:, 1]), np.zeros((1, 2)))
        >>> judged = xj.judge({"itself": X, "half": X / 2}, explainer, X)
        >>> {name: round(one.relative_error, 6) for name, one in judged.items()}
        {'itself': 0.0, 'half': 0.25}
    """

    of: Mapping[str, Judgement]

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", FrozenDict(self.of))

    def __getitem__(self, name: str) -> Judgement:
        return self.of[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.of)

    def __len__(self) -> int:
        return len(self.of)

    def __repr__(self) -> str:
        found = {name: one.to_dict() for name, one in self.items()}
        shown = [key for key in COLUMNS if any(one.get(key) is not None for one in found.values())]
        lines = [["", *(COLUMNS[key] for key in shown)]]
        lines += [[name, *(_shown(key, one) for key in shown)] for name, one in found.items()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [
            "  ".join(
                [line[0].ljust(widths[0])]
                + [cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True)]
            )
            for line in lines
        ]
        return "\n".join([_against(next(iter(self.values())).truth), *text])

    def to_dataframe(self) -> Any:
        """A pandas DataFrame, one row an attribution; needs `pip install "xaijax[data]"`."""
        found = [one.to_dict() for one in self.values()]
        columns = {key: [one[key] for one in found] for key in found[0]}
        return frame_of(columns, [list(self)], ["attribution"])


def _shown(key: str, found: Mapping[str, Any]) -> str:
    """One cell of the table."""
    value = found.get(key)
    if value is None or value != value:
        return "-"
    if key == "model_rows":
        return f"{value:,}"
    if key in SHARES:
        return f"{100 * value:.3g} %"
    error = found.get(f"{key}_std_error")
    return f"{value:.3g}" if error is None else f"{value:.3g} +- {error:.1g}"


def _against(truth: Explanation) -> str:
    """What was held against, in a line."""
    N = len(truth)
    how = "exact" if truth.exact else "sampled; its own variance is taken off"
    rows = truth.stats.get("model_rows")
    cost = "" if rows is None else f", {rows:,} model rows"
    return f"Judged on {N:,} instances against {truth.kind} values ({how}{cost})"
