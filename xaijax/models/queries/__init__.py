"""Calls models: probes before a run, and the calls themselves.

Reading order:

    findings        findings of the probe: outputs, widest layer, structure, noise
    labels          from scores to the decided class, and that class as a number per row
    rows            rows of `predict` and `labels`, the model that runs, and models of codes
    comparison      compares a translation with its estimator, and decides which runs
    probe           checks that a row's output does not depend on the other rows or on their number
    predict         runs a traced function on any number of rows, with few compiled shapes
    host            one call of a host model: read-only rows, a deadline, checked output
"""
