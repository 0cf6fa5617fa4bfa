"""Measures how certain an explanation is: against the truth, against another explanation, over
backgrounds.

Reading order:

    background      `background`: rows that stand for absent players
    compare         `compare`: what changed between two explanations
    simultaneous    intervals of many means that hold all at once
    judge           `judge`: how far any attribution is from the truth that is computed here
"""
