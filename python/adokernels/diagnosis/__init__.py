"""Diagnosis: limiter of a variant, next step, bound of its gain, and accuracy of the advice."""
