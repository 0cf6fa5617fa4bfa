"""Wraps every public callable, so that an unknown keyword raises an error before any work.

A user who types a name or a keyword of shap, shapiq, captum, alibi or lime gets an error that names
the counterpart in this library.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from textwrap import indent
from typing import Any, NoReturn, TypeVar

from xaijax.core.errors import InputTypeError

_F = TypeVar("_F", bound=Callable[..., Any])
_C = TypeVar("_C", bound=type)

# Keywords of other libraries, and their names here.
_KNOWN_ELSEWHERE = {
    **dict.fromkeys(("nsamples", "max_evals", "n_samples"), ("budget", "samples")),
    **dict.fromkeys(("masker", "imputer", "baselines"), ("background", "pool")),
    **dict.fromkeys(("clustering", "groups", "feature_mask"), ("players",)),
    **dict.fromkeys(("class_index", "target"), ("output",)),
    "random_state": ("seed",),
    "n_steps": ("steps",),
    "data": ("background",),
    "disc_perc": ("bins",),
    "background": ("pool",),
    "tau": ("threshold",),
    "aggregation": ("index",),
}
# Keywords that belong to another callable: (start of the callable's name, keyword) -> where.
_SAID_ELSEWHERE = {
    ("Explainer", "class_index"): "as_model(output=)",
    ("Explainer", "target"): "as_model(output=)",
    ("GradientExplainer", "target"): "as_model(output=)",
    **{("QII", word): "explain(threshold=)" for word in ("tau", "threshold")},
    **{("QII", word): "explain(index=)" for word in ("aggregation", "index")},
    **{("QII.", word): "QII(seed=)" for word in ("random_state", "seed")},
    **{("QII.", word): "QII(samples=)" for word in ("nsamples", "max_evals", "samples")},
}
# Texts that several public docstrings share: `{name}`, alone on its line, is replaced by the text
# here. Lines of the function's own may follow: another sentence, or another line of "Raises:".
SHARED = {
    "batch_size": """\
batch_size: int or "auto". Model rows sent to the device, or to a host model, at a time, rounded up
    to whole tiles. It changes no value. "auto": 32 tiles (a host model: up to 32,768 rows), or
    fewer if `max_memory` or the model's layers require it. `max_rows` may make a call smaller.""",
    "memory": """\
max_memory: int or None. Limit in bytes for the memory plan of a run. None: the environment's
    `XAIJAX_MEMORY_LIMIT`, or else half of the memory that is free at the first call.
devices: None (all local JAX devices), a number of them, or a list of `jax.Device`.
tile: int or None. Rows of one call of the compiled model, a power of two of at least 32 (for a
    host model the rows that are summed together). None: chosen from the widths of the model's
    layers and the kind of device; for a host model from `max_memory`, too. Sums are rounded within
    a tile: another tile may change the last bits of the values.""",
    "path": """\
path: "auto", "small" or "tiled": how hybrids are answered. "tiled" compiles programs that make
    hybrids, answer them in tiles and sum the answers. "small" compiles nothing but the model, for
    32 rows at a time: hybrids are made and summed in NumPy, so that the first answer to a small
    question comes at once. "auto": "small" for at most 32,768 hybrids (8,192 on an accelerator)
    that make at most 2^25 numbers in the widest layer, if tile= is left out. N instances, B
    background rows and C coalitions of an instance are N B C hybrids. "small" uses one device.
    Values are identical bit for bit within one path, and agree within rounding across paths;
    stats["path"] says which one answered.""",
    "levels": """\
levels: None or "bfloat16", for a JAX function or module. "bfloat16": a copy of the model with
    precision="bfloat16" evaluates the budget's coalitions, and both evaluate a few permutations of
    the players. The values are estimates for the model itself, without bias if the estimator has
    none ("permutation"); standard errors include both draws. It pays on accelerators that are
    faster in bfloat16; stats["full_rows"] is the number of rows that the model itself evaluated.
    For sampled values: it is refused with estimator="exact", tolerance=, top= or a link.""",
    "ax": "ax: matplotlib `Axes` to draw on. None makes a figure.",
    **{
        f"max_{things}": f"max_display: int, at least 1. Number of {things} shown one by one."
        for things in ("players", "sets", "rules")
    },
    "output": "output: name or position of one output. Needed if there are several.",
    "outputs": "output: name or position of one output. None: all outputs.",
    "instance": "instance: position or name of the instance. Needed if there are several.",
    "limit": """\
limit: positive float or None. The end of the colour scale. None: the largest |value|.""",
    "cmap": """\
cmap: a matplotlib colour map or its name, such as "RdBu_r". None: blue, white, orange.""",
    "colorbar": "colorbar: bool. Whether to draw the colour scale.",
    "axes": """\
Returns:
    The `Axes`.

Raises:
    InputError, InputTypeError: an argument is not accepted.
    ImportError: matplotlib is not installed (`pip install "xaijax[plots]"`).""",
    "page": """\
Returns:
    The path.

Raises:
    InputError: there is no such folder, or the path is a folder.
    InputTypeError: an argument has another type.
    ImportError: matplotlib or jinja2 is not installed (`pip install "xaijax[plots]"`).""",
    "table": """\
Raises:
    DataNotFoundError: the file is not found and cannot be downloaded.
    DataHashError: the file's bytes differ from the expected ones.
    MissingExtraError: the extra [data] is not installed.""",
}


