"""`AmortizedExplainer`: a network that predicts an explainer's values, with bounds on its errors.

Letters: N rows, F features, P players, K outputs, D features for the difficulty.
"""

from __future__ import annotations

import copy
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from xaijax.core import checks, html
from xaijax.core.errors import InputError, XaiWarning
from xaijax.core.process import before_jax
from xaijax.core.public import public_class
from xaijax.core.sequences import checked_level
from xaijax.core.typing import AnyModel, Progress, Rows
from xaijax.methods.amortized import calling, learning, questions, record
from xaijax.methods.amortized import fitted as files
from xaijax.methods.amortized.fitted import Cost, FittedNetwork
from xaijax.methods.amortized.inputs import Inputs
from xaijax.methods.amortized.predictor import Network, Predictor, dense, trainable
from xaijax.methods.amortized.record import explanation, warn_below
from xaijax.methods.explainer.explainer import Explainer
from xaijax.methods.record import progress_bar, read_progress
from xaijax.models import model_of
from xaijax.results.explanation import Explanation
from xaijax.results.fingerprint import Fingerprint


@public_class
class AmortizedExplainer:
    """Predicts Shapley values by a network trained on them, with a bound on the error of every row.

    An explainer needs thousands of model evaluations for each row. `fit` explains some thousand
    rows once and trains a network on the values; afterwards a row costs one pass of the network and
    one of the model. The network is checked on `judge` rows that are used for nothing else:
    `stats_` has their R2. Each explained row has a bound that its values are within, with
    probability `confidence` over rows like the judge's. The rows with the largest bounds can be
    explained by the explainer itself (`fallback`). Values always add up to f(x).

    The network pays for many rows only. `stats_["break_even"]` is the number of rows from which it
    pays. Below this number, it warns you to use the explainer directly: that is cheaper and has no
    network error.

    Args:
        explainer: an `Explainer` of Shapley values. Exact values train best. Sampled values may be
            as noisy as those of one antithetic pair of permutations (estimator="permutation" and a
            small budget): they have no bias, and the network averages noise out. For labels, rows
            are sampled in 256 groups by separate draws, since a network would learn an error that
            all of its labels share.
        hidden: widths of dense layers. Their inputs are the standardised columns of numbers, one
            input for each value of a column of 3 to 16 different values, one for each text, and
            f(x).
        seed: int. It determines which rows judge, the order of the training rows, and the initial
            weights.
        network: a model by `as_model`, or None. It is your own JAX module in place of `hidden`: of
            Flax (linen, nnx), Equinox or a function of params. It takes standardised rows [R, *F]
            and returns [R, P], or [R, P K] if the model has K outputs, those of a player together.
            All its float arrays are trained, in inference form (no dropout).

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> X = np.random.default_rng(0).normal(size=(300, 3)).astype(np.float32)
        >>> explainer = xj.Explainer(xj.as_model(lambda X: X[:, 0] * X[:, 1] + X[:, 2]), X[:9])
        >>> amortized = xj.AmortizedExplainer(explainer, hidden=(32,)).fit(X, judge=64, steps=300)
        >>> amortized.stats_["judge_rows"], amortized.stats_["r2"] > 0.9
        (64, True)

        Values that hold for three rows are no reason to fit a network, and it says so:

        >>> import warnings
        >>> with warnings.catch_warnings(record=True) as told:
        ...     warnings.simplefilter("always")
        ...     explanation = amortized(X[:3])
        >>> "it pays from" in str(told[0].message) or "for any number" in str(told[0].message)
        True
        >>> explanation.values.shape, explanation.bounds.shape, explanation.kind
        ((3, 3), (3,), 'amortized')

    References:
        Jethani, Sudarshan, Covert, Lee and Ranganath, "FastSHAP: real-time Shapley value
        estimation" (ICLR 2022): additive normalisation. Covert, Kim, Lee, Zou and Hashimoto,
        "Stochastic amortization" (NeurIPS 2024): noisy labels. Lei et al., "Distribution-free
        predictive inference for regression" (JASA 2018): the bounds.
    """

    def __init__(
        self,
        explainer: Explainer,
        hidden: Sequence[int] = (256, 256),
        seed: int = 0,
        network: AnyModel | None = None,
    ) -> None:
        widths = checks.listed(hidden, "hidden", "widths of layers, such as [256, 256]")
        self.hidden = tuple(checks.whole_number(width, "hidden") for width in widths)
        self.seed = checks.whole_number(seed, "seed", least=0)
        self.network = None if network is None else model_of(network, "network")
        self._question: questions.Teacher | None = questions.Teacher(explainer)
        self._fitted: FittedNetwork | None = None
        self._predictor: Predictor | None = None
        self._so_far = 0
        self._sweep: int | None = None  # rows of the sweep that its calls are parts of

    _repr_html_ = html.shown("_fitted.judged")

    def __repr__(self) -> str:
        how = f"hidden={self.hidden}" if self.network is None else f"network={self.network.name}"
        by = "no explainer" if self._question is None else repr(self._question.explainer)
        state = "not fitted"
        if self._fitted is not None:
            judged = self._fitted.judged
            state = f"R2 {judged['r2']:.4g} on {judged['judge_rows']} rows"
        return f"AmortizedExplainer({by}, {how}, {state})"

    def fit(
        self,
        X: Rows,
        judge: int = 256,
        judge_by: Explainer | None = None,
        confidence: float = 0.9,
        steps: int = 6000,
        batch: int = 256,
        learning_rate: float = 3e-3,
        progress: Progress = None,
    ) -> AmortizedExplainer:
        """Explains X, trains the network on the values and measures its errors.

        A tenth of the rows that do not judge (at most 5,000) are not trained on either: they select
        the parameters of the smallest error and serve to estimate how difficult a row is.

        Args:
            X: rows [N, *F] like those that will be explained, some thousand.
            judge: int. The number of rows that judge, at least 9 at confidence 0.9. The bounds hold
                with that confidence on average over draws of the judge rows; with one set of 256,
                1.9 points more or less.
            judge_by: explains the judge's rows. It is an `Explainer` of the same question, or None:
                the explainer itself or, if its estimator samples or it has a budget, the same one
                with estimator="auto" and no budget. If the judge's values are still sampled, the
                bounds include the errors of their draws.
            confidence: float between 0 and 1. Confidence of the bounds.
            steps: int. Steps of training, rounded up to a multiple of the steps between two checks.
            batch: int. Rows in a step.
            learning_rate: float. The highest learning rate of Adam; the rate rises, then falls
                along a cosine.
            progress: as for a call.

        Returns:
            This object.

        Raises:
            InputError, InputTypeError: an argument is not accepted; raised before anything is
                explained. The errors of a call of the explainer are raised as well.
        """
        before_jax()
        question, progress = self._known_question(), read_progress(progress)
        level = checked_level(confidence, "confidence")
        recipe = learning.TrainingRecipe(
            checks.whole_number(steps, "steps"),
            checks.whole_number(batch, "batch"),
            checks.positive(learning_rate, "learning_rate"),
            self.seed,
        )
        judges = question.best() if judge_by is None else questions.Teacher(judge_by)
        rows = question.read(X)
        split = learning.read_split(questions.count_of(rows), judge, level, self.seed)
        if judge_by is not None:
            questions.refuse_other(question.fingerprint(), question.base(), np.ones(1), judges)
        learned = self._learned(rows, split, judges, recipe, level, progress)
        (self._fitted, self._predictor), self._so_far = learned, 0
        return self

    @property
    def stats_(self) -> Mapping[str, Any]:
        """The cost and results of fitting; docs/results.md lists every key."""
        learned = self._known()
        cost = learned.cost
        return MappingProxyType(
            {
                **learned.judged,
                "label_model_rows": cost.model_rows,
                "label_seconds": cost.label_seconds,
                "training_seconds": cost.training_seconds,
                "explainer_seconds_a_row": cost.explained_seconds,
                "network_seconds_a_row": cost.use_seconds,
                "break_even": cost.break_even(0.0),
            }
        )

    def __call__(self, X: Rows, fallback: float = 0.05, progress: Progress = None) -> Explanation:
        """Explains the rows X.

        Args:
            X: rows [N, *F] like those of `fit`.
            fallback: float from 0 to 1. The share of the rows, rounded down, that the explainer
                itself explains: those with the largest bounds. 0: none.
            progress: None (a bar in terminals and notebooks once a run takes a while), True or
                False.

        Returns:
            An `Explanation` of kind "amortized" with values [N, P] or [N, P, K] and bounds [N].
            `exact` is False. Only fallback rows that were sampled have standard errors, since a
            network's error is not one of draws. stats["fallback_rows"] marks the rows that the
            explainer explained. Their bounds are 0 if exact, else from its standard errors, and
            infinite if there are none. A row outside the range of the fitted rows has an infinite
            bound too, unless the explainer explained it: stats["outside_rows"].

        Raises:
            InputError, InputTypeError: it is not fitted, or has no explainer; X has other columns
                or another shape; or fallback is not a share.

        A `xaijax.XaiWarning` gives the number of rows outside the range of the fitted rows.
        """
        before_jax()
        learned = self._known()
        question, predictor = self._known_question(), self._ready()
        share, progress = learning.read_share(fallback), read_progress(progress)
        rows = question.read(X)
        so_far = self._sweep
        if so_far is None:
            so_far = self._so_far = self._so_far + questions.count_of(rows)
            warn_below(learned, share, so_far)
        answers = calling.answered(question, learned, predictor, rows, share, progress)
        return explanation(question, learned, X, rows, answers, share, so_far, self.seed)

    def fingerprint(self) -> Fingerprint:
        """Identifies the question that its explanations answer.

        Returns:
            A `Fingerprint`, equal to `explainer(X).fingerprint` for any rows X.

        Raises:
            InputError: it is not fitted.
        """
        return record.fingerprint(self._known())

    def with_explainer(
        self, explainer: Explainer, network: AnyModel | None = None
    ) -> AmortizedExplainer:
        """Returns a copy with this explainer: after loading, or for better fallback rows.

        Args:
            explainer: an `Explainer` of the same question as in `fit`: the same model, background,
                weights, link and players. Its estimator and budget may differ.
            network: if the loaded object was fitted with network=, the same module by `as_model`.
                Its own parameters are not used.

        Returns:
            A fitted `AmortizedExplainer`.

        Raises:
            InputError: the explainer has another question. Models are compared by their programs
                and parameters if these can be read, else by the base value.
        """
        learned, question = self._known(), questions.Teacher(explainer)
        questions.refuse_other(learned.fingerprint, learned.base, learned.known[1], question)
        module = self.network if network is None else network
        out = AmortizedExplainer(explainer, self.hidden, self.seed, module)
        out._fitted, out._so_far = learned, self._so_far
        out._ready()
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes what was learned to one file, which `xaijax.load` reads back.

        The file holds arrays and a JSON text, and no pickle. It holds neither the explainer and its
        model nor the code of your own network: see `with_explainer`. It does hold texts of columns.

        Args:
            path: str or path. The file's name, used as it is.

        Raises:
            InputError: it is not fitted, or the folder does not exist.
            InputTypeError: `path` is not a path.
        """
        files.write(path, self._known(), self.hidden, self.seed)

    def _for_sweep(self, rows: int, fallback: float = 0.05) -> AmortizedExplainer:
        """Returns a copy whose calls are parts of one sweep; warns once for all of its rows.

        It raises InputError if it is not fitted, or has no explainer.
        """
        warn_below(self._known(), learning.read_share(fallback), rows)
        self._ready()
        made = copy.copy(self)
        made._sweep = rows
        return made

    @property
    def _teacher(self) -> Explainer:
        """The explainer that it was trained on."""
        return self._known_question().explainer

    def _anew(self, explainer: Explainer) -> AmortizedExplainer:
        """Returns a copy with an explainer made of the same arguments."""
        made = copy.copy(self)
        made._question = questions.Teacher(explainer)
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_predictor": None, "_question": None} | {
            "explainer": None if self._question is None else self._question.explainer
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        explainer = state.pop("explainer")
        vars(self).update(state)
        self._question = None if explainer is None else questions.Teacher(explainer)

    def _known(self) -> FittedNetwork:
        if self._fitted is None:
            raise InputError(
                "this AmortizedExplainer is not fitted yet. Say .fit(X) first, with some thousand "
                "rows like those to explain."
            )
        return self._fitted

    def _known_question(self) -> questions.Teacher:
        if self._question is None:
            raise InputError(
                "this AmortizedExplainer comes from a file, which holds no model. Say "
                ".with_explainer(explainer), one like that it was fitted with."
            )
        return self._question

    def _ready(self) -> Predictor:
        """The network as a function; rebuilt from what was learned if there is none."""
        if self._predictor is not None:
            return self._predictor
        learned = self._known()
        if learned.hidden is None and self.network is None:
            raise InputError(
                "this AmortizedExplainer was fitted with your own network. Say "
                ".with_explainer(explainer, network=xaijax.as_model(module))."
            )
        made = self._network(learned.inputs, *learned.centre.shape)
        leaves, structure = jax.tree.flatten(made.params)
        shapes, known = ([leaf.shape for leaf in of] for of in (leaves, learned.leaves))
        if shapes != known:
            raise InputError(
                f"network has parameters of shapes {shapes}; learned are {known}. Give the module "
                "that it was fitted with."
            )
        self._predictor = Predictor(
            made, learned.inputs, learned.base, learned.centre, learned.scale, learned.known
        )
        self._predictor.learned(jax.tree.unflatten(structure, learned.leaves))
        return self._predictor

    def _network(self, inputs: Inputs, P: int, K: int) -> Network:
        """Dense layers, or the user's own."""
        if self.network is not None:
            return trainable(self.network, inputs, P * K)
        return dense(inputs, self.hidden, K, P * K, self.seed)

    # The judge's rows are drawn before anything else, and explained separately. The network, its
    # inputs and the difficulty of a row use the other rows only.

    def _learned(
        self,
        rows: Any,
        split: learning.RowSplit,
        judges: questions.Teacher,
        recipe: learning.TrainingRecipe,
        confidence: float,
        progress: Progress,
    ) -> tuple[FittedNetwork, Predictor]:
        """(what was learned from rows as they were read, the network as a function).

        judges: explains the judge's rows.
        """
        question, seed = self._known_question(), recipe.seed
        learned = np.concatenate([split.training, split.validation])
        labels = question.explained(questions.rows_at(rows, learned), progress, seed)
        judged = questions.rows_at(rows, split.judge)
        truth = judges.explained(judged, progress, seed + 1)
        inputs = Inputs.of(questions.rows_at(rows, split.training))
        both = np.concatenate([learned, split.judge])
        inputs = inputs.reaching(inputs.read(questions.rows_at(rows, both)))
        lesson = _lesson(question, inputs, questions.rows_at(rows, learned), labels)
        trained = np.arange(len(learned)) < len(split.training)
        training, watched = lesson.take(trained), lesson.take(~trained)
        # Outputs are in units of the training rows' values.
        centre = training.values.mean(axis=0)  # [P, K]
        scale = _or_one((training.values - centre).std(axis=(0, 1)))  # [K]
        known = np.stack([training.full.mean(axis=0), _or_one(training.full.std(axis=0))])
        network = self._network(inputs, *centre.shape)
        predictor = Predictor(network, inputs, labels.base[0], centre, scale, known)
        started = time.perf_counter()
        with progress_bar(progress, recipe.total, "steps of training", "step") as bar:
            params, met = learning.learn(predictor, training, watched, recipe, bar.update)
        seconds = time.perf_counter() - started
        predictor.learned(params)
        line, limits = _difficulty(predictor, params, watched)
        judge = _lesson(question, inputs, judged, truth)
        values, height = predictor.of(params, line, judge.read, judge.full)
        scores = calling.errors_of(values, judge.values) / calling.difficulty(height, limits)
        return FittedNetwork(
            inputs=inputs,
            hidden=self.hidden if self.network is None else None,
            leaves=tuple(np.asarray(leaf) for leaf in jax.tree.leaves(params)),
            base=predictor.base,
            centre=centre,
            scale=scale,
            known=known,
            line=line,
            ends=limits,
            quantile=calling.quantile(scores, confidence),
            confidence=confidence,
            fingerprint=question.fingerprint(),
            outputs=labels.explanation.output_names,
            cost=Cost(
                labels.model_rows + truth.model_rows,
                labels.seconds + truth.seconds,
                seconds,
                _seconds_of_explaining(question, rows),
                _seconds_of_use(question, predictor, params, line, rows),
            ),
            judged={
                **_judged(values, judge.values),
                "judge_exact": bool(truth.explanation.exact),
                "training_rows": len(split.training),
                "validation_rows": len(split.validation),
                "judge_rows": len(split.judge),
                "steps": recipe.total,
                "best_step": met,
            },
            facts=dict(labels.explanation.provenance),
        ), predictor


