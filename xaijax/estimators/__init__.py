"""Which coalitions are asked, and what their values give.

Reading order:

    driver              the loop of the sampled estimators; each instance stops by its own intervals
    estimator           `Estimator`: what a sampled estimator is, a module with these functions
    permutation         marginal contributions along random orders, or around random coalitions
    kernel              a weighted regression on complementary pairs of coalitions
    kernel_design       which pairs the regression asks, and the linear map from answers to values
    pairs               interactions of two players by a Gaussian process, drawn towards 0
    coalition_process   the Gaussian process over coalitions
    result              values with standard errors, as all sampled estimators return them
    least_squares       the regression over all coalitions of Wang (2019), to compare with exact values
    exact               every coalition of every instance, asked once
    draws/              QII's estimators: draws with a donor and coalitions of their own
"""
