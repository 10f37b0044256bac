"""Exit status of the command line."""

#: A wrong result, a slower variant, or not enough memory.
WRONG = 1
#: A wrong argument.
USAGE = 2
#: A missing device, compiler or library.
NO_DEVICE = 3
#: Interrupted with Ctrl-C, as shells report it.
INTERRUPTED = 130
