"""Federated Shapley values where one process holds all columns.

Reading order:

    explainer      `FederatedExplainer`: the host's columns one by one, each guest's as one player
    reference      the row that replaces a party that is switched off
    parties        who owns which column
"""
