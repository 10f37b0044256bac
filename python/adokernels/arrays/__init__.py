"""Operands to compute with: random arrays and photographs."""
