"""Ladders, variants and kernels that users define; checked and timed like the built-in ones."""
