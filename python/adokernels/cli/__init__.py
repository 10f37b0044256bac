"""The command line: ``adokernels tour | list | bench | scan | check | profile | ...``."""

from adokernels.cli.program import main

__all__ = ["main"]
