"""Additive effects of collinearity: columns ranked for a target, without a model.

Reading order:

    aec          `AEC`: the estimator, in scikit-learn's manner
    record       what an Explanation keeps of a fit
    bootstrap    effects on resampled rows: standard errors and shares of ranks
    replicates   logistic slopes of all replicates, from the full fit on
    draws        how often each row is drawn in each replicate
    logistic     a logistic slope per column, by Newton steps or to scikit-learn's stopping point
    distinct     columns of few distinct values as tables
    lbfgs        scikit-learn's stopping point, for one column
    stopping     how far scikit-learn's stopping point is from the minimum
    learner      other learners for the slope of y on one column
    survey       the first pass over the rows: moments, target, constant columns, scales
    equal        columns that are equal in every row, kept tied
    rows         the rows: one table in memory, or chunks that are read again for each pass
    target       the target: numbers, or classes each against the rest
    movement     `normalized_movement_rate`: how a ranking changes when its top is removed
    importance   what rankers return, read as one importance per column
"""
