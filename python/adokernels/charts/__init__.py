"""Charts: rooflines, bandwidth bars, speed of light, warp states, and memory."""
