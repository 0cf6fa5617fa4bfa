"""Makes hybrid rows on the device, calls the model on them, and sums its outputs.

Reading order:

    tiles         the loop that feeds a JAX model tile by tile, and its trip counts
    host_loop     the loop for host models: the next rows are drawn while the model answers
    tables        from the values of pairs to v(S) of all coalitions of each instance
    listed        coalitions given as a list: their row stream, and their means over donors
    seeds         slots made on the device, from runs of pairs of one size
    hybrids       rows with some players' columns from the instance and the others from the donor
    lattice       which players differ for a pair; streams of model rows: of pairs, of single rows
    reduce        from the values of a dispatch to one semivalue per pair, on the device
    steps         the steps of a trace: which are elementwise, and how one is evaluated
"""
