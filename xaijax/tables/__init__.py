"""Turns rows of any kind into codes, from which hybrids are made, and back without change.

Reading order:

    per_instance_table   `PerInstanceTable`: rows with their own players or baseline
    frame_table     `FrameTable`: frames of mixed types, for host models
    tree_table      `TreeTable`: rows in several arrays, as one row of codes
    table           `CodeTable`: rows for the engine; arrays as floats, bits or numbers
    same_memory     whether two arguments are the same rows in memory
    arrow_columns   types of the columns of files, the same for every part
    frames          checks of the user's frames and series: names, numbers, copies
    plain_frames    frames as arrays and plain values for files, and back
    rows            `rows_of`: one interface for rows of any kind
    tree            `Layout`: how a row in several arrays is made of leaves
"""
