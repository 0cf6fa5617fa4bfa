"""Batched kernels of xaijax: jax and numpy only.

Reading order:

    structures/     what a model's known structure lets be computed without asking its rows
    gradients/      derivatives with respect to rows: integrated and expected gradients
    rules/          the searches of Anchors, the bandits inside them, and the rows that rules draw
    engine/         hybrid rows made on the device, the loops that ask a model, sums of its answers
    games/          the mathematics of coalitions: semivalues, simple games, seeded orders and sets
    neighbours      the nearest training rows, found by blocks, for translated estimators
    collinearity/   the arithmetic of AEC: moments, slopes, effects, logistic fits
    sizes           what programs take at a time, by platform, widths and dtype, with the reasons
"""
