"""The explainers, a package each: from arguments to an Explanation or to Rules.

Reading order:

    certainty/     measures how certain an explanation is: `judge`, `compare`, `background`
    loading        `load`: reads what was saved from its file
    amortized/     `AmortizedExplainer`: a network that is trained on an explainer's values
    qii/           `QII`: how much inputs influence decisions, by four axes
    language/      `PromptExplainer`: segments of a language model's prompt as players
    explainer/     `Explainer`: Shapley, Banzhaf and other semivalues of a model's answers
    derivatives/   values in losses, `shapley_values`, and by gradients, `GradientExplainer`
    anchors/       `AnchorExplainer`: rules that hold a prediction
    aec/           `AEC`: a ranking of columns that needs no model
    record         what every explainer keeps of a run: its bar, its plan, numbers, how it was made
"""
