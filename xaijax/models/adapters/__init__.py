"""Each kind of model read as a `Source`, without importing a library that is not in use.

Reading order:

    sklearn        scikit-learn estimators and Pipelines, as the host runs them
    flax_equinox   Flax and Equinox modules, traced by JAX
    functions      plain functions, traced by JAX or run on the host
"""
