"""Fitted scikit-learn estimators as JAX functions, compared with the estimators themselves.

Reading order:

    translated   a translation as a model, compared with its estimator, and who answers
    families/    the translations, a file per family of estimators
    registry     the registry: `register_translation`, and which translation a class has
    columns      the columns that a translation reads, and rows as numbers for JAX
"""
