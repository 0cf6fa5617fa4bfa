"""An estimator that JAX runs: its translation as a model, compared with the estimator itself.

Letters: M rows, R rows in a call, K outputs, F columns.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from xaijax.core.errors import InputError
from xaijax.models.asking.predict import run_jax
from xaijax.models.base import options
from xaijax.models.base.source import DECIDED
from xaijax.models.base.trace import DTYPES
from xaijax.models.identity.fit_stamp import Stamp
from xaijax.models.identity.patched import chosen, is_own, of_sklearn, patched
from xaijax.models.translations import families as families  # registers those of this library
from xaijax.models.translations.columns import Centre, Reader
from xaijax.models.translations.registry import Head, Translation, translated
from xaijax.tables.rows import rows_of
from xaijax.tables.same_memory import hash_of_numbers
from xaijax.tables.table import Untranslatable

# A background is asked about by many explainers, and the estimator's own answers to it may take
# longer than an explanation.

MOST = 1 << 12  # keys; the oldest goes
LIBRARIES = ("sklearn", "numpy", "scipy")


class Agreed:
    """The hashes of these rows, of one translation and one fit."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, bool] = {}  # whether labels were compared as well

    def key(self, centred: bool, kinds: list[Any]) -> Hashable:
        """What rows of these kinds are known by; None: they are compared each time.

        centred: which translation is compared, see `centre.py`. The rows' own numbers, not as JAX
        reads them: the estimator may tell two numbers apart that float32 does not. Taken before the
        estimator is asked, which may write into its rows.
        """
        hashes = [hash_of_numbers(rows) for rows in kinds]
        return None if None in hashes else (centred, *hashes)

    def holds(self, key: Hashable, labels: bool) -> bool:
        """Whether these rows agreed, in their labels too if these are requested."""
        return key in self._keys and (self._keys[key] or not labels)

    def clear(self) -> None:
        """Compare all rows again."""
        self._keys.clear()

    def add(
        self, key: Hashable, labels: bool, stamp: Stamp | None, spread: np.ndarray | None
    ) -> None:
        """These rows agreed, within a share of this spread of the answers.

        Not kept where the spread is 0, which accepts more than a later one may, nor where a class
        of somebody else's takes part, whose state may lie where no stamp sees it.
        """
        told = spread is not None and bool((spread > 0).all())
        if key is None or not told or stamp is None or not stamp.made_by(LIBRARIES):
            return
        self._keys[key] = labels or self._keys.get(key, False)
        if len(self._keys) > MOST:
            del self._keys[next(iter(self._keys))]


METHODS = {"proba": "predict_proba", "decision": "decision_function"}
COMPARED = 128  # rows of each kind (background, instances) that both are asked for at first
AT_ONCE = 8192  # of the others, all of which follow before they are explained
BLOCK, MANY = 256, 8192  # rows of the program that compared the first; beyond which others pay


@dataclass(frozen=True)
class InJax:
    """A translated estimator, before an output is chosen."""

    translation: Translation
    reader: Reader
    heads: dict[str, Head]  # by the words of `output=`
    decide: Head | None  # the decided class, as a place among the classes [R]
    offset: np.ndarray | None = None  # what "value" is short of, float64 [] or [K]


def in_jax(
    estimator: Any,
    name: str,
    classes: tuple[Any, ...] | None,
    names: Any,
    precision: str,
    centre: Centre | None = None,
) -> InJax:
    """Translate a fitted estimator; raises Untranslatable with the reason."""
    dtype = np.dtype(DTYPES[precision])
    changed = patched(estimator)
    if changed is not None:
        raise Untranslatable(f"{changed}, and a translation is of the class as it was written")
    found, sources = translated(estimator, names, dtype, centre)
    reader = Reader(sources, dtype, name)
    heads = {word: head for word, head in found.heads.items() if word in (*METHODS, "value")}
    decide = found.heads.get("label")
    if decide is not None and classes is not None:
        if all(isinstance(label, bool | int | float) for label in classes):
            labels = np.array([float(label) for label in classes], dtype)
            place = decide
            heads["label"] = lambda params, rows: jnp.asarray(labels)[place(params, rows)]
    if "decision" in heads and classes is not None and len(classes) == 2:
        decision = heads["decision"]
        heads["columns"] = lambda params, rows: _both(decision(params, rows))
    if decide is not None and classes is not None and not heads.keys() & METHODS.keys():
        heads[DECIDED] = lambda params, rows: jax.nn.one_hot(decide(params, rows), len(classes))
    offset = centre.answer if centre is not None and centre.taken else None
    return InJax(found, reader, heads, decide, offset)


