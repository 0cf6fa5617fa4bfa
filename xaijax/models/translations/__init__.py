"""Translates fitted scikit-learn estimators to JAX functions, which are compared with the
estimators.

Reading order:

    in_jax       a fitted estimator as a function of JAX, before an output is chosen
    families/    the translations, a file per family of estimators
    registry     the registry: `register_translation`, and the translation of a class
    columns      the columns that a translation reads, and rows as numbers for JAX
"""
