"""Errors, checks of arguments and small tools that every package may use.

Reading order:

    compilation_cache   compiled programs kept in a folder, for the next process
    compiler            compiles programs around a known fault of the compiler
    pickling            recipes by which explainers and models are pickled
    public              wraps public callables; answers names and keywords of shap, captum, ...
    deprecated          marks public names that will be removed
    typing              the types that public signatures name: rows, a model, a progress bar
    html                a result, a model or an explainer as a notebook shows it
    facts               the facts of a record as names and short texts
    command_line        a command of `xaijax`, as argparse takes it
    sequences           bounds of a mean that hold at all looks at once
    checks              checks of arguments, done before any work
    reads               finds the values that a function's answers depend on, from its code
    same                facts that compare equal: arrays, and objects as long as they live
    code_names          finds the names that a function's code reads, assigns and changes
    process             refuses JAX after a fork; cores, and calls in parallel
    errors              the error family, and the warnings
    files               files: locked, appended to, private to their owner
    optional            optional libraries, imported on use
    version             the version
"""
