"""What is in the columns of a player that is absent; a new kind is a file here.

Reading order:

    rows       rows of a background, or draws; what reads `background=`, `pool=` and `data=`
    baseline   `Baseline`: one row for all instances, or a function of each
    base       `Replacement`: donors as codes, with weights; `ReplacementSource`: makes its own
"""

# Earlier versions pickled it as a member of this module.
from xaijax.games.measure.replacement.baseline import Baseline as Baseline
