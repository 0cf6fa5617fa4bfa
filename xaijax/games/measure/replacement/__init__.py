"""Defines what is in the columns of an absent player; a new kind is a file here.

Reading order:

    rows         rows of a background, or draws; reads `background=`, `pool=` and `data=`
    tree_paths   `TreePaths`: both children of a split, by the training rows that reached them
    baseline     `Baseline`: one row for all instances, or a function of each instance
    base         `Replacement`: donors as codes, with weights; `ReplacementSource`: makes one
"""

# Earlier versions pickled it as a member of this module.
from xaijax.games.measure.replacement.baseline import Baseline as Baseline
