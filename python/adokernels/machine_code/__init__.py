"""Machine code (SASS) of kernels: disassembly, loads and stores, loops."""
