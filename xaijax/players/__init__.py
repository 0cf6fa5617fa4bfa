"""Who plays, and how much each marginal contribution weighs.

Reading order:

    players             players: which columns each owns
    sets                sets of players as users write them
    index               every index: the weights of marginal contributions, words, how it is drawn
    interaction_index   every index of interactions: what a set's derivatives weigh
    predicates          predicates, labels and shares in words, for the sentences of rules
"""
