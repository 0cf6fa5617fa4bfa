"""The commands that explain rows of files: `xaijax explain`, `anchors`, `aec`, `sweep`, `report`.

Those of parties stand in `federated`.

Reading order:

    explain      values of rows, into a folder
    anchors      a rule for each row, into a file
    collinear    AEC of a table, into a folder
    sweep        many rows, part by part
    page         a page of what was saved
    doctor       what is installed, and what runs
    options      the options that several commands share
    files        models and rows out of files
"""
