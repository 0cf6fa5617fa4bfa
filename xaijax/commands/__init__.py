"""The commands that explain rows of files: `xaijax explain`, `anchors`, `aec`, `sweep`, `report`.

Those of parties stand in `federated`.

Reading order:

    explain      values, rules, AEC and pages, from a model and rows in files
    sweep        many rows, part by part
    doctor       what is installed, and what runs
    files        models and rows out of files, and the options that several commands share
"""
