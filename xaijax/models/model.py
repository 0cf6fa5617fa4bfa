"""`Model`: what the engine sees of a model, and what the user can ask of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import jax
import numpy as np

from xaijax.core import html
from xaijax.core.checks import NanColumns, one_of
from xaijax.core.errors import InputError
from xaijax.core.process import in_order, threads_of
from xaijax.core.public import public_class
from xaijax.core.typing import Rows
from xaijax.models.adapters.functions import checked_params, on_one_device
from xaijax.models.base import options
from xaijax.models.base.options import WORDS, came
from xaijax.models.base.outputs import check_finite, check_labels, check_output
from xaijax.models.base.source import ModelRecipe, reduced
from xaijax.models.base.trace import Selected
from xaijax.models.identity.identity import identity, mark
from xaijax.models.queries.comparison import Bridged, TranslationCheck, check_unchanged
from xaijax.models.queries.findings import (
    Probe,
    probe_host,
    probe_jax,
)
from xaijax.models.queries.host import call_host, guarded, parts
from xaijax.models.queries.labels import Codes, decide, decided, named
from xaijax.models.queries.predict import run_jax
from xaijax.models.queries.rows import answered_by
from xaijax.models.translations.columns import Reader
from xaijax.models.translations.in_jax import Made
from xaijax_kernels.structures.base import Structure

_KEEP: Any = object()


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model that explainers can ask, made by `xaijax.as_model`: rows [R, *F] -> [R] or [R, K].

    Attributes:
        backend, reason: "jax" or "host", where it runs; and why there.
        output, classes, threshold, feature_names, output_names, input_shape, allow_nan, nonfinite,
            deterministic, thread_safe, max_rows, timeout, precision, params, structure: the
            options of `as_model`, as read.
        name, estimator: the name of f, and f itself where it is an estimator (else None).
        selects: where `output` is one column: of what, "proba", "decision" or "decided"; None if
            that is not known.
        network: whether f is a module of a neural library, which takes rows of any shape.
        loop, why, apply, call, scores, decide, labelled, original, comparison, reader, offset,
            recentred, recipe, compiled: for the engine. One of `apply` (JAX) and `call` (host)
            answers rows.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> model = xj.as_model(lambda X: X[:, 0] - X[:, 1], threshold=0.0)
        >>> X = np.array([[3.0, 1.0], [1.0, 2.0]])
        >>> model.predict(X), model.labels(X)
        (array([ 2., -1.]), array([1, 0]))
    """

    loop: str  # "jax" | "host", which of apply and call is set
    why: str  # the reason, for the repr
    output: Any  # "proba" | "decision" | "label" | "value" | a class label | an output index
    selects: str | None = None  # of what `output` is a column: "proba" | "decision" | "decided"
    apply: Callable[..., Any] | None = None  # jax: apply(params, rows [R, *F]) -> [R] or [R, K]
    params: Any = None  # a pytree; an argument of the compiled function, never a constant
    call: Callable[..., Any] | None = None  # host: call(rows: array or frame) -> array-like
    scores: Callable[..., Any] | None = None  # like apply or call, before a column is selected
    decide: Callable[..., Any] | None = None  # like call: labels [R]; like apply: their places
    estimator: Any = None  # the fitted object whose methods these are; None: a function
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None  # [K], as given; see output_names_for
    input_shape: tuple[int, ...] | None = None  # shape of one instance; None: [F]
    allow_nan: bool | NanColumns = False  # rows may hold NaN
    nonfinite: str = "raise"  # "raise" | "propagate": what a NaN or inf answer does
    deterministic: bool = True
    thread_safe: bool = False
    max_rows: int | None = None  # host: rows in one call at most
    timeout: float | None = None  # host: seconds one call may take
    precision: str = "float32"  # one of `trace.PRECISIONS`
    structure: Structure | str | None = None  # jax: declared (structure/declared.py), or "plain"
    name: str = "model"
    original: Model | None = None  # of a translated estimator: the estimator, on the host
    comparison: TranslationCheck | Bridged | None = None
    reader: Reader | None = None
    offset: np.ndarray | None = None  # float64 [] or [K], what `apply` and `scores` are short of
    recentred: Callable[[Model, Made], Model] | None = None  # this model by another translation
    network: bool = False  # a module of a neural library: without input_shape, rows of any shape
    labelled: bool = False  # a copy that answers with numbers for classes, made by `decided`
    recipe: ModelRecipe | None = None  # by which it is pickled; None: a copy that the engine made
    compiled: dict[Any, Any] = field(default_factory=dict)  # executables, shared by `replace`
    _repr_html_ = html.shown("feature_names", "output_names", "input_shape", "max_rows")

    @property
    def backend(self) -> str:
        """ "jax" or "host": where it runs, as far as is known before a translation is compared."""
        return "host" if getattr(self.comparison, "reason", None) is not None else self.loop

    @property
    def reason(self) -> str:
        """Why it runs there."""
        if not isinstance(self.comparison, TranslationCheck) or self.comparison.stage == 0:
            return self.why
        return self.comparison.reason or f"{self.why}, {CENTRED}"

    @property
    def asks_labels(self) -> bool:
        """Whether what is explained are decided classes; for the engine."""
        return self.labelled or self.output == "label"

    def predict(self, X: Rows) -> np.ndarray:
        """The model's output for rows X.

        Args:
            X: array [R, *F], or for host models a frame, passed on with its names and dtypes.

        Returns:
            float64 [R] or [R, K].

        Raises:
            InputError, InputTypeError: rows that are not accepted.
            ModelOutputError: not one number, or K, a row; NaN or infinity with nonfinite="raise".
            TimeoutError: a call took too long. The model's own exceptions come through unchanged.
        """
        model, rows = answered_by(self, X)
        if model is not self:
            return model.predict(rows)
        if self.loop == "jax":
            raw = run_jax(self.compiled, "apply", self._traced(self.apply), self.params, rows)
            values = self._whole(raw.astype(np.float64))
        else:
            values = self._in_parts(rows, lambda start, part: call_host(self, part, start))
        if self.nonfinite == "raise":
            check_finite(values, self.name)
        return values

    def labels(self, X: Rows) -> np.ndarray:
        """The class that is decided for each row.

        A classifier with a `predict` decides by it. With output="label" labels are what f returns.
        The largest of K columns decides, the first of equal ones. One score a row decides for the
        second class, or 1, above `threshold`; without it, above 0.5 of "proba" and 0 of "decision".
        A column that `output` selects decides only with `threshold`; else all columns do.

        Args:
            X: as for `predict`.

        Returns:
            Array [R] of `classes`; where these are unknown, of column numbers, or of 0 and 1.

        Raises:
            InputError: nothing says how to decide. Also what `predict` raises.
        """
        if self.decide is not None or self.output == "label":
            return self._own_labels(X)
        one_column = self.output not in WORDS and self.threshold is not None
        model, rows = answered_by(self, X)
        if model is not self:
            return model.labels(rows)
        if one_column:
            scores = self.predict(X)
        elif self.loop == "jax":
            raw = run_jax(self.compiled, "scores", self._traced(self.scores), self.params, rows)
            scores = raw if self.offset is None else self._whole(raw.astype(np.float64))
        else:
            scores = self._in_parts(rows, self._checked(self.scores, check_output))
        if self.nonfinite == "raise":
            check_finite(scores, self.name)
        return decide(scores, self.output, self.classes, self.threshold)

    def replace(
        self,
        *,
        params: Any = _KEEP,
        feature_names: Iterable[str] | None = _KEEP,
        output_names: Iterable[str] | None = _KEEP,
        allow_nan: bool = _KEEP,
        deterministic: bool = _KEEP,
        thread_safe: bool = _KEEP,
        max_rows: int | None = _KEEP,
        timeout: float | None = _KEEP,
        nonfinite: Literal["raise", "propagate"] = _KEEP,
    ) -> Model:
        """A copy with some options changed, each checked as by `as_model`.

        It shares the traced function and what is compiled, so new params cost no new trace. For
        another output, threshold or precision make the model anew with `as_model`; so too for
        `max_rows` and `timeout` of an estimator in JAX: they are only for models on the host.

        Args:
            params: of the same structure, shapes and dtypes as before. feature_names, output_names,
            allow_nan, deterministic, thread_safe, max_rows, timeout, nonfinite: as for `as_model`.

        Returns:
            A `Model`.

        Raises:
            InputError, InputTypeError: an option not accepted, or an estimator that has changed.
        """
        args = dict(locals())
        changes = {name: one for name, one in args.items() if name != "self" and one is not _KEEP}
        for name, value in changes.items():
            changes[name] = checked_change(self, name, value)
        check_unchanged(self)
        recipe = self.recipe and self.recipe.changed(changes)
        if self.original is None and "params" in changes:
            changes["comparison"] = None  # they are no longer those of a bridged module
        if self.original is not None:
            # With other parameters it is no longer the estimator's translation.
            changes |= (
                {"comparison": None, "original": None}
                if "params" in changes
                else {"original": dataclasses.replace(self.original, **changes)}
            )
        return dataclasses.replace(self, **changes, recipe=recipe)

    def decided(self) -> tuple[Model, Codes]:
        """A model that answers with a number for the class that this one decides, and the numbers.

        It is that of `labels`, NaN where scores are not finite. What is compiled is kept here.
        """
        check_unchanged(self)
        function, codes = decided(self)
        fields = {"apply" if self.loop == "jax" else "call": function, "scores": function}
        fields |= {"decide": None, "labelled": True}
        return self._answering("decided", lambda model: model.decided()[0], fields), codes

    def unselected(self) -> Model:
        """A model of all columns if `output` selects one, else this; what is compiled is kept."""
        check_unchanged(self)
        if self.output in WORDS:
            return self
        fields: dict[str, Any] = {"call": self.scores}
        if self.loop == "jax":
            fields = {"apply": Selected(self._traced(self.scores), None, self.precision)}
        return self._answering("unselected", Model.unselected, fields)

    def _answering(self, key: str, of: Callable[[Model], Model], fields: dict[str, Any]) -> Model:
        """A copy of(self) with another answer; its programs are kept here, by the key."""
        original, recentred = self.original, self.recentred

        def again(_: Any, made: Made) -> Model:
            assert original is not None and recentred is not None
            other = recentred(self, made)
            # What answers are short of cannot be added there: then the estimator answers.
            return of(original if other.offset is not None else other)

        return dataclasses.replace(
            self,
            output="value",
            output_names=None,
            # A declared head makes another answer.
            structure=self.structure if isinstance(self.structure, str) else None,
            original=None if original is None else of(original),
            recentred=again if original is not None and recentred is not None else None,
            recipe=None,
            compiled=self.compiled.setdefault((key,), {}),
            **fields,
        )

    def identity(self, shape: tuple[int, ...], dtype: Any) -> str | None:
        """A text that other models do not have, for a privacy ledger; asks the model nothing.

        None: it cannot be known again (a function on the host). shape, dtype: those of one row as
        it sees it.
        """
        kind = dtype if self.reader is None else self.reader.dtype
        return identity(self.as_fitted, shape, kind)

    def mark(self, findings: Any) -> str | None:
        """A text that other models do not have, for `merge`; findings: those of its probe.

        None: this model cannot be known again. It holds no row and no parameter, but a digest.
        """
        program = findings.program if self.backend == "jax" else None
        function = self._function if self.backend == "host" else None
        return mark(self, self.as_fitted, program, findings.row_dtype, function, findings.moved)

    @property
    def _function(self) -> Any:
        """What the user gave, where that is no estimator; None: it is not known."""
        arguments = None if self.recipe is None or self.estimator is not None else self.recipe.given
        return None if arguments is None else arguments.get("f")

    @property
    def as_fitted(self) -> Model:
        """The estimator, on the host, if this translates one; else this. It is for private
        releases.
        """
        return self if self.original is None else self.original

    def probe(self, rows: Any) -> Probe:
        """What the engine must know before it runs: asked of a few rows, as `Explainer` reads them.

        Raises ModelOutputError, NonDeterministicModelError, InputTypeError, and the model's own.
        """
        return probe_jax(self, rows) if self.loop == "jax" else probe_host(self, rows)

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

    def __reduce__(self) -> Any:
        """A recipe: what is compiled stays here, and a translation is compared anew there."""
        check_unchanged(self)
        return reduced(self.recipe, self.name)

    def _whole(self, answers: np.ndarray) -> np.ndarray:
        """Answers of JAX in float64, with what they are short of."""
        return answers if self.offset is None else answers + self.offset

    def _in_parts(self, rows: Any, ask: Callable[[int, Any], np.ndarray]) -> np.ndarray:
        """The answers to (start, part) of all parts of the rows, of at most `max_rows` each."""
        cut = parts(rows, self.max_rows)
        answers = in_order(lambda part: ask(*part), cut, threads_of(self.thread_safe))
        return np.concatenate(list(answers))

    def _checked(self, function: Any, check: Callable[..., np.ndarray]) -> Callable[..., Any]:
        """(start, part) -> what the host's function answers, checked."""

        def ask(start: int, part: Any) -> np.ndarray:
            raw = guarded(function, part, start, None, self.timeout, self.name)
            return check(raw, len(part), self.name)

        return ask

    def _own_labels(self, X: Any) -> np.ndarray:
        model, rows = answered_by(self, X, labels=True)
        if model is not self:
            return model.labels(rows)
        if self.loop == "jax":
            function = self._traced(self.decide or self.scores)
            key = "scores" if self.decide is None else "decide"
            raw = run_jax(self.compiled, key, function, self.params, rows)
            raw = check_labels(raw, len(rows), self.name)
            return raw if self.decide is None else named(raw.astype(np.int64), self.classes)
        return self._in_parts(rows, self._checked(self.decide or self.call, check_labels))

    def _traced(self, function: Callable[..., Any] | None) -> Callable[..., Any]:
        assert function is not None
        return function


