"""Whether two models are the same, and whether one has changed.

Reading order:

    identity       a text that tells a model from any other, for a ledger and for `merge`
    fit_stamp      a quick stamp of a fitted estimator, by which a refit is seen
    known_functions   what a function read when it was traced; the same is not traced again
    patched        whether an estimator is what its class says
"""
