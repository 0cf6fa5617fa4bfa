"""Samples for QII: evaluates single hybrids, whose scores are the terms of a mean.

Reading order:

    fixed_pool   the authors' scheme: orders crossed with one pool of rows that is drawn once
    run          a run of draws, chunk by chunk; means, standard errors, intervals
    designs      coalitions and terms of a draw: random orders, random sets, or a list
"""
