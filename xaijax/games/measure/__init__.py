"""What is measured of a model when players are absent.

Reading order:

    replacement   the donors and their weights, which stand in for absent players
    quantity      a mean of scores over donors and rows, and an outer function of it
    chosen        one output for each instance: `outputs=` of `Explainer`
    score         `Score`: what is made of the answer to one row, and its bounds
    scores        the scores that QII's quantities are made of
    asked_model   what is asked of a model: the contract that `xaijax.models` keeps
"""
