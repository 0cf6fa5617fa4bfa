"""A model asked: what is found out before a run, and how it is called.

Reading order:

    findings        what the probe finds: outputs, widest layer, structure, noise
    labels          from scores to the decided class, and that class as a number per row
    rows            rows given to `predict` and `labels`, who answers them, and models of codes
    comparison      a translation compared with its estimator, and who answers
    probe           does a model answer a row alike, whatever rows come with it, and how many?
    predict         a traced function on any number of rows, with few compiled shapes
    host            one call of a host model: read-only rows, a deadline, checked output
"""
