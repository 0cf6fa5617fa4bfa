"""`Model`: the interface of a model for the engine and for the user."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, cast

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
from xaijax.models.identity.identity import identity, model_fingerprint
from xaijax.models.queries.comparison import Bridged, TranslationCheck
from xaijax.models.queries.findings import (
    Probe,
    probe_host,
    probe_jax,
)
from xaijax.models.queries.host import call_host, guarded, parts
from xaijax.models.queries.labels import Codes, decide, decided, named
from xaijax.models.queries.predict import run_jax
from xaijax.models.queries.rows import answered_by
from xaijax.models.structure.shortened import Shortened
from xaijax.models.translations.columns import Reader
from xaijax.models.translations.in_jax import Made
from xaijax_kernels.structures.base import Structure

_KEEP: Any = object()


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model for explainers, made by `xaijax.as_model`: rows [R, *F] -> [R] or [R, K].

    Attributes:
        backend, reason: "jax" or "host", where it runs, and why.
        output, classes, threshold, feature_names, output_names, input_shape, allow_nan, nonfinite,
            deterministic, thread_safe, max_rows, timeout, precision, params, structure: the
            options of `as_model`, as read.
        name, estimator: the name of f, and f itself if it is an estimator (else None).
        selects: if `output` is one column, the output that it belongs to: "proba", "decision" or
            "decided"; None if unknown.
        network: whether f is a module of a neural library, which takes rows of any shape.
        loop, why, apply, call, scores, decide, labelled, original, comparison, reader, offset,
            recentred, shortened, recipe, compiled: for the engine. Either `apply` (JAX) or `call`
            (host) evaluates rows.

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
    selects: str | None = None  # the output that holds the column: "proba" | "decision" | "decided"
    apply: Callable[..., Any] | None = None  # jax: apply(params, rows [R, *F]) -> [R] or [R, K]
    params: Any = None  # a pytree; an argument of the compiled function, never a constant
    call: Callable[..., Any] | None = None  # host: call(rows: array or frame) -> array-like
    scores: Callable[..., Any] | None = None  # like apply or call, before a column is selected
    decide: Callable[..., Any] | None = None  # like call: labels [R]; like apply: their positions
    estimator: Any = None  # the fitted object whose methods these are; None: a function
    classes: tuple[Any, ...] | None = None
    threshold: float | None = None
    feature_names: tuple[str, ...] | None = None
    output_names: tuple[str, ...] | None = None  # [K], as given; see output_names_for
    input_shape: tuple[int, ...] | None = None  # shape of one instance; None: [F]
    allow_nan: bool | NanColumns = False  # whether rows may hold NaN
    nonfinite: str = "raise"  # "raise" | "propagate": treatment of NaN or inf outputs
    deterministic: bool = True
    thread_safe: bool = False
    max_rows: int | None = None  # host: maximum rows in one call
    timeout: float | None = None  # host: time limit of one call, in seconds
    precision: str = "float32"  # one of `trace.PRECISIONS`
    structure: Structure | str | None = None  # jax: declared (structure/declared.py), or "plain"
    name: str = "model"
    original: Model | None = None  # of a translated estimator: the estimator, on the host
    comparison: TranslationCheck | Bridged | None = None
    reader: Reader | None = None
    offset: np.ndarray | None = None  # float64 [] or [K], to be added to `apply` and `scores`
    recentred: Callable[[Model, Made], Model] | None = None  # this model by another translation
    network: bool = False  # a neural module: without input_shape it takes rows of any shape
    shortened: Shortened | None = None  # jax: the function that shortens rows by mask=
    labelled: bool = False  # a copy that returns numbers for classes, made by `decided`
    recipe: ModelRecipe | None = None  # how it is pickled; None: a copy that the engine made
    compiled: dict[Any, Any] = field(default_factory=dict)  # executables, shared by `replace`
    _repr_html_ = html.shown("feature_names", "output_names", "input_shape", "max_rows")

    @property
    def backend(self) -> str:
        """ "jax" or "host": where it runs, as known before a translation is compared."""
        return "host" if getattr(self.comparison, "reason", None) is not None else self.loop

    @property
    def reason(self) -> str:
        """The reason why it runs there."""
        centred = getattr(self.comparison, "centred", None) is not None
        return getattr(self.comparison, "reason", None) or self.why + CENTRED * centred

    @property
    def asks_labels(self) -> bool:
        """Whether decided classes are explained; for the engine."""
        return self.labelled or self.output == "label"

    def predict(self, X: Rows) -> np.ndarray:
        """Returns the model's output for rows X.

        Args:
            X: array [R, *F], or for host models a frame, which is passed on with names and dtypes.

        Returns:
            float64 [R] or [R, K].

        Raises:
            InputError, InputTypeError: rows that are not accepted.
            ModelOutputError: the output is not 1 or K numbers per row, or not finite with
                nonfinite="raise".
            TimeoutError: a call took too long. The model's own exceptions are passed on.
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
        """Returns the decided class of each row.

        A classifier with a `predict` decides by it. With output="label" f itself returns labels. Of
        K columns the largest decides, the first if several are equal. One score per row decides for
        the second class, or 1, above `threshold`; without it, above 0.5 for "proba" and 0 for
        "decision". A column that `output` selects decides only with `threshold`; else all columns
        do.

        Args:
            X: as for `predict`.

        Returns:
            Array [R] of `classes`; if these are unknown, of column numbers, or of 0 and 1.

        Raises:
            InputError: the model has no rule to decide. Also the errors of `predict`.
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
        """Returns a copy with some options changed, each checked as by `as_model`.

        It shares the traced function and compiled programs, so new params need no new trace. For
        another output, threshold or precision make a new model with `as_model`; also for `max_rows`
        and `timeout` of an estimator in JAX, which apply on the host only.

        Args:
            params: of the same structure, shapes and dtypes as before. feature_names, output_names,
            allow_nan, deterministic, thread_safe, max_rows, timeout, nonfinite: as for `as_model`.

        Returns:
            A `Model`.

        Raises:
            InputError, InputTypeError: an option is not accepted, or the estimator has changed.
        """
        args = dict(locals())
        changes = {k: v for k, v in args.items() if k != "self" and v is not _KEEP}
        for name, value in changes.items():
            changes[name] = checked_change(self, name, value)
        self.check_unchanged()
        recipe = self.recipe and self.recipe.changed(changes)
        if self.shortened is not None and "params" in changes:  # they are compared again
            whole = self.shortened.anew()
            apply = cast(Selected, self.apply).of(whole)
            changes |= {"shortened": whole, "apply": apply, "scores": whole, "compiled": {}}
        if self.original is None and "params" in changes:
            changes["comparison"] = None  # they no longer belong to a bridged module
        if self.original is not None:
            # With other parameters it is no longer the estimator's translation.
            changes |= (
                {"comparison": None, "original": None}
                if "params" in changes
                else {"original": dataclasses.replace(self.original, **changes)}
            )
        return dataclasses.replace(self, **changes, recipe=recipe)

    def check_unchanged(self) -> None:
        """Raises InputError if a translated estimator has changed; called before every use.

        Before a function's first use it also raises if values that the function reads have changed
        since an earlier model of it was traced, because both share programs.
        """
        state = getattr(self.apply, "state", None)
        if state is not None and all(key[0] == "rows" for key in self.compiled):
            state.check_unchanged()
        if isinstance(self.comparison, TranslationCheck):
            self.comparison.check_fit()

    def decided(self) -> tuple[Model, Codes]:
        """A model that returns the number of this model's decided class, and the numbers' meaning.

        The class is that of `labels`, NaN where scores are not finite. This model keeps its
        programs.
        """
        self.check_unchanged()
        function, codes = decided(self)
        fields = {"apply" if self.loop == "jax" else "call": function, "scores": function}
        fields |= {"decide": None, "labelled": True}
        return self._answering("decided", lambda model: model.decided()[0], fields), codes

    def unselected(self) -> Model:
        """A model of all columns if `output` selects one, otherwise this one; keeps its
        programs."""
        self.check_unchanged()
        if self.output in WORDS:
            return self
        fields: dict[str, Any] = {"call": self.scores}
        if self.loop == "jax":
            fields = {"apply": Selected(self._traced(self.scores), None, self.precision)}
        return self._answering("unselected", Model.unselected, fields)

    def _answering(self, key: str, of: Callable[[Model], Model], fields: dict[str, Any]) -> Model:
        """A copy of(self) with another output; this model keeps its programs by the key."""
        original, recentred = self.original, self.recentred

        def again(_: Any, made: Made) -> Model:
            assert original is not None and recentred is not None
            other = recentred(self, made)
            # The offset cannot be added to that output, so the estimator evaluates it.
            return of(original if other.offset is not None else other)

        return dataclasses.replace(
            self,
            output="value",
            output_names=None,
            # A declared head has another output.
            structure=self.structure if isinstance(self.structure, str) else None,
            original=None if original is None else of(original),
            recentred=again if original is not None and recentred is not None else None,
            recipe=None,
            compiled=self.compiled.setdefault((key,), {}),
            **fields,
        )

    def identity(self, shape: tuple[int, ...], dtype: Any, platform: str) -> str | None:
        """A text that identifies the model, for a privacy ledger; does not call the model.

        None: it cannot be recognised (a function on the host). shape, dtype: of one row for the
        model. platform: the platform of the devices.
        """
        kind = dtype if self.reader is None else self.reader.dtype
        return identity(self.as_fitted, shape, kind, platform)

    def fingerprint(self, findings: Any, platform: str) -> str | None:
        """A text that identifies the model, for `merge`; findings: of its probe, platform: of the
        devices.

        None: this model cannot be recognised. The text holds a digest, no row and no parameter.
        """
        program = findings.program if self.backend == "jax" else None
        function = self._function if self.backend == "host" else None
        facts = findings.row_dtype, platform, function, findings.moved
        return model_fingerprint(self, self.as_fitted, program, *facts)

    @property
    def _function(self) -> Any:
        """The user's function or module; None: an estimator, or unknown."""
        recipe = None if self.estimator is not None else self.recipe
        return None if recipe is None else recipe.arguments.get("f")

    @property
    def as_fitted(self) -> Model:
        """The estimator, on the host, if this translates one; otherwise this. For private
        releases.
        """
        return self if self.original is None else self.original

    def probe(self, rows: Any) -> Probe:
        """Probes the model on a few rows, in the form in which `Explainer` reads them.

        Raises ModelOutputError, NonDeterministicModelError, InputTypeError, and the model's
        exceptions.
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
        """A recipe without programs; a translation is compared again in the other process."""
        self.check_unchanged()
        return reduced(self.recipe, self.name)

    def _whole(self, answers: np.ndarray) -> np.ndarray:
        """JAX outputs in float64, with the offset added."""
        return answers if self.offset is None else answers + self.offset

    def _in_parts(self, rows: Any, ask: Callable[[int, Any], np.ndarray]) -> np.ndarray:
        """The outputs of ask(start, part) for all parts of the rows, of at most `max_rows` each."""
        cut = parts(rows, self.max_rows)
        answers = in_order(lambda part: ask(*part), cut, threads_of(self.thread_safe))
        return np.concatenate(list(answers))

    def _checked(self, function: Any, check: Callable[..., np.ndarray]) -> Callable[..., Any]:
        """(start, part) -> the checked output of the host function."""

        def ask(start: int, part: Any) -> np.ndarray:
            raw = guarded(function, part, start, self.timeout, self.name)
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
    """Checks one option and returns its value; raises InputError, InputTypeError."""
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


CENTRED = ", for numbers minus what the first rows have in common"
