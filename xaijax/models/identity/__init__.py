"""Tells whether two models are the same, and whether one has changed.

Reading order:

    identity       a text that distinguishes a model from any other, for a ledger and for `merge`
    fit_fingerprint   a fast fingerprint of a fitted estimator, which detects a refit
    patched        whether an estimator behaves as its class does
"""