def rebuilt(state: dict[str, Any]) -> AmortizedExplainer:
    """Rebuilds it from the fields of a file; it has no explainer yet."""
    learned, hidden, seed = files.read(state)
    out = object.__new__(AmortizedExplainer)
    out.hidden, out.seed, out.network = hidden, seed, None
    out._question, out._fitted, out._predictor = None, learned, None
    out._so_far, out._sweep = 0, None
    return out


TIMED = 0.1  # seconds of a call that is timed


def _lesson(
    question: questions.Teacher, inputs: Inputs, rows: Any, labels: questions.Labels
) -> learning.Lesson:
    return learning.Lesson(inputs.read(rows), question.answers(rows), labels.values)


def _or_one(spread: np.ndarray) -> np.ndarray:
    return np.where(spread > 0, spread, 1.0)


def _difficulty(
    predictor: Predictor, params: Any, watched: learning.Lesson
) -> tuple[np.ndarray, tuple[float, float]]:
    """(the line, its lowest and highest height), from the errors of the validation rows."""
    features = predictor.features(params, watched.read, watched.full)
    flat = np.zeros(1 + features.shape[1])
    values, _ = predictor.of(params, flat, watched.read, watched.full)
    errors = calling.errors_of(values, watched.values)
    line = calling.difficulty_line(features, errors, float(predictor.scale.max()))
    heights = line[0] + features @ line[1:]
    return line, (float(heights.min()), float(heights.max()))


