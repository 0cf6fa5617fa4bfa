"""Shared parts of all kinds of models.

Reading order:

    source           `ModelSource`: the result of an adapter; `ModelRecipe`: how a model is pickled
    trace            a JAX function: precision, checked output, and what its first trace read
    products         a function whose products are taken in bfloat16
    outputs          checks of a model's output, and the column that `output=` chooses
    options          the options of `as_model` and `Model.replace`, checked one by one
"""
