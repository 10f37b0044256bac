"""Arrays that are larger than the memory of a device, computed in blocks."""
