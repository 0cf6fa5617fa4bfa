"""A Gaussian process over coalitions: what a game of odd sets is, by some of its answers.

Reading order:

    held_out     what answers are expected by the others alone, and the values of that
    rates        how much each player takes part in sets of several, by maximum likelihood
    matrices     their factors and inverses
    covariance   of coalitions, and of them with values, in closed form
"""
