"""How sure an explanation is: judged against the truth, compared with another, by which
background.

Reading order:

    background_spread   `background_spread`: how far values move with the background
    background      `background`: rows that stand for absent players
    medoids         k-medoids for squared distances
    compare         `compare`: what changed between two explanations
    split           what the data did of it, and what the model did
    two_sides       what two explanations must share, and how sure their means are
    simultaneous    intervals of many means that hold all at once
    judge           `judge`: how far any attribution is from the truth that is computed here
    faithfulness    deletion and insertion curves, asked through the engine
    agreement       the measures: errors, largest players, signs, sums
    given           attributions of any kind as arrays
    truth           exact values where they fit, else sampled ones with their own variance
"""
