"""How the lanes of a warp access global memory and shared memory, and take branches."""
