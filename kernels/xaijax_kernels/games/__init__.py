"""The mathematics of cooperative games, apart from any model.

Reading order:

    simple_games   games in which a coalition wins or loses: Deegan-Packel, responsibility
    semivalues     weights by coalition size (Shapley, Banzhaf), and how they are applied
    sampling       random orders, coalitions and rows from (seed, draw), equal on every machine
"""
