"""What all kinds of models share.

Reading order:

    recipe           what a model was made of, by which it travels
    source           `Source`: what an adapter found out, before an output is chosen
    trace            a JAX function with its precision set, its output checked
    outputs          what a model may return, and the column that `output=` chooses
    options          the options of `as_model` and `Model.replace`, checked one by one
"""
