"""Values with derivatives: for losses, and by gradients.

Reading order:

    shapley_values   `shapley_values`: a pure function, under jit, vmap and grad
    gradients/       `GradientExplainer`: integrated and expected gradients
"""
