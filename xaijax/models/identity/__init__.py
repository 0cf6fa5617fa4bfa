"""Whether two models are the same, and whether one has changed.

Reading order:

    identity       a text that distinguishes a model from any other, for a ledger and for `merge`
    fit_fingerprint   a fast stamp of a fitted estimator, by which a refit is seen
    patched        whether an estimator is what its class says
"""
