"""What all ways to v(S) share: checks of answers, refusals, long runs.

Reading order:

    whole_rows   the model's own answers to whole rows, against which a structure's are held
    refuse       what is refused, or told of: too many coalitions, bad answers, long runs
"""
