"""Calls of routines with Dask arrays. The result is a lazy Dask array.

Only calls with a Dask array import this package, because it imports Dask.
"""

from adokernels.dask_arrays.calls import lazy_call

__all__ = ["lazy_call"]
