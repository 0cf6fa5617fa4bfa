"""The mathematics of cooperative games, apart from any model.

Reading order:

    simple_games     games in which a coalition wins or loses: Deegan-Packel, responsibility
    differentiable   values as a pure function, with a derivative of little memory
    semivalues       tables turned into values by weights of sizes; interactions of players
    sampling         random orders, coalitions and rows from (seed, draw), equal on every machine
"""
