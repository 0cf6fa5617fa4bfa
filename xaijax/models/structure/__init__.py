"""What of a model answers hybrids without their rows: found in its trace, or declared.

Reading order:

    found        the layer found in a trace: f(X) = head(layer(columns made of X))
    declared     `structure=`: a first layer, or a sum over players, compared with the model
    agreement    how nearly a structure answers as its model does; whether its head is affine
"""
