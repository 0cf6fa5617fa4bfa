"""A Gaussian process over coalitions: what a game of even sets is, by some of its answers.

Reading order:

    choice       which rate is likeliest, and which pairs are too large for the scale of the others
    posterior    interactions and other coalitions, given the answers
    turned       `Process`: at some coalitions, with what turns answers to white
    trend        answers turned to white, less the level and the large pairs
    covariance   of coalitions, and of them with interactions, in closed form
"""
