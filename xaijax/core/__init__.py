"""Errors, checks of arguments and small tools that every package may use.

Reading order:

    compilation_cache   compiled programs kept in a folder, for the next process
    compiler            programs compiled without a known fault of the compiler
    travel              recipes by which explainers and models reach other processes
    public              the door of public callables: an unknown keyword is refused before any work
    elsewhere           names of shap, captum and others, and what is meant by them here
    typing              the types that public signatures name: rows, a model, a progress bar
    html                a result, a model or an explainer as a notebook shows it
    facts               the facts of a record as names and short texts
    command_line        a command of `xaijax`, as argparse takes it
    sequences           bounds of a mean that hold at all looks at once
    checks              checks of arguments, done before any work
    reads               what a function's answers depend on, as far as its code names it
    same                facts that compare equal: arrays, and objects as long as they live
    code_names          the names that a function's code reads, assigns and changes
    process             JAX after a fork, refused; cores, and calls beside each other
    errors              the error family, and the warnings
    files               files: locked, appended to, private to their owner
    optional            optional libraries, imported on use
    version             the version
"""
