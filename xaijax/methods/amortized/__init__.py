"""Amortised values: a network that has learned what an explainer answers, and how wrong it is.

Reading order:

    explainer    `AmortizedExplainer`: fit once, explain many rows, save and travel
    record       from values to an Explanation that says what they cost
    learning     the training loop, judged by rows that are not trained on
    calling      values of rows: the network's, and the explainer's own for the worst
    fitted       what is known once it is fitted
    questions    what the explainer is asked: values of rows, f(x), base value, marks
    predictor    tile by tile, the network's values with their sums set right
    inputs       rows of any kind as numbers for a network
"""
