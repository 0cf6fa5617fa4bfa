"""Quantitative input influence: quantity, intervention, difference and index as four axes.

Reading order:

    qii              `QII`: index, single inputs, sets, proxies
    observational    measures that ask no model, to set beside QII: `xaijax.observational`
    record           what an Explanation or a table keeps of a run, and the public facts of it
    recount          the sums of a run counted again in whole numbers, for a private release
    problem          the arguments of a `QII` as read, and the games made of them
    arguments        how to sample, the pool, the prior, as read; axes that do not go together
    outcome          the outcome, the positive class and its column, and the score of a hybrid
    sampled          sampled answers: the design of the draws, and when they stop
    exact            the index, exact answers, what is too large for them; ties by rounding
    quantities       quantities of interest, by name and as objects: `xaijax.quantities`
    difference       differences of Q(nothing replaced) and Q(S)
"""
