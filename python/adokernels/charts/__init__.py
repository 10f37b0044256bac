"""Charts: rooflines, and bars of bandwidth."""
