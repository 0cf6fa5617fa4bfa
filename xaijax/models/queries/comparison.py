"""Compares a translation, or a module bridged to JAX, with the model itself.

Letters: M rows, R rows in a call, K outputs, F columns.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from xaijax.core.compiler import compile_sound
from xaijax.core.errors import InputError, ModelOutputError
from xaijax.models.identity.fit_fingerprint import FitFingerprint
from xaijax.models.queries.predict import run_jax
from xaijax.models.queries.probe import gap_of
from xaijax.models.translations import families as families  # registers those of this library
from xaijax.models.translations.columns import Centre
from xaijax.models.translations.in_jax import InJax, Made
from xaijax.tables.rows import rows_of
from xaijax.tables.same_memory import hash_of_numbers
from xaijax.tables.table import Untranslatable

if TYPE_CHECKING:
    from xaijax.models.model import Model

# Many explainers share a background, and evaluating it by the estimator may take longer than an
# explanation.

MOST = 1 << 12  # maximum number of keys; the oldest is dropped
LIBRARIES = ("sklearn", "numpy", "scipy", "xgboost", "lightgbm", "catboost")


class Agreed:
    """Hashes of rows that agreed, for one translation and one fit."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}

    def key(self, centred: bool, kinds: list[Any], labels: bool = False) -> Hashable:
        """Key of rows of these kinds; None: they are compared each time.

        centred: which translation is compared, see `Centre`. labels: whether labels are compared as
        well. The rows are hashed in their own dtype, because the estimator may distinguish two
        numbers that are equal in float32. Compute it before the estimator is called, which may
        write into its rows.
        """
        hashes = [hash_of_numbers(rows) for rows in kinds]
        return None if None in hashes else (centred, labels, *hashes)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def clear(self) -> None:
        """Forgets all rows, so that they are compared again."""
        self._keys.clear()

    def add(self, key: Hashable, fit: FitFingerprint | None, spread: np.ndarray | None) -> None:
        """Stores rows that agreed within a share of this spread of the outputs.

        Rows are not stored if the spread is 0, whose tolerance may be larger than a later one, or
        if a class of another library is involved, whose state a fingerprint may not see.
        """
        wide = spread is not None and bool((spread > 0).all())
        if key is None or not wide or fit is None or not fit.made_by(LIBRARIES):
            return
        self._keys[key] = None
        if isinstance(key, tuple) and key[1]:  # they agreed without labels, too
            self._keys[(key[0], False, *key[2:])] = None
        while len(self._keys) > MOST:
            del self._keys[next(iter(self._keys))]


COMPARED = 128  # rows of each kind (background, instances) that are compared first
AT_ONCE = 8192  # rows per call of the others, all compared before they are explained
# Rows of a call of the program that compared the first rows, and rows up to which it is used again.
BLOCK, MANY = 256, 8192


