"""`as_model`: anything callable, or an estimator, becomes a `Model`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from xaijax._coded_table import Untranslatable
from xaijax._errors import InputError, InputTypeError
from xaijax._public import public
from xaijax.models import _options as options
from xaijax.models import _structure
from xaijax.models._centre import Centre
from xaijax.models._estimators import estimator, is_estimator, told
from xaijax.models._fit_stamp import Stamp
from xaijax.models._functions import plain_function
from xaijax.models._libraries import (
    equinox_module,
    flax_module,
    is_equinox,
    is_flax,
    refuse_unsupported,
)
from xaijax.models._model import Model
from xaijax.models._options import WORDS, came
from xaijax.models._outputs import check_raw, selector
from xaijax.models._source import Source
from xaijax.models._structure import FirstLayer
from xaijax.models._trace import Selected, traced
from xaijax.models._translated import Comparison, InJax, Made, head_of, in_jax


@public
def as_model(
    f: Any,
    params: Any = None,
    backend: str = "auto",
    output: Any = None,
    classes: Any = None,
    threshold: float | None = None,
    feature_names: Any = None,
    output_names: Any = None,
    input_shape: tuple[int, ...] | None = None,
    allow_nan: bool = False,
    deterministic: bool = True,
    thread_safe: bool = False,
    max_rows: int | None = None,
    timeout: float | None = None,
    precision: str = "float32",
    structure: FirstLayer | str | None = None,
    nonfinite: str = "raise",
) -> Model:
    """Make a `Model` of f. Nothing is called or traced here; that is left to the first use.

    Args:
      f: rows [R, *F] -> [R] or [R, K], as one of: a batched JAX function f(X), or f(params, X) with
        `params`; any NumPy callable (say backend="host"); a fitted scikit-learn estimator or
        Pipeline, or another object with `predict`; a Flax linen pair (module, variables); an
        Equinox module, written for one instance. [R, 1] is read as [R].
      params: a pytree of arrays, an argument of the compiled function and never a constant. Arrays
        that a JAX function closes over are read once, when it is traced, as `jax.jit` reads them:
        to change them, pass them here and use `Model.replace`.
      backend: "auto" | "jax" | "host". "auto" runs estimators that have a translation in JAX
        (`register_translation`) and compares them with the estimator on all rows explained; where
        they differ, and where there is none, the estimator itself runs on the host, and the repr
        says why. With "jax" that is an error. A translation is of the fit that was read: where the
        estimator changes afterwards, the next use is an InputError; wrap it anew. The rest is
        traced; a function that does not trace is an error at its first use, never run on the host
        unasked.
      output: "proba" (default of classifiers: [R, K], also for two classes), "decision" (default
        of classifiers without predict_proba), "label" (f returns class labels; default of
        classifiers with neither), "value" (default of everything else), or a class label or output
        index: [R], that column. Where classes are known, a number is read as a label. The column
        of a classifier without predict_proba is its decision for that class (of two classes: the
        decision, negated for the first).
      classes: the labels of the columns, in order; an estimator brings its own.
      threshold: a score above it is positive, for `Model.labels`; for one score per row.
      feature_names, output_names: names of inputs [F] and outputs [K].
      input_shape: the shape of one instance; None: [F].
      allow_nan: rows may hold NaN.
      deterministic: False says that the same rows may get different answers.
      thread_safe: of host models: they may be called from several threads: True asks as many calls
        (batch_size=, max_rows=) at a time as this process has cores and the memory allows, with
        results, errors and bits as one by one. False: every call comes from the calling thread.
      max_rows: rows in one host call at most; an estimator stays on the host then.
      timeout: seconds one host call may take; then TimeoutError, and what was answered before is
        lost (docs/performance.md: pieces that are kept). None: no limit, no thread. An estimator
        stays on the host then.
      precision: of JAX models: "float32" (full products), "tf32", or "float64" (needs
        jax_enable_x64). Host models get the dtypes given and are reduced in float64.
      structure: what is known of a model that runs in JAX, by which hybrids cost less than whole
        rows (docs/structures.md): None: what is found in the model's own trace, a dense first
        layer, a sum of products, an additive model or trees; a `FirstLayer`: one that is declared;
        "plain": nothing, so that the model answers whole rows. Compared with the model on probe
        rows and hybrids of them; `stats["structure"]` says what answered.
      nonfinite: "raise" | "propagate": what a NaN or infinite answer does.

    A `Model` comes back as it is when no option is given.

    Raises:
      InputTypeError, InputError: naming the argument, what came, what is accepted.
    """
    if isinstance(f, Model):
        _check_no_options(dict(locals()))
        return f
    _check_choices(backend, precision, nonfinite)
    source = _source(f, params, backend)
    known = _known_classes(source, options.check_classes(classes))
    chosen = options.check_output_option(output, known)
    chosen = source.default if chosen is None else chosen
    cut = _check_cut(source, chosen, known, options.check_threshold(threshold))
    shared = options.check_flag("thread_safe", thread_safe)
    _check_backend_options(source, backend == "host", precision, max_rows, timeout, shared)
    fields: dict[str, Any] = {
        "why": source.reason,
        "output": chosen,
        "classes": known,
        "threshold": cut,
        "feature_names": options.check_names("feature_names", feature_names)
        or source.feature_names,
        "output_names": options.check_names("output_names", output_names)
        or _class_names(source, chosen),
        "input_shape": options.check_input_shape(input_shape),
        "allow_nan": options.check_flag("allow_nan", allow_nan),
        "nonfinite": nonfinite,
        "deterministic": options.check_flag("deterministic", deterministic),
        "thread_safe": shared,
        "max_rows": options.check_max_rows(max_rows),
        "timeout": options.check_timeout(timeout),
        "precision": precision,
        "name": source.name,
    }
    head = _head(source, chosen)
    select = selector(chosen, known, source.name)
    fields["structure"] = _structure.ready(
        structure, source.backend, source.params is not None, select, precision, source.name
    )
    if source.backend == "jax":
        whole = traced(head, precision, source.name)
        apply = Selected(whole, select, precision)
        return Model(loop="jax", apply=apply, scores=whole, params=source.params, **fields)
    fields["estimator"] = source.estimator
    call = head if select is None else _selecting(head, select, source.name)
    host = Model(loop="host", call=call, scores=head, decide=source.decide, **fields)
    if backend == "host" or source.estimator is None:
        return host
    return _translated(host, source, head, select, backend)


def _translated(
    host: Model, source: Source, head: Callable[..., Any], select: Any, backend: str
) -> Model:
    """The model in JAX of an estimator, or `host` with the reason why there is none."""
    estimator, output = source.estimator, host.output
    stamp = Stamp(estimator)  # before it is read, so that no later state passes for this one
    word = output if output in WORDS else source.columns

    def made(centre: Centre | None = None) -> Made:
        names = host.feature_names
        found = in_jax(estimator, source.name, host.classes, names, host.precision, centre)
        return found, traced(head_of(found, word, estimator), host.precision, source.name)

    def fields(found: InJax, whole: Callable[..., Any]) -> dict[str, Any]:
        """What a model has of its translation."""
        decide = None
        if found.decide is not None:
            own = traced(found.decide, host.precision, source.name)
            decide = Selected(own, None, host.precision)
        offset = None if found.offset is None else np.asarray(found.offset, np.float64)
        if offset is not None and select is not None:
            offset = np.asarray(select(offset[None])[0])
        return {
            "apply": Selected(whole, select, host.precision),
            "params": found.translation.params,
            "scores": whole,
            "decide": decide,
            "reader": found.reader,
            "offset": offset,
        }

    try:
        for name in ("max_rows", "timeout"):
            if getattr(host, name) is not None:
                raise Untranslatable(f"{name}= is of calls on the host")
        found, whole = made()
    except Untranslatable as reason:
        if backend == "jax":
            raise InputError(
                f"backend='jax' is not available for {told(estimator)}: {reason}. Say "
                f"backend='auto' or 'host'."
            ) from None
        if host.precision != "float32":
            raise InputError(
                f"precision={host.precision!r} is for models that JAX traces, and {source.name} "
                f"runs on the host: {reason}. Leave it out."
            ) from None
        said = "" if source.name == told(estimator) else f", of {told(estimator)}"
        because = "; ".join(filter(None, [f"{reason}{said}", source.reason]))
        return dataclasses.replace(host, why=because)
    comparison = Comparison(
        found,
        whole,
        head,
        source.decide,
        host.classes,
        backend == "jax",
        source.name,
        made,
        estimator,
        stamp,
    )
    because = f"the JAX translation of {told(estimator)}"
    return dataclasses.replace(
        host,
        loop="jax",
        why="; ".join(filter(None, [because, source.reason])),
        call=None,
        original=dataclasses.replace(host, precision="float32", compiled={}),
        comparison=comparison,
        recentred=lambda model, made: dataclasses.replace(model, **fields(*made)),
        compiled={},
        **fields(found, whole),
    )


def _source(f: Any, params: Any, backend: str) -> Source:
    """Ask the adapters, the most particular first."""
    if is_flax(f):
        return flax_module(f, params, backend)
    refuse_unsupported(f)
    if is_equinox(f):
        return equinox_module(f, params, backend)
    if isinstance(f, type):
        raise InputTypeError(f"f= must be a model; got the class {f.__name__}. Pass an instance.")
    if is_estimator(f):
        return estimator(f, params, backend)
    if not callable(f):
        raise InputTypeError(
            f"f= must be a function of rows, a fitted estimator, a Flax (module, variables) pair "
            f"or an Equinox module; got {type(f).__name__} {came(f)}."
        )
    return plain_function(f, params, backend)


def _head(source: Source, output: Any) -> Callable[..., Any]:
    word = output if output in WORDS else source.columns
    if word not in source.heads:
        accepted = [repr(name) for name in WORDS if name in source.heads]
        raise InputError(
            f"output={output!r} is not available for {source.name}; accepted: "
            f"{', '.join(accepted)}, or one of its class labels or output indices."
        )
    return source.heads[word]


def _class_names(source: Source, output: Any) -> tuple[str, ...] | None:
    if output != "proba" or source.classes is None:
        return None
    return tuple(str(label) for label in source.classes)


def _selecting(
    head: Callable[..., Any], select: Callable[[Any], Any], name: str
) -> Callable[[Any], Any]:
    def call(rows: Any) -> Any:
        return select(check_raw(head(rows), len(rows), name))

    return call


def _check_choices(backend: Any, precision: Any, nonfinite: Any) -> None:
    options.check_choice("backend", backend, options.BACKENDS)
    options.check_choice("precision", precision, options.PRECISIONS)
    options.check_choice("nonfinite", nonfinite, options.NONFINITE)


def _known_classes(source: Source, classes: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    if classes is None or source.classes == classes:
        return source.classes or classes
    if source.classes is not None:
        raise InputError(
            f"classes= must agree with the classes of {source.name}, "
            f"{came(list(source.classes))}; got {came(list(classes))}. Leave it out; output_names= "
            f"names the columns in words of your own."
        )
    if "label" not in source.heads:
        raise InputError(f"classes= is for classifiers, and {source.name} is none. Leave it out.")
    return classes


def _check_cut(
    source: Source, output: Any, classes: tuple[Any, ...] | None, threshold: float | None
) -> float | None:
    if threshold is None:
        return None
    if source.decide is not None:
        raise InputError(
            f"threshold= is for models that only give a score; {source.name} decides by its own "
            f"predict. Leave it out, or wrap predict_proba as a function with backend='host'."
        )
    if output == "label":
        raise InputError("threshold= needs a score, and output='label' gives none. Leave one out.")
    if classes is not None and len(classes) != 2:
        raise InputError(
            f"threshold= decides between two classes; got {len(classes)}: {came(list(classes))}. "
            f"Leave it out: the class of the largest column is then the label."
        )
    return threshold


def _check_backend_options(
    source: Source,
    on_host: bool,
    precision: str,
    max_rows: Any,
    timeout: Any,
    thread_safe: Any,
) -> None:
    if source.backend == "host":
        if precision != "float32" and (on_host or source.estimator is None):
            raise InputError(
                f"precision= is for models that JAX traces; got {precision!r} for {source.name} on "
                f"the host, which gets the dtypes given and is reduced in float64. Leave it out."
            )
        _check_x64(precision)
        return
    for name, value in (
        ("max_rows", max_rows),
        ("timeout", timeout),
        ("thread_safe", thread_safe or None),
    ):
        if value is not None:
            raise InputError(
                f"{name}= is for host models; got {value!r} for {source.name}, which JAX traces. "
                f"Leave it out, or say backend='host'."
            )
    _check_x64(precision)


def _check_x64(precision: str) -> None:
    if precision == "float64" and not jax.config.jax_enable_x64:
        raise InputError(
            "precision='float64' needs 64-bit JAX, which is off. Turn it on at the start of the "
            "program: jax.config.update('jax_enable_x64', True), or JAX_ENABLE_X64=1."
        )


def _check_no_options(given: dict[str, Any]) -> None:
    for name, parameter in inspect.signature(as_model).parameters.items():
        value, default = given[name], parameter.default
        same = value is default or (type(value) is type(default) and value == default)
        if name != "f" and not same:
            raise InputError(
                f"{name}= was given for f= that already is a Model. Say model.replace({name}=...) "
                f"where it takes that, or make the model anew from the function."
            )
