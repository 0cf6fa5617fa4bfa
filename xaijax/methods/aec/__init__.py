"""Additive effects of collinearity: columns ranked for a target, without a model.

Reading order:

    aec          `AEC`: the estimator, with scikit-learn's interface
    bootstrap    effects on resampled rows: standard errors and shares of ranks
    logistic     a logistic slope per column, by Newton steps or to scikit-learn's stopping point
    learner      other learners for the slope of y on one column
    first_pass   the first pass over the rows: moments, target, constant columns, scales
    movement     `normalized_movement_rate`: how a ranking changes when its top is removed
    rows         the rows: one table in memory, or chunks that are read again for each pass
"""
