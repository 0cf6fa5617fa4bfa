"""Defines the players, and the weight of each marginal contribution.

Reading order:

    players             players: which columns belong to each
    sets                sets of players as users write them
    index               every index: its weights of marginal contributions, and how it is sampled
    interaction_index   every index of interactions: the weights of a set's derivatives
    predicates          predicates, labels and shares in words, for the sentences of rules
"""
