"""Models in parts: each party computes its own, and the host puts the answers together.

Reading order:

    makers    split logistic regression, networks, trees and nearest neighbours
    model     the host's side of a split model, and the whole of it
    parts     one party's part: numbers and a formula, kept in a file without code
"""
