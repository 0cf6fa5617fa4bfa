"""Whether two models are the same, and whether one has changed.

Reading order:

    identity       a text that tells a model from any other, for a ledger and for `merge`
    fit_stamp      a quick stamp of a fitted estimator, by which a refit is seen
    patched        whether an estimator is what its class says
"""
