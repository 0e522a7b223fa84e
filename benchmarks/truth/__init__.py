"""Curation against the truth: what is found of planted duplicates and leaks, by kind of edit.

`python -m benchmarks.truth` plants in the built-in world, `lookalikes` in real problems.
"""
