"""Records of measurements and of kernels: plain data that can be stored, loaded and compared."""
