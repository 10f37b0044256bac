"""What-if experiments: kernels rewritten so that exactly one thing changes, with the proof."""
