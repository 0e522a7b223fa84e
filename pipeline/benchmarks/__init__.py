"""Benchmarks: which there are, the items that must stay out of the training data, and their lm-eval
tasks.

May import `pipeline/sources/`, `pipeline/storage/` and `pipeline/errors.py`."""
