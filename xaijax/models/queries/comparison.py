"""Compares a translation, or what JAX makes of a module, with the model itself.

Letters: M rows, R rows in a call, K outputs, F columns.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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

# A background is asked about by many explainers, and the estimator's own answers to it may take
# longer than an explanation.

MOST = 1 << 12  # keys; the oldest goes
LIBRARIES = ("sklearn", "numpy", "scipy")


class Agreed:
    """Hashes of rows that agreed, of one translation and one fit."""

    def __init__(self) -> None:
        self._keys: dict[Hashable, None] = {}

    def key(self, centred: bool, kinds: list[Any], labels: bool = False) -> Hashable:
        """Key of rows of these kinds; None: they are compared each time.

        centred: which translation is compared, see `Centre`. labels: whether labels are compared as
        well. The hash is of the rows' own numbers, not as JAX reads them: the estimator may
        distinguish two numbers that float32 does not. Take it before the estimator is asked, which
        may write into its rows.
        """
        hashes = [hash_of_numbers(rows) for rows in kinds]
        return None if None in hashes else (centred, labels, *hashes)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._keys

    def clear(self) -> None:
        """Forgets all rows, which are then compared again."""
        self._keys.clear()

    def add(self, key: Hashable, stamp: FitFingerprint | None, spread: np.ndarray | None) -> None:
        """Keeps rows that agreed within a share of this spread of the answers.

        Rows are not kept if the spread is 0, which accepts more than a later one may, nor if a
        class of another library takes part, whose state may lie where no stamp sees it.
        """
        wide = spread is not None and bool((spread > 0).all())
        if key is None or not wide or stamp is None or not stamp.made_by(LIBRARIES):
            return
        self._keys[key] = None
        if isinstance(key, tuple) and key[1]:  # which agreed without labels, too
            self._keys[(key[0], False, *key[2:])] = None
        while len(self._keys) > MOST:
            del self._keys[next(iter(self._keys))]


COMPARED = 128  # rows of each kind (background, instances) that both are asked for at first
AT_ONCE = 8192  # of the others, which all follow before they are explained
BLOCK, MANY = 256, 8192  # rows of the program that compared the first; beyond which others pay


@dataclass
class TranslationCheck:
    """Compares a translation with its estimator, and holds who answers.

    JAX answers first. If rounding is the difference, the translation is made again for numbers and
    answers minus their middle (`Centre`), and answers if that one agrees. Otherwise the estimator
    answers, from then on. All copies of a model share this object, so that each says the same.
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
    stamp: FitFingerprint | None = None  # of its state when it was translated
    changes_when_called: bool = False  # its state changes when it is asked
    reason: str | None = None  # why the host answers; None: JAX does
    centred: Made | None = None  # what answers in JAX in place of `found`
    done: bool = False  # rows have shown how far answers are apart
    labels_done: bool = False  # labels of some rows were compared
    spread: np.ndarray | None = None  # of the answers compared so far, [] or [K]
    agreed: Agreed = field(default_factory=Agreed)  # rows that need no comparison any more
    compiled: dict[Any, Any] = field(default_factory=dict)

    @property
    def stage(self) -> int:
        """Who answers, as far as is known: 0 JAX, 1 JAX for centred numbers, 2 the estimator.

        It never falls.
        """
        return 2 if self.reason is not None else int(self.centred is not None)

    def check_fit(self) -> None:
        """Raises InputError if the estimator has changed since it was translated.

        What is made of a translation (programs, tables, remembered answers) is of the fit that it
        had. An estimator that answers itself is asked as it is.
        """
        if (
            self.reason is None
            and self.stamp is not None
            and FitFingerprint(self.estimator) != self.stamp
        ):
            raise InputError(
                f"{self.name} has changed since as_model translated it to JAX: it was fitted "
                f"again, or what it holds was assigned. Wrap it anew with as_model, and make "
                f"explainers of the new model; backend='host' asks it as it is at each call."
            )

    def fall_back(self, reason: str) -> None:
        """Lets the estimator answer from now on; raises InputError if backend="jax" was said."""
        if self.forced:
            raise InputError(
                f"backend='jax' is not available for {self.name}: {reason}. Say backend='auto' or "
                f"'host', or precision='float64' if rounding is the reason."
            )
        self.reason = reason

    def compare_first(self, kinds: tuple[Any, ...], labels: bool = False) -> None:
        """Compares the two on the first rows of each kind, as the estimator takes them.

        labels: whether labels are compared as well. One kind alone (rows to predict) is no
        comparison as long as its answers are all alike. Raises InputError for a difference if
        backend="jax" was said, and what the estimator raises.
        """
        if self.reason is not None:
            return
        some = [rows_of(kind).part(0, COMPARED) for kind in kinds]
        now = self.centred or (self.found, self.head)
        key = self.agreed.key(now[0] is not self.found, some, labels)
        if key in self.agreed:
            return
        reason = self._wrong_first(now, some, labels)
        if reason is not None:
            self.fall_back(reason)
        else:
            self.labels_done |= labels
            if self.centred is None or self.centred is now:  # else another one agreed
                self.agreed.add(key, self.stamp, self.spread)
        if self.stamp is not None:
            # An estimator of one's own may keep what it was asked: that is no change of its fit.
            after = FitFingerprint(self.estimator)
            self.changes_when_called |= after != self.stamp
            self.stamp = after
        if self.changes_when_called:
            self.agreed.clear()

    def _wrong_first(self, now: Made, kinds: list[Any], labels: bool) -> str | None:
        """Why neither this translation nor a centred one can answer; None: one of them can."""
        try:
            # What does not fit is known before the estimator is asked.
            codes = np.concatenate([now[0].reader.codes(kind) for kind in kinds])
            answers = [self._own(kind) for kind in kinds]
            wanted, alone = np.concatenate(answers), len(kinds) == 1
            own = functools.cache(lambda: self._labels(kinds)) if labels else None
            reason = self._wrong(now, codes, wanted, own, alone, hybrid=True)
            if reason is None or self.centred is not None or self.recentre is None:
                return reason
            made = self.recentre(self._centre(kinds[0], answers[0]))
            if made[0].offset is not None or made[0].reader.shifted:
                codes = np.concatenate([made[0].reader.codes(kind) for kind in kinds])
                if self._wrong(made, codes, wanted, own, alone, hybrid=True) is None:
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
        """Compares the two on all rows from `first` on; codes are theirs.

        The estimator is asked for AT_ONCE rows a call. It answers from now on if one differs.
        shared: the rows are a background; those that agree are not compared again, whichever
        explainer asks. Raises what `compare_first` raises.
        """
        if self.reason is not None or first >= len(codes):
            return
        made = self.centred or (self.found, self.head)
        for start in range(first, len(codes), AT_ONCE):
            some = rows_of(rows).part(start, min(start + AT_ONCE, len(codes)))
            key = self.agreed.key(made[0] is not self.found, [some], labels)
            if key in self.agreed:
                continue
            own = functools.partial(self._labels, [some]) if labels else None
            reason = self._wrong(made, codes[start : start + AT_ONCE], self._own(some), own, True)
            if reason is not None:
                self.fall_back(reason)
                return
            if shared and not self.changes_when_called:
                self.agreed.add(key, self.stamp, self.spread)
        if self.stamp is not None and self.changes_when_called:
            self.stamp = FitFingerprint(self.estimator)

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
        """The middle of these rows and of their answers; if not all answers are finite, of those
        that are.
        """
        finite = answers[np.isfinite(answers).reshape(len(answers), -1).all(axis=1)]
        middle = finite.mean(axis=0) if len(finite) else np.zeros(answers.shape[1:])
        return Centre(self.found.reader.middle(rows), np.asarray(middle))

    def _wrong(
        self,
        made: Made,
        codes: np.ndarray,
        wanted: np.ndarray,
        own: Callable[[], list[Any]] | None,
        alone: bool,
        hybrid: bool = False,
    ) -> str | None:
        """Why this translation cannot answer; None: it can.

        wanted: the estimator's own answers to the rows, float64 [M] or [M, K]. own: its labels;
        None: they are not compared. alone: the rows are of one kind. hybrid: mixtures of the rows
        must have no ties either.
        """
        ties = made[0].translation.undecided
        sure = np.ones(len(codes), bool) if ties is None else ~ties(codes)
        if not (sure.all() or self.forced):
            return self._hangs(~sure, "rows")
        reason = self._difference(made, codes, wanted, own, alone, sure)
        if reason is None and hybrid and ties is not None and not self.forced:
            tied = ties(hybrids(codes, COMPARED))
            reason = self._hangs(tied, "hybrids of the first rows") if tied.any() else None
        return reason

    def _hangs(self, ties: np.ndarray, of: str) -> str:
        return (
            f"in {int(ties.sum())} of {len(ties)} {of} the answer of {self.name} depends on which "
            "of equally near neighbours its search meets first"
        )

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
        self,
        made: Made,
        codes: np.ndarray,
        wanted: np.ndarray,
        own: Callable[[], list[Any]] | None,
        alone: bool,
        sure: np.ndarray,
    ) -> str | None:
        """How the two differ; None: they agree. sure: rows whose answers are compared."""
        of, head = made
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
        if of.decide is None or self.decide is None or own is None:
            return None
        places = self._answers("label" + which, of.decide, params, codes)
        assert self.classes is not None
        labels = np.array([self.classes.index(label) for label in own()])
        wrong = (places != labels) & sure & ~_near_tie(wanted, tolerance.max())
        if wrong.any():
            many = f"{int(wrong.sum())} of {len(wrong)}"
            return f"the JAX translation decides another class than {self.name} in {many} rows"
        return None


