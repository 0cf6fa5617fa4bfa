"""The command `xaijax`: what it explains rows of files with (`explain`, `anchors`, `aec`, `sweep`,
`report`), and `xaijax demo`.

The commands of federated parties are in `federated`.

Reading order:

    cli          reads the command line and runs the command
    demo/        `xaijax demo`: from data to pictures in a few seconds
    explain      values, rules, AEC and pages, from a model and rows in files
    sweep        many rows, part by part
    doctor       what is installed, and whether it works
    device       how fast and how right a GPU or a TPU explains two known problems
    programs     reads the kernels and loops of a compiled program
    files        models and rows from files, and the options that several commands share
"""
