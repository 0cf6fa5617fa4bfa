"""Games of rules instead of coalitions: their precision and coverage, for Anchors.

Reading order:

    sampler       rules in a user's own space: a sampler makes the rows
    game          `RuleGame`: the rules of N instances, evaluated in the built-in spaces
    players_space   kept players stay unchanged; free ones are drawn or masked
    space         the built-in spaces: the distribution of rows around x with kept columns
    bins          what "the same" means in a column, and a rule's predicates
    pulls         rules of instances as rows of a loop, the loops, and counts of their bits
"""
