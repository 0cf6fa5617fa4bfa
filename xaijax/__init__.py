"""xaijax: explain machine-learning models in large batches on accelerators."""
