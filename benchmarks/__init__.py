"""Measurements of speed, memory, recall and coverage: one command each, `python -m benchmarks.<name>`.

Those of `intervals` are `python -m benchmarks.intervals.<name>`. May import every package; imported by tests alone.
"""
