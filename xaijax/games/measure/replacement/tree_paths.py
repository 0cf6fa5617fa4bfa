"""`TreePaths`: absent players follow both children of a split, weighted by their covers."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from typing import Any

from xaijax.core import checks
from xaijax.core.errors import InputError
from xaijax.core.public import public_class
from xaijax.games.measure.replacement.base import Replacement, ReplacementSource, table_of
from xaijax.models.model import Model
from xaijax.tables.rows import rows_of


class PathReplacement(Replacement):
    """The covers of trees instead of donors. Its single row only defines the form of rows."""

    kind = "tree-paths"
    HYBRIDS = False

    @cached_property
    def digest(self) -> Any:
        """See `Replacement.digest`: the covers belong to the model."""
        return hashlib.blake2b(self.kind.encode(), digest_size=16)


@public_class
class TreePaths(ReplacementSource):
    """Path-dependent values of trees: the training rows that reached each node replace a
    background.

    Give it as `background=` of `Explainer`. At a split on an absent column both children are
    followed, weighted by the share of training rows that went there. The result equals XGBoost's
    `pred_contribs`, LightGBM's `pred_contrib` and shap's `TreeExplainer` with
    `feature_perturbation="tree_path_dependent"`. This is a different question from background rows:
    a path's shares depend on the columns tested above, so dependent columns share their effects in
    a way that depends on how the trees were grown.

    It needs a model that is a sum over leaves of trees whose nodes have covers: those of
    scikit-learn (`weighted_n_node_samples`), XGBoost (`sum_hessian`) or LightGBM
    (`internal_count`). Boosted classifiers need `output="decision"` in `as_model`. The values are
    exact for any number of players and any depth.

    Raises:
        InputError: on a call, the model is not a sum of trees or has no covers; a sampling
            estimator, a link, `outputs=` or interactions of an order above 1 are requested; a
            method other than `Explainer` gets it.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> from sklearn.tree import DecisionTreeRegressor
        >>> X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
        >>> tree = DecisionTreeRegressor(random_state=0).fit(X, X[:, 0] * X[:, 1])
        >>> xj.Explainer(tree, xj.TreePaths())(X[3:]).values.round(3)
        array([[0.375, 0.375]])
    """

    HYBRIDS = False
    UNWEIGHTED = "TreePaths has none"

    def __init__(self) -> None:
        pass

    def __repr__(self) -> str:
        return "TreePaths()"

    @property
    def of_instances(self) -> bool:
        """See `ReplacementSource.of_instances`: they define the form of a row."""
        return True

    @staticmethod
    def refuse(background: Any, why: str) -> None:
        """Raises InputError with the reason `why` if `background` is a `TreePaths`."""
        if isinstance(background, TreePaths):
            raise InputError(f"{why} Give background rows.")

    def replacement(self, model: Model, X: Any) -> Replacement:
        """See `ReplacementSource`."""
        if X is None:
            raise InputError("X is None, and TreePaths() has no rows either. Give rows X.")
        table = table_of(model, X, "X")
        row = table.read(rows_of(X).part(0, 1), "X", model.allow_nan)
        made = PathReplacement.of(model, table, row, checks.row_weights(None, 1))
        return replace(made, rows_given=0)
