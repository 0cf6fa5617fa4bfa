"""How a model is run: planned by sizes, on devices or on the host, within the memory.

Reading order:

    player_values   the distinct values of each player, and what each adds to the first layer
    evaluator       `Engine`: what is asked, and the probe's findings; `Evaluator`: the one in use
    device          the loop of JAX models: dispatches that feed the compiled programs
    permutation_scan   the loop along orders of players, where the first layer is known
    determinism     the probe's donors found in the run's calls: does the model answer as before?
    host            the loop of host models: rows fetched, answered in calls, summed in float64
    programs        the programs that hold a JAX model, and the sums of their answers
    loop            what a loop is: streams of rows in, answers and sums out
    plan            tile, tiles per dispatch and instances at a time, by sizes alone
    dispatch        programs, compiled once for a model; the loop that deals tiles to devices
"""