@dataclass
class Bridged:
    """Compares what JAX makes of a module with the module's own answers, on all explained rows.

    The bridge was requested by backend="jax", so a difference is an error.
    """

    name: str
    head: Callable[..., Any]  # (params, rows) -> [M] or [M, K], traced
    params: Any
    original: Callable[[Any], np.ndarray]  # rows -> the same of the module itself
    compiled: dict[Any, Any] = field(default_factory=dict)

    def compare_all(self, rows: Any) -> None:
        """Raises ModelOutputError if the two differ by more than the order of float32 sums."""
        every = rows_of(rows)
        for start in range(0, len(every), AT_ONCE):
            some = every.part(start, min(start + AT_ONCE, len(every)))
            wanted = np.asarray(self.original(some), np.float64)
            wanted = wanted[:, 0] if wanted.ndim == 2 and wanted.shape[1] == 1 else wanted
            found = self._traced(some, len(wanted)).astype(np.float64)
            gap = gap_of(wanted.astype(np.float32), found.astype(np.float32), wanted)
            if gap is not None:
                raise ModelOutputError(
                    f"backend='jax': what JAX makes of {self.name} differs from the module's own "
                    f"answers by up to {gap[0]:.3g}, first in row {start + gap[1]}. Leave backend= "
                    "out: then the module itself is asked, on the host."
                )

    def _traced(self, rows: Any, count: int) -> np.ndarray:
        """What JAX makes of the module, [M] or [M, K]."""
        if hasattr(rows, "shape"):
            return run_jax(self.compiled, "head", self.head, self.params, rows)
        leaves = map(np.asarray, jax.tree.leaves(rows))
        name = ("tree", *((leaf.shape, str(leaf.dtype)) for leaf in leaves))
        if name not in self.compiled:
            self.compiled[name] = compile_sound(jax.jit(self.head).lower(self.params, rows))
        return np.asarray(self.compiled[name](self.params, rows))[:count]


