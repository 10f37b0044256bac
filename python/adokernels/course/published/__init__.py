"""Figures that the five documents publish, one module per document; each is typed here only."""
