"""Quantitative input influence: quantity, intervention, difference and index as four axes.

Reading order:

    qii              `QII`: index, single inputs, sets, proxies
    observational    measures that ask no model, to set beside QII: `xaijax.observational`
    record           what an Explanation or a table keeps of a run, and the public facts of it
    recount          the sums of a run counted again in whole numbers, for a private release
    problem          the arguments of a `QII` as read, and the games made of them
    arguments        how to sample, the pool, the prior, as read; axes that do not go together
    facts            public facts that a private release needs: sizes, weights, whose rows they are
    outcome          the outcome, the positive class and its column, and the score of a hybrid
    exact            exact answers, out of a game's semivalues, tables and lists; ties by rounding
    sampled          sampled answers: the design of the draws, and when they stop
    quantities       quantities of interest, by name and as objects: `xaijax.quantities`
    difference       differences of Q(nothing replaced) and Q(S), and games by replaced players
    index            `index=`: semivalues, Deegan-Packel, or any Pr[S]
    limits           exact answers that are too large, refused with what to do instead
"""