@dataclass
class TranslationCheck:
    """Compares a translation with its estimator, and decides which of them runs; see `resolve`.

    JAX runs first. If the difference may be rounding, the translation is made again for numbers and
    outputs minus their centre (`Centre`), and used if it agrees. Otherwise the estimator runs from
    then on. All copies of a model share this object, so that they agree.
    """

    in_jax: InJax
    head: Callable[..., Any]  # (params, rows [R, F]) -> scores of the model
    original: Callable[..., Any]  # rows -> scores of the estimator
    decide: Callable[..., Any] | None  # rows -> the estimator's own labels
    classes: tuple[Any, ...] | None
    forced: bool  # backend="jax" was given: a difference is an error
    name: str
    recentre: Callable[[Centre], Made] | None = None  # raises Untranslatable
    estimator: Any = None  # the translated estimator
    precision: str = "float32"  # of the translation's products
    fingerprint: FitFingerprint | None = None  # fingerprint when it was translated
    changes_when_called: bool = False  # its state changes when it is called
    reason: str | None = None  # why the host runs; None: JAX does
    centred: Made | None = None  # the translation used instead of `in_jax`
    done: bool = False  # rows have shown the spread of the outputs
    labels_done: bool = False  # whether labels were compared
    spread: np.ndarray | None = None  # spread of the outputs compared so far, [] or [K]
    agreed: Agreed = field(default_factory=Agreed)  # rows that need no further comparison
    compiled: dict[Any, Any] = field(default_factory=dict)

    def check_fit(self) -> None:
        """Raises InputError if the estimator has changed since it was translated.

        Programs, tables and caches of a translation belong to its fit. An estimator that runs
        itself is called in its current state.
        """
        held = self.reason is None and self.fingerprint is not None
        if held and FitFingerprint(self.estimator) != self.fingerprint:
            raise InputError(
                f"{self.name} has changed since as_model translated it to JAX: it was fitted "
                f"again, or what it holds was assigned. Wrap it anew with as_model, and make "
                f"explainers of the new model; backend='host' asks it as it is at each call."
            )

    def fall_back(self, reason: str) -> None:
        """Uses the estimator from now on; raises InputError if backend="jax" was given."""
        if self.forced:
            raise InputError(
                f"backend='jax' is not available for {self.name}: {reason}. Say backend='auto' or "
                f"'host', or precision='float64' if rounding is the reason."
            )
        self.reason = reason

    def compare_first(self, kinds: tuple[Any, ...], labels: bool = False) -> None:
        """Compares the two on the first rows of each kind, in the estimator's form.

        labels: whether labels are compared as well. One kind alone (rows to predict) proves nothing
        while all its outputs are equal. Raises InputError for a difference if backend="jax" was
        given, and the estimator's exceptions.
        """
        if self.reason is not None:
            return
        samples = [rows_of(kind).part(0, COMPARED) for kind in kinds]
        now = self.centred or (self.in_jax, self.head)
        key = self.agreed.key(now[0] is not self.in_jax, samples, labels)
        if key in self.agreed:
            return
        reason = self._wrong_first(now, samples, labels)
        if reason is not None:
            self.fall_back(reason)
        else:
            self.labels_done |= labels
            if self.centred is None or self.centred is now:  # else another one agreed
                self.agreed.add(key, self.fingerprint, self.spread)
        if self.fingerprint is not None:
            # A user's estimator may record its calls: that is no change of its fit.
            after = FitFingerprint(self.estimator)
            self.changes_when_called |= after != self.fingerprint
            self.fingerprint = after
        if self.changes_when_called:
            self.agreed.clear()

    def _wrong_first(self, now: Made, kinds: list[Any], labels: bool) -> str | None:
        """The reason why neither this translation nor a centred one agrees; None: one of them
        does."""
        try:
            # Rows that do not fit are known before the estimator is called.
            codes = np.concatenate([now[0].reader.codes(kind) for kind in kinds])
            answers = [self._host(kind) for kind in kinds]
            wanted, alone = np.concatenate(answers), len(kinds) == 1
            wanted_labels = functools.cache(lambda: self._labels(kinds)) if labels else None
            reason = self._wrong(now, codes, wanted, wanted_labels, alone, hybrid=True)
            if reason is None or self.centred is not None or self.recentre is None:
                return reason
            made = self.recentre(self._centre(kinds[0], answers[0]))
            if made[0].offset is not None or made[0].reader.shifted:
                codes = np.concatenate([made[0].reader.codes(kind) for kind in kinds])
                if self._wrong(made, codes, wanted, wanted_labels, alone, hybrid=True) is None:
                    self.centred, reason = made, None
            return reason
        except Untranslatable as error:
            return f"{error}"

    def compare_all(
        self,
        rows: Any,
        codes: np.ndarray,
        first: int = 0,
        shared: bool = False,
        labels: bool = False,
    ) -> None:
        """Compares the two on all rows from `first` on; codes: of these rows.

        The estimator gets AT_ONCE rows per call. It runs from now on if one differs. shared: the
        rows are a background; rows that agree are not compared again by any explainer. Raises the
        errors of `compare_first`.
        """
        if self.reason is not None or first >= len(codes):
            return
        made = self.centred or (self.in_jax, self.head)
        for start in range(first, len(codes), AT_ONCE):
            chunk = rows_of(rows).part(start, min(start + AT_ONCE, len(codes)))
            key = self.agreed.key(made[0] is not self.in_jax, [chunk], labels)
            if key in self.agreed:
                continue
            wanted = self._host(chunk), functools.partial(self._labels, [chunk]) if labels else None
            reason = self._wrong(made, codes[start : start + AT_ONCE], *wanted, True)
            if reason is not None:
                self.fall_back(reason)
                return
            if shared and not self.changes_when_called:
                self.agreed.add(key, self.fingerprint, self.spread)
        if self.fingerprint is not None and self.changes_when_called:
            self.fingerprint = FitFingerprint(self.estimator)

    def _answers(self, key: str, function: Any, params: Any, codes: np.ndarray) -> np.ndarray:
        """Outputs of a function of the translation, in float64. A few rows use the program of
        the first comparison, so that nothing more is compiled.
        """
        step = len(codes) if len(codes) > MANY or len(codes) <= BLOCK else BLOCK
        parts = [codes[i : i + step] for i in range(0, len(codes), step)]
        if len(parts) > 1:
            parts[-1] = np.pad(parts[-1], ((0, step - len(parts[-1])), (0, 0)), mode="edge")
        answers = [run_jax(self.compiled, key, function, params, part) for part in parts]
        return np.concatenate(answers)[: len(codes)]

    def _centre(self, rows: Any, answers: np.ndarray) -> Centre:
        """The centre of these rows and of their finite outputs."""
        finite = answers[np.isfinite(answers).reshape(len(answers), -1).all(axis=1)]
        middle = finite.mean(axis=0) if len(finite) else np.zeros(answers.shape[1:])
        return Centre(self.in_jax.reader.middle(rows), np.asarray(middle))

    def _wrong(
        self,
        made: Made,
        codes: np.ndarray,
        wanted: np.ndarray,
        wanted_labels: Callable[[], list[Any]] | None,
        alone: bool,
        hybrid: bool = False,
    ) -> str | None:
        """The reason why this translation cannot be used; None: it can.

        wanted: the estimator's outputs for the rows, float64 [M] or [M, K]. wanted_labels: its
        labels; None: they are not compared. alone: the rows are of one kind. hybrid: mixtures of
        the rows must have no ties either.
        """
        ties = made[0].translation.undecided
        sure = np.ones(len(codes), bool) if ties is None else ~ties(codes)
        if not (sure.all() or self.forced):
            return self._hangs(~sure, "rows")
        reason = self._difference(made, codes, wanted, wanted_labels, alone, sure)
        if reason is None and hybrid and ties is not None and not self.forced:
            tied = ties(hybrids(codes, COMPARED))
            reason = self._hangs(tied, "hybrids of the first rows") if tied.any() else None
        return reason

    def _hangs(self, ties: np.ndarray, of: str) -> str:
        return (
            f"in {int(ties.sum())} of {len(ties)} {of} the answer of {self.name} depends on which "
            "of equally near neighbours its search meets first"
        )

    def _host(self, rows: Any) -> np.ndarray:
        """The estimator's outputs, float64 [M] or [M, K], copied. It gets a copy of the rows,
        because it may write into them (`copy=False`).
        """
        wanted = np.array(self.original(rows_of(rows).copy()), np.float64)
        return wanted[:, 0] if wanted.ndim == 2 and wanted.shape[1] == 1 else wanted

    def _labels(self, kinds: list[Any]) -> list[Any]:
        """The estimator's own labels."""
        assert self.decide is not None
        answers = [np.asarray(self.decide(rows_of(rows).copy())) for rows in kinds]
        return [label for answer in answers for label in answer.reshape(len(answer)).tolist()]

    def _difference(
        self,
        made: Made,
        codes: np.ndarray,
        wanted: np.ndarray,
        wanted_labels: Callable[[], list[Any]] | None,
        alone: bool,
        sure: np.ndarray,
    ) -> str | None:
        """The difference of the two in words; None: they agree. sure: rows that are compared."""
        of, head = made
        params, together = of.translation.params, self.classes is not None
        which = "" if of is self.in_jax else ", centred"
        less = 0.0 if of.offset is None else of.offset
        translated = self._answers("head" + which, head, params, codes) + less
        spread = spread_of(wanted, together)
        if self.spread is not None:
            spread = np.maximum(spread, self.spread)
        elif translated.shape == wanted.shape and (len(codes) < FEW or not spread.all()):
            # The same number of rows, so that one shape is compiled.
            mixed = hybrids(codes, max(FEW, 1 << (len(codes) - 1).bit_length()))
            answers = run_jax(self.compiled, "head" + which, head, params, mixed)
            spread = np.maximum(spread, spread_of(answers.astype(np.float64), together))
        self.done |= not alone or len(codes) >= FEW or bool(spread.all())
        tolerance = tolerance_of(wanted, spread, codes.dtype, alone, self.precision)
        difference = differs(translated[sure], wanted[sure], tolerance)
        if difference is not None:
            apart = "" if "shape" in difference else f" (these are {spread.max():.3g} apart)"
            return f"the JAX translation differs from {self.name} {difference}{apart}"
        self.spread = spread  # a dropped translation needs no cache
        if of.decide is None or self.decide is None or wanted_labels is None:
            return None
        places = self._answers("label" + which, of.decide, params, codes)
        assert self.classes is not None
        labels = np.array([self.classes.index(label) for label in wanted_labels()])
        wrong = (places != labels) & sure & ~_near_tie(wanted, tolerance.max())
        if wrong.any():
            many = f"{int(wrong.sum())} of {len(wrong)}"
            return f"the JAX translation decides another class than {self.name} in {many} rows"
        return None


