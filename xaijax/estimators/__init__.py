"""Which coalitions are asked, and what their values give.

Reading order:

    least_squares       the regression over all coalitions of Wang (2019), next to exact values
    driver              exact values; the loop of the sampled estimators, and their names
    race                only the few undecided players are sampled, once a claim depends on them
    stopping            the rules: what has been sampled enough, however often it is looked at
    permutation         marginal contributions along random orders, or around random coalitions
    pairs               interactions of two players: a process, and the mean of what it leaves over
    gaussian_process    the kernel, with what a process predicts of sets of three and more
    process             Gaussian processes over coalitions, of even parts and of odd ones
    kernel              a weighted regression on complementary pairs of coalitions
    estimator           `Estimator`, the base of these; `Result`, values with standard errors
    draws/              QII's estimators: draws with a donor and coalitions of their own
"""
