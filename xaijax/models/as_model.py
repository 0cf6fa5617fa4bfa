"""`as_model`: makes a `Model` from any callable or estimator."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

import jax
import numpy as np

from xaijax.core.checks import instance, one_of
from xaijax.core.errors import InputError, InputTypeError
from xaijax.core.pickling import Kind, at_rest, picklable_class
from xaijax.core.public import public
from xaijax.models.adapters.equinox import equinox_module, is_equinox
from xaijax.models.adapters.flax import is_linen, linen_module, nnx_module
from xaijax.models.adapters.functions import on_one_device, plain_function
from xaijax.models.adapters.haiku import haiku_function
from xaijax.models.adapters.keras import keras_model
from xaijax.models.adapters.onnx import is_onnx, onnx_file
from xaijax.models.adapters.sklearn import estimator, estimator_method, is_estimator, owner_of
from xaijax.models.adapters.torch import torch_module
from xaijax.models.base import options
from xaijax.models.base.options import WORDS, came
from xaijax.models.base.outputs import check_labels, selecting, selector
from xaijax.models.base.source import DECIDED, ModelRecipe, ModelSource
from xaijax.models.base.trace import PRECISIONS, Selected, StateAtTrace, made_once, traced
from xaijax.models.identity.fit_fingerprint import FitFingerprint
from xaijax.models.identity.patched import full_name
from xaijax.models.model import Model
from xaijax.models.queries.comparison import Bridged, TranslationCheck
from xaijax.models.queries.labels import Codes
from xaijax.models.structure import declared
from xaijax.models.structure.declared import FirstLayer, Split
from xaijax.models.structure.prefix import Prefix
from xaijax.models.structure.shortened import Shortened
from xaijax.models.translations.columns import Centre
from xaijax.models.translations.families.trees import by_trees
from xaijax.models.translations.in_jax import InJax, Made, head_of, in_jax
from xaijax.tables.rows import rows_of
from xaijax.tables.table import Untranslatable


@public
def as_model(
    f: Any,
    params: Any = None,
    backend: Literal["auto", "jax", "host"] = "auto",
    output: Any = None,
    classes: Iterable[Any] | None = None,
    threshold: float | None = None,
    feature_names: Iterable[str] | None = None,
    output_names: Iterable[str] | None = None,
    input_shape: tuple[int, ...] | None = None,
    allow_nan: bool | None = None,
    deterministic: bool = True,
    thread_safe: bool = False,
    max_rows: int | None = None,
    timeout: float | None = None,
    precision: Literal["float32", "tf32", "bfloat16", "float64"] = "float32",
    structure: FirstLayer | Split | Prefix | Literal["plain"] | None = None,
    nonfinite: Literal["raise", "propagate"] = "raise",
    state: Any = None,
    mask: str | None = None,
) -> Model:
    """Makes a `Model`, which every explainer takes, from a function or a fitted estimator.

    A model returns one number per row, [R], or K numbers per row, [R, K]; [R, 1] is read as [R]. It
    runs on one of two backends: JAX compiles it for the devices ("jax"), or Python calls it
    ("host"). `as_model` itself neither calls nor traces the model.

    Args:
        f: the model, a function of rows [R, *F]: a JAX function f(X), or f(params, X) with
            `params`, written for a batch; any NumPy callable, with backend="host"; a fitted
            scikit-learn estimator or Pipeline, or another object with `predict`; its method
            `predict_proba`, `decision_function` or `predict`, which is the estimator with that
            output, or its `transform`, `score_samples` or `predict_log_proba`, called on the host;
            a booster of XGBoost or LightGBM; a module of a neural library, or the path of an ONNX
            file (docs/networks.md has each in five lines). A module is used in inference form and
            is not changed. A `Model` is returned unchanged if no option is given.
        params: pytree of arrays or None; the variables of a Flax linen module, the params of a
            Haiku function. They are an argument of the compiled function, never a constant in it.
            Arrays that a JAX function closes over are read once, when it is traced, as by
            `jax.jit`. To change arrays later, pass them here and use `Model.replace`. All programs
            of a model (explanations, `predict`, labels, gradients, interactions) use the values
            that f read at its first trace. If a global, a closed-over value, a default, or an
            attribute named in the code has changed at a later trace, InputError names it; then make
            a new model, which reads the new values.
        backend: where the model runs. "auto" (the default): an estimator runs in JAX if it has a
            translation (`register_translation`), and the two are compared on all rows that are
            explained. If they differ, or there is no translation, the estimator runs on the host,
            and the repr gives the reason. The estimator also evaluates the first few rows of an
            `Explainer`, if compiling would take longer; stats["backend"] tells which ran. All other
            models are traced by JAX. A function that cannot be traced raises an error at its first
            use; it never falls back to the host. "jax": as "auto", but an estimator that cannot run
            in JAX raises an error. "host": Python calls the function or estimator. A translation
            belongs to one fit: if the estimator is changed afterwards, the next use raises
            InputError; then make a new model.
        output: what is explained. For an estimator: "proba", [R, K], also for two classes;
            "decision", scores; "label", the class labels of `predict`; "value", the prediction of a
            regressor; "path-length", the mean path length of an isolation forest; "density", the
            density of a kernel density estimate, whose "decision" is its logarithm. For any other
            model these words change no output: they declare its meaning. A class label, an output's
            index or one of `output_names` selects that column, [R]; if classes are known, a number
            is read as a label. For a classifier without predict_proba the column is its decision
            for that class (with two classes, the decision, negated for the first); without any
            scores, it is 1 where `predict` returns the label, else 0. A classifier of several
            targets has outputs "target: class", such as "0: yes". None: for estimators other than
            regressors "proba", or else "decision" (decision_function or score_samples), if
            available. Otherwise "label" for classifiers, whose labels `Explainer` takes only if
            they are 0 and 1, and an error for clusterers, whose labels are not amounts. "value" for
            all other models.
        classes: labels of the columns, in order, at least two. Estimators have their own.
        threshold: float or None. For models with one score per row and no decision of their own:
            `Model.labels` returns the second class, or 1, for larger scores. Not accepted for
            classifiers with `predict`.
        feature_names: names [F] of the inputs, or None.
        output_names: names [K] of the outputs, or None.
        input_shape: tuple or None. The shape of one instance. None: [F]; for a network the shape of
            the rows; for an explainer that of its background.
        allow_nan: bool or None. Whether rows may hold NaN. None: decided by scikit-learn's tags,
            for a Pipeline step by step up to its imputer, for a ColumnTransformer column by column.
            XGBoost, LightGBM and CatBoost take NaN; functions and neural networks do not.
        deterministic: False: the same rows may get different outputs.
        thread_safe: True: a host model may be called from several threads. One call runs per core
            of this process, if memory allows (`batch_size=` or `max_rows` set the rows of each);
            results and errors are identical to those of one call at a time. False: every call comes
            from the calling thread.
        max_rows: int or None. The largest number of rows in one host call. If it is given, an
            estimator runs on the host.
        timeout: float or None. The time limit of one host call, in seconds; after it TimeoutError
            is raised and earlier outputs are lost (docs/performance.md explains how to keep them).
            None: no limit and no extra thread. If it is given, an estimator runs on the host.
        precision: the precision of a JAX model's products. "float32": full. "tf32": NVIDIA's 10-bit
            format; a CPU then multiplies in float32, TPUs and other GPUs refuse it. "bfloat16": the
            factors of each matrix product or convolution with a parameter, or with another array
            that depends on no row, are rounded to bfloat16 (7 bits) and the products added in
            float32, with the same numbers on every device. Products of two arrays that depend on
            rows, as in attention, and those whose precision f sets, do not change. A CPU is not
            faster with it. "float64" needs jax_enable_x64. docs/accelerators.md compares their
            errors. Host models get the rows' own dtypes, and their outputs are averaged in float64.
            An estimator's translation may differ from it by 1e-5 of the spread of its outputs, in
            "tf32" by 0.8 % and in "bfloat16" by 6 %; if it differs by more, the estimator runs on
            the host.
        structure: the structure of a JAX model, by which coalitions cost less than full rows
            (docs/structures.md). None: searched in its trace: a dense first layer, a convolution, a
            sum of products, an additive model or trees. A `FirstLayer`, a `Split` or a `Prefix`
            declares it. "plain": none; the model evaluates full rows. The structure is compared
            with the model on probe rows and mixtures of them. stats["structure"] names it.
        nonfinite: "raise": a NaN or infinite output is an error. "propagate": it is passed on.
        state: the state of an Equinox module or a Haiku function that has one. It is never changed.
        mask: name of the array of the rows, bool [R, T], that marks the items which are present:
            tokens of an encoder, patches of a vision transformer. Rows are then several arrays,
            such as {"ids": [R, T], "mask": [R, T]}, and f is a JAX function. f is called with
            shorter rows that lack the hidden items: [R, L] in place of [R, T] in all arrays of T
            items, for a few lengths L. If half of the items are absent, this costs about half.
            Shortened rows are compared with masked ones on the probe's rows and hybrids of them.
            InputError is raised if they differ, for example because positions do not follow from
            the mask. None: f gets all items, and hides some by a mask of its rows.

    Returns:
        A `Model`.

    Raises:
        InputError, InputTypeError: an argument is not accepted. The message names the
            argument, what came and what is accepted.

    Example:
        >>> import numpy as np
        >>> import xaijax as xj
        >>> params = np.array([1.0, 2.0], np.float32)
        >>> model = xj.as_model(lambda params, X: X @ params, params)
        >>> model.predict(np.array([[3.0, 4.0]]))
        array([11.])
        >>> xj.as_model(lambda X: np.sort(X)[:, 0], backend="host").predict(np.array([[3.0, 4.0]]))
        array([3.])
    """
    if isinstance(f, Model):
        _check_no_options(dict(locals()))
        return f
    arguments = at_rest(locals().items())
    names = "classes", "feature_names", "output_names"  # which may be iterators
    classes, feature_names, output_names = (arguments[name] for name in names)
    one_of(backend, "backend=", ("auto", "jax", "host"))
    one_of(precision, "precision=", PRECISIONS)
    one_of(nonfinite, "nonfinite=", options.NONFINITE)
    source = read(f, params, state, backend)
    source = dataclasses.replace(source, params=on_one_device(source.params))
    known = _known_classes(source, options.check_classes(classes))
    titles = options.check_names("output_names", output_names)
    output, named, columns = _of_names(output, titles, known)
    chosen = options.check_output_option(output, known)
    chosen = _default(source, known) if chosen is None else chosen
    cut = _check_cut(source, chosen, known, options.check_threshold(threshold))
    shared = options.check_flag("thread_safe", thread_safe)
    _check_backend_options(source, backend == "host", precision, max_rows, timeout, shared)
    class_names = tuple(map(str, source.classes or ())) if chosen == "proba" else None
    fields: dict[str, Any] = {
        "why": source.reason,
        "output": chosen if columns is None else _name_at(titles, chosen),
        "selects": None if chosen in WORDS else source.selects,
        "classes": known,
        "threshold": cut,
        "feature_names": options.check_names("feature_names", feature_names)
        or source.feature_names,
        "output_names": named or class_names or None,
        "input_shape": options.check_input_shape(input_shape),
        "network": source.network,
        "allow_nan": source.takes_nan
        if allow_nan is None
        else options.check_flag("allow_nan", allow_nan),
        "nonfinite": nonfinite,
        "deterministic": options.check_flag("deterministic", deterministic),
        "thread_safe": shared,
        "max_rows": options.check_max_rows(max_rows),
        "timeout": options.check_timeout(timeout),
        "precision": precision,
        "name": source.name,
        "recipe": ModelRecipe.of(as_model, source, arguments),
    }
    head = _head(source, chosen, known)
    select = selector(chosen, known, source.name, columns)
    structure = _check_mask(source, mask, structure)
    has_params = source.params is not None
    declared_as = structure, source.backend, has_params, select, precision, source.name
    fields["structure"] = None if structure is None else declared.ready(*declared_as)
    if source.backend == "jax":
        read_as = f if source.again is None else source.again[0]
        state_of_f = StateAtTrace(read_as, source.name)
        whole = traced(head, precision, source.name, state_of_f)
        if mask is not None:
            whole = fields["shortened"] = Shortened(whole, mask, source.name)
        use = precision, source.name, source.params is None, repr(chosen), repr(known), columns
        make = partial(Selected, whole, select, precision, state_of_f)
        # What the comparison of shortened rows finds belongs to this model.
        apply = make() if mask is not None else made_once(f, use, make)
        whole = apply.whole
        if source.original is not None:
            fields["comparison"] = Bridged(source.name, whole, source.params, source.original)
        return Model(loop="jax", apply=apply, scores=whole, params=source.params, **fields)
    fields["estimator"] = source.estimator
    call = head if select is None else selecting(head, select, source.name, chosen, known)
    host = Model(loop="host", call=call, scores=head, decide=source.decide, **fields)
    if backend == "host" or source.estimator is None:
        return host
    return _translated(host, source, head, select, backend)


def _translated(
    host: Model, source: ModelSource, head: Callable[..., Any], select: Any, backend: str
) -> Model:
    """The JAX model of an estimator, or `host` with the reason why there is none."""
    estimator, output, title = source.estimator, host.output, full_name(source.estimator)
    # Taken before reading, so that no later state is mistaken for this one.
    fingerprint = FitFingerprint(estimator)
    word = output if output in WORDS else source.columns
    one_each = not source.several

    def made(centre: Centre | None = None) -> Made:
        names = host.feature_names
        of = estimator, fingerprint, source.name
        translated = in_jax(*of, host.classes, names, host.precision, centre)
        return translated, traced(head_of(translated, word, estimator), host.precision, source.name)

    def fields(translated: InJax, whole: Callable[..., Any]) -> dict[str, Any]:
        """The fields of a model that come from its translation."""
        decide = None if one_each else source.decide  # which refuses
        if translated.decide is not None and one_each:
            labels = traced(translated.decide, host.precision, source.name)
            decide = Selected(labels, None, host.precision)
        offset = None if translated.offset is None else np.asarray(translated.offset, np.float64)
        if offset is not None and select is not None:
            offset = np.asarray(select(offset[None])[0])
        return {
            "apply": Selected(whole, select, host.precision),
            "params": translated.translation.params,
            "scores": whole,
            "decide": decide,
            "reader": translated.reader,
            "offset": offset,
        }

    try:
        for name in ("max_rows", "timeout"):
            if getattr(host, name) is not None:
                raise Untranslatable(f"{name}= applies to calls on the host")
        translated, whole = made()
    except Untranslatable as reason:
        if backend == "jax":
            raise InputError(
                f"backend='jax' is not available for {title}: {reason}. Leave it out."
            ) from None
        if host.precision != "float32":
            raise InputError(
                f"precision={host.precision!r} is for models that JAX traces, and {source.name} "
                f"runs on the host: {reason}. Leave it out."
            ) from None
        said = "" if source.name == title else f", of {title}"
        because = "; ".join(filter(None, [f"{reason}{said}", source.reason]))
        return dataclasses.replace(host, why=because)
    comparison = TranslationCheck(
        translated,
        whole,
        by_trees(estimator, head),
        source.decide if one_each else None,
        host.classes,
        backend == "jax",
        source.name,
        made,
        estimator,
        host.precision,
        fingerprint,
    )
    return dataclasses.replace(
        host,
        loop="jax",
        why="; ".join(filter(None, [f"the JAX translation of {title}", source.reason])),
        call=None,
        original=dataclasses.replace(host, precision="float32", compiled={}),
        comparison=comparison,
        recentred=lambda model, made: dataclasses.replace(model, **fields(*made)),
        compiled={},
        **fields(translated, whole),
    )


def _of_names(
    output: Any, names: tuple[str, ...] | None, classes: tuple[Any, ...] | None
) -> tuple[Any, tuple[str, ...] | None, int | None]:
    """(output, names, number of columns). If `output` names one of several columns, these are
    its position, None and their number; otherwise the arguments and None.
    """
    if names is None or len(names) < 2 or classes is not None:
        return output, names, None
    if isinstance(output, str) and output not in WORDS and output in names:
        return names.index(output), None, len(names)
    if isinstance(output, int | np.integer) and not isinstance(output, bool):
        return output, None, len(names)
    return output, names, None


def _name_at(names: tuple[str, ...] | None, place: Any) -> Any:
    """The name of an output; its position if it has no name, or one that is a word of output=."""
    if names is None or not 0 <= place < len(names) or names[place] in WORDS:
        return place
    return names[place]


def _default(source: ModelSource, classes: tuple[Any, ...] | None) -> str:
    """The word that output=None means."""
    if source.default is None:
        label = "<label>" if classes is None else repr(classes[0])
        also = (
            "output='label' with QII or AnchorExplainer, which ask for labels"
            if "label" in source.heads
            else "another of its classes"
        )
        raise InputError(
            f"output= must be given for {source.name}: it has neither predict_proba nor "
            "decision_function, and a mean over the numbers of clusters or classes means nothing. "
            f"Say output={label}: 1 where predict gives that label and else 0, or {also}."
        )
    return source.default


def _head(source: ModelSource, output: Any, classes: tuple[Any, ...] | None) -> Callable[..., Any]:
    word = output if output in WORDS else source.columns
    if word == DECIDED and word not in source.heads:
        return _decided(source, output, classes)
    if word not in source.heads:
        accepted = [repr(name) for name in WORDS if name in source.heads]
        shown = source.name if source.method is None else f"{source.name}.{source.method}"
        raise InputError(
            f"output={output!r} is not available for {shown}; accepted: {', '.join(accepted)}, or "
            "one of its class labels or output indices."
        )
    return source.heads[word]


def _decided(
    source: ModelSource, output: Any, classes: tuple[Any, ...] | None
) -> Callable[[Any], np.ndarray]:
    """Indicator of each row's predicted class, float64 [R, K]."""
    decide = source.decide
    if classes is None or decide is None:
        raise InputError(
            f"output={output!r} needs all labels that {source.name} returns: classes=[...]."
        )
    codes = Codes(classes, name=source.name)

    def columns(rows: Any) -> np.ndarray:
        places = codes.of(check_labels(decide(rows), len(rows_of(rows)), source.name))
        return (places[:, None] == np.arange(len(classes))).astype(np.float64)

    return columns


