"""Runs a model: planned by sizes, on devices or on the host, within the memory.

Reading order:

    player_values   the distinct values of each player, and their terms in the first layer
    evaluator       `Engine`: settings and the probe's findings; `Evaluator`: the engine in use
    device          the loop of JAX models: dispatches that feed the compiled programs
    permutation_scan   the loop along orders of players, for a known first layer
    determinism     compares outputs of the probe's rows in later calls with those of the probe
    host            the loop of host models: rows answered in calls, summed in float64; few rows
    programs        the programs that hold a JAX model, and sums of its outputs
    loop            the interface of loops: streams of rows in, outputs and sums out
    plan            tile, tiles per dispatch and instances at a time, by sizes alone
    dispatch        programs, compiled once for a model; the loop that deals tiles to devices
"""
