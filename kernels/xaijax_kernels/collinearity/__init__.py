"""The arithmetic of AEC: from one pass over the rows to slopes, and from slopes to effects.

Reading order:

    effects   the effect and rank of every column, from slopes on the target and among columns
    moments   means and sums of products of deviations, block by block
    newton    many logistic fits of one column each, as one Newton iteration
"""
