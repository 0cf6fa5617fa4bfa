"""Amortised values: a network that has learned what an explainer answers, and how wrong it is.

Reading order:

    explainer    `AmortizedExplainer`: fit once, explain many rows, save and travel
    files        what `save` writes, and what becomes of it
    record       from values to an Explanation that says what they cost
    calling      values of rows: the network's, and the explainer's own for the worst
    arguments    the arguments of `fit` and of a call, read and checked
    fitted       what is known once it is fitted
    questions    what the explainer is asked: values of rows, f(x), base value, marks
    learning     the training loop, judged by rows that are not trained on
    bounds       how far values may be off: difficulty of a row, conformal quantile
    predictor    tile by tile, the network's values with their sums set right
    networks     the layers: dense ones, or a module of the user's own
    inputs       rows of any kind as numbers for a network
"""
