"""What of a model answers hybrids without their rows: found in its trace, or declared.

Reading order:

    found        the layer found in a trace: f(X) = head(layer(columns made of X))
    column_map   which column each number of a trace is made of; what it makes twice, made once
    declared     `structure=`: a first layer, or a sum over players, compared with the model
    agreement    how nearly a structure answers as its model does
"""
