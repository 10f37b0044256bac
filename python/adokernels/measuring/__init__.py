"""Timing: protocol, sampling, correctness check, statistics, machine ceilings and records."""
