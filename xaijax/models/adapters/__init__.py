"""Each kind of model read as a `Source`, without importing a library that is not in use.

Reading order:

    sklearn      scikit-learn estimators and Pipelines, as the host runs them
    boosted      margins of boosted trees, and boosters without scikit-learn
    flax         Flax: linen (module, variables), TrainState; nnx modules
    haiku        Haiku's transformed functions
    equinox      Equinox modules, with their state if they have one
    keras        Keras 3 models, on JAX or on the host
    torch        PyTorch modules, on the host or through torchax
    onnx         ONNX files, on the host
    functions    plain functions; what the adapters of neural libraries share
"""
