"""How sure an explanation is: attributions judged against the truth.

Reading order:

    judge           `judge`: how far any attribution is from the truth that is computed here
    faithfulness    deletion and insertion curves, asked through the engine
    agreement       the measures: errors, largest players, signs, sums
    given           attributions of any kind as arrays
    truth           exact values where they fit, else sampled ones with their own variance
"""
