"""Bad inputs that raise, row by row of the list of bad inputs (rows 1 to 42).

The number in each id is that of the row. Each is an error of the family that names the argument,
and the model is not even traced before it.
"""

import tracemalloc
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from jax.experimental import sparse
from small_case import B, X, as_jax, f, put

import xaijax as xj


class Asked:
    """A function that counts how often it is traced or called."""

    def __init__(self, function=f):
        self.function, self.times = function, 0

    def __call__(self, rows):
        self.times += 1
        return self.function(rows)


@dataclass
class Refused:
    """Arguments, and the error that they get."""

    row: str
    error: type[Exception]
    match: str  # in the message, with the argument's name
    X: Any = field(default_factory=lambda: X)
    background: Any = field(default_factory=lambda: B)
    explainer: dict[str, Any] = field(default_factory=dict)
    model: dict[str, Any] = field(default_factory=dict)
    backends: tuple[str, ...] = ("jax", "host")
    kinds: tuple[str, ...] = ("numpy", "jax")  # of X and background


FRAME = pd.DataFrame(X, columns=list("abcd"))
BACKGROUND_FRAME = pd.DataFrame(B, columns=list("abcd"))
E, T = xj.InputError, xj.InputTypeError
WIDE = np.zeros((1, 25), np.float32)

