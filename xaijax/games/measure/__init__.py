"""Defines what is measured of a model when players are absent.

Reading order:

    replacement/   the donors and their weights, which replace absent players
    players_of_rows   the players, from `players=` and the rows
    quantity      a mean of scores over donors and rows, and an outer function of it
    score         `Score`: a function of the output of one row, and its bounds
"""
