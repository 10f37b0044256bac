"""Charts: rooflines, bars of bandwidth, speed of light, warp states, and memory."""
