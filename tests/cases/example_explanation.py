"""An explanation whose every entry tells its place."""

from __future__ import annotations

import numpy as np

from xaijax.results.explanation import Explanation


def make(N=4, P=3, K=None, **changes):
    """values[i, j, k] = 100 i + 10 j + k + 1: every entry tells its place."""
    i, j = np.mgrid[:N, :P]
    values = 100.0 * i + 10.0 * j + 1
    base = 0.5 + np.arange(N)
    fields = {"feature_names": tuple("abcdefghijkl"[:P])}
    if K is not None:
        values = values[..., None] + np.arange(K)
        base = base[:, None] + 0.1 * np.arange(K)
        fields["output_names"] = ("no", "yes", "maybe")[:K]
    fields |= {"std_errors": values / 1000, "exact": False, "data": np.arange(N * P).reshape(N, P)}
    fields["instance_names"] = tuple(f"row{i}" for i in range(N))
    return Explanation(**({"values": values, "base_values": base} | fields | changes))
