"""Models in parts: each party computes its own, and the host puts the answers together.

Reading order:

    network   a split neural network, trained with optax
    makers    split logistic regression, trees and nearest neighbours
    model     the host's side of a split model, and the whole of it
    parts     one party's part: numbers and a formula, kept in a file without code
"""
