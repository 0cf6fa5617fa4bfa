"""xaijax explains machine-learning models in large batches on accelerators.

    import xaijax as xj

    model = xj.as_model(f, params)
    explanation = xj.Explainer(model, background)(X)

The names in this file, `datasets`, `federated`, `plots` and `privacy` are public. Every other
module and its contents are private.

Reading order:

    __main__      `python -m xaijax`
    commands/     the command `xaijax`: explains rows of files without Python; `xaijax demo`
    datasets/     real tables for tests, notebooks and bench
    sweeps/       explains many rows part by part, interrupted and resumed, on many machines
    federated/    Shapley values between parties that keep their columns private
    methods/      the explainers (values, prompts, gradients, QII, anchors, AEC), and how certain
    estimators/   chooses coalitions and turns their values into attributions, exact or sampled
    games/        computes v(S) of many instances from model evaluations
    models/       makes a `Model` of anything callable, or of a fitted estimator
    reports/      HTML pages that describe an explanation
    plots/        pictures of an explanation
    privacy/      explanations with proved noise, and a ledger of the privacy spent
    results/      the frozen results that users get: Explanation, Rules and others
    players/      which columns are kept or replaced together, and the index that weights them
    tables/       rows of any kind as codes, and back
    core/         errors, checks of arguments, and small tools
"""

from __future__ import annotations

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING

# Loaded at once, so that it notices a fork after the first use of JAX by any code.
from xaijax.core import process as _process  # noqa: F401
from xaijax.core.public import absent as _absent
from xaijax.core.version import __version__ as __version__

# A name is loaded at its first use (https://scientific-python.org/specs/spec-0001). Type checkers
# and editors read the imports, Python reads the tables; tests/house/test_import.py compares them.
if TYPE_CHECKING:
    from xaijax import datasets as datasets
    from xaijax import federated as federated
    from xaijax import plots as plots
    from xaijax import privacy as privacy
    from xaijax.core.compilation_cache import enable_compilation_cache as enable_compilation_cache
    from xaijax.core.errors import BudgetExceededError as BudgetExceededError
    from xaijax.core.errors import EnumerationLimitError as EnumerationLimitError
    from xaijax.core.errors import FederatedPeerLost as FederatedPeerLost
    from xaijax.core.errors import FederatedPolicyError as FederatedPolicyError
    from xaijax.core.errors import FederatedProtocolError as FederatedProtocolError
    from xaijax.core.errors import ForkedProcessError as ForkedProcessError
    from xaijax.core.errors import InputError as InputError
    from xaijax.core.errors import InputTypeError as InputTypeError
    from xaijax.core.errors import LongRunWarning as LongRunWarning
    from xaijax.core.errors import MemoryPlanError as MemoryPlanError
    from xaijax.core.errors import ModelOutputError as ModelOutputError
    from xaijax.core.errors import NonDeterministicModelError as NonDeterministicModelError
    from xaijax.core.errors import PrivacyError as PrivacyError
    from xaijax.core.errors import ResumeMismatchError as ResumeMismatchError
    from xaijax.core.errors import SweepIncompleteError as SweepIncompleteError
    from xaijax.core.errors import XaiError as XaiError
    from xaijax.core.errors import XaiWarning as XaiWarning
    from xaijax.federated.in_process.explainer import FederatedExplainer as FederatedExplainer
    from xaijax.games.measure.replacement.baseline import Baseline as Baseline
    from xaijax.games.measure.replacement.tree_paths import TreePaths as TreePaths
    from xaijax.methods.aec.aec import AEC as AEC
    from xaijax.methods.aec.movement import MovementSteps as MovementSteps
    from xaijax.methods.aec.movement import normalized_movement_rate as normalized_movement_rate
    from xaijax.methods.amortized.explainer import AmortizedExplainer as AmortizedExplainer
    from xaijax.methods.anchors.explainer import AnchorExplainer as AnchorExplainer
    from xaijax.methods.certainty.background import background as background
    from xaijax.methods.certainty.background import background_spread as background_spread
    from xaijax.methods.certainty.compare import compare as compare
    from xaijax.methods.certainty.judge import judge as judge
    from xaijax.methods.derivatives.gradients.explainer import (
        GradientExplainer as GradientExplainer,
    )
    from xaijax.methods.derivatives.shapley_values import shapley_values as shapley_values
    from xaijax.methods.explainer.explainer import Explainer as Explainer
    from xaijax.methods.language.causal_lm import CausalLM as CausalLM
    from xaijax.methods.language.explainer import PromptExplainer as PromptExplainer
    from xaijax.methods.loading import load as load
    from xaijax.methods.qii import observational as observational
    from xaijax.methods.qii import quantities as quantities
    from xaijax.methods.qii.qii import QII as QII
    from xaijax.methods.qii.sampled import samples_needed as samples_needed
    from xaijax.models import FirstLayer as FirstLayer
    from xaijax.models import Model as Model
    from xaijax.models import Prefix as Prefix
    from xaijax.models import Split as Split
    from xaijax.models import Translation as Translation
    from xaijax.models import as_jax as as_jax
    from xaijax.models import as_model as as_model
    from xaijax.models import players_of as players_of
    from xaijax.models import register_translation as register_translation
    from xaijax.players.index import SizeLimited as SizeLimited
    from xaijax.reports.collinearity import collinearity_report as collinearity_report
    from xaijax.reports.comparison import comparison_report as comparison_report
    from xaijax.reports.report import report as report
    from xaijax.reports.rules import rules_report as rules_report
    from xaijax.reports.transparency import transparency_report as transparency_report
    from xaijax.results.background import Background as Background
    from xaijax.results.background import BackgroundSpread as BackgroundSpread
    from xaijax.results.coalition_table import CoalitionTable as CoalitionTable
    from xaijax.results.comparison import Comparison as Comparison
    from xaijax.results.explanation import Explanation as Explanation
    from xaijax.results.fingerprint import Fingerprint as Fingerprint
    from xaijax.results.guest_worth import GuestWorth as GuestWorth
    from xaijax.results.interactions import Interactions as Interactions
    from xaijax.results.judgement import Judgement as Judgement
    from xaijax.results.judgement import Judgements as Judgements
    from xaijax.results.merge import merge as merge
    from xaijax.results.plan import Plan as Plan
    from xaijax.results.rules import Rule as Rule
    from xaijax.results.rules import Rules as Rules
    from xaijax.results.top import TopK as TopK
    from xaijax.sweeps import engines as engines
    from xaijax.sweeps.operators import batches as batches
    from xaijax.sweeps.run import Run as Run
    from xaijax.sweeps.run import open_run as open_run
    from xaijax.sweeps.sweep import sweep as sweep
