"""What all ways to v(S) share: rows planned, asked, checked and counted.

Reading order:

    long_runs    runs that take long, told of before they start
    questions    `Questions`: the rows of N instances, and the loop that answers hybrids of them
    whole_rows   the model's own answers to whole rows, against which a structure's are held
    refuse       what is refused: too many coalitions, too little memory, bad answers
"""