def head_of(found: InJax, word: str, estimator: Any) -> Head:
    """What answers one word of `output=`; raises Untranslatable where scikit-learn alone can."""
    if word in found.heads:
        return found.heads[word]
    name = type(estimator).__name__
    if word == "label":
        raise Untranslatable(f"class labels of {name} that are no numbers have no place in JAX")
    raise Untranslatable(f"{METHODS.get(word, 'predict')} of {name} has no translation")


def _both(decision: Any) -> Any:
    """A binary decision [R] as a column per class."""
    return jnp.stack([-decision, decision], axis=1)


Made = tuple[InJax, Callable[..., Any]]  # a translation, and its head as `Comparison.head`


@dataclass(frozen=True)
class _Asked:
    """Rows that both are asked for, and what the estimator says of them."""

    kinds: list[Any]  # rows of each kind, as the estimator takes them
    wanted: np.ndarray  # its answers to all of them, float64 [M] or [M, K]
    own: Callable[[], list[Any]] | None  # its labels for all of them; None: not compared


@dataclass
class Comparison:
    """Which of the two answers: JAX, until an answer differs or rows do not fit it.

    Where rounding is the difference, the translation is made once more for less than the whole
    numbers (`centre`), and answers where that one agrees.

    Shared by all copies of a model, so that each says the same in its repr.
    """

    found: InJax
    head: Callable[..., Any]  # (params, rows [R, F]) -> scores, as the model is made of them
    original: Callable[..., Any]  # rows -> the same of the estimator
    decide: Callable[..., Any] | None  # rows -> the estimator's own labels
    classes: tuple[Any, ...] | None
    forced: bool  # backend="jax" was said: a difference is an error
    name: str
    recentre: Callable[[Centre], Made] | None = None  # raises Untranslatable
    estimator: Any = None  # whose translation it is
    stamp: Stamp | None = None  # of its state when it was translated
    keeps_asked: bool = False  # its state changes when it is asked, as `settle` saw
    reason: str | None = None  # why the host answers; None: JAX does
    centred: Made | None = None  # what answers in JAX in place of `found`
    done: bool = False
    labels_done: bool = False  # labels of some rows were compared
    spread: np.ndarray | None = None  # of the answers compared so far, [] or [K]
    agreed: Agreed = field(default_factory=Agreed)  # rows that need no comparison any more
    compiled: dict[Any, Any] = field(default_factory=dict)

    @property
    def decided(self) -> bool:
        """Whether rows have shown how far answers are apart, which rounding is measured by.

        Until then (one row to predict, or equal ones) the estimator answers, unless JAX was said.
        """
        return self.done or self.forced

    def refuse_changed(self) -> None:
        """Raise InputError where the estimator has changed since it was translated.

        What is made of a translation (programs, tables, remembered answers) is of the fit that it
        had; where the estimator itself answers, it is asked as it is.
        """
        if self.reason is None and self.stamp is not None:
            if Stamp(self.estimator) != self.stamp:
                raise InputError(
                    f"{self.name} has changed since as_model translated it to JAX: it was fitted "
                    f"again, or what it holds was assigned. Wrap it anew with as_model, and make "
                    f"explainers of the new model; backend='host' asks it as it is at each call."
                )

    def settle(self, rows: tuple[Any, ...], labels: bool = False) -> None:
        """Compare the two on the first rows of each kind, as the estimator takes them; labels:
        their labels as well.

        One kind alone (rows to predict) is no comparison as long as their answers are all alike.

        Raises InputError for a difference where backend="jax" was said, and what the estimator
        itself raises.
        """
        if self.reason is not None or not rows:
            return
        self.refuse_changed()
        self._settle(rows, labels)
        if self.stamp is not None:
            # An estimator of one's own may keep what it was asked: that is no change of its fit.
            after = Stamp(self.estimator)
            self.keeps_asked |= after != self.stamp
            self.stamp = after
        if self.keeps_asked:
            self.agreed.clear()

    def _settle(self, rows: tuple[Any, ...], labels: bool) -> None:
        some = [rows_of(kind).part(0, COMPARED) for kind in rows]
        now = self.centred or (self.found, self.head)
        key = self.agreed.key(now[0] is not self.found, some)
        if self.agreed.holds(key, labels):
            return
        try:
            # What does not fit is known before the estimator is asked.
            codes = np.concatenate([now[0].reader.codes(kind) for kind in some])
            answers = [self._own(kind) for kind in some]
            own = functools.cache(lambda: self._labels(some)) if labels else None
            asked = _Asked(some, np.concatenate(answers), own)
            reason = self._wrong(now, asked, codes)
            if reason is not None and self.centred is None and self.recentre is not None:
                made = self.recentre(self._centre(some[0], answers[0]))
                if made[0].offset is not None or made[0].reader.shifted:
                    codes = np.concatenate([made[0].reader.codes(kind) for kind in some])
                    if self._wrong(made, asked, codes) is None:
                        self.centred, reason = made, None
        except Untranslatable as error:
            reason = f"{error}"
        if reason is not None:
            self.to_host(reason)
            return
        self.labels_done |= labels
        if self.centred is None or self.centred is now:  # else another translation agreed
            self.agreed.add(key, labels, self.stamp, self.spread)

    def hold(
        self,
        rows: Any,
        codes: np.ndarray,
        first: int,
        shared: bool = False,
        labels: bool = False,
    ) -> None:
        """Compare the two on all rows from `first` on, as they are explained; codes are theirs;
        labels: their labels as well.

        The estimator is asked for AT_ONCE rows a call. Where one differs the estimator answers from
        now on, with the reason; raises what `settle` raises. shared: the rows are a background;
        those that agree are not compared again, whoever asks about them.
        """
        if self.reason is not None or first >= len(codes):
            return
        made = self.centred or (self.found, self.head)
        for start in range(first, len(codes), AT_ONCE):
            some = rows_of(rows).part(start, min(start + AT_ONCE, len(codes)))
            own = codes[start : start + AT_ONCE]
            kinds = [some]
            key = self.agreed.key(made[0] is not self.found, kinds)
            if self.agreed.holds(key, labels):
                continue
            own_labels = (lambda kinds=kinds: self._labels(kinds)) if labels else None
            asked = _Asked(kinds, self._own(some), own_labels)
            ties = made[0].translation.undecided
            sure = np.ones(len(own), bool) if ties is None else ~ties(own)
            reason = None if sure.all() or self.forced else self._hangs(~sure, "rows")
            reason = reason or self._difference(made, asked, own, sure)
            if reason is not None:
                self.to_host(reason)
                return
            if shared and not self.keeps_asked:
                self.agreed.add(key, labels, self.stamp, self.spread)
        if self.stamp is not None and self.keeps_asked:
            self.stamp = Stamp(self.estimator)

    def _answers(self, key: str, function: Any, params: Any, codes: np.ndarray) -> np.ndarray:
        """A function of the translation, in float64: few rows by the program that compared the
        first, so that nothing more is compiled for them.
        """
        step = len(codes) if len(codes) > MANY or len(codes) <= BLOCK else BLOCK
        parts = [codes[i : i + step] for i in range(0, len(codes), step)]
        if len(parts) > 1:
            parts[-1] = np.pad(parts[-1], ((0, step - len(parts[-1])), (0, 0)), mode="edge")
        found = [run_jax(self.compiled, key, function, params, part) for part in parts]
        return np.concatenate(found)[: len(codes)]

    def _centre(self, rows: Any, answers: np.ndarray) -> Centre:
        """The middle of these rows; of answers that are not all finite, of those that are."""
        finite = answers[np.isfinite(answers).reshape(len(answers), -1).all(axis=1)]
        middle = finite.mean(axis=0) if len(finite) else np.zeros(answers.shape[1:])
        return Centre(self.found.reader.middle(rows), np.asarray(middle))

    def _wrong(self, made: Made, asked: _Asked, codes: np.ndarray) -> str | None:
        """Why this translation cannot answer; None: it can."""
        ties = made[0].translation.undecided
        sure = np.ones(len(codes), bool) if ties is None else ~ties(codes)
        if not (sure.all() or self.forced):
            return self._hangs(~sure, "rows")
        reason = self._difference(made, asked, codes, sure)
        if reason is None and ties is not None and not self.forced:
            tied = ties(hybrids(codes, COMPARED))
            reason = self._hangs(tied, "hybrids of the first rows") if tied.any() else None
        return reason

    def _hangs(self, ties: np.ndarray, of: str) -> str:
        return (
            f"in {int(ties.sum())} of {len(ties)} {of} the answer of {self.name} hangs on which of "
            "equally near neighbours its search meets first"
        )

    def to_host(self, reason: str) -> None:
        """Let the estimator itself answer from now on; an InputError where that is refused."""
        if self.forced:
            raise InputError(
                f"backend='jax' is not available for {self.name}: {reason}. Say backend='auto' or "
                f"'host', or precision='float64' where rounding is the reason."
            )
        self.reason = reason

    def _own(self, rows: Any) -> np.ndarray:
        """The estimator's own answers, float64 [M] or [M, K]; it may write into what it is given
        (`copy=False`), and the next answer may be in the place of this one.
        """
        wanted = np.array(self.original(rows_of(rows).copy()), np.float64)
        return wanted[:, 0] if wanted.ndim == 2 and wanted.shape[1] == 1 else wanted

    def _labels(self, kinds: list[Any]) -> list[Any]:
        """The estimator's own labels."""
        assert self.decide is not None
        own = [self.decide(rows_of(rows).copy()) for rows in kinds]
        return [label for some in own for label in np.asarray(some).tolist()]

    def _difference(
        self, made: Made, asked: _Asked, codes: np.ndarray, sure: np.ndarray
    ) -> str | None:
        """How the two differ; None: they agree. sure: rows whose answers are compared."""
        (of, head), wanted, alone = made, asked.wanted, len(asked.kinds) == 1
        params, together = of.translation.params, self.classes is not None
        which = "" if of is self.found else ", centred"
        less = 0.0 if of.offset is None else of.offset
        found = self._answers("head" + which, head, params, codes) + less
        spread = spread_of(wanted, together)
        if self.spread is not None:
            spread = np.maximum(spread, self.spread)
        elif found.shape == wanted.shape and (len(codes) < FEW or not spread.all()):
            # As many as were answered, so that one shape is compiled.
            mixed = hybrids(codes, max(FEW, 1 << (len(codes) - 1).bit_length()))
            answers = run_jax(self.compiled, "head" + which, head, params, mixed)
            spread = np.maximum(spread, spread_of(answers.astype(np.float64), together))
        self.done |= not alone or len(codes) >= FEW or bool(spread.all())
        tolerance = tolerance_of(wanted, spread, codes.dtype, alone)
        difference = differs(found[sure], wanted[sure], tolerance)
        if difference is not None:
            apart = "" if "shape" in difference else f" (these are {spread.max():.3g} apart)"
            return f"the JAX translation differs from {self.name} {difference}{apart}"
        self.spread = spread  # of a translation that is left nothing is kept
        if of.decide is None or self.decide is None or asked.own is None:
            return None
        places = self._answers("label" + which, of.decide, params, codes)
        assert self.classes is not None
        own = np.array([self.classes.index(label) for label in asked.own()])
        wrong = (places != own) & sure & ~_near_tie(wanted, tolerance.max())
        if wrong.any():
            many = f"{int(wrong.sum())} of {len(wrong)}"
            return f"the JAX translation decides another class than {self.name} in {many} rows"
        return None