# fmt: off
REFUSED = [
    Refused("1 NaN", E, r"X contains NaN at row 1, column 2\. .*allow_nan", put(X, (1, 2), np.nan)),
    Refused("2 inf", E, r"X contains inf at row 2, column 0\.", put(X, (2, 0), np.inf)),
    Refused("2 -inf", E, r"X contains -inf at row 0, column 3", put(X, (0, 3), -np.inf)),
    Refused("2 inf where NaN is allowed", E, "X contains inf at row 2",
        put(put(X, (0, 0), np.nan), (2, 0), np.inf), model={"allow_nan": True}),
    Refused("3", E, "background contains NaN at row 4", background=put(B, (4, 0), np.nan)),
    Refused("4", E, r"X has shape \(4,\): one row.*x\[None\]", X[0]),
    Refused("4 background", E, r"background has shape \(4,\).*x\[None\]", background=B[0]),
    Refused("5", E, r"X has shape \(1, 3, 4\).*input_shape=", X[None]),
    Refused("5 declared", E, r"X has shape \(3, 4\): one row", X, np.zeros((5, 2, 2), np.float32),
        model={"input_shape": (2, 2)}),
    Refused("6", E, "X has 0 rows", X[:0]),
    Refused("7", E, r"X has 0 columns \(shape \(3, 0\)\)", X[:, :0]),
    Refused("7 background", E, "background has 0 columns", background=B[:, :0]),
    Refused("8", E, "background has 0 rows", background=B[:0]),
    Refused("9", E, r"X has rows of shape \(3,\), but the background has \(4,\)", X[:, :3]),
    Refused("10", T, "X must be .*rows of one length", [[1.0, 2.0], [1.0]], kinds=("numpy",)),
    Refused("10 background", T, "background must be .*one length", background=[[1.0], []],
        kinds=("numpy",)),
    Refused("11 text", T, "X has dtype <U32.*OrdinalEncoder", X.astype(str), kinds=("numpy",)),
    Refused("11 objects", T, "X has dtype object.*Encode", X.astype(object), kinds=("numpy",)),
    Refused("11 background", T, "background has dtype", background=B.astype("S"), kinds=("numpy",)),
    Refused("12", T, "column 'a' has dtype category.*OneHotEncoder",
        FRAME.astype({"a": "category"}), backends=("jax",), kinds=("numpy",)),
    Refused("12 background", T, "background: column 'b' has dtype", FRAME,
        BACKGROUND_FRAME.assign(b="x"), backends=("jax",), kinds=("numpy",)),
    Refused("12 polars", T, "column 'a' has dtype String.*OneHotEncoder",
        pl.DataFrame({"a": ["x"]}), backends=("jax",), kinds=("numpy",)),
    Refused("13", E, "X has the columns of .*another order.*column 0 is 'b', expected 'a'",
        FRAME[["b", "a", "c", "d"]], BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("13 others", E, r"X has other columns.*missing \['c'\], unknown \['z'\]",
        FRAME.rename(columns={"c": "z"}), BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("13 polars", E, "column 2 is 'd', expected 'c'",
        pl.DataFrame(X, list("abcd"))[["a", "b", "d", "c"]], pl.DataFrame(B, list("abcd")),
        kinds=("numpy",)),
    Refused("13 model", E, "background has the columns of the model in another order", FRAME,
        BACKGROUND_FRAME, model={"feature_names": list("dcba")}, kinds=("numpy",)),
    Refused("14", T, "X is complex", X.astype(np.complex64)),
    Refused("14 background", T, "background is complex", background=B.astype(np.complex64)),
    Refused("17", E, r"X contains 1e\+308, infinite in float32, at row 0, column 1",
        put(X.astype(np.float64), (0, 1), 1e308), backends=("jax",), kinds=("numpy",)),
    Refused("19", T, r"X is a sparse matrix.*toarray", scipy.sparse.csr_matrix(X)),
    Refused("19 JAX", T, "X is a sparse matrix", sparse.BCOO.fromdense(jnp.asarray(X))),
    Refused("19 background", T, "background is a sparse", background=scipy.sparse.coo_array(B)),
    Refused("19 frame", T, r"X: column 'a' is sparse", FRAME.astype(pd.SparseDtype(np.float32)),
        BACKGROUND_FRAME.astype(pd.SparseDtype(np.float32)).sparse.to_dense(), kinds=("numpy",),
        backends=("jax",)),
    Refused("23", E, "X is a masked array with 1 masked.*filled", np.ma.masked_equal(X, X[0, 0]),
        kinds=("numpy",)),
    Refused("24", T, "X holds dates", np.zeros((3, 4), "datetime64[D]"), kinds=("numpy",)),
    Refused("24 frame", T, "column 'a' has dtype datetime",
        FRAME.assign(a=pd.Timestamp("2020-01-01")), BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("25", E, r"column names occur more than once: \['a'\]", FRAME,
        BACKGROUND_FRAME.set_axis(list("abca"), axis=1), kinds=("numpy",)),
    Refused("25 X", E, r"X: column names occur more than once: \['a'\]",
        FRAME.set_axis(list("abca"), axis=1), BACKGROUND_FRAME, kinds=("numpy",)),
    Refused("31 negative", E, "weights contain -1", explainer={"weights": [1, 1, -1, 1, 1]}),
    Refused("31 zero", E, "weights are all zero", explainer={"weights": np.zeros(5)}),
    Refused("31 NaN", E, "weights contain NaN", explainer={"weights": [1, 1, np.nan, 1, 1]}),
    Refused("31 text", T, "weights has dtype", explainer={"weights": list("abcde")}),
    Refused("32", E, r"weights has shape \(4,\), but the background has 5 rows",
        explainer={"weights": np.ones(4)}),
    Refused("35 pair", xj.EnumerationLimitError,
        "X row 0 and background row 0 differ in 25 players", WIDE + 1, WIDE,
        {"estimator": "exact"}),
    Refused("35 auto", xj.EnumerationLimitError, "estimator='auto': X row 0 needs 131,072",
        WIDE[:, :17] + 1, WIDE[:, :17], {"index": xj.SizeLimited(2)}, backends=("host",)),
    Refused("35 auto budget", xj.EnumerationLimitError, r"B \(budget \+ 2\) = 50",
        explainer={"budget": 8, "index": xj.SizeLimited(1)}, backends=("host",)),
    Refused("35 sampled", E, "estimator='kernel' samples index='shapley' and 'banzhaf'",
        explainer={"estimator": "kernel", "index": xj.SizeLimited(1)}),
    Refused("38 small", E, "budget=20 is too small: estimator='permutation' asks at least 32",
        WIDE[:, :17] + 1, WIDE[:, :17], {"estimator": "permutation", "budget": 20}),
    Refused("35 table", xj.EnumerationLimitError, "link='logit'.*2.21 coalitions", WIDE[:, :21] + 1,
        WIDE[:, :21], {"link": "logit", "estimator": "exact"}),
    Refused("37 0", E, "budget must be at least 1, got 0", explainer={"budget": 0}),
    Refused("37 -1", E, "budget must be at least 1, got -1", explainer={"budget": -1}),
    Refused("37 1.5", T, "budget must be a whole number", explainer={"budget": 1.5}),
    Refused("37 True", T, "budget must be a whole number", explainer={"budget": True}),
    Refused("37 text", T, "budget must be a whole number.*'100'", explainer={"budget": "100"}),
    Refused("39", xj.MemoryPlanError, f"X has {1 << 40:,} rows.*{1 << 64:,} model rows",
        np.broadcast_to(np.float32(0), (1 << 40, 24)), WIDE[:, :24], kinds=("numpy",)),
    Refused("40", xj.MemoryPlanError, "max_memory=500 bytes, but .* need",
        explainer={"max_memory": 500, "batch_size": 1}),
    Refused("40 table", xj.MemoryPlanError, "max_memory=50,000.* one table of 2.12 coalitions",
        WIDE[:, :12] + 1, WIDE[:, :12], {"max_memory": 50_000, "link": "logit"}),
    Refused("41 0", E, "batch_size must be at least 1, got 0", explainer={"batch_size": 0}),
    Refused("41 -1", E, "batch_size must be at least 1, got -1", explainer={"batch_size": -1}),
]
# fmt: on


@pytest.mark.parametrize(
    ("case", "backend", "kind"),
    [
        pytest.param(case, backend, kind, id=f"{case.row}-{backend}-{kind}")
        for case in REFUSED
        for backend in case.backends
        for kind in case.kinds
    ],
)
def test_refused_before_the_model_is_asked(case, backend, kind):
    asked = Asked()
    model = xj.as_model(asked, backend=backend, **case.model)
    rows, background = case.X, case.background
    if kind == "jax":
        rows, background = as_jax(rows), as_jax(background)
    with pytest.raises(xj.XaiError, match=case.match) as caught:
        xj.Explainer(model, background, **case.explainer)(rows)
    assert type(caught.value) is case.error
    assert asked.times == 0
    assert not model.compiled


def test_row_35_allocates_no_lattice():
    explainer = xj.Explainer(xj.as_model(f), WIDE, estimator="exact")
    rows = WIDE + 1
    tracemalloc.start()
    with pytest.raises(xj.EnumerationLimitError):
        explainer(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20  # bytes; 2^25 corners would be at least 4 << 25
