"""Which coalitions are asked, and what their values give.

Reading order:

    large_pairs         whether so few coalitions were asked that no large pair was looked for
    driver              the loop of the sampled estimators; each instance stops by a rule
    contenders          the few players on which a claim hangs, asked alone from then on
    stopping/           the rules: what has been sampled enough, however often it is looked at
    estimator           `Estimator`: what a sampled estimator is, a module with these functions
    permutation         marginal contributions along random orders, or around random coalitions
    unbiased_pairs      interactions of two players: a process, and the mean of what it leaves over
    pairs               the same by the process alone, drawn towards 0
    process/            the Gaussian process over coalitions
    gaussian_process    the kernel, with what a process tells of sets of three and more
    odd_process/        the Gaussian process over coalitions, with a rate for each player
    kernel              a weighted regression on complementary pairs of coalitions
    kernel_design       which pairs the regression asks, and the linear map from answers to values
    result              values with standard errors, as all sampled estimators return them
    least_squares       the regression over all coalitions of Wang (2019), beside exact values
    exact               every coalition of every instance, asked once
    draws/              QII's estimators: draws with a donor and coalitions of their own
"""
