"""Maps names of shap, shapiq, captum, alibi and lime to their counterparts here.

A user who types one of them gets an AttributeError that names the counterpart in this library.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

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
