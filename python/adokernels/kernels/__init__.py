"""Kernels of any front end: their launches, and the adapters of Triton and Numba."""
