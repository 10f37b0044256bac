"""Figures published by the five documents. No figure is stated in a second place."""
