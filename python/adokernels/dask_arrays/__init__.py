"""Calls of routines with Dask arrays. The result is a lazy Dask array.

Only calls with a Dask array import the modules of this package, because these import Dask.
"""
