"""Rows of any kind as codes, which hybrids are made of, and back unchanged.

Reading order:

    per_instance_table   `PerInstanceTable`: rows with their own players or baseline
    frame_table     `FrameTable`: frames of mixed types, for host models
    tree_table      `TreeTable`: rows in several arrays, as codes in a line
    table           `CodeTable`: what the engine asks of rows; arrays as floats, bits or numbers
    same_memory     whether two things that were passed are the same rows in memory
    arrow_columns   what columns of files become, whatever part of them is read
    frames          frames and series that the user gave, checked: names, numbers, copies
    plain_frames    frames as arrays and plain values, and back, for files
    rows            `rows_of`: rows of any kind behind one set of members
    tree            `Layout`: how such a row is made of leaves
"""
