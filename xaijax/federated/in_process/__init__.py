"""Federated Shapley values where one process holds all columns.

Reading order:

    explainer      `FederatedExplainer`: the host's columns one by one, each guest's as one player
    worth          what each guest's columns are worth to the answers and to the score
    reference      the row that replaces a party that is switched off
    parties        who owns which column
"""
