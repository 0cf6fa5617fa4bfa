"""What a private release looks for in private values: for warnings and refusals that only the
curator sees, never for what is released.

Letters: P players, M rows, D data rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xaijax.core.errors import InputError
from xaijax.games.engine.shared_rows import hashes
from xaijax.games.measure.replacement import Baseline, agreement_codes
from xaijax.methods.qii.arguments import prior_of
from xaijax.methods.qii.facts import STEP
from xaijax.tables.table import Table


def is_prior(problem: Any, chance: np.ndarray | None) -> bool:
    """Whether Pr[S] [2^P] is that of the data, or of all rows of a subsample, to six digits."""
    if chance is None:
        return False
    full = problem.full_rows
    weighted = (problem.data, problem.weights), (full, np.full(len(full), 1 / len(full)))
    try:
        priors = [prior_of(rows, problem.players, weights) for rows, weights in weighted]
    except InputError:  # the data has no prior over sets
        return False
    return any(np.allclose(chance, one, rtol=1e-5, atol=1e-6) for one in priors)


def copies(problem: Any, X: Any) -> list[str]:
    """The arguments passed as public rows all of which occur among the data.

    X: the individuals as read; None for quantities of the data.
    """
    found = {"X=": X, "pool=": _pool(problem) if problem.facts["whose_pool"] == "other" else None}
    return [
        name
        for name, rows in found.items()
        if rows is not None and all_among(problem.table, rows, problem.full_rows)
    ]


def _pool(problem: Any) -> Any:
    """The donors, or the rows that they are a median of where these are like the data."""
    pool = problem.pool
    if isinstance(pool, Baseline) and isinstance(pool.row, str):
        try:
            return problem.table.read(pool.rows, "pool", True, "the data")
        except InputError:
            pass
    return problem.pool_rows


def all_among(table: Table, rows: Any, data: Any) -> bool:
    """Whether all rows [M] are equal, bit for bit, to rows of the data [D]; both as read."""
    table, own = table.encode(data)  # one encoding of both: codes of a frame's texts compare
    return bool(np.isin(_hashed(table.encode(rows)[1]), _hashed(own)).all())


def _hashed(codes: Any) -> np.ndarray:
    parts = [hashes(agreement_codes(codes[i : i + STEP])) for i in range(0, len(codes), STEP)]
    return np.concatenate(parts)


def other_labels(problem: Any) -> bool:
    """Whether the data show labels other than 0 and 1 where no classes were declared."""
    if problem.facts["positive_given"]:
        return False
    return not set(np.unique(problem.model.labels(problem.data)).tolist()) <= {0, 1}
