"""Ladders of a user: own kernels and functions, checked and timed like the built-in ones."""
