"""Draws for QII: single hybrids are asked, and their scores are the terms of a mean.

Reading order:

    fixed_pool   the authors' scheme: orders crossed with one pool of rows that is drawn once
    run          a run of draws that goes on chunk by chunk; means, standard errors, intervals
    designs      what a draw asks and gives: random orders, random sets, or listed coalitions
"""
