"""Renders the notebooks from their sources, and makes the pages of docs/ from stored records."""
