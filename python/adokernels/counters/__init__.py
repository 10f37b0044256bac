"""Hardware counters: metrics, derived quantities, records and tables."""
