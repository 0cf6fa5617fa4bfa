"""Fitted scikit-learn estimators as JAX functions, compared with the estimators themselves.

Reading order:

    in_jax       a fitted estimator as a function of JAX, before an output is chosen
    families/    the translations, a file per family of estimators
    registry     the registry: `register_translation`, and which translation a class has
    columns      the columns that a translation reads, and rows as numbers for JAX
"""