def _judged(values: np.ndarray, wanted: np.ndarray) -> Mapping[str, float]:
    """Measures of how good the values [n, P, K] of the judge's rows are."""
    wrong = float(((values - wanted) ** 2).sum())
    spread = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
    size = float((wanted**2).sum())
    return {
        "r2": 1 - wrong / spread if spread > 0 else float("nan"),
        "relative_error": wrong / size if size > 0 else float("nan"),
    }


def _seconds_of_explaining(question: questions.Teacher, rows: Any) -> float:
    """Returns the seconds of one row in one call of the explainer, after compilation.

    The labels do not give it: they are made in groups, and include what is done once. More rows are
    explained until a call takes long enough to be timed.
    """
    N, count = questions.count_of(rows), min(questions.count_of(rows), 64)
    while True:
        part = questions.rows_between(rows, slice(0, count))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", XaiWarning)  # it was given before
            question.explained(part, False)
            seconds = question.explained(part, False).seconds
        if seconds >= TIMED or count == N:
            return seconds / count
        count = min(N, 4 * count)


def _seconds_of_use(
    question: questions.Teacher, predictor: Predictor, params: Any, line: np.ndarray, rows: Any
) -> float:
    """The same for the network, with f(x)."""
    rows = questions.rows_between(rows, slice(0, min(questions.count_of(rows), calling.PIECE)))
    question.answers(rows)
    started = time.perf_counter()
    read = predictor.inputs.read(rows)
    predictor.of(params, line, read, question.answers(rows))
    return (time.perf_counter() - started) / len(read)
