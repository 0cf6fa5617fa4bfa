"""Batched kernels of xaijax: jax and numpy only.

Reading order:

    structures/     what follows from a model's known structure without calling the model
    gradients/      derivatives with respect to rows: integrated and expected gradients
    rules/          the searches of Anchors, their bandits, and the rows sampled for a rule
    engine/         hybrid rows made on the device, loops that call a model, sums of its outputs
    games/          the mathematics of coalitions: semivalues, simple games, seeded orders and sets
    neighbours      the nearest training rows, found by blocks, for translated estimators
    collinearity/   the arithmetic of AEC: moments, slopes, effects, logistic fits
    sizes           how many rows a program handles at once, by platform, width and dtype, and why
"""
