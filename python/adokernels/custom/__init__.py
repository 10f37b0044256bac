"""Custom ladders, variants and kernels. They are checked and timed like the built-in ones."""
