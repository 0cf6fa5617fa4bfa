"""Answers turned to white, and what a few columns with flat priors take out of them.

Turned by the inverse of the covariance's Cholesky factor, answers that follow the process are
independent numbers of one variance, tau^2, beside the trend: the level, and the large pairs of an
instance, whose sizes the process's prior says nothing about (universal kriging: Rasmussen and
Williams 2006, "Gaussian processes for machine learning", section 2.7).

Letters: R answers explained, one for each instance and output; D coalitions; q columns.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xaijax.estimators.process.covariance import of_distance

JITTER = 1e-9  # of the variance: far above float32 answers' rounding, squared
ALIKE = 1e-12  # added to the products of unit columns: hides no more than rounding does
TOLD = 1e-6  # of a coalition's precision: below, its answer is told by the trend alone


class Fit(NamedTuple):
    """A covariance of the D answers, scaled to a variance of 1, by what turns them to white."""

    rate: float
    white: np.ndarray  # [D, D], the inverse of its Cholesky factor
    log_det: float


class Trend(NamedTuple):
    """Columns fitted to turned answers, each with a flat prior."""

    columns: np.ndarray  # [R, D, q], turned; zeros where an answer has fewer
    inverse: np.ndarray  # [R, q, q], of their products
    weights: np.ndarray  # [R, q]
    left: np.ndarray  # [R, D], what they leave of the turned answers
    freedom: np.ndarray  # [R], D less their number
    log_det: np.ndarray  # [R], of their products
    apart: np.ndarray  # [R], the least share of a column that the others do not hold

    @property
    def squares(self) -> np.ndarray:
        """Of what is left, [R]."""
        return (self.left**2).sum(axis=1)


def fit(distance: np.ndarray, P: int, rate: float) -> Fit:
    """Of coalitions at these distances, int [D, D]."""
    from scipy.linalg import solve_triangular  # noqa: PLC0415 - `import xaijax` loads no scipy

    covariance = of_distance(P, rate)[0][distance]
    covariance[np.diag_indices(len(covariance))] += JITTER
    factor = np.linalg.cholesky(covariance)
    white = solve_triangular(factor, np.eye(len(factor)), lower=True)
    return Fit(rate, white, 2 * float(np.log(np.diag(factor)).sum()))


def columns_of(signs: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """The level, and a column z_i z_j for each pair; [R, D, 1 + width].

    signs: float64 [D, P]; pairs: int [R, width], places in `np.triu_indices(P, 1)`, -1 for none.
    """
    i, j = np.triu_indices(signs.shape[1], 1)
    picked = np.moveaxis(signs[:, i[pairs]] * signs[:, j[pairs]], 0, 1) * (pairs >= 0)[:, None]
    return np.concatenate([np.ones((*picked.shape[:2], 1)), picked], axis=2)


def trend(fit: Fit, y: np.ndarray, turned: np.ndarray) -> Trend:
    """Fitted to y [R, D]; columns, turned, [R, D, q]. Each answer in shapes that are its own."""
    size = np.sqrt((turned**2).sum(axis=1))
    used = size > 0
    scale = 1 / np.where(used, size, 1.0)
    unit = turned * scale[:, None]
    products = np.matmul(unit.swapaxes(1, 2), unit)
    # Columns may depend on each other where few coalitions were drawn: `apart` tells of it.
    products += np.eye(products.shape[1]) * np.where(used, ALIKE, 1.0)[:, None]
    inverse = np.linalg.inv(products)
    left = np.matmul(fit.white, y[..., None])
    weights = np.zeros((*used.shape, 1))
    for _ in range(2):  # the second time takes out what rounding has left
        more = np.matmul(inverse, np.matmul(unit.swapaxes(1, 2), left))
        weights += more
        left = left - np.matmul(unit, more)
    log_det = np.linalg.slogdet(products)[1] - 2 * np.log(scale).sum(axis=1)
    apart = 1 / np.diagonal(inverse, axis1=1, axis2=2).max(axis=1)
    inverse *= scale[:, :, None] * scale[:, None]
    freedom = np.maximum(1, y.shape[1] - used.sum(axis=1))
    weights = weights[..., 0] * scale
    return Trend(turned, inverse, weights, left[..., 0], freedom, log_det, apart)


def variance(fit: Fit, own: Trend) -> np.ndarray:
    """tau^2, [R]: by the likelihood, or by what each answer is off where the others tell it.

    The larger one: the two agree where the game is as the process says, and the second holds where
    it is rougher (leaving one out: Rasmussen and Williams 2006, section 5.4.2; Bachoc 2013, "Cross
    validation and maximum likelihood estimations of hyper-parameters of Gaussian processes with
    model misspecification").
    """
    told = np.matmul(fit.white.T, own.columns)
    whole = (fit.white**2).sum(axis=0)
    precision = whole - (np.matmul(told, own.inverse) * told).sum(axis=2)
    off = np.matmul(fit.white.T, own.left[..., None])[..., 0] ** 2
    seen = precision > TOLD * whole
    alone = np.where(seen, off / np.where(seen, precision, 1.0), 0.0).sum(axis=1)
    return np.maximum(own.squares / own.freedom, alone / np.maximum(1, seen.sum(axis=1)))
