"""What all kinds of models share.

Reading order:

    source           `ModelSource`: what an adapter found out; `ModelRecipe`: how a model is pickled
    trace            a JAX function: precision, checked output, and what it read at its first trace
    products         a function whose products are taken in bfloat16
    outputs          what a model may return, and the column that `output=` chooses
    options          the options of `as_model` and `Model.replace`, checked one by one
"""