SHARED["shown"] = "\n".join(SHARED[name] for name in ("ax", "max_players", "output"))


def public(function: _F, name: str | None = None) -> _F:
    """Wraps a function so that arguments which do not fit its signature raise InputTypeError."""
    signature = inspect.signature(function)
    shown = name or function.__name__

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        unknown = [k for k in kwargs if k not in signature.parameters]
        if unknown:
            raise InputTypeError(_unknown(shown, unknown[0], list(signature.parameters)))
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise InputTypeError(f"{shown}: {error}; it takes {signature}.") from None
        with usual():
            return function(*args, **kwargs)

    checked.__doc__ = filled(function.__doc__)
    return checked  # type: ignore[return-value]


def filled(text: str | None) -> str | None:
    """Returns a docstring with the texts of `SHARED` in place of their names."""
    return text and re.sub(
        r"^( *)\{(\w+)\}$",
        lambda m: indent(SHARED[m[2]], m[1]) if m[2] in SHARED else m[0],
        text,
        flags=re.MULTILINE,
    )


def public_class(cls: _C) -> _C:
    """Wraps the constructor and the public methods of a class in the same way."""
    if cls.__doc__ is not None:
        cls.__doc__ = filled(cls.__doc__)
    for key, member in list(vars(cls).items()):
        if inspect.isfunction(member) and (
            key in ("__init__", "__call__") or not key.startswith("_")
        ):
            shown = cls.__name__ if key.startswith("_") else f"{cls.__name__}.{key}"
            setattr(cls, key, public(member, shown))
    answer_names_of_others(cls)
    return cls


def _unknown(shown: str, keyword: str, parameters: list[str]) -> str:
    accepted = [p for p in parameters if p != "self"]
    names = [p for p in _KNOWN_ELSEWHERE.get(keyword, ()) if p in accepted]
    hint = f" For {keyword}, say {names[0]}=." if names else ""
    for (start, word), there in _SAID_ELSEWHERE.items():
        fits = shown == start or (start[-1] == "." and shown.startswith(start))
        if word == keyword and fits and not names:
            hint = f" Say {there}."
    takes = f"It takes: {', '.join(accepted)}." if accepted else "It takes no arguments."
    return f"{shown} has no keyword {keyword!r}.{hint} {takes}"


_EXPLAIN = "xaijax.Explainer(model, background)"
_GRADIENTS = "xaijax.GradientExplainer(model, background)"
_INTEGRATED = "xaijax.GradientExplainer(model, xaijax.Baseline(row))"
_SAMPLED = "xaijax.Explainer(model, background, estimator="
_ONE_BY_ONE = "xaijax.QII(..., outcome='score', bounds=(low, high), pool=...).unary(X)"
_NOT_HERE = ""


def _each(table: dict[str, str]) -> dict[str, str]:
    """The table with an entry for each word of its keys."""
    return {name: said for names, said in table.items() for name in names.split()}


# Names of modules elsewhere -> what to say here; "": there is nothing like it.
_TOP = _each(
    {
        "TreeExplainer GPUTreeExplainer LinearExplainer AdditiveExplainer ExactExplainer "
        "PartitionExplainer CoalitionExplainer TabularExplainer TreeShap TreeSHAP ShapleyValues "
        "explainers explain shap_values": _EXPLAIN,
        "KernelExplainer KernelShap KernelSHAP Lime LimeTabularExplainer": f"{_SAMPLED}'kernel')",
        "PermutationExplainer SamplingExplainer ShapleyValueSampling": f"{_SAMPLED}'permutation')",
        "DeepExplainer DeepLift DeepLiftShap GradientShap Saliency InputXGradient attr": _GRADIENTS,
        "IntegratedGradients LayerIntegratedGradients": _INTEGRATED,
        "FeatureAblation Occlusion FeaturePermutation": _ONE_BY_ONE,
        "AnchorTabular AnchorText AnchorImage": "xaijax.AnchorExplainer(model, data)",
        "InteractionExplainer KernelSHAPIQ SHAPIQ SVARMIQ TreeSHAPIQ "
        "TreeExplainerIQ": f"{_EXPLAIN}.interactions(X)",
        "InteractionValues": "xaijax.Interactions",
        "maskers masker kmeans sample": "background=rows, or xaijax.background(...)",
        "LRP GuidedBackprop Deconvolution GuidedGradCam LayerGradCam PartialDependence ALE "
        "Counterfactual infidelity sensitivity_max Cohorts": _NOT_HERE,
        "initjs": "nothing: pictures need no JavaScript",
        "links": "link= of xaijax.Explainer",
    }
)
_PICTURES = _each(
    {
        "summary summary_legacy violin": "beeswarm",
        "text sentence": "tokens",
        "decision multioutput_decision": "waterfall",
        "group_difference": "groups",
        "partial_dependence partial": "profile",
        "embedding monitoring": _NOT_HERE,
        "benchmark": "faithfulness",
        "si_graph": "network",
        "upset": "interactions",
        "visualize_image_attr": "image",
    }
)
_OF_EXPLAINERS = _each(
    {
        "shap_values": "explainer(X).values",
        "shap_interaction_values explain_function": "explainer.interactions(X)",
        "expected_value": "explainer(X).base_values",
        "attribute explain explain_row explain_instance": "explainer(X)",
        "fit": "background= of the constructor; there is nothing to fit",
        "masker": "background= of the constructor",
        "compute_convergence_delta": "explainer(X).stats['completeness'] of GradientExplainer",
    }
)
_OF_RESULTS = _each(
    {
        "shap_values": ".values",
        "expected_value": ".base_values",
        "error_std": ".std_errors",
        "shap_interaction_values interaction_values": "explainer.interactions(X)",
        "display_data": ".data",
        "raw": ".stats",
        "meta": ".provenance",
        "anchor": "xaijax.AnchorExplainer(model, data).explain(X)",
        "as_list as_map": ".to_dataframe(long=True)",
        "get_n_order": "explainer.interactions(X, order=n)",
        "cohorts": _NOT_HERE,
    }
)
_CALLED = ("Explainer", "GradientExplainer", "AmortizedExplainer", "FederatedExplainer")
_OF_CLASSES = {
    **dict.fromkeys((*_CALLED, "AnchorExplainer", "QII"), _OF_EXPLAINERS),
    **dict.fromkeys(("Explanation", "Interactions", "Rules"), _OF_RESULTS),
}


