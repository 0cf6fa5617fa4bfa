"""Derivatives of a model with respect to its rows, tile by tile.

Reading order:

    lines   gradients along lines from donors to instances, as values of players
    front   the affine first steps of a model
"""
