"""Generates the pages of the documentation site from the repository and the package."""
