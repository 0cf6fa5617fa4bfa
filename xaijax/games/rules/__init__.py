"""Rules in place of coalitions: their precision and coverage, for Anchors.

Reading order:

    sampler       rules in a space of a person's own: a sampler makes the rows
    game          `RuleGame`: the rules of N instances, asked in any of the built-in spaces
    players_space   players that are kept as they are; free ones are drawn or masked
    space         the built-in spaces: which rows are drawn for x once columns are kept
    bins          what "the same" means in a column, and a rule's predicates
    pulls         rules of instances as rows of a loop, the loops, and their bits as counts
"""
