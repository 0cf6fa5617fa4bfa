"""Rules in place of coalitions: their precision and coverage, for Anchors.

Reading order:

    game          `RuleGame`: the rules of N instances, asked in any of the built-in spaces
    sampler       the same in a space of a person's own: a sampler makes the rows
    players_space   players that are kept as they are; free ones are drawn or masked
    spaces        the perturbation spaces that are built in, a class each
    space         what a space is: which rows stand beside x once a rule's columns are kept
    bins          what "the same" means in a column, and a rule's predicates
    coverage      which data rows satisfy a rule, kept as bits
    device        the loop of JAX models for pulls
    host          the loop of host models for the same pulls
    pulls         rules of instances as rows of a loop, their draws, and their bits as counts
"""