@dataclass
class Bridged:
    """Compares a module bridged to JAX with the module itself, on all explained rows.

    The bridge was requested by backend="jax", so a difference is an error.
    """

    name: str
    head: Callable[..., Any]  # (params, rows) -> [M] or [M, K], traced
    params: Any
    original: Callable[[Any], np.ndarray]  # rows -> output of the module itself
    compiled: dict[Any, Any] = field(default_factory=dict)

    def compare_all(self, rows: Any) -> None:
        """Raises ModelOutputError if the two differ by more than the order of float32 sums."""
        every = rows_of(rows)
        for start in range(0, len(every), AT_ONCE):
            chunk = every.part(start, min(start + AT_ONCE, len(every)))
            wanted = np.asarray(self.original(chunk), np.float64)
            wanted = wanted[:, 0] if wanted.ndim == 2 and wanted.shape[1] == 1 else wanted
            traced = self._traced(chunk, len(wanted)).astype(np.float64)
            gap = gap_of(wanted.astype(np.float32), traced.astype(np.float32), wanted)
            if gap is not None:
                raise ModelOutputError(
                    f"backend='jax': {self.name} in JAX differs from the module's own "
                    f"answers by up to {gap[0]:.3g}, first in row {start + gap[1]}. Leave backend= "
                    "out: the module then runs on the host."
                )

    def _traced(self, rows: Any, count: int) -> np.ndarray:
        """The bridged module's output, [M] or [M, K]."""
        if hasattr(rows, "shape"):
            return run_jax(self.compiled, "head", self.head, self.params, rows)
        leaves = map(np.asarray, jax.tree.leaves(rows))
        name = ("tree", *((leaf.shape, str(leaf.dtype)) for leaf in leaves))
        if name not in self.compiled:
            self.compiled[name] = compile_sound(jax.jit(self.head).lower(self.params, rows))
        return np.asarray(self.compiled[name](self.params, rows))[:count]


