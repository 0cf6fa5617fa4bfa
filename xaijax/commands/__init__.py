"""The commands that explain rows of files: `xaijax explain`, `anchors`, `aec`, `sweep`, `report`.

The commands of federated parties are in `federated`.

Reading order:

    explain      values, rules, AEC and pages, from a model and rows in files
    sweep        many rows, part by part
    doctor       what is installed, and whether it works
    files        models and rows from files, and the options that several commands share
"""
