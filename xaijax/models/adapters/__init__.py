"""Reads each kind of model as a `ModelSource`, without importing libraries that are not in use.

Reading order:

    sklearn      scikit-learn estimators, Pipelines and boosters, on the host
    flax         Flax: linen (module, variables), TrainState; nnx modules
    haiku        Haiku's transformed functions
    equinox      Equinox modules, with their state if they have one
    keras        Keras 3 models, on JAX or on the host
    torch        PyTorch modules, on the host or through torchax
    onnx         ONNX files, on the host
    functions    plain functions; shared code of the adapters of neural libraries
"""
