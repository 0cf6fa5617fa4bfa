"""The mathematics of cooperative games, independent of any model.

Reading order:

    simple_games     games in which a coalition wins or loses: Deegan-Packel, responsibility
    differentiable   values as a pure function, with a derivative that needs little memory
    semivalues       from tables to values by size weights; interactions of players
    sampling         random orders, coalitions and rows from (seed, draw), equal on every machine
"""