def answering(model: Model, offsets: bool = True) -> Model:
    """The model that runs for this one, by its comparison so far.

    offsets: whether the caller adds `Model.offset` to the outputs; if not, the estimator runs for a
    translation that has one.
    """
    comparison, original = model.comparison, model.original
    if not isinstance(comparison, TranslationCheck) or original is None:
        return model
    if comparison.reason is not None:
        return original
    if comparison.centred is not None and model.recentred is not None:
        made = model.recentred(model, comparison.centred)
        if made.loop == "jax":
            programs = model.compiled.setdefault(("centred",), {})
            made = dataclasses.replace(made, recentred=None, compiled=programs)
        model = made
    return original if model.offset is not None and not offsets else model


class Answerer(NamedTuple):
    """The model that runs, and the rows in its form."""

    model: Model
    rows: Any


def resolve(
    model: Model,
    kinds: tuple[Any, ...],
    read: Callable[[Model], Any],
    labels: bool = False,
    offsets: bool = True,
) -> Answerer:
    """Returns the model that runs for `model`, and the rows that read(that model) returns.

    A translation can only be judged by its first outputs, so the `TranslationCheck` that all copies
    of a model share keeps the decision. It moves from JAX to a centred translation to the
    estimator, and never back.

    Args:
        model: a translation has a `TranslationCheck`; other models run themselves.
        kinds: rows in the estimator's form; the first ones are compared now.
        read: raises Untranslatable for rows that do not fit JAX, and may compare more rows.
        labels, offsets: as for `TranslationCheck.compare_first` and `answering`.

    Raises:
        InputError: a difference, or rows that do not fit JAX, if backend="jax" was given.
    """
    check = model.comparison
    if not isinstance(check, TranslationCheck):
        return Answerer(model, read(model))
    if kinds:
        check.compare_first(kinds, labels)
    while True:
        model = answering(model, offsets)
        try:
            answerer = Answerer(model, read(model))
            if answering(model, offsets) is model:
                return answerer
        except Untranslatable as reason:
            check.fall_back(str(reason))


