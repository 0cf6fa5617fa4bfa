"""The game of each instance: v(S) is what the model answers when only S is kept.

Reading order:

    queries    what a run is asked for: semivalues, tables, lists; and which strategy answers
    strategies/   answers for v(S), from closed forms to one row at a time
    rules/     the same for rules: their precision and coverage
    run        `GameRun`: the state of one run, the games of N instances
    certify    a structure's answers compared with the model's own to full rows
    refuse     what is refused, or announced: too many coalitions, bad answers, long runs
    engine/    how a model is run: on devices or on the host, within the memory
    measure/   what is measured: the replacement, the score of a row, the quantity
"""
