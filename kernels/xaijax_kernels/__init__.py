"""Batched kernels of xaijax: jax and numpy only."""
