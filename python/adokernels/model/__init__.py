"""Ladders, their variants, and the problems that they solve: memory, calls and checks."""
