"""Runs own variants in separate processes: ``isolated=True``. See docs/grading.md."""
