"""The mathematics of cooperative games, apart from any model.

Reading order:

    simple_games     games in which a coalition wins or loses: Deegan-Packel, responsibility
    differentiable   values as a pure function, with a derivative of little memory
    semivalues       weights by coalition size (Shapley, Banzhaf), and how they are applied
    interactions     values of sets of players, single ones among them, by discrete derivatives
    sampling         random orders, coalitions and rows from (seed, draw), equal on every machine
"""
