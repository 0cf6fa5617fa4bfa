"""The structure by which a model evaluates hybrids without their rows: found in its trace, or
declared.

Reading order:

    found        the layer found in a trace: f(X) = head(layer(columns of X))
    declared     `structure=`: a first layer, or a sum over players, compared with the model
    prefix       `Prefix`: a fold along rows, whose prefixes are evaluated once
    shortened    `as_model(mask=)`: rows without the items that their mask hides
    functions    the functions that are declared
    agreement    how closely a structure agrees with its model; whether its head is affine
"""
