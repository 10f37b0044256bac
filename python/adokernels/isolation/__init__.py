"""Own variants in processes of their own: ``isolated=True``. docs/grading.md has the protocol."""