def differs(found: np.ndarray, wanted: np.ndarray, tolerance: Any) -> str | None:
    """How two answers to the same rows differ beyond the tolerance; None: they do not."""
    if found.shape != wanted.shape:
        return f"in shape: {found.shape} in place of {wanted.shape}"
    found = found.astype(np.float64)
    same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.abs(found - wanted))
    wrong = ~(off <= tolerance)
    if not wrong.any():
        return None
    rows = int(wrong.reshape(len(wrong), -1).any(axis=1).sum())
    return f"by up to {off[wrong].max():.3g} in {rows} of {len(wanted)} rows"


def _near_tie(scores: np.ndarray, tolerance: Any) -> np.ndarray:
    """Rows whose class hangs on rounding: the two largest scores, or the one and 0; bool [M]."""
    if scores.ndim == 1:
        return np.abs(scores) <= 2 * tolerance
    largest = np.sort(scores, axis=1)[:, -2:]
    return largest[:, 1] - largest[:, 0] <= 2 * tolerance


def check_version(estimator: Any, name: str) -> None:
    """Refuse an estimator that another version of scikit-learn fitted, as far as that can be told.

    Loading one warns and keeps no trace in it; but one restored without that keeps its version, and
    one of another version mostly lacks a parameter of this one.
    """
    from sklearn import __version__ as here  # noqa: PLC0415

    remedy = (
        "Fit it again with this version, or install that one: fitted numbers may mean another "
        "thing, or nothing."
    )
    for one in _parts(estimator):
        if not of_sklearn(type(one)) or not hasattr(one, "__dict__"):
            continue
        kind = type(one).__name__
        there = vars(one).get("_sklearn_version", here)
        if there != here:
            raise InputError(
                f"f= must be fitted by the scikit-learn that is installed, {here}; {kind} of "
                f"{name} was fitted by {there}. {remedy}"
            )
        missing = sorted(set(type(one)._get_param_names()) - set(vars(one)))
        if missing:
            raise InputError(
                f"f= must be fitted by the scikit-learn that is installed, {here}; {kind} of "
                f"{name} lacks its parameter {options.came(missing[0])}, so another version "
                f"fitted it. {remedy}"
            )


