"""Benchmarks: which there are, their items to keep out of training, and their lm-eval tasks.

May import `pipeline/sources/`, `pipeline/storage/` and `pipeline/errors.py`."""
