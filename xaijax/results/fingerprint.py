"""`Fingerprint`: identifies the model, the rows and the question of values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from xaijax.core.errors import InputTypeError
from xaijax.core.facts import FUNCTIONS
from xaijax.core.public import public_class

if TYPE_CHECKING:
    from xaijax.results.explanation import Explanation
    from xaijax.results.interactions import Interactions

# Facts of the provenance that define a score.
SCORE = ("outcome", "positive", "bounds", "signed", "difference", "floor")
# Facts that define what a number is an amount of.
AMOUNT = ("quantity", "quantity_words", "link", *SCORE, "threshold", "absolute")
# Facts that make two results answers to one question.
QUESTION = (
    *"selected_output player_columns method path steps quantity link index_weights".split(),
    *"levels replacement background_rows weights guests reference end_weight".split(),
    *SCORE,
    *"intervention pool_rows pool_weights scheme threshold absolute".split(),
)
FEWER_DIGITS = ("tf32", "bfloat16")  # precisions of products, among a model's versions
# Entries of stats that hold what each field of a fingerprint was read from.
ENTRIES = {"rows": "fingerprint", "model": "model_fingerprint"}


@public_class
@dataclass(frozen=True, eq=False)
class Fingerprint:
    """Identifies what values answer: the model, the rows that they are relative to, the question.

    Two results with equal fingerprints answer one question, and `xaijax.merge` joins them. The
    explained instances are not part of it, nor are the estimator, the seed, the budget or the batch
    size. `explainer.fingerprint(X)` is known before anything is explained,
    `explanation.fingerprint` afterwards; a saved explanation keeps it.

    Two fingerprints are equal (`==`) if `why_not` finds no difference. A model or rows unknown to
    one of them are not compared. Equality is therefore not transitive: of three fingerprints only
    two pairs may be equal.

    Attributes:
        question: mapping. Facts of the provenance that say what a value is (link, index weights,
            replacement, players' columns and others), and the names of players and outputs.
        rows: str or None. Digest of the background or pool rows, their weights, and the functions
            given (link, difference, score). None: it is not known, as for `FederatedExplainer`.
        model: tuple of str. Digests of the model, each "kind versions: digest"; several for parts
            that ran under several versions. Digests of different versions are not compared. Empty:
            the model cannot be read, such as an estimator of another library.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> model, rows = xj.as_model(lambda X: X[:, 0] * X[:, 1]), np.ones((2, 3))
        >>> plain = xj.Explainer(model, np.zeros((1, 3)))
        >>> banzhaf = xj.Explainer(model, np.zeros((1, 3)), index="banzhaf")
        >>> plain(rows).fingerprint == plain.fingerprint(rows)
        True
        >>> plain.fingerprint(rows).why_not(banzhaf.fingerprint(rows))
        ['kind', 'index_weights']
    """

    question: Mapping[str, Any] = field(default_factory=dict)
    rows: str | None = None
    model: tuple[str, ...] = ()

    def why_not(self, other: Fingerprint) -> list[str]:
        """Names the fields in which two fingerprints differ.

        Args:
            other: a `Fingerprint`.

        Returns:
            A list of str: facts of the question, "rows" and "model". Empty if they are equal.

        Raises:
            InputTypeError: `other` is not a Fingerprint.
        """
        if not isinstance(other, Fingerprint):
            raise InputTypeError(f"other: got {type(other).__name__}, not a Fingerprint.")
        facts = dict.fromkeys([*self.question, *other.question])
        differ = [f for f in facts if not equal(self.question.get(f), other.question.get(f))]
        digests = why_not(self.digests(), other.digests())
        return differ + list(dict.fromkeys(name.partition(" ")[0] for name in digests))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fingerprint) and not self.why_not(other)

    __hash__ = None  # type: ignore[assignment]

    def digests(self) -> dict[str, str]:
        """Returns the digests that distinguish rows and models, by what they can be compared with.

        "model" is how a model was read, by JAX or as an estimator of scikit-learn, and whether its
        products have fewer digits than float32. A function may be called by both, and has no such
        entry. Its digest is under "model" and the versions that it depends on.
        """
        digests = {} if self.rows is None else {"rows": self.rows}
        for text in self.model:
            versions, _, digest = text.rpartition(":")
            digests[f"model {versions}"] = digest
            kind, *words = versions.split(" ")
            if kind != "python":
                digests["model"] = " ".join([kind, *(w for w in words if w in FEWER_DIGITS)])
        return digests


def fingerprint_of(
    stats: Mapping[str, Any], provenance: Mapping[str, Any] | None = None, **fields: Any
) -> Fingerprint:
    """Returns the fingerprint in a run's stats and provenance.

    fields: those of the result that belong to its question.
    """
    facts = {fact: (provenance or {}).get(fact) for fact in QUESTION}
    facts = fields | {"outputs": True if "outputs" in stats else None} | facts
    question = {fact: value for fact, value in facts.items() if value is not None}
    rows = _texts(stats.get("fingerprint"))
    model = _texts(stats.get("model_fingerprint"))
    return Fingerprint(question, rows[-1] if rows else None, tuple(dict.fromkeys(model)))


def output_names(names: tuple[str, ...] | None, K: int) -> tuple[str, ...] | None:
    """Returns the names of a result's K outputs; None: it has one output."""
    return None if K == 1 else names or tuple(f"output {k}" for k in range(K))


def of_result(result: Explanation | Interactions, *fields: str) -> Fingerprint:
    """Returns the fingerprint of a result.

    fields: those that belong to its question, in addition to the names of players and outputs.
    """
    names = ("feature_names", "output_names", *fields)
    return fingerprint_of(result.stats, result.provenance, **{n: getattr(result, n) for n in names})


def functions_in(stats: Mapping[str, Any]) -> dict[str, str]:
    """Returns the digests of the user's functions, by what each one is: a link, a difference."""
    known = {key: stats.get(key) for key in FUNCTIONS}
    return {k.removesuffix("_fingerprint"): text for k, text in known.items() if text is not None}


def why_not(
    mine: Mapping[str, Any], other: Mapping[str, Any], fields: Iterable[str] | None = None
) -> Iterator[str]:
    """Yields the fields that both know and in which they differ; fields: None compares all."""
    for name in mine if fields is None else fields:
        if name in mine and name in other and not equal(mine[name], other[name]):
            yield name


def equal(a: Any, b: Any) -> bool:
    """Returns whether two facts are the same; NaN equals NaN."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        same_form = np.shape(a) == np.shape(b)
        return same_form and bool(np.all((a == b) | ((a != a) & (b != b))))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b) or bool(a != a and b != b)


def _texts(known: Any) -> list[str]:
    several = known if isinstance(known, list | tuple) else (known,)
    return [text for text in several if isinstance(text, str)]