def _known_classes(source: ModelSource, classes: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    if classes is None or source.classes == classes:
        return source.classes or classes
    if source.classes is not None:
        raise InputError(
            f"classes= must agree with the classes of {source.name}, {came(list(source.classes))}; "
            f"got {came(list(classes))}. Leave it out; output_names= names columns."
        )
    if "label" not in source.heads:
        raise InputError(f"classes= is for classifiers, and {source.name} is none. Leave it out.")
    return classes


def _check_cut(
    source: ModelSource, output: Any, classes: tuple[Any, ...] | None, threshold: float | None
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


def _check_mask(source: ModelSource, mask: Any, structure: Any) -> Any:
    """structure= of a model with mask=, in which no structure is searched."""
    if mask is None:
        return structure
    instance(mask, "mask", str, "the name of a leaf of the rows, or None")
    if source.backend != "jax":
        raise InputError(
            f"mask= is for functions that JAX traces, and {source.name} is none. Leave it out."
        )
    if structure not in (None, declared.PLAIN):
        raise InputError(
            "structure= cannot be combined with mask=, which shortens rows. Leave one out."
        )
    return declared.PLAIN


def _check_backend_options(
    source: ModelSource,
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
    else:
        only = {"max_rows": max_rows, "timeout": timeout, "thread_safe": thread_safe or None}
        for name, value in only.items():
            if value is not None:
                raise InputError(
                    f"{name}= is for host models; got {value!r} for {source.name}, which JAX "
                    f"traces. Leave it out, or say backend='host'."
                )
    if precision == "float64" and not jax.config.jax_enable_x64:
        raise InputError(
            "precision='float64' needs 64-bit JAX, which is off. Turn it on at the start of the "
            "program: jax.config.update('jax_enable_x64', True), or JAX_ENABLE_X64=1."
        )


def _check_no_options(options: dict[str, Any]) -> None:
    for name, parameter in inspect.signature(as_model).parameters.items():
        value, default = options[name], parameter.default
        same = value is default or (type(value) is type(default) and value == default)
        if name != "f" and not same:
            raise InputError(
                f"{name}= was given for f= that already is a Model. Say model.replace({name}=...), "
                "or make it anew from the function."
            )


def model_of(f: Any, name: str = "model") -> Model:
    """The model of an explainer: a `Model` as it is, otherwise as_model(f).

    Raises what `as_model` raises, with the argument's own name.
    """
    try:
        return as_model(f)
    except (InputError, InputTypeError) as error:
        text = str(error)
        text = f"{name} {text[3:]}" if text.startswith("f= ") else f"{name}: {text}"
        raise type(error)(text) from None


def explainer_class(cls: Kind) -> Kind:
    """`picklable_class` for explainers: `model` may be anything that `as_model` takes."""
    return picklable_class(cls, _read_model)


def gradient_class(cls: Kind) -> Kind:
    """`explainer_class` if `model` may also be a pair (embed, head)."""
    return picklable_class(cls, _read_pair)


def _read_model(name: str, value: Any) -> Any:
    return model_of(value) if name == "model" else value


def _read_pair(name: str, value: Any) -> Any:
    if name != "model" or type(value) is not tuple or len(value) != 2:
        return value if type(value) is tuple else _read_model(name, value)
    if is_linen(value) and isinstance(value[1], Mapping):  # a module and its variables
        return model_of(value)
    return value[0], model_of(value[1], "model: head of (embed, head)")


def is_of(f: Any, module: str, *kinds: str) -> bool:
    """Whether f is an instance of a library's classes with these names; does not import the
    library."""
    library = sys.modules.get(module)
    return library is not None and isinstance(f, tuple(getattr(library, kind) for kind in kinds))


Adapter = tuple[Callable[[Any], bool], Callable[[Any, Any, Any, str], ModelSource]]

# Added to an error about a text or a path.
LOAD = (
    " A file of another model has to be loaded first: xgboost.Booster(model_file=path), "
    "lightgbm.Booster(model_file=path), catboost.CatBoost().load_model(path), joblib.load(path)."
)

# (test whether f is of this library, without importing it; reader of f, params=, state=, backend=)
ADAPTERS: list[Adapter] = [
    (is_onnx, onnx_file),
    (is_linen, linen_module),
    (lambda f: is_of(f, "flax.nnx", "Module"), nnx_module),
    (lambda f: is_of(f, "haiku", "Transformed", "TransformedWithState"), haiku_function),
    (is_equinox, equinox_module),
    (lambda f: is_of(f, "keras", "Model"), keras_model),
    (lambda f: is_of(f, "torch.nn", "Module"), torch_module),
]


def read(f: Any, params: Any, state: Any, backend: str) -> ModelSource:
    """Reads f with its adapter.

    Raises InputError or InputTypeError for a model that no adapter takes.
    """
    if isinstance(f, FunctionType) and state is None:  # no library's adapter takes it
        return plain_function(f, params, backend)
    owner = getattr(f, "__self__", None)
    if is_of(owner, "keras", "Model") and getattr(f, "__name__", None) == "predict":
        f = owner  # the same outputs, in one call for all rows, and traced if Keras runs on JAX
    for takes, read in ADAPTERS:
        if takes(f):
            return read(f, params, state, backend)
    if state is not None:
        raise InputTypeError("state= goes with Equinox modules and Haiku functions. Leave it out.")
    if isinstance(f, type):
        raise InputTypeError(
            f"f= must be an instance of a model; got the class {f.__name__}. Pass an instance."
        )
    if is_estimator(f):
        return estimator(f, params, backend)
    if (owner := owner_of(f)) is not None:
        return estimator_method(f, owner, params, backend)
    if not callable(f):
        raise InputTypeError(
            f"f= must be a Model of xaijax.as_model, a function of rows, a fitted estimator or its "
            f"method, a module of Flax, Equinox, Haiku, Keras or PyTorch, or the path of an ONNX "
            f"file; got {type(f).__name__} {came(f)}.{LOAD if isinstance(f, str | Path) else ''}"
        )
    return plain_function(f, params, backend)
