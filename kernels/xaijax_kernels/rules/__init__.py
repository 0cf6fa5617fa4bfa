"""Searches anchors for a batch of instances at once, and samples the rows of rules.

Reading order:

    best_first       the rule of highest coverage of all, if precisions are known
    beam             the beam searches of Anchors: by draws, and by known precisions
    bandits          bounds on a precision from draws; best arms; accepting rules
    perturbed_rows   rows of a perturbation space, sampled by a counter hash and evaluated in tiles
"""
