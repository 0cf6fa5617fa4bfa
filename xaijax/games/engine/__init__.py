"""How a model is run: planned by sizes, on devices or on the host, within the memory.

Reading order:

    evaluator       `Evaluator`: the setting in use, ready at the first question
    make            the loops, made for a model: on devices, on the host, along orders
    device          the loop of JAX models: dispatches that feed the compiled programs
    host            the loop of host models: rows fetched, answered in calls, summed in float64
    whose_rows      whose hybrids a call holds, for the message when a host model raises
    walk            the loop along orders of players, where the first layer is known
    player_values   the distinct values of each player, and what each adds to the first layer
    probed          `Probed`: a setting whose model was probed, and what its structure can do
    asked_again     the probe's donors found in the run's calls: does the model answer as before?
    shared_rows     hybrids that several instances share, asked of a host model once
    setting         `Setting`: model, replacement, players, score and limits, frozen
    programs        the programs that hold a JAX model, and the sums of their answers
    placement       where arrays stand: tiles dealt to devices, or a model that spans its own
    plan            tile, tiles per dispatch and instances at a time, by sizes alone
    dispatch        the dispatch loop: tiles dealt to devices, read some dispatches later
    threads         dispatches to a CPU that run at the same time
    loop            what a loop is: streams of rows in, answers and sums out
    compiled        one cache of compiled programs, each held against the memory
    limits          what a run may use, as given: memory, tile, devices
    clock           what the runs of one explainer have cost so far
"""
