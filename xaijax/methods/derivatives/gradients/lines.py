"""The places on lines at which slopes are taken: those of a quadrature, or drawn.

A line runs from a donor (t = 0) to the instance (t = 1). All instances share donors and places.

Letters: B donors, E lines, S places on each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xaijax_kernels.games.sampling import LINES, PLACES, Wheel, fractions


@dataclass(frozen=True)
class Lines:
    """Donors, places and their weights."""

    donor: np.ndarray  # int64 [E]
    times: np.ndarray  # float64 [E, S], within 0 and 1
    weights: np.ndarray  # float64 [E, S], of sum 1
    drawn: bool = False  # lines 2h and 2h + 1 are independent draws that are alike

    @property
    def rows(self) -> int:
        """Model rows of one instance."""
        return self.times.size

    @property
    def dof(self) -> float:
        """Degrees of freedom of a variance of draws: one for each stretch, if all had the same
        variance. They have not, and slopes have bends: as many as if one half of them had none.
        """
        return max(1.0, len(self.donor) / 4)

    def cut(self, most: int) -> Lines:
        """The same places, at most so many on a line: longer lines become several."""
        E, S = self.times.shape
        parts = -(-S // most)
        if parts == 1:
            return self
        each = -(-S // parts)
        # What fills up the last part is a place of the line with the weight 0.
        filled = ((0, 0), (0, parts * each - S))
        times = np.pad(self.times, filled, mode="edge").reshape(-1, each)
        weights = np.pad(self.weights, filled).reshape(-1, each)
        return Lines(np.repeat(self.donor, parts), times, weights, self.drawn)

    def part(self, first: int, count: int) -> Lines:
        """`count` lines from the first on; what goes beyond the last one is it, with weight 0."""
        own = np.arange(first, first + count)
        place = np.minimum(own, len(self.donor) - 1)
        weights = np.where((own == place)[:, None], self.weights[place], 0.0)
        return Lines(self.donor[place], self.times[place], weights, self.drawn)


def quadrature(donor_weights: np.ndarray, steps: int) -> Lines:
    """Gauss-Legendre's `steps` places on the line from each donor; donor_weights float64 [B].

    Exact where the slopes are polynomials of degree 2 steps - 1 along the line.
    """
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    B = len(donor_weights)
    times = np.broadcast_to((nodes + 1) / 2, (B, steps))
    return Lines(np.arange(B), times, donor_weights[:, None] * weights / 2)


def drawn(donor_weights: np.ndarray, samples: int, seed: int) -> Lines:
    """`samples` draws of a donor, by its weight, and a place; an even number.

    Places are stratified: the line is cut into samples / 2 stretches of one length, and two draws
    are of each. They are independent, so that their difference tells the variance of their mean.
    """
    donor = Wheel(donor_weights).places(seed, (LINES,), 0, samples)
    stretch = np.arange(samples) // 2
    times = (stretch + fractions(seed, (PLACES,), samples)) / (samples // 2)
    weights = np.full((samples, 1), 1 / samples)
    return Lines(donor, times[:, None], weights, drawn=True)
