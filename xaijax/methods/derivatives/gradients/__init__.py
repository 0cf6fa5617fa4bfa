"""Integrated and expected gradients: values from a model's gradients between two rows.

Reading order:

    explainer   `GradientExplainer`: reads arguments and rows
    run         tiles and dispatches, the run that fills them, and the model's own answers
    space       where lines run: among the codes of rows, or among a function's results for them
    reading     rows, baselines and players as codes
    slopes      which models have slopes, and what is said of the others
"""
