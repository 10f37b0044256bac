"""Hardware counters: what is collected, what it means, the records and their tables."""
