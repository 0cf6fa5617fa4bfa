"""Fitted scikit-learn estimators as JAX functions, compared with the estimators themselves.

Reading order:

    settled      who answers after the comparison: the translation, or the estimator
    bridged      a module of another library that JAX traces, compared with itself
    translated   a translation as a model, and its comparison with the estimator
    agreed       rows that need no comparison any more
    families/    the translations, a file per family of estimators
    registry     the registry: `register_translation`, and which translation a class has
    columns      the columns that a translation reads, and rows as numbers for JAX
    centre       large offsets, taken away before numbers become float32
    spread       how far a translation may be from its estimator
"""