def _flat(parts: Any) -> Iterator[Any]:
    """The members of an ensemble: a list, an array [trees, K], lists of these. A member with a
    length of its own, a forest or a Pipeline, is one member.
    """
    if isinstance(parts, np.ndarray):
        yield from parts.ravel()
    elif isinstance(parts, (list, tuple)):
        for part in parts:
            yield from _flat(part)
    else:
        yield parts


def _of_parts(kind: type) -> bool:
    """Whether scikit-learn fits the `estimators_` of this class of its own."""
    return kind.__module__.split(".")[1] in ("ensemble", "multiclass", "multioutput")


def _parts(estimator: Any) -> list[Any]:
    """The estimator, the steps of a Pipeline or ColumnTransformer, the parts of an ensemble."""
    steps = []
    if is_own(estimator, "ColumnTransformer"):
        steps += [step for _, step, *_ in getattr(estimator, "transformers_", ())]
    if chosen(estimator) is not estimator:
        steps.append(chosen(estimator))
    if is_own(estimator, "Pipeline"):
        steps += [step for _, step in estimator.steps]
    if any(of_sklearn(base) and _of_parts(base) for base in type(estimator).__mro__):
        steps += list(_flat(getattr(estimator, "estimators_", ())))
    inner = [part for step in steps if hasattr(step, "_get_param_names") for part in _parts(step)]
    return [estimator, *inner]


