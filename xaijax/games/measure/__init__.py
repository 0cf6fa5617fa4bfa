"""What is measured of a model when players are absent.

Reading order:

    replacement/   the donors and their weights, which stand in for absent players
    players_of_rows   who plays, by `players=` and the rows that it is of
    quantity      a mean of scores over donors and rows, and an outer function of it
    score         `Score`: what is made of the answer to one row, and its bounds
"""
