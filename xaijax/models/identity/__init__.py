"""Whether two models are the same, and whether one has changed.

Reading order:

    identity       a text that tells a model from any other, for a ledger and for `merge`
    fitted_state   a digest of all that a fitted estimator holds
    fit_stamp      a quick stamp of a fitted estimator, by which a refit is seen
    known_functions   what a function read when it was traced; the same is not traced again
    function_state    all that a Python function refers to, where that can be read
    patched        whether an estimator is what its class says
"""
