"""Amortised values: a network that is trained on an explainer's values, with bounds on its errors.

Reading order:

    explainer    `AmortizedExplainer`: fit once, explain many rows, save and travel
    record       from values to an Explanation that says what they cost
    learning     the training loop, judged by rows that are not trained on
    calling      values of rows: the network's, and the explainer's own for the worst
    fitted       what is known once it is fitted
    questions    what the explainer is used for: values of rows, f(x), base value, fingerprint
    predictor    the network's values tile by tile, with corrected sums
    inputs       rows of any kind as numbers for a network
"""