def checked_change(model: Model, name: str, value: Any) -> Any:
    """The value of one option, as the model keeps it; raises InputError, InputTypeError."""
    if name in ("feature_names", "output_names"):
        return options.check_names(name, value)
    if name == "nonfinite":
        return one_of(value, f"{name}=", options.NONFINITE)
    if name in ("max_rows", "timeout"):
        if model.loop == "jax" and value is not None:
            raise InputError(f"{name}= is for host models; {model.name} is traced by JAX.")
        check = options.check_max_rows if name == "max_rows" else options.check_timeout
        return check(value)
    if name == "params":
        return _checked_params(model, value)
    value = options.check_flag(name, value)
    if name == "thread_safe" and value and model.loop == "jax" and model.original is None:
        raise InputError(f"{name}= is for host models; {model.name} is traced by JAX.")
    return value


def _checked_params(model: Model, params: Any) -> Any:
    if model.params is None:
        raise InputError(
            f"params= cannot be replaced: {model.name} has none. Say as_model(f, params=...)."
        )
    params = on_one_device(checked_params(params))
    old, new = (jax.eval_shape(lambda tree: tree, tree) for tree in (model.params, params))
    if jax.tree.structure(old) != jax.tree.structure(new):
        raise InputError(
            "params= must have the structure of the model's own (for an Equinox module: "
            "equinox.filter(module, equinox.is_array)). Make a new model with as_model."
        )
    leaves = zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True)
    for (path, was), now in leaves:
        if (was.shape, was.dtype) != (now.shape, now.dtype):
            raise InputError(
                f"params= must keep shapes and dtypes; params{jax.tree_util.keystr(path)} is "
                f"{was.dtype}{list(was.shape)}, got {now.dtype}{list(now.shape)}. Make a new model "
                "with as_model."
            )
    return params


CENTRED = "for numbers minus what the first rows have in common"
