"""The search for anchors, for a batch of instances at once, and the rows that rules draw.

Reading order:

    best_first       the rule of highest coverage among all, where precisions are known
    exact_beam       the beam search where precisions are known
    beam             the beam search of Anchors, with its four components as arguments
    validation       whether a rule's precision is above the threshold, by draws of its own
    rejects          best arms within a fixed budget: successive accepts and rejects
    lucb             best arms with a guarantee: KL-LUCB
    bernoulli        bounds on a precision from draws of zeros and ones, by the KL divergence
    candidates       kept rules with one more column, each set of columns once
    pulls            rules tried in tiles: rows drawn, answered, and compared with f(x)
    perturbed_rows   the rows of a perturbation space, drawn by a counter hash
"""
