"""Integrated and expected gradients: what a model's slopes between two rows say of its inputs.

Reading order:

    explainer   `GradientExplainer`: reads arguments and rows
    run         tiles and dispatches, the run that fills them, and the model's own answers
    space       where lines run: among the codes of rows, or among what a function makes of them
    reading     rows, baselines and players as codes
    slopes      which models have slopes, and what is said of the others
"""
