"""Calls of routines with Dask arrays. The result is a lazy Dask array.

This package imports Dask. Only calls with Dask arrays import it.
"""

from adokernels.dask_arrays.calls import lazy_call

__all__ = ["lazy_call"]
