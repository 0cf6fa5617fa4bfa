"""Semivalues of a model's answers: the player's mean marginal contribution to coalitions.

Reading order:

    explainer   `Explainer`: reads arguments, makes the game, runs the estimators
    levels      `levels=`: values by a bfloat16 copy of the model, and by its difference
    sets        interactions: what is computed for sets of players, by whom, what is kept
    record      values, errors, certificate and provenance, put into an Explanation
    choice      which estimator answers for which instance, decided before the model is called
"""
