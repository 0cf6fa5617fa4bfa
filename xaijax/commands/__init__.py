"""The commands that explain rows of files: `xaijax explain`, `anchors`, `aec`, `report`, `doctor`.

A sweep's command stands in `sweeps`, those of parties in `federated`.

Reading order:

    explain      values of rows, into a folder
    anchors      a rule for each row, into a file
    collinear    AEC of a table, into a folder
    page         a page of what was saved
    doctor       what is installed, and what runs
    options      the options that several commands share
    files        models and rows out of files
"""
