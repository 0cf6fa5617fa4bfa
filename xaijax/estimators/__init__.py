"""Chooses the coalitions to evaluate, and estimates values from their outputs.

Reading order:

    least_squares       the regression over all coalitions of Wang (2019), next to exact values
    driver              exact values; the loop of the sampled estimators, and their names
    race                samples only the undecided players, once a claim depends on few
    stopping            rules that stop sampling, valid however often they are checked
    permutation         marginal contributions along random orders, or around random coalitions
    pairs               interactions of two players: a process, and the mean of its residuals
    gaussian_process    the kernel estimator with a process as control variate
    process             Gaussian processes over coalitions, of even parts and of odd parts
    kernel              a weighted regression on complementary pairs of coalitions
    estimator           `Estimator`, the base of these; `Result`, values with standard errors
    draws/              QII's estimators: draws with their own donors and coalitions
"""