def absent(module: str, name: str) -> AttributeError:
    """Returns the error for a name that a module of this library lacks; it names the
    counterpart.
    """
    said = _TOP.get(name) if module == "xaijax" else None
    picture = name.removesuffix("_plot")
    if said is None and (module == "xaijax.plots" or picture != name):
        known = _PICTURES.get(picture)
        if known is None and picture != name:
            drawn = getattr(sys.modules.get("xaijax.plots"), "__all__", ())
            known = picture if picture in drawn else None
        said = f"xaijax.plots.{known}" if known else known
    return AttributeError(f"module {module!r} has no attribute {name!r}{_meant(said)}")


def of_plots(name: str) -> NoReturn:
    """Implements `__getattr__` of `xaijax.plots`."""
    raise absent("xaijax.plots", name)


def answer_names_of_others(cls: type) -> None:
    """Gives a class that has counterparts in other libraries a `__getattr__` for their names."""
    names = _OF_CLASSES.get(cls.__name__)
    if names is None:
        return

    def __getattr__(self: Any, name: str) -> Any:
        if name in names and not hasattr(type(self), name):
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{_meant(names[name])}"
            )
        return object.__getattribute__(self, name)  # raises what Python says, a property's own too

    cls.__getattr__ = __getattr__  # type: ignore[attr-defined]


def _meant(said: str | None) -> str:
    if said is None:
        return ""
    if said == _NOT_HERE:
        return ": this library has nothing like it (docs/coming_from.md)"
    return f". Say {said} (docs/coming_from.md)"


# Settings of the user would make kernels fail: `jax_numpy_rank_promotion="raise"` and
# `jax_numpy_dtype_promotion="strict"` their sums, `jax.disable_jit()` the programs that are
# compiled ahead, `jax_no_tracing` the first trace of each, `jax.transfer_guard("disallow")` the
# rows that are sent to it, and a mesh of `jax.set_mesh` the mesh of their own devices. None of the
# settings changes an answer.

_AS_IT_IS: AbstractContextManager[Any] = nullcontext()


def usual() -> AbstractContextManager[Any]:
    """Returns a context, for the calling thread, in which these settings have JAX's defaults."""
    jax: Any = sys.modules.get("jax")  # if JAX is not loaded yet, it is not loaded here
    if jax is None:
        return _AS_IT_IS
    now = jax.config
    promotes = now.jax_numpy_rank_promotion == "allow"
    promotes = promotes and now.jax_numpy_dtype_promotion == "standard"
    guarded = [now.jax_transfer_guard_host_to_device, now.jax_transfer_guard_device_to_host]
    guarded.append(now.jax_transfer_guard_device_to_device)
    free = all(guard in (None, "allow") for guard in guarded)
    nowhere = jax.sharding.AbstractMesh((), ())
    mesh = jax.sharding.get_abstract_mesh()
    same = mesh == nowhere or bool(mesh.manual_axes)  # a shard_map types its arrays by its mesh
    if promotes and free and same and not now.jax_disable_jit and not now.jax_no_tracing:
        return _AS_IT_IS
    usual_ones = ExitStack()
    usual_ones.enter_context(jax.numpy_rank_promotion("allow"))
    usual_ones.enter_context(jax.numpy_dtype_promotion("standard"))
    usual_ones.enter_context(jax.transfer_guard("allow"))
    usual_ones.enter_context(jax.disable_jit(False))
    usual_ones.enter_context(jax.no_tracing(False))
    usual_ones.enter_context(jax.sharding.use_abstract_mesh(mesh if same else nowhere))
    return usual_ones
