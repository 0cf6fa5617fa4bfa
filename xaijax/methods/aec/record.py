"""What an Explanation keeps of an AEC fit, and what the effects mean, in words.

Letters: F features, K' classes fitted against the rest, S bootstrap replicates.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn

from xaijax.core.version import __version__
from xaijax.methods.aec.survey import Survey
from xaijax.results.explanation import Explanation

SIGN = "the sign is that of b_j times the sum of the others' slopes, not the direction of an effect"
MIXED = "effects add slopes in mixed units and change when a column's unit does"
FREE = "columns are standardised, so effects are free of their units"


def meaning(standardize: bool) -> str:
    """One line on sign and units."""
    return f"{FREE if standardize else MIXED}; {SIGN}"


def explanation(
    found: Survey,
    effects: np.ndarray,  # [K', F] or [1, F]
    std_errors: np.ndarray | None,  # likewise
    correlation: np.ndarray,  # [F, F]
    settings: dict[str, Any],
    stats: dict[str, Any],
) -> Explanation:
    """One instance, the data set: values [1, F], or [1, F, K] with more than two classes."""
    classes = found.target.classes
    several = len(effects) > 1

    def shaped(array: np.ndarray) -> np.ndarray:
        return array.T[None] if several else array

    provenance = settings | {
        "method": "AEC",
        "meaning": meaning(settings["standardize"]),
        "columns": found.names,
        "rows": found.moments.rows,
        "versions": {
            "xaijax": __version__,
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
    }
    if classes is not None:
        provenance["classes"] = tuple(map(str, classes))
    return Explanation(
        values=shaped(effects),
        base_values=np.zeros((1, len(effects)) if several else 1),
        std_errors=None if std_errors is None else shaped(std_errors),
        feature_names=found.names,
        output_names=tuple(map(str, classes)) if several and classes is not None else None,
        exact=True,
        kind="aec",
        stats=stats | {"correlation": correlation},
        provenance=provenance,
    )
