"""The search for anchors, for a batch of instances at once, and the rows that rules draw.

Reading order:

    best_first       the rule of highest coverage among all, where precisions are known
    beam             the beam searches of Anchors: by draws, and by known precisions
    bandits          bounds on a precision from draws; best arms; rules accepted by draws
    perturbed_rows   the rows of a perturbation space, drawn by a counter hash, asked in tiles
"""
