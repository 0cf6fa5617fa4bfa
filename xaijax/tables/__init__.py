"""Rows of any kind as codes, of which hybrids are made, and back unchanged.

Reading order:

    frame_table    `FrameTable`: frames of mixed types, for host models
    coded_table    `CodedTable`: rows of a translated estimator, as numbers for JAX
    table          `Table`: what the engine asks of rows; arrays as floats or as words of bits
    same_memory    whether two things that were passed are the same rows in memory
    frames         pandas and polars frames: names, columns, numbers
    fingerprints   a number for the bytes of an instance, which keys its own draws
"""
