"""Maps names of shap, shapiq, captum, alibi and lime to their counterparts here.

A user who types one of them gets an AttributeError that names the counterpart in this library.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

_EXPLAIN = "xaijax.Explainer(model, background)"
_GRADIENTS = "xaijax.GradientExplainer(model, background)"
_INTEGRATED = "xaijax.GradientExplainer(model, xaijax.Baseline(row))"
_INTERACTIONS = f"{_EXPLAIN}.interactions(X)"
_ANCHORS = "xaijax.AnchorExplainer(model, data)"
_ONE_BY_ONE = "xaijax.QII(..., outcome='score', bounds=(low, high), pool=...).unary(X)"
_BACKGROUND = "background=rows, or xaijax.background(...)"
_NOT_HERE = ""

# Names of modules elsewhere -> what to say here; "": there is nothing like it.
_TOP = {
    **dict.fromkeys(
        "TreeExplainer GPUTreeExplainer LinearExplainer AdditiveExplainer ExactExplainer "
        "PartitionExplainer CoalitionExplainer TabularExplainer TreeShap TreeSHAP ShapleyValues "
        "explainers explain shap_values".split(),
        _EXPLAIN,
    ),
    **dict.fromkeys(
        "KernelExplainer KernelShap KernelSHAP Lime LimeTabularExplainer".split(),
        "xaijax.Explainer(model, background, estimator='kernel')",
    ),
    **dict.fromkeys(
        "PermutationExplainer SamplingExplainer ShapleyValueSampling".split(),
        "xaijax.Explainer(model, background, estimator='permutation')",
    ),
    **dict.fromkeys(
        "DeepExplainer DeepLift DeepLiftShap GradientShap Saliency InputXGradient attr".split(),
        _GRADIENTS,
    ),
    **dict.fromkeys("IntegratedGradients LayerIntegratedGradients".split(), _INTEGRATED),
    **dict.fromkeys("FeatureAblation Occlusion FeaturePermutation".split(), _ONE_BY_ONE),
    **dict.fromkeys("AnchorTabular AnchorText AnchorImage".split(), _ANCHORS),
    **dict.fromkeys(
        "InteractionExplainer KernelSHAPIQ SHAPIQ SVARMIQ TreeSHAPIQ TreeExplainerIQ".split(),
        _INTERACTIONS,
    ),
    "InteractionValues": "xaijax.Interactions",
    **dict.fromkeys("maskers masker kmeans sample".split(), _BACKGROUND),
    **dict.fromkeys(
        "LRP GuidedBackprop Deconvolution GuidedGradCam LayerGradCam PartialDependence ALE "
        "Counterfactual infidelity sensitivity_max Cohorts".split(),
        _NOT_HERE,
    ),
    "initjs": "nothing: pictures need no JavaScript",
    "links": "link= of xaijax.Explainer",
}
_PICTURES = {
    "summary": "beeswarm",
    "summary_legacy": "beeswarm",
    "violin": "beeswarm",
    "text": "tokens",
    "decision": "waterfall",
    "multioutput_decision": "waterfall",
    "group_difference": "groups",
    "partial_dependence": "profile",
    "partial": "profile",
    "embedding": _NOT_HERE,
    "monitoring": _NOT_HERE,
    "benchmark": "faithfulness",
    "si_graph": "network",
    "upset": "interactions",
    "sentence": "tokens",
    "visualize_image_attr": "image",
}
_OF_EXPLAINERS = {
    "shap_values": "explainer(X).values",
    "shap_interaction_values": "explainer.interactions(X)",
    "expected_value": "explainer(X).base_values",
    "attribute": "explainer(X)",
    "explain": "explainer(X)",
    "explain_row": "explainer(X)",
    "explain_instance": "explainer(X)",
    "explain_function": "explainer.interactions(X)",
    "fit": "background= of the constructor; there is nothing to fit",
    "masker": "background= of the constructor",
    "compute_convergence_delta": "explainer(X).stats['completeness'] of GradientExplainer",
}
_OF_RESULTS = {
    "shap_values": ".values",
    "expected_value": ".base_values",
    "error_std": ".std_errors",
    "shap_interaction_values": "explainer.interactions(X)",
    "interaction_values": "explainer.interactions(X)",
    "display_data": ".data",
    "raw": ".stats",
    "meta": ".provenance",
    "anchor": "xaijax.AnchorExplainer(model, data).explain(X)",
    "as_list": ".to_dataframe(long=True)",
    "as_map": ".to_dataframe(long=True)",
    "get_n_order": "explainer.interactions(X, order=n)",
    "cohorts": _NOT_HERE,
}
_OF_CLASSES = {
    **dict.fromkeys(
        "Explainer GradientExplainer AmortizedExplainer AnchorExplainer QII "
        "FederatedExplainer".split(),
        _OF_EXPLAINERS,
    ),
    **dict.fromkeys("Explanation Interactions Rules".split(), _OF_RESULTS),
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
