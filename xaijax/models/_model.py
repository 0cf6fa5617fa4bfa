"""`Model`: what the engine sees of a model, and what a person can ask of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xaijax._coded_table import CodedTable, Untranslatable
from xaijax._errors import InputError
from xaijax._public import public_class
from xaijax._threads import in_order, threads_of
from xaijax.models._changes import checked_change
from xaijax.models._columns import Reader
from xaijax.models._decided import Codes, decided
from xaijax.models._host import call_host, guarded
from xaijax.models._identity import identity, mark
from xaijax.models._labels import decide, named
from xaijax.models._options import WORDS, came
from xaijax.models._outputs import check_finite, check_labels, check_output
from xaijax.models._predict import run_jax
from xaijax.models._ready import (
    Probe,
    answer_host,
    both_answers,
    probe_host,
    probe_jax,
    sensitivity_of,
)
from xaijax.models._rows import host_rows, jax_rows, parts
from xaijax.models._settled import reason_of, recentred_copy, settled_to
from xaijax.models._trace import Selected
from xaijax.models._translated import COMPARED, Comparison, Made

_KEEP: Any = object()


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model as the engine sees it: rows [R, *F] -> [R] or [R, K].

    Made by `xaijax.as_model`. Exactly one of `apply` (backend "jax") and `call` (backend "host") is
    set; both have the output (a class column, say) selected already. `apply` checks its answer's
    shape and dtype while it is traced and makes [R, 1] of the function an [R]; the answer of `call`
    is checked by `xaijax.models.call_host`.

    A translated estimator runs in JAX on what `reader` makes of its rows, and has the estimator
    itself beside it, as a host model; `comparison` knows which of the two answers.
    """

    loop: str  # "jax" | "host", which of apply and call is set
    why: str  # the reason, for the repr
    output: Any  # "proba" | "decision" | "label" | "value" | a class label | an output index
    apply: Callable[..., Any] | None = None  # jax: apply(params, rows [R, *F]) -> [R] or [R, K]
    params: Any = None  # a pytree; an argument of the compiled function, never a constant
    call: Callable[..., Any] | None = None  # host: call(rows: array or frame) -> array-like
    scores: Callable[..., Any] | None = None  # like apply or call, before a column is selected
    # host: rows -> the model's own class labels [R]; jax: (params, rows) -> their places
    decide: Callable[..., Any] | None = None
    estimator: Any = None  # the fitted object whose methods these are; None: a function
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None  # [K], as given; see output_names_for
    input_shape: tuple[int, ...] | None = None  # shape of one instance; None: [F]
    allow_nan: bool = False  # rows may hold NaN
    nonfinite: str = "raise"  # "raise" | "propagate": what a NaN or inf answer does
    deterministic: bool = True
    thread_safe: bool = False
    max_rows: int | None = None  # host: rows in one call at most
    timeout: float | None = None  # host: seconds one call may take
    precision: str = "float32"  # "float32" | "tf32" | "float64"
    structure: Any = None  # jax: what is declared of it (models/_structure.py), or "plain"
    name: str = "model"
    original: Model | None = None  # of a translated estimator: the estimator, on the host
    comparison: Comparison | None = None
    reader: Reader | None = None
    offset: np.ndarray | None = None  # float64 [] or [K], what `apply` and `scores` are short of
    # (model, a translation for less than the whole numbers) -> this model by that one
    recentred: Callable[[Model, Made], Model] | None = None
    compiled: dict[Any, Any] = field(default_factory=dict)  # executables, shared by `replace`

    @property
    def backend(self) -> str:
        """ "jax" or "host": where it runs, as far as is known before a translation is compared."""
        return "host" if self._sent_away else self.loop

    @property
    def reason(self) -> str:
        """Why there."""
        return reason_of(self)

    @property
    def _sent_away(self) -> bool:
        return self.comparison is not None and self.comparison.reason is not None

    def settled(self, rows: tuple[Any, ...] = ()) -> Model:
        """This model, or the estimator that it translates, where the two differ by more than what
        the translation for less than the whole numbers mends (`_centre`): else that one.

        rows: of each kind as the estimator takes them; the first of each are compared. Without any:
        what is known already. Raises InputError for a difference where backend="jax" was said.
        """
        if self.comparison is None or self.original is None:
            return self
        self.comparison.settle(rows)
        return settled_to(self)

    def hold(self, rows: Any, codes: np.ndarray, of_first: bool) -> None:
        """Compare a translation with its estimator on rows about to be explained, all of them;
        of_first: the first of them were compared by `settled`. See `Comparison.hold`.
        """
        if self.comparison is not None and self.loop == "jax":
            self.comparison.hold(rows, codes, COMPARED if of_first else 0)

    def refuse_changed(self) -> None:
        """Raise InputError where the estimator has changed since it was translated; else nothing.

        Asked before every use. A model that the host runs is asked as it is.
        """
        if self.comparison is not None:
            self.comparison.refuse_changed()

    def coded(self, table: Any) -> Any:
        """The table that reads rows for this model, given the one that reads them for the host."""
        reader = self.settled().reader
        return table if reader is None else CodedTable(table, reader)

    def predict(self, X: Any) -> np.ndarray:
        """The model's output for rows X: float64 [R] or [R, K].

        X: an array [R, *F], or for host models a frame, passed on with its names and dtypes.

        Raises InputError or InputTypeError for rows that are not accepted, ModelOutputError for an
        answer that is not one finite number or K numbers per row (NaN and infinity pass with
        nonfinite="propagate"), TimeoutError; the model's own exception comes through unchanged.
        """
        model, rows = self._rows(X)
        if model is not self:
            return model.predict(X)
        if self.loop == "jax":
            raw = run_jax(self.compiled, "apply", self._traced(self.apply), self.params, rows)
            values = self._whole(raw.astype(np.float64))
        else:
            values = self._in_parts(rows, lambda part: call_host(self, part[1], part[0]))
        if self.nonfinite == "raise":
            check_finite(values, self.name)
        return values

    def labels(self, X: Any) -> np.ndarray:
        """The decided class of each row, [R].

        A classifier with a `predict` of its own decides by it. With output="label" the labels come
        as the function returned them. Otherwise [R, K] -> the largest column (ties: the lowest),
        named by `classes`; [R] -> "proba" above 0.5, "decision" above 0, "value" above
        `threshold` (which is used wherever it is given), named by the two classes, else 0 and 1.
        A selected column (output a class label or index) does not change the label, unless
        `threshold` is given: then that column decides.

        Raises what `predict` raises, and InputError where nothing says how to decide.
        """
        if self.decide is not None or self.output == "label":
            return self._own_labels(X)
        one_column = self.output not in WORDS and self.threshold is not None
        model, rows = self._rows(X)
        if model is not self:
            return model.labels(X)
        if one_column:
            scores = self.predict(X)
        elif self.loop == "jax":
            raw = run_jax(self.compiled, "scores", self._traced(self.scores), self.params, rows)
            scores = raw if self.offset is None else self._whole(raw.astype(np.float64))
        else:
            scores = self._host_scores(rows)
        if self.nonfinite == "raise":
            check_finite(scores, self.name)
        return decide(scores, self.output, self.classes, self.threshold)

    def replace(
        self,
        *,
        params: Any = _KEEP,
        feature_names: Any = _KEEP,
        output_names: Any = _KEEP,
        allow_nan: bool = _KEEP,
        deterministic: bool = _KEEP,
        thread_safe: bool = _KEEP,
        max_rows: int | None = _KEEP,
        timeout: float | None = _KEEP,
        nonfinite: str = _KEEP,
    ) -> Model:
        """A copy with these options changed, checked as `as_model` checks them.

        The copy shares the traced function and what is compiled, so new `params` (of the same
        structure, shapes and dtypes) cost no new trace. For another output, threshold or precision
        make the model anew with `as_model`.
        """
        given = {
            "params": params,
            "feature_names": feature_names,
            "output_names": output_names,
            "allow_nan": allow_nan,
            "deterministic": deterministic,
            "thread_safe": thread_safe,
            "max_rows": max_rows,
            "timeout": timeout,
            "nonfinite": nonfinite,
        }
        changes = {name: value for name, value in given.items() if value is not _KEEP}
        for name, value in changes.items():
            changes[name] = checked_change(self, name, value)
        self.refuse_changed()
        if self.original is not None:
            # With other parameters it is no longer the estimator's translation.
            own = {"comparison": None, "original": None}
            if "params" not in changes:
                own = {"original": dataclasses.replace(self.original, **changes)}
            changes |= own
        return dataclasses.replace(self, **changes)

    def decided(self) -> tuple[Model, Codes]:
        """A model that answers with a number for the class that this one decides, and the numbers.

        The class is that of `labels`. A row whose scores are not finite has NaN for its class. What
        is compiled is kept with this model.
        """
        self.refuse_changed()
        function, codes = decided(self)
        fields: dict[str, Any] = {"apply" if self.loop == "jax" else "call": function}
        if self.original is not None:
            fields["original"] = self.original.decided()[0]
        fields["recentred"] = recentred_copy(self, lambda model: model.decided()[0])
        kept = self.compiled.setdefault(("decided",), {})
        fields |= {"output": "value", "output_names": None, "structure": self._unlayered}
        fields |= {"scores": function, "compiled": kept}
        return dataclasses.replace(self, decide=None, **fields), codes

    def unselected(self) -> Model:
        """A model that answers with all columns where `output` selects one, else this model.

        What is compiled is kept with this model.
        """
        self.refuse_changed()
        if self.output in WORDS:
            return self
        fields: dict[str, Any] = {"call": self.scores}
        if self.loop == "jax":
            fields = {"apply": Selected(self._traced(self.scores), None, self.precision)}
        if self.original is not None:
            fields["original"] = self.original.unselected()
        fields["recentred"] = recentred_copy(self, lambda model: model.unselected())
        kept = self.compiled.setdefault(("unselected",), {})
        fields |= {"output": "value", "output_names": None, "structure": self._unlayered}
        return dataclasses.replace(self, compiled=kept, **fields)

    def identity(self, shape: tuple[int, ...], dtype: Any) -> str | None:
        """A text that other models do not have, for a privacy ledger; asks the model nothing.

        None: this model cannot be known again (a function on the host, say). shape, dtype: of one
        row as the model sees it.
        """
        kind = dtype if self.reader is None else self.reader.dtype
        return identity(self.as_fitted, shape, kind)

    def mark(self, findings: Any) -> str | None:
        """A text that other models do not have, for `merge`; findings: of its probe.

        None: this model cannot be known again. It holds no row and no parameter, but a digest.
        """
        program = findings.program if self.backend == "jax" else None
        return mark(self, self.as_fitted, program, findings.row_dtype)

    @property
    def as_fitted(self) -> Model:
        """The estimator itself, on the host, where this model is its translation; else this one.

        Which of the two answers follows from the rows that they were compared on; where that must
        not be (private releases), it is always this one.
        """
        return self if self.original is None else self.original

    def probe(self, rows: Any) -> Probe:
        """What the engine must know before it runs: asked of a few rows, as `Explainer` reads them.

        Raises ModelOutputError, NonDeterministicModelError, InputTypeError (does not trace), and
        the model's own exceptions.
        """
        return probe_jax(self, rows) if self.loop == "jax" else probe_host(self, rows)

    def answer(self, rows: Any, first: int, outputs: int) -> np.ndarray:
        """Host models: the checked answer to one call, float64 [R, K]; first: place in the run."""
        return answer_host(self, rows, first, outputs)

    def both_answers(self, structure: Any, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        """(the structure's answers to whole rows, the model's own), float64 [R, K]; once probed."""
        return both_answers(self, structure, rows)

    def sensitivity(self, structure: Any, rows: Any) -> np.ndarray:
        """How far rounding may take the structure's answers to whole rows, float64 [R, K]."""
        return sensitivity_of(self, structure, rows)

    def __repr__(self) -> str:
        parts = [self.name, f"backend={self.backend!r} ({self.reason})", f"output={self.output!r}"]
        if self.classes is not None:
            parts.append(f"classes={came(list(self.classes))}")
        if self.threshold is not None:
            parts.append(f"threshold={self.threshold:g}")
        if self.precision != "float32":
            parts.append(f"precision={self.precision!r}")
        if not self.deterministic:
            parts.append("deterministic=False")
        return f"Model({', '.join(parts)})"

    @property
    def _unlayered(self) -> str | None:
        """`structure` of a copy with another answer, which a declared head does not give."""
        return self.structure if isinstance(self.structure, str) else None

    def _rows(self, X: Any) -> tuple[Model, Any]:
        """(which model answers, X as it takes them)."""
        if self.reader is None:
            return self, (jax_rows if self.loop == "jax" else host_rows)(self, X)
        if self._sent_away:
            return self.settled(), None
        self.refuse_changed()
        rows = host_rows(self, X)
        if self.comparison is not None:
            model = self.settled(() if self.comparison.done else (rows,))
            if model is not self:
                return model, None
        try:
            return self, self.reader.codes(rows)
        except Untranslatable as reason:
            if self.comparison is None:
                raise InputError(f"X: {self.name} cannot run in JAX on it: {reason}.") from None
            self.comparison.to_host(str(reason))
            return self.settled(), None

    def _whole(self, answers: np.ndarray) -> np.ndarray:
        """Answers of JAX in float64, with what they are short of."""
        return answers if self.offset is None else answers + self.offset

    def _host_scores(self, rows: Any) -> np.ndarray:
        def scored(one: tuple[int, Any]) -> np.ndarray:
            raw = self._guarded(self.scores, one[1], one[0])
            return check_output(raw, len(one[1]), self.name)

        return self._in_parts(rows, scored)

    def _in_parts(self, rows: Any, ask: Callable[[tuple[int, Any]], np.ndarray]) -> np.ndarray:
        """The answers to (start, part) of all parts of the rows, of at most `max_rows` each."""
        cut = parts(rows, self.max_rows)
        return np.concatenate(list(in_order(ask, cut, threads_of(self.thread_safe))))

    def _own_labels(self, X: Any) -> np.ndarray:
        model, rows = self._rows(X)
        if model is not self:
            return model.labels(X)
        if self.loop == "jax":
            function = self._traced(self.decide or self.scores)
            key = "scores" if self.decide is None else "decide"
            raw = run_jax(self.compiled, key, function, self.params, rows)
            raw = check_labels(raw, len(rows), self.name)
            return raw if self.decide is None else named(raw.astype(np.int64), self.classes)
        function = self.decide or self.call

        def labelled(one: tuple[int, Any]) -> np.ndarray:
            raw = self._guarded(function, one[1], one[0])
            return check_labels(raw, len(one[1]), self.name)

        return self._in_parts(rows, labelled)

    def _guarded(self, function: Callable[..., Any] | None, rows: Any, start: int) -> Any:
        assert function is not None
        return guarded(function, rows, start, None, self.timeout, self.name)

    def _traced(self, function: Callable[..., Any] | None) -> Callable[..., Any]:
        assert function is not None
        return function
