"""Defines the game of each instance: v(S) is the model's output when only S is kept.

Reading order:

    queries    what a run computes: semivalues, tables, lists; and by which strategy
    strategies/   ways to compute v(S), from closed forms to one row at a time
    rules/     the same for rules: their precision and coverage
    run        `GameRun`: the state of one run, the games of N instances
    certify    compares a structure's outputs with the model's own on full rows
    refuse     errors and warnings: too many coalitions, invalid outputs, long runs
    engine/    how a model is run: on devices or on the host, within the memory
    measure/   what is measured: the replacement, the score of a row, the quantity
"""
