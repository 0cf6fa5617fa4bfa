"""What of a model answers hybrids without their rows: found in its trace, or declared.

Reading order:

    found        the layer found in a trace: f(X) = head(layer(columns made of X))
    column_map   which column each number of a trace is made of; what it makes twice, made once
    declared     `structure=`: a first layer as declared, read and compared with the model
    split        `structure=`: a sum over players, and the rest of the model
    agreement    how nearly a structure answers as its model does
"""
