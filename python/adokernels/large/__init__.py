"""Problems that are larger than a device or a machine: blocks, Dask arrays."""
