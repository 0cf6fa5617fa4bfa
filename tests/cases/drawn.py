"""Explanations that pictures are drawn of, and what is read from a picture."""

from __future__ import annotations

import numpy as np

from xaijax.results.explanation import Explanation


def make(N=30, P=5, K=None, sampled=False, **changes):
    """Player j matters about 1.3 times as much as player j - 1."""
    rng = np.random.default_rng(3)
    data = rng.normal(size=(N, P))
    values = data * 1.3 ** np.arange(P)
    base = np.full(N, 0.25)
    fields = {"data": data, "feature_names": tuple(f"player {j}" for j in range(P))}
    if K is not None:
        values = values[..., None] * np.linspace(-1, 2, K)
        base = np.tile(0.1 * np.arange(K), (N, 1))
        fields["output_names"] = tuple(f"class {k}" for k in range(K))
    if sampled:
        fields |= {"std_errors": np.full(values.shape, 0.05), "exact": False}
    return Explanation(**({"values": values, "base_values": base} | fields | changes))


def names_of(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def lengths_of(ax):
    return [patch.get_width() for patch in ax.patches]


def segments_of_error_bars(ax):
    (container,) = ax.containers[1:] if len(ax.containers) > 1 else [None]
    return [np.asarray(s) for s in container.lines[2][0].get_segments()]
