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
from xaijax.results.shared_fields import FrozenArrays, FrozenDict
from xaijax.results.summary import text_table

COLUMNS = {  # of the tables: field -> its heading
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
class Curves(FrozenArrays):
    """The model's answers as players are inserted and deleted, largest value first.

    Attributes:
        insertion: float64 [N, P + 1, K]. v with the first s players kept, s = 0 to P, in the order
            of an instance's own values from the largest to the smallest, with their signs.
        deletion: float64 [N, P + 1, K]. v with the first s players replaced.
        model_rows: int. Number of model rows for both.
    """

    insertion: np.ndarray
    deletion: np.ndarray
    model_rows: int

    def area(self, which: str) -> tuple[float, float]:
        """Returns (mean area under a curve, its standard error over the rows).

        The area is the mean of v(s) - v(nothing kept) over s by the trapezium rule, so it is in
        units of v; for several outputs it is their mean. which: "insertion" or "deletion".
        """
        if which not in ("insertion", "deletion"):
            raise InputError(f"which: got {which!r}; say 'insertion' or 'deletion'.")
        curve = getattr(self, which) - self.insertion[:, :1]
        each = ((curve[:, 1:] + curve[:, :-1]) / 2).mean(axis=(1, 2))
        error = each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.nan
        return float(each.mean()), float(error)


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Judgement(FrozenArrays):
    """Says how far one attribution is from the truth; made by `xaijax.judge`.

    phi^ are the judged values, phi the true ones. If the truth was sampled, its own variance is
    subtracted from every squared error. An output of an instance counts as a row.

    Attributes:
        name: str. The name of the attribution; "values" for a single one.
        relative_error: float. Mean over rows of |phi^ - phi|^2 / |phi|^2. Rows whose true values
            are all 0 are left out; NaN if all are.
        relative_std_error: float. Its standard error over the rows, taken as a sample of many. NaN
            for fewer than two.
        pooled_error: float. Sum over rows of |phi^ - phi|^2, divided by the sum of |phi|^2.
        p95: float. 95th percentile over rows of |phi^ - phi|, in units of v (the model's output).
            No value of such a row has a larger error.
        top1, top3: float. The share of the 1 (3) largest |phi^| that are among the 1 (3) largest
            |phi|, mean over rows. Ties count as right.
        sign_flips: float. The share of values with the wrong sign, among true values of at least 10
            % of their row's span (largest minus smallest, 0 included); with a sampled truth they
            must also be at least 3 standard errors from 0. NaN if there are none.
        efficiency: float. Mean over rows of |sum of phi^ - (f(x) - base value)|, in units of v. NaN
            if the index does not add up to that.
        model_rows: int or None. Model rows that the attribution cost, if it is an xaijax
            Explanation that has them.
        row_errors: float64 [N, K]. |phi^ - phi| of each row.
        truth: `Explanation`. The values that it was compared with; `truth.exact` says whether they
            are exact, its stats what they cost.
        curves: `Curves`, or None if they were not requested.

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

    def __repr__(self) -> str:
        return repr(Judgements({self.name: self}))

    def to_dict(self) -> dict[str, Any]:
        """Returns the numbers by the names of the fields; for the curves their areas and errors."""
        out = {name: getattr(self, name) for name in COLUMNS if hasattr(self, name)}
        out["relative_std_error"] = self.relative_std_error
        if self.curves is not None:
            for which in ("insertion", "deletion"):
                out[which], out[f"{which}_std_error"] = self.curves.area(which)
        return out

    def to_dataframe(self) -> Any:
        """Returns a pandas DataFrame of one row; needs `pip install "xaijax[data]"`."""
        return Judgements({self.name: self}).to_dataframe()


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Judgements(Mapping[str, Judgement]):
    """Compares several attributions with one truth; made by `xaijax.judge` from a dict.

    It is a mapping: `judgements["name"]` is a `Judgement`. Its repr is a table.

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
        cells = {name: judgement.to_dict() for name, judgement in self.items()}
        shown = [key for key in COLUMNS if any(c.get(key) is not None for c in cells.values())]
        lines = [["", *(COLUMNS[key] for key in shown)]]
        lines += [[name, *(_shown(key, cell) for key in shown)] for name, cell in cells.items()]
        return "\n".join([_against(next(iter(self.values())).truth), *text_table(lines)])

    def to_dataframe(self) -> Any:
        """Returns a pandas DataFrame, one row per attribution; needs `pip install
        "xaijax[data]"`.
        """
        rows = [judgement.to_dict() for judgement in self.values()]
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        return frame_of(columns, [list(self)], ["attribution"])


def _shown(key: str, cells: Mapping[str, Any]) -> str:
    """One cell of the table."""
    value = cells.get(key)
    if value is None or value != value:
        return "-"
    if key == "model_rows":
        return f"{value:,}"
    if key in SHARES:
        return f"{100 * value:.3g} %"
    error = cells.get(f"{key}_std_error")
    return f"{value:.3g}" if error is None else f"{value:.3g} +- {error:.1g}"


def _against(truth: Explanation) -> str:
    """The truth that it was compared with, in one line."""
    N = len(truth)
    how = "exact" if truth.exact else "sampled; its own variance is taken off"
    rows = truth.stats.get("model_rows")
    cost = "" if rows is None else f", {rows:,} model rows"
    return f"Judged on {N:,} instances against {truth.kind} values ({how}{cost})"
