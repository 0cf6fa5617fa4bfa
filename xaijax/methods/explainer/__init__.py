"""Semivalues of a model's answers: the player's mean marginal contribution to coalitions.

Reading order:

    explainer   `Explainer`: reads arguments, makes the game, asks the estimators
    sets        interactions: what is asked for sets of players, who answers, what is kept
    record      values, errors, certificate and provenance, put into an Explanation
    choice      which estimator answers for which instance, decided before the model is called
"""
