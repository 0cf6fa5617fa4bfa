"""How sure an explanation is: judged against the truth, compared with another, by which
background.

Reading order:

    background_spread   `background_spread`: how far values move with the background
    background      `background`: rows that stand for absent players
    compare         `compare`: what changed between two explanations
    two_sides       what two explanations must share, and how sure their means are
    simultaneous    intervals of many means that hold all at once
    judge           `judge`: how far any attribution is from the truth that is computed here
    truth           exact values where they fit, else sampled ones with their own variance
"""
