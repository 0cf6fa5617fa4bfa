"""`Model`: what the engine sees of a model, and what a person can ask of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from xaijax._errors import InputError
from xaijax._public import public_class
from xaijax.models import _options as options
from xaijax.models._decided import Codes, decided
from xaijax.models._functions import check_params
from xaijax.models._host import call_host, guarded
from xaijax.models._identity import identity
from xaijax.models._labels import decide
from xaijax.models._options import WORDS, came
from xaijax.models._outputs import check_finite, check_labels, check_output
from xaijax.models._predict import run_jax
from xaijax.models._ready import Probe, answer_host, probe_host, probe_jax
from xaijax.models._rows import host_rows, jax_rows, parts
from xaijax.models._trace import Selected

_KEEP: Any = object()


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model as the engine sees it: rows [R, *F] -> [R] or [R, K].

    Made by `xaijax.as_model`. Exactly one of `apply` (backend "jax") and `call` (backend "host") is
    set; both have the output (a class column, say) selected already. `apply` checks its answer's
    shape and dtype while it is traced and makes [R, 1] of the function an [R]; the answer of `call`
    is checked by `xaijax.models.call_host`.
    """

    backend: str  # "jax" | "host"
    reason: str  # why this backend, for the repr
    output: Any  # "proba" | "decision" | "label" | "value" | a class label | an output index
    apply: Callable[..., Any] | None = None  # jax: apply(params, rows [R, *F]) -> [R] or [R, K]
    params: Any = None  # a pytree; an argument of the compiled function, never a constant
    call: Callable[..., Any] | None = None  # host: call(rows: array or frame) -> array-like
    scores: Callable[..., Any] | None = None  # like apply or call, before a column is selected
    decide: Callable[..., Any] | None = None  # rows -> the model's own class labels [R]
    estimator: Any = None  # host: the fitted object whose methods these are; None: a function
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
    structure: Any = None  # jax: what is declared of it, made ready (models/_structure.py)
    name: str = "model"
    compiled: dict[Any, Any] = field(default_factory=dict)  # executables, shared by `replace`

    def predict(self, X: Any) -> np.ndarray:
        """The model's output for rows X: float64 [R] or [R, K].

        X: an array [R, *F], or for host models a frame, passed on with its names and dtypes.

        Raises InputError or InputTypeError for rows that are not accepted, ModelOutputError for an
        answer that is not one finite number or K numbers per row (NaN and infinity pass with
        nonfinite="propagate"), TimeoutError; the model's own exception comes through unchanged.
        """
        if self.backend == "jax":
            rows = jax_rows(self, X)
            raw = run_jax(self.compiled, "apply", self._traced(self.apply), self.params, rows)
            values = raw.astype(np.float64)
        else:
            values = np.concatenate(
                [
                    call_host(self, part, start)
                    for start, part in parts(host_rows(self, X), self.max_rows)
                ]
            )
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
        if one_column:
            scores = self.predict(X)
        elif self.backend == "jax":
            rows = jax_rows(self, X)
            scores = run_jax(self.compiled, "scores", self._traced(self.scores), self.params, rows)
        else:
            scores = self._host_scores(X)
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
            changes[name] = self._checked_change(name, value)
        return dataclasses.replace(self, **changes)

    def decided(self) -> tuple[Model, Codes]:
        """A model that answers with a number for the class that this one decides, and the numbers.

        The class is that of `labels`. A row whose scores are not finite has NaN for its class. What
        is compiled is kept with this model.
        """
        function, codes = decided(self)
        fields: dict[str, Any] = {"apply" if self.backend == "jax" else "call": function}
        kept = self.compiled.setdefault(("decided",), {})
        fields |= {"output": "value", "output_names": None, "structure": None, "scores": function}
        return dataclasses.replace(self, decide=None, compiled=kept, **fields), codes

    def unselected(self) -> Model:
        """A model that answers with all columns where `output` selects one, else this model.

        What is compiled is kept with this model.
        """
        if self.output in WORDS:
            return self
        fields: dict[str, Any] = {"call": self.scores}
        if self.backend == "jax":
            fields = {"apply": Selected(self._traced(self.scores), None, self.precision)}
        kept = self.compiled.setdefault(("unselected",), {})
        fields |= {"output": "value", "output_names": None, "structure": None, "compiled": kept}
        return dataclasses.replace(self, **fields)

    def identity(self, shape: tuple[int, ...], dtype: Any) -> str | None:
        """A text that other models do not have, for a privacy ledger; asks the model nothing.

        None: this model cannot be known again (a function on the host, say). shape, dtype: of one
        row as the model sees it.
        """
        return identity(self, shape, dtype)

    def probe(self, rows: Any) -> Probe:
        """What the engine must know before it runs: asked of a few rows, as `Explainer` reads them.

        Raises ModelOutputError, NonDeterministicModelError, InputTypeError (does not trace), and
        the model's own exceptions.
        """
        return probe_jax(self, rows) if self.backend == "jax" else probe_host(self, rows)

    def answer(self, rows: Any, first: int, outputs: int) -> np.ndarray:
        """Host models: the checked answer to one call, float64 [R, K]; first: place in the run."""
        return answer_host(self, rows, first, outputs)

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

    def _checked_change(self, name: str, value: Any) -> Any:
        if name in ("feature_names", "output_names"):
            return options.check_names(name, value)
        if name == "nonfinite":
            return options.check_choice(name, value, options.NONFINITE)
        if name in ("max_rows", "timeout"):
            if self.backend == "jax" and value is not None:
                raise InputError(f"{name}= is for host models; {self.name} is traced by JAX.")
            check = options.check_max_rows if name == "max_rows" else options.check_timeout
            return check(value)
        if name == "params":
            return self._checked_params(value)
        return options.check_flag(name, value)

    def _checked_params(self, params: Any) -> Any:
        if self.params is None:
            raise InputError(
                f"params= cannot be replaced: {self.name} was made without. Make the model anew "
                f"with as_model(f, params=...)."
            )
        check_params(params)
        old, new = (jax.eval_shape(lambda tree: tree, tree) for tree in (self.params, params))
        if jax.tree.structure(old) != jax.tree.structure(new):
            raise InputError(
                "params= must have the structure of the model's own (for an Equinox module: "
                "equinox.filter(module, equinox.is_array)); got another. Make a new model with "
                "as_model."
            )
        leaves = zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True)
        for (path, was), now in leaves:
            if (was.shape, was.dtype) != (now.shape, now.dtype):
                raise InputError(
                    f"params= must keep shapes and dtypes; got {now.dtype}{list(now.shape)} in "
                    f"place of {was.dtype}{list(was.shape)} at params"
                    f"{jax.tree_util.keystr(path)}. Make a new model with as_model."
                )
        return params

    def _host_scores(self, X: Any) -> np.ndarray:
        answers = []
        for start, part in parts(host_rows(self, X), self.max_rows):
            raw = self._guarded(self.scores, part, start)
            answers.append(check_output(raw, len(part), self.name))
        return np.concatenate(answers)

    def _own_labels(self, X: Any) -> np.ndarray:
        if self.backend == "jax":
            rows = jax_rows(self, X)
            raw = run_jax(self.compiled, "scores", self._traced(self.scores), self.params, rows)
            return check_labels(raw, len(rows), self.name)
        function = self.decide or self.call
        answers = []
        for start, part in parts(host_rows(self, X), self.max_rows):
            raw = self._guarded(function, part, start)
            answers.append(check_labels(raw, len(part), self.name))
        return np.concatenate(answers)

    def _guarded(self, function: Callable[..., Any] | None, rows: Any, start: int) -> Any:
        assert function is not None
        return guarded(function, rows, start, None, self.timeout, self.name)

    def _traced(self, function: Callable[..., Any] | None) -> Callable[..., Any]:
        assert function is not None
        return function
