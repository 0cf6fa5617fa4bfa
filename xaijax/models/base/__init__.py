"""What all kinds of models share.

Reading order:

    source           `ModelSource`: what an adapter found out; `ModelRecipe`: how a model is pickled
    trace            a JAX function with its precision set, its output checked, and what it read
    traced_once      what was traced is not traced again, unless what the function reads has changed
    products         a function whose products are taken in bfloat16
    outputs          what a model may return, and the column that `output=` chooses
    options          the options of `as_model` and `Model.replace`, checked one by one
"""