# An explanation is made of differences between answers, so what counts is not how large they are
# but how far they are apart: beside 1e6 a float32 is right to 0.06, which is nothing to an answer
# and everything to the difference of two.

SHARE = 1e-5  # of the spread; float32 leaves 1e-7 to 1e-6 of it where no digits are lost
FEW = 16  # rows, of which some are like each other by chance: hybrids of them count too
# The same sum of n terms differs by about sqrt(n) roundings of its largest partial sum when it is
# taken in another order or precision: 2**10 roundings allow for sums of 2**20 terms. In float64
# that is less than the share of any spread that float32 could show.
ROUNDINGS = 2.0**10


def spread_of(answers: np.ndarray, together: bool) -> np.ndarray:
    """The largest less the smallest of finite answers [M] or [M, K]; [] or [K].

    together: one spread for all columns, the largest, since they are made of the same sums (the
    chances of classes: of a class that these rows do not show there is no spread to speak of).
    """
    spread = np.ptp(_finite(answers), axis=0) if len(_finite(answers)) else np.zeros(1)
    return np.full_like(spread, spread.max()) if together else spread


def rounding_of(answers: np.ndarray, dtype: Any) -> float:
    """What two roundings in the dtype may differ by, at the size of the largest answer."""
    return ROUNDINGS * float(np.finfo(dtype).eps) * np.abs(_finite(answers)).max(initial=0.0)


def tolerance_of(
    answers: np.ndarray, spread: np.ndarray, dtype: Any, alone: bool = False
) -> np.ndarray:
    """How far a translation may be from the answers [M] or [M, K]; [] or [K].

    The share of the spread; where there is none, a few roundings of float64, in which the estimator
    answers. alone: rows without a spread say nothing yet, and roundings of the dtype are accepted.
    """
    few = 4 * np.finfo(np.float64).eps * np.abs(_finite(answers)).max(initial=0.0)
    rounding = rounding_of(answers, dtype)
    nothing = rounding if alone else few
    return np.where(spread > 0, np.minimum(np.maximum(SHARE * spread, few), rounding), nothing)


def hybrids(codes: np.ndarray, count: int) -> np.ndarray:
    """Rows [count, F] of which each column is taken from any row of codes [M, F]."""
    rng = np.random.default_rng(0)
    return codes[rng.integers(0, len(codes), (count, codes.shape[1])), np.arange(codes.shape[1])]


def _finite(answers: np.ndarray) -> np.ndarray:
    return answers[np.isfinite(answers).reshape(len(answers), -1).all(axis=1)]
