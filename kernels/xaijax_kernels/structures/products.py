"""Closed-form values of sums of products: a Gauss-Legendre rule over the probability of being kept.

Each player has a factor u if it is kept and r if it is replaced. If each is kept with probability
t, the mean of a product is prod_i (t u_i + (1 - t) r_i). The Shapley value of player j is the
integral over t from 0 to 1 of (u_j - r_j) times the product of the others: a polynomial of degree P
- 1, for which ceil(P / 2) points are exact. Banzhaf's value is the integrand at t = 1/2.

Letters: R rows, B donors, C columns, P players, L terms (support vectors), K outputs, Q points, m
donors and n rows of a block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np

from xaijax_kernels.engine.tiles import folded
from xaijax_kernels.sizes import answers_at_once, counted, products_at_once
from xaijax_kernels.structures.base import Affine, WeightedDonors
from xaijax_kernels.structures.factors import LARGEST

FEWEST = 13  # players; with fewer, tables of all sub-coalitions are as fast
DIGITS = 34 * math.log(2)  # precision of a rule with fewer points than exact: 24 + 10 bits
EVERY, HALF = "every chance", "one half"  # distributions of the chance to be kept


def measure(weights: np.ndarray) -> str | None:
    """The distribution of t that gives the weights [P] of single sets by size; None: no rule is
    known."""
    P = len(weights)
    logs = [math.lgamma(s + 1) + math.lgamma(P - s) - math.lgamma(P + 1) for s in range(P)]
    if np.allclose(weights, np.exp(logs), rtol=1e-9, atol=0):
        return EVERY
    return HALF if np.allclose(weights, 0.5 ** (P - 1), rtol=1e-9, atol=0) else None


@cache
def rule(points: int) -> tuple[np.ndarray, np.ndarray]:
    """(points in (0, 1), their weights) of a Gauss-Legendre rule; float64 [Q] each."""
    at, share = np.polynomial.legendre.leggauss(points)
    return (at + 1) / 2, share / 2


def points_for(turn: float, most: int) -> int:
    """Number of points of a rule with DIGITS for products with sum |u - r| / (u + r) <= turn over
    players; at most `most`, which are exact.

    A rule of Q points has an error of at most 64 / 15 M rho^-2Q / (1 - rho^-2), where M bounds the
    integrand on the ellipse of foci 0 and 1 whose half-axes add up to rho / 2 (Trefethen 2008,
    theorem 4.5). With a = (rho + 1 / rho) / 2, a factor there is at most its midpoint m = (u + r) /
    2 times 1 + a |u - r| / (u + r), so M is the product of the midpoints times exp(a turn).
    """
    rho = np.geomspace(1.5, 64, 60)
    digits = (rho + 1 / rho) / 2 * turn + DIGITS - np.log1p(-(rho**-2.0)) + math.log(64 / 15)
    return min(most, math.ceil((digits / (2 * np.log(rho))).min()))


class Gaussian:
    """f = sum_l coefficients_l prod_j exp(-gamma_j (z_j - c_lj)^2), and a constant.

    Its layer is the output. Factors and means over donors have the model's dtype; sums over terms,
    which cancel, are float64.
    """

    name, size = "products", 0

    def __init__(
        self,
        centres: np.ndarray,
        gamma: np.ndarray,
        coefficients: np.ndarray,
        constant: np.ndarray,
        background: WeightedDonors,
        kind: str,
    ) -> None:
        """centres [L, C], gamma [C]; coefficients [L, K], constant [K] of the outputs."""
        donors, self._P, self._kind = background.donors, background.P, kind
        self._centres, self._gamma = centres.astype(np.float64), gamma.astype(np.float64)
        self._coefficients, self._constant = coefficients, constant
        self._memory, self._program = background.memory, background.program
        self._known = counted(background.platform)
        self.head = np.eye(len(constant)), np.zeros(len(constant))
        self.of_donors = self._answers(donors)
        self._donors = donors.astype(np.float64)
        self._low, self._high = self._centres.min(axis=0), self._centres.max(axis=0)
        L, B = len(centres), len(donors)
        limits = self._P, donors.dtype.itemsize, self._memory
        self._terms, together, self._rows = products_at_once(L, B, *limits)
        blocks = -(-B // together)
        # Padding has weight 0. Equal weights are 1, whatever their number is.
        shares = np.pad(background.weights * B, (0, blocks * together - B))
        filled = np.pad(donors, ((0, blocks * together - B), (0, 0)), mode="edge")
        padded = np.pad(centres, ((0, -L % self._terms), (0, 0)), mode="edge")
        dtype = donors.dtype
        self._fixed = (
            jnp.asarray(filled.reshape(blocks, together, -1)),
            jnp.asarray(shares.reshape(blocks, together).astype(dtype)),
            jnp.asarray(padded.reshape(-1, self._terms, padded.shape[1]).astype(dtype)),
            jnp.asarray(gamma.astype(dtype)),
            jnp.asarray(background.players.astype(np.int32)),
        )

    def of(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `Form`."""
        values = np.empty((len(columns), self._P, len(self._constant)))
        L = len(self._centres)
        for first in range(0, len(columns), self._rows):
            chunk = columns[first : first + self._rows]
            n = len(chunk)
            points = self._points(chunk)
            filled = np.pad(chunk, ((0, self._rows - n), (0, 0)), mode="edge")
            arguments = filled, np.int32(n), *points, *self._fixed
            kernel = partial(slopes, P=self._P, known=self._known)
            program = self._program(("products", self._P), kernel, arguments)
            sums = np.asarray(program(*arguments))
            of_terms = sums[:, :n].transpose(1, 2, 0, 3).reshape(n, self._P, -1)[:, :, :L]
            means = of_terms.astype(np.float64) / len(self._donors)
            values[first : first + n] = means @ self._coefficients
        return values, self._answers(columns)

    def _points(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(number of points of each row [n], the points, their weights), padded."""
        if self._kind == HALF:
            counts, most = [1] * len(rows), 1
        else:
            most = -(-self._P // 2)
            counts = [points_for(self._turn(row), most) for row in rows.astype(np.float64)]
        if self._known:  # few widths, so that few programs are compiled
            most = min(most, 1 << (max(counts) - 1).bit_length())
        at, shares = np.zeros((2, self._rows, most), rows.dtype)
        for n, count in enumerate(counts):
            at[n, :count], shares[n, :count] = rule(count)
        return np.pad(np.array(counts, np.int32), (0, self._rows - len(rows))), at, shares

    def _turn(self, row: np.ndarray) -> float:
        """An upper bound of the argument `turn` of `points_for`, for a row [C] and any donor and
        term.

        |u - r| / (u + r) is tanh(|d - e| / 2) of the exponents d of x and e of a donor, at most 1.
        """
        middle, apart = row + self._donors, np.abs(row - self._donors)  # [B, C]
        far = np.maximum(np.abs(middle - 2 * self._low), np.abs(middle - 2 * self._high))
        return float(np.minimum(self._gamma * apart * far / 2, 1e3).sum(axis=1).max())

    def _answers(self, columns: np.ndarray) -> np.ndarray:
        """The outputs of full rows, float64 [R, K], with columns shifted to the middle of the
        centres."""
        middle, out = self._centres.mean(axis=0), np.empty((len(columns), len(self._constant)))
        scale = np.sqrt(self._gamma)
        centres = (self._centres - middle) * scale
        step = answers_at_once(len(centres), self._memory)
        for first in range(0, len(columns), step):
            rows = (columns[first : first + step].astype(np.float64) - middle) * scale
            squares = (rows**2).sum(axis=1)[:, None] + (centres**2).sum(axis=1)
            factors = np.exp(-np.maximum(squares - 2 * rows @ centres.T, 0))
            out[first : first + len(rows)] = factors @ self._coefficients + self._constant
        return out


def _halved(op: Callable[[jax.Array, jax.Array], jax.Array], parts: jax.Array) -> jax.Array:
    """Reduces parts [n, ..] by op; [..]. XLA's own reduction takes ten times as long on a CPU,
    where it is not vectorised.
    """
    half = len(parts) // 2
    if not half:
        return parts[0]
    joined = _halved(op, op(parts[:half], parts[half : 2 * half]))
    return op(joined, parts[-1]) if len(parts) % 2 else joined


def slopes(
    rows: jax.Array,  # [n, C]
    n: jax.Array,  # int [], number of real rows
    counts: jax.Array,  # int [n], number of points of each row
    at: jax.Array,  # [n, Q]
    shares: jax.Array,  # [n, Q]
    donors: jax.Array,  # [blocks, m, C]
    weights: jax.Array,  # [blocks, m]
    centres: jax.Array,  # [groups, terms, C]
    gamma: jax.Array,  # [C]
    players: jax.Array,  # int [C]
    *,
    P: int,
    known: bool,
) -> jax.Array:
    """Sums over donors of the integrals for each term; [groups, n, P, terms].

    known: for the loops over rows and points, see `folded`.
    """

    def factors(z: jax.Array, chunk: jax.Array) -> jax.Array:
        """[P, rows, terms] of rows [rows, C]."""
        far = jnp.square(z.T[:, :, None] - chunk.T[:, None]) * gamma[:, None, None]
        of_player = jax.ops.segment_sum(far, players, P)
        return jnp.exp(-jnp.minimum(of_player, LARGEST))

    def of_terms(chunk: jax.Array) -> jax.Array:
        def of_donors(sums: jax.Array, block: tuple[jax.Array, jax.Array]) -> tuple:
            replaced = factors(block[0], chunk)  # [P, m, terms]

            def of_row(i: jax.Array, sums: jax.Array) -> jax.Array:
                change = factors(rows[i][None], chunk) - replaced

                def at_point(q: jax.Array, slope: jax.Array) -> jax.Array:
                    factor = replaced + at[i, q] * change
                    factor = jnp.maximum(factor, jnp.finfo(factor.dtype).tiny)
                    product = (shares[i, q] * block[1])[:, None] * _halved(jnp.multiply, factor)
                    by_donor = (product * (change / factor)).swapaxes(0, 1)
                    return slope + _halved(jnp.add, by_donor)

                zero = jnp.zeros_like(sums, shape=sums.shape[1:])
                return sums.at[i].add(folded(at_point, zero, counts[i], at.shape[1], known))

            return folded(of_row, sums, n, len(rows), known), None

        start = jnp.zeros((len(rows), P, chunk.shape[0]), rows.dtype)
        return jax.lax.scan(of_donors, start, (donors, weights))[0]

    return jax.lax.map(of_terms, centres)


def gaussian(
    centres: np.ndarray,
    gamma: np.ndarray,
    coefficients: np.ndarray,
    constant: np.ndarray,
    background: WeightedDonors,
    head: Affine,
) -> Gaussian | None:
    """The closed form of answers hidden A + c, hidden = a sum of Gaussian products; None: there are
    few players, or the values are of sets, or have weights without a rule.
    """
    if background.P < FEWEST or background.of.order > 1:
        return None
    kind = measure(background.of(background.P)[0])
    if kind is None:
        return None
    A, c = head
    folded = coefficients.astype(np.float64) @ A, constant.astype(np.float64) @ A + c
    return Gaussian(centres, gamma, *folded, background, kind)
