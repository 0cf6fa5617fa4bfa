"""Translates naive Bayes: normalised joint log likelihoods [R, K].

Letters: R rows, F columns, K classes, C categories.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.models.translations.columns import Columns, rounded_down
from xaijax.models.translations.registry import Head, Translation, place, then, translates
from xaijax.tables.table import Untranslatable


def _of(params: Any, joint: Head) -> Translation:
    proba = then(joint, lambda x: jax.nn.softmax(x, axis=1))
    return Translation(params, {"proba": proba, "label": then(joint, place)}, "naive Bayes")


@translates("GaussianNB")
def gaussian(estimator: Any, columns: Columns) -> Translation:
    """log prior - sum over columns of (x - mean)^2 / 2 var + log(2 pi var) / 2."""
    variance = np.asarray(estimator.var_)  # [K, F]
    constant = np.log(estimator.class_prior_) - 0.5 * np.log(2.0 * np.pi * variance).sum(axis=1)
    params = {
        "mean": columns.number(estimator.theta_ - columns.taken()),
        "precision": columns.number(0.5 / variance),
        "constant": columns.number(constant),
    }

    def joint(params: Any, rows: Any) -> Any:
        # Differences are squared: x^2 - 2 x mean + mean^2 would cancel.
        off = rows[:, None, :] - params["mean"]
        return params["constant"] - (off * off * params["precision"]).sum(axis=2)

    return _of(params, joint)


@translates("BernoulliNB")
def bernoulli(estimator: Any, columns: Columns) -> Translation:
    """A product of zeros and ones, x > binarize, with log p - log(1 - p)."""
    absent = np.log(1 - np.exp(estimator.feature_log_prob_))
    params = {
        "weights": columns.number((estimator.feature_log_prob_ - absent).T),
        "bias": columns.number(estimator.class_log_prior_ + absent.sum(axis=1)),
    }
    cut = estimator.binarize
    if cut is not None:
        # The rows' own numbers are compared, so that their side of the cut does not change.
        for source in columns:
            if source is not None:
                source.cuts.append(np.array([float(cut)]))
        cut = rounded_down(np.asarray(cut, np.float64), columns.dtype)

    def joint(params: Any, rows: Any) -> Any:
        ones = rows if cut is None else (rows > cut).astype(rows.dtype)
        return ones @ params["weights"] + params["bias"]

    return _of(params, joint)


@translates("MultinomialNB", "ComplementNB")
def multinomial(estimator: Any, columns: Columns) -> Translation:
    """A product of counts with log probabilities (of the complement, without a prior)."""
    prior = np.asarray(estimator.class_log_prior_)
    if type(estimator).__name__ == "ComplementNB" and len(estimator.classes_) > 1:
        prior = np.zeros_like(prior)
    params = {
        "weights": columns.number(np.asarray(estimator.feature_log_prob_).T),
        "bias": columns.number(prior),
    }
    return _of(params, lambda params, rows: rows @ params["weights"] + params["bias"])


@translates("CategoricalNB")
def categorical(estimator: Any, columns: Columns) -> Translation:
    """A table of log probabilities for each column, read at the category's number."""
    tables = [np.asarray(table) for table in estimator.feature_log_prob_]  # [K, C] each
    if any(not np.isfinite(table).all() for table in tables):
        raise Untranslatable("a category has probability 0")
    width = max(table.shape[1] for table in tables)
    # A number outside the column's categories is an error in scikit-learn, and NaN here.
    full = np.full((len(tables), width, len(estimator.classes_)), np.nan)
    for j, table in enumerate(tables):
        full[j, : table.shape[1]] = table.T
    prior = columns.number(estimator.class_log_prior_)
    params = {"tables": columns.number(full), "prior": prior}

    def joint(params: Any, rows: Any) -> Any:
        known = (rows >= 0) & (rows < width)
        codes = jnp.where(known, rows, width).astype("int32")
        read = jax.vmap(
            lambda table, codes: jnp.take(table, codes, axis=0, fill_value=jnp.nan),
            in_axes=(0, 1),
        )
        return read(params["tables"], codes).sum(axis=0) + params["prior"]

    return _of(params, joint)
