"""What limits a variant, which step comes next, what it can gain, and how often that is right."""
