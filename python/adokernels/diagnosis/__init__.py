"""What limits a variant, which step comes next and what it can gain, and how often that is right."""