else:
    _MODULES = {
        "datasets": "xaijax.datasets",
        "engines": "xaijax.sweeps.engines",
        "federated": "xaijax.federated",
        "observational": "xaijax.methods.qii.observational",
        "plots": "xaijax.plots",
        "privacy": "xaijax.privacy",
        "quantities": "xaijax.methods.qii.quantities",
    }
    _HOMES = {
        "xaijax.methods.certainty.background": "background background_spread",
        "xaijax.methods.certainty.compare": "compare",
        "xaijax.methods.certainty.judge": "judge",
        "xaijax.core.compilation_cache": "enable_compilation_cache",
        "xaijax.core.errors": (
            "BudgetExceededError EnumerationLimitError FederatedPeerLost FederatedPolicyError "
            "FederatedProtocolError ForkedProcessError InputError InputTypeError "
            "LongRunWarning MemoryPlanError ModelOutputError NonDeterministicModelError "
            "PrivacyError ResumeMismatchError SweepIncompleteError XaiError XaiWarning"
        ),
        "xaijax.federated.in_process.explainer": "FederatedExplainer",
        "xaijax.games.measure.replacement.baseline": "Baseline",
        "xaijax.games.measure.replacement.tree_paths": "TreePaths",
        "xaijax.methods.aec.aec": "AEC",
        "xaijax.methods.aec.movement": "MovementSteps normalized_movement_rate",
        "xaijax.methods.amortized.explainer": "AmortizedExplainer",
        "xaijax.methods.anchors.explainer": "AnchorExplainer",
        "xaijax.methods.derivatives.gradients.explainer": "GradientExplainer",
        "xaijax.methods.derivatives.shapley_values": "shapley_values",
        "xaijax.methods.explainer.explainer": "Explainer",
        "xaijax.methods.language.causal_lm": "CausalLM",
        "xaijax.methods.language.explainer": "PromptExplainer",
        "xaijax.methods.loading": "load",
        "xaijax.methods.qii.qii": "QII",
        "xaijax.methods.qii.sampled": "samples_needed",
        "xaijax.models": (
            "FirstLayer Model Prefix Split Translation as_jax as_model players_of "
            "register_translation"
        ),
        "xaijax.players.index": "SizeLimited",
        "xaijax.reports.collinearity": "collinearity_report",
        "xaijax.reports.comparison": "comparison_report",
        "xaijax.reports.report": "report",
        "xaijax.reports.rules": "rules_report",
        "xaijax.reports.transparency": "transparency_report",
        "xaijax.results.background": "Background BackgroundSpread",
        "xaijax.results.coalition_table": "CoalitionTable",
        "xaijax.results.comparison": "Comparison",
        "xaijax.results.explanation": "Explanation",
        "xaijax.results.fingerprint": "Fingerprint",
        "xaijax.results.guest_worth": "GuestWorth",
        "xaijax.results.interactions": "Interactions",
        "xaijax.results.judgement": "Judgement Judgements",
        "xaijax.results.merge": "merge",
        "xaijax.results.plan": "Plan",
        "xaijax.results.rules": "Rule Rules",
        "xaijax.results.top": "TopK",
        "xaijax.sweeps.operators": "batches",
        "xaijax.sweeps.run": "Run open_run",
        "xaijax.sweeps.sweep": "sweep",
    }
    # Python locks each module by itself: two threads that load names wait for each other.
    _LOADING = RLock()
    _HOME = {name: home for home, names in _HOMES.items() for name in names.split()}
    __all__ = sorted([*_MODULES, *_HOME])

    def __getattr__(name: str) -> object:
        with _LOADING:
            if name in _MODULES:
                value = import_module(_MODULES[name])
            elif name in _HOME:
                value = getattr(import_module(_HOME[name]), name)
            else:
                if name.endswith("_plot"):
                    import_module("xaijax.plots")  # the error names the picture that is meant
                raise _absent("xaijax", name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
