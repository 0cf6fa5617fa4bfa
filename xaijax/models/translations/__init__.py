"""Fitted scikit-learn estimators as JAX functions, compared with the estimators themselves.

Reading order:

    bridged      a module of another library that JAX traces, compared with itself
    translated   a translation as a model, and its comparison with the estimator
    families/    the translations, a file per family of estimators
    registry     the registry: `register_translation`, and which translation a class has
    columns      the columns that a translation reads, and rows as numbers for JAX
"""
