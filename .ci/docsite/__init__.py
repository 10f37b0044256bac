"""The pages of the documentation site, made from the repository and the package."""
