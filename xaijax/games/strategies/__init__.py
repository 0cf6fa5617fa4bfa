"""Strategies to compute v(S), from closed forms to one model row for each hybrid.

Reading order:

    closed_form       semivalues of additive models and of trees, without coalitions
    averaged          semivalues if nearly every donor differs in every player, by mean scores
    by_pairs          semivalues of each pair from its own 2^k sub-coalitions, and full tables
    by_parts          lists by a layer that adds: x's part for all donors, a donor's for all x
    listed            v(S) of a list of coalitions that all instances share
    distinct_donors   v(S) of a few coalitions, by donors that differ in the replaced columns
    totals            the sums that these strategies fill
    drawn             scores of drawn hybrids, by an additive first layer
    plain             exact integer sums, one model row each, for private releases
"""