def differs(answers: np.ndarray, wanted: np.ndarray, tolerance: Any) -> str | None:
    """How two outputs of the same rows differ beyond the tolerance, in words; None: they agree."""
    if answers.shape != wanted.shape:
        return f"in shape: {answers.shape} in place of {wanted.shape}"
    answers = answers.astype(np.float64)
    same = (answers == wanted) | (np.isnan(answers) & np.isnan(wanted))
    with np.errstate(invalid="ignore"):
        off = np.where(same, 0.0, np.abs(answers - wanted))
    wrong = ~(off <= tolerance)
    if not wrong.any():
        return None
    rows = int(wrong.reshape(len(wrong), -1).any(axis=1).sum())
    return f"by up to {off[wrong].max():.3g} in {rows} of {len(wanted)} rows"


def _near_tie(scores: np.ndarray, tolerance: Any) -> np.ndarray:
    """Rows whose class depends on rounding, by the two largest scores, or one score and 0; bool
    [M]."""
    if scores.ndim == 1:
        return np.abs(scores) <= 2 * tolerance
    largest = np.sort(scores, axis=1)[:, -2:]
    return largest[:, 1] - largest[:, 0] <= 2 * tolerance


# An explanation consists of differences between outputs, so their spread counts, not their size:
# near 1e6 a float32 is exact to 0.06, which is small for an output but not for a difference of two.

SHARE = 1e-5  # of the spread; float32 errs by 1e-7 to 1e-6 of it without cancellation
# The factors of a product are rounded to nearest, by at most half a unit each: TF32 has 10 bits and
# bfloat16 7 after the leading one, so that a term is off by at most 2**-10 or 2**-7 of itself. Sums
# are in float32, and add little. Eight of these roundings allow for four products in sequence whose
# terms add up in magnitude to twice the spread of their result.
SHARES = {"tf32": 8 * 2.0**-10, "bfloat16": 8 * 2.0**-7}
FEW = 16  # rows, possibly equal by chance: hybrids of them count too
# A sum of n terms in another order or precision differs by about sqrt(n) roundings of its largest
# partial sum: 2**10 roundings allow for sums of 2**20 terms. In float64 that is less than the
# tolerance for any spread that float32 can resolve.
ROUNDINGS = 2.0**10


def spread_of(answers: np.ndarray, together: bool) -> np.ndarray:
    """The largest minus the smallest of finite outputs [M] or [M, K]; [] or [K].

    together: one spread for all columns, the largest, because they share sums (such as class
    probabilities: a class that is missing in these rows has almost no spread).
    """
    spread = np.ptp(_finite(answers), axis=0) if len(_finite(answers)) else np.zeros(1)
    return np.full_like(spread, spread.max()) if together else spread


def rounding_of(answers: np.ndarray, dtype: Any) -> float:
    """The allowed difference of two roundings in the dtype, at the size of the largest output."""
    return ROUNDINGS * float(np.finfo(dtype).eps) * np.abs(_finite(answers)).max(initial=0.0)


def tolerance_of(
    answers: np.ndarray,
    spread: np.ndarray,
    dtype: Any,
    alone: bool = False,
    precision: str = "float32",
) -> np.ndarray:
    """The allowed difference of a translation from the outputs [M] or [M, K]; [] or [K].

    It is a share of the spread; without a spread, a few roundings of float64, the estimator's
    dtype. alone: rows of one kind without a spread prove nothing yet, so roundings of the dtype are
    accepted. precision: of the translation's products; a lower one has a larger share.
    """
    few = 4 * np.finfo(np.float64).eps * np.abs(_finite(answers)).max(initial=0.0)
    share, rounding = SHARES.get(precision, SHARE), rounding_of(answers, dtype)
    if precision in SHARES:
        rounding = max(rounding, share * np.abs(_finite(answers)).max(initial=0.0))
    nothing = rounding if alone else few
    return np.where(spread > 0, np.minimum(np.maximum(share * spread, few), rounding), nothing)


def hybrids(codes: np.ndarray, count: int) -> np.ndarray:
    """Rows [count, F], each column taken from any row of codes [M, F]."""
    rng = np.random.default_rng(0)
    return codes[rng.integers(0, len(codes), (count, codes.shape[1])), np.arange(codes.shape[1])]


def _finite(answers: np.ndarray) -> np.ndarray:
    return answers[np.isfinite(answers).reshape(len(answers), -1).all(axis=1)]
