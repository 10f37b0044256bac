"""Routines, their variants, and what their kernels use of a multiprocessor."""
