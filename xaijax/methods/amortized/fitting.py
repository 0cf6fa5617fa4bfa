"""What `fit` does: labels of all rows, a network of the training rows, bounds by the judge's.

The judge's rows are drawn before anything else, and explained apart. The network, its inputs and
the difficulty of a row are made of the others alone.

Letters: N rows, P players, K outputs, D what difficulty is told by.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from xaijax.core.errors import XaiWarning
from xaijax.core.typing import Progress
from xaijax.methods.amortized import networks
from xaijax.methods.amortized.arguments import Split
from xaijax.methods.amortized.bounds import difficulty, difficulty_line, errors_of, quantile
from xaijax.methods.amortized.fitted import Cost, Fitted
from xaijax.methods.amortized.inputs import Inputs
from xaijax.methods.amortized.learning import Lesson, Recipe, learn
from xaijax.methods.amortized.predictor import Predictor
from xaijax.methods.amortized.questions import Labels, Question, count_of, rows_at, rows_between
from xaijax.methods.progress import progress_bar

TIMED = 0.1  # seconds of a call that is timed
PIECE = 1 << 14  # rows by which the network is timed, at most


@dataclass(frozen=True)
class Asked:
    """What is fitted, by which arguments."""

    question: Question
    judge: Question  # who explains the judge's rows
    hidden: tuple[int, ...]
    network: Any  # a Model of the user's own, or None
    recipe: Recipe
    confidence: float
    progress: Progress


def fitted(asked: Asked, rows: Any, split: Split) -> tuple[Fitted, Predictor]:
    """(what was learned of rows as they were read, the network as a function)."""
    question = asked.question
    learned = np.concatenate([split.training, split.validation])
    seed = asked.recipe.seed
    labels = question.explained(rows_at(rows, learned), asked.progress, seed)
    truth = asked.judge.explained(rows_at(rows, split.judge), asked.progress, seed + 1)
    inputs = Inputs.of(rows_at(rows, split.training))
    both = np.concatenate([learned, split.judge])
    inputs = inputs.reaching(inputs.read(rows_at(rows, both)))
    lesson = _lesson(question, inputs, rows_at(rows, learned), labels)
    trained = np.arange(len(learned)) < len(split.training)
    training, watched = lesson.take(trained), lesson.take(~trained)
    predictor = predictor_of(inputs, asked, labels.base[0], training)
    started = time.perf_counter()
    with progress_bar(asked.progress, asked.recipe.total, "steps of training", "step") as bar:
        params, met = learn(predictor, training, watched, asked.recipe, bar.update)
    seconds = time.perf_counter() - started
    predictor.learned(params)
    line, ends = _difficulty(predictor, params, watched)
    judges = _lesson(question, inputs, rows_at(rows, split.judge), truth)
    found, height = predictor.of(params, line, judges.read, judges.full)
    errors = errors_of(found, judges.values)
    network = asked.network
    return Fitted(
        inputs=inputs,
        hidden=asked.hidden if network is None else None,
        leaves=tuple(np.asarray(leaf) for leaf in jax.tree.leaves(params)),
        base=predictor.base,
        centre=predictor.centre,
        scale=predictor.scale,
        known=predictor.known,
        line=line,
        ends=ends,
        quantile=quantile(errors / difficulty(height, ends), asked.confidence),
        confidence=asked.confidence,
        marks=question.marks(),
        outputs=labels.outputs,
        cost=Cost(
            labels.model_rows + truth.model_rows,
            labels.seconds + truth.seconds,
            seconds,
            _seconds_of_explaining(question, rows),
            _seconds_of_use(question, predictor, params, line, rows),
        ),
        judged={
            **_judged(found, judges.values),
            "judge_exact": bool(truth.explanation.exact),
            "training_rows": len(split.training),
            "validation_rows": len(split.validation),
            "judge_rows": len(split.judge),
            "steps": asked.recipe.total,
            "best_step": met,
        },
        facts=dict(labels.explanation.provenance),
    ), predictor


def _lesson(question: Question, inputs: Inputs, rows: Any, labels: Labels) -> Lesson:
    return Lesson(inputs.read(rows), question.answers(rows), labels.values)


def predictor_of(inputs: Inputs, asked: Asked, base: np.ndarray, training: Lesson) -> Predictor:
    """The network that is trained, of outputs in units of the training rows' values."""
    centre = training.values.mean(axis=0)  # [P, K]
    spread = (training.values - centre).std(axis=(0, 1))  # [K]
    known = np.stack([training.full.mean(axis=0), _or_one(training.full.std(axis=0))])
    P, K = centre.shape
    network = network_of(inputs, asked.hidden, asked.network, (P, K), asked.recipe.seed)
    return Predictor(network, inputs, base, centre, _or_one(spread), known)


def network_of(
    inputs: Inputs, hidden: tuple[int, ...], own: Any, shape: tuple[int, int], seed: int
) -> networks.Network:
    """Dense layers, or the user's own; shape: (P, K)."""
    outputs = shape[0] * shape[1]
    if own is not None:
        return networks.given(own, inputs, outputs)
    return networks.dense(inputs, hidden, shape[1], outputs, seed)


def _or_one(spread: np.ndarray) -> np.ndarray:
    return np.where(spread > 0, spread, 1.0)


def _difficulty(
    predictor: Predictor, params: Any, watched: Lesson
) -> tuple[np.ndarray, tuple[float, float]]:
    """(the line, between which heights it stays), by the errors of the validation rows."""
    told = predictor.told(params, watched.read, watched.full)
    flat = np.zeros(1 + told.shape[1])
    found, _ = predictor.of(params, flat, watched.read, watched.full)
    errors = errors_of(found, watched.values)
    line = difficulty_line(told, errors, float(predictor.scale.max()))
    heights = line[0] + told @ line[1:]
    return line, (float(heights.min()), float(heights.max()))


def _judged(found: np.ndarray, wanted: np.ndarray) -> Mapping[str, float]:
    """How good the values [n, P, K] of the judge's rows are."""
    wrong = float(((found - wanted) ** 2).sum())
    spread = float(((wanted - wanted.mean(axis=0)) ** 2).sum())
    size = float((wanted**2).sum())
    return {
        "r2": 1 - wrong / spread if spread > 0 else float("nan"),
        "relative_error": wrong / size if size > 0 else float("nan"),
    }


def _seconds_of_explaining(question: Question, rows: Any) -> float:
    """Of one row, once all is compiled, in one call of the explainer as a person makes it.

    Not by the labels: these are made in groups, and with all that is done once. More rows are
    asked until a call takes long enough to be timed.
    """
    N, count = count_of(rows), min(count_of(rows), 64)
    while True:
        some = rows_between(rows, slice(0, count))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", XaiWarning)  # it has been said
            question.explained(some, False)
            seconds = question.explained(some, False).seconds
        if seconds >= TIMED or count == N:
            return seconds / count
        count = min(N, 4 * count)


def _seconds_of_use(
    question: Question, predictor: Predictor, params: Any, line: np.ndarray, rows: Any
) -> float:
    """The same by the network, with f(x)."""
    rows = rows_between(rows, slice(0, min(count_of(rows), PIECE)))
    question.answers(rows)
    started = time.perf_counter()
    read = predictor.inputs.read(rows)
    predictor.of(params, line, read, question.answers(rows))
    return (time.perf_counter() - started) / len(read)
