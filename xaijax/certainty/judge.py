"""`judge`: how far any attribution is from the truth that this library computes.

Letters: N instances, P players, K outputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from xaijax.certainty.agreement import measures
from xaijax.certainty.faithfulness import curves_of
from xaijax.certainty.given import (
    as_values,
    attributions,
    refuse_other_amounts_of,
    refuse_other_outputs_of,
    rows_spent,
    seeds_of,
)
from xaijax.certainty.truth import RUNS, truth_of
from xaijax.core import checks
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.public import public
from xaijax.core.typing import Outputs, Rows
from xaijax.methods.explainer.explainer import Explainer
from xaijax.results.judgement import Judgement, Judgements


@overload
def judge(  # pyright: ignore[reportOverlappingOverload]
    values: Mapping[str, Any],
    explainer: Explainer,
    X: Rows,
    *,
    outputs: Outputs = ...,
    budget: int | None = ...,
    seed: int | None = ...,
    curves: bool = ...,
) -> Judgements: ...
@overload
def judge(
    values: Any,
    explainer: Explainer,
    X: Rows,
    *,
    outputs: Outputs = ...,
    budget: int | None = ...,
    seed: int | None = ...,
    curves: bool = ...,
) -> Judgement: ...
@public
def judge(
    values: Any,
    explainer: Explainer,
    X: Rows,
    *,
    outputs: Outputs = None,
    budget: int | None = None,
    seed: int | None = None,
    curves: bool = False,
) -> Judgement | Judgements:
    """How far an attribution is from the true values of the explainer's question.

    The truth is what `explainer` asks about: its model, background, players, index and link. It is
    exact where estimator="auto" would enumerate, whatever the explainer's own estimator is. Other
    instances are sampled: the truth t is the mean of 8 runs of antithetic pairs of orders, by seeds
    that none of the attributions tells to have used. The mean of |phi^ - t|^2 over such samples is
    |phi^ - phi|^2 plus their variance, which how far the runs are apart tells without bias, and
    that is taken off. |phi|^2 is found likewise. A single row may come out below 0 (in `p95` and
    `row_errors` it counts as 0).
    Attributions by another method, index or background (gradients, say) are judged as if they had
    meant this one. An `Explanation` of another quantity, link, output or class is refused.

    Args:
        values: the attribution: an `Explanation` of xaijax or of shap, a frame, an array or a torch
            tensor [N, P] or [N, P, K] (of rows with as many entries as players also shaped like the
            rows). Or a dict of names and such attributions, which are held against one truth.
        explainer: `Explainer`, which says what the truth is.
        X: rows [N, *F], the instances that the values are of.
        outputs: as of a call of the explainer: one output for each instance, for values [N, P] of a
            model with several.
        budget: int or None. As of `Explainer`, for the truth: instances of more corners are sampled
            with so many coalitions in all runs. None: the explainer's rule, and at least 32 P.
        seed: int or None. Of a sampled truth, whose 8 runs use it and the next. None: the first
            after the explainer's own that no attribution tells to have used.
        curves: bool. Whether deletion and insertion curves are asked too, of 2 P coalitions for
            each instance (and output).

    Returns:
        A `Judgement`; of a dict `Judgements`, a mapping that shows as a table.

    Raises:
        InputError, InputTypeError: values of other players, outputs, quantities, links or shapes or
            that are not finite, a seed that an attribution was drawn with, and what the explainer
            refuses.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> def f(X):
        ...     return X[:, 0] * X[:, 1]
        >>> X = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 1.0]])
        >>> explainer = xj.Explainer(xj.as_model(f), np.zeros((1, 2)))
        >>> gradient_times_input = np.stack([X[:, 1] * X[:, 0], X[:, 0] * X[:, 1]], axis=1)
        >>> judged = xj.judge(gradient_times_input, explainer, X)
        >>> round(judged.relative_error, 4), round(judged.efficiency, 4)
        (1.0, 3.0)

        Each input gets the whole product; the true values share it.

    References:
        Petsiuk, Das and Saenko, "RISE: randomized input sampling for explanation of black-box
        models" (BMVC 2018): deletion and insertion.
    """
    if not isinstance(explainer, Explainer):
        raise InputTypeError(
            f"explainer: got {type(explainer).__name__}; pass an xaijax.Explainer, which says what "
            "the truth is."
        )
    budget = None if budget is None else checks.whole_number(budget, "budget")
    checks.yes_or_no(curves, "curves")
    named = attributions(values)
    refuse_other_amounts_of(named, explainer)
    seeds = _seeds(seed, explainer.seed, seeds_of(named))
    truth = truth_of(explainer, X, outputs, budget, seeds)
    shape, players = truth.values.shape, truth.explanation.feature_names
    refuse_other_outputs_of(named, truth.explanation)
    read = {name: as_values(name, one, players, shape) for name, one in named.items()}
    found = Judgements(
        {
            name: Judgement(
                name=name,
                model_rows=rows_spent(named[name]),
                truth=truth.explanation,
                curves=curves_of(explainer, X, own, outputs) if curves else None,
                **measures(own, truth),
            )
            for name, own in read.items()
        }
    )
    return found if isinstance(values, Mapping) else found["values"]


def _seeds(given: int | None, own: int, used: set[int]) -> range:
    """Those of the truth: none that an attribution was drawn with, or their errors go together.

    Raises InputError where one from the given seed on was.
    """
    if given is not None:
        first = checks.whole_number(given, "seed", least=0)
        shared = used & set(range(first, first + RUNS))
        if shared:
            raise InputError(
                f"seed={first}: the {RUNS} runs of a sampled truth would use seed {min(shared)}, "
                "which an attribution was drawn with, so that their errors would go together. Say "
                "another seed."
            )
        return range(first, first + RUNS)
    first = own + 1
    while shared := used & set(range(first, first + RUNS)):
        first = max(shared) + 1
    return range(first, first + RUNS)