def check_unchanged(model: Model) -> None:
    """Raises InputError if a translated estimator has changed since; called before every use.

    Before a function's first use, also if what it reads has changed since an earlier model of it
    was traced, whose programs this one shares.
    """
    state = getattr(model.apply, "state", None)
    if state is not None and all(key[0] == "rows" for key in model.compiled):
        state.refuse_changed()
    if isinstance(model.comparison, TranslationCheck):
        model.comparison.check_fit()


def answering(model: Model, offsets: bool = True) -> Model:
    """The model that answers for this one, as far as its comparison has come.

    offsets: whether `Model.offset` is added to the answers; if not, the estimator answers for a
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
            kept = model.compiled.setdefault(("centred",), {})
            made = dataclasses.replace(made, recentred=None, compiled=kept)
        model = made
    return original if model.offset is not None and not offsets else model


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
    """Rows whose class depends on rounding: the two largest scores, or the one and 0; bool [M]."""
    if scores.ndim == 1:
        return np.abs(scores) <= 2 * tolerance
    largest = np.sort(scores, axis=1)[:, -2:]
    return largest[:, 1] - largest[:, 0] <= 2 * tolerance


# An explanation is made of differences between answers, so what counts is not how large they are
# but how far they are apart: next to 1e6 a float32 is right to 0.06, which is nothing to an answer
# and everything to the difference of two.

SHARE = 1e-5  # of the spread; float32 leaves 1e-7 to 1e-6 of it where no digits are lost
FEW = 16  # rows, some like each other by chance: hybrids of them count too
# The same sum of n terms differs by about sqrt(n) roundings of its largest partial sum when it is
# taken in another order or precision: 2**10 roundings allow for sums of 2**20 terms. In float64
# that is less than the share of any spread that float32 could show.
ROUNDINGS = 2.0**10


def spread_of(answers: np.ndarray, together: bool) -> np.ndarray:
    """The largest minus the smallest of finite answers [M] or [M, K]; [] or [K].

    together: one spread for all columns, the largest, since they are made of the same sums (as the
    chances of classes are: a class that these rows do not show has no spread to speak of).
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

    The share of the spread; if there is none, a few roundings of float64, in which the estimator
    answers. alone: rows without a spread say nothing yet, and roundings of the dtype are accepted.
    """
    few = 4 * np.finfo(np.float64).eps * np.abs(_finite(answers)).max(initial=0.0)
    rounding = rounding_of(answers, dtype)
    nothing = rounding if alone else few
    return np.where(spread > 0, np.minimum(np.maximum(SHARE * spread, few), rounding), nothing)


def hybrids(codes: np.ndarray, count: int) -> np.ndarray:
    """Rows [count, F], each column taken from any row of codes [M, F]."""
    rng = np.random.default_rng(0)
    return codes[rng.integers(0, len(codes), (count, codes.shape[1])), np.arange(codes.shape[1])]


def _finite(answers: np.ndarray) -> np.ndarray:
    return answers[np.isfinite(answers).reshape(len(answers), -1).all(axis=1)]
