"""Measurements of speed, memory, recall and coverage: one command each, `python -m benchmarks.<name>`.

May import every package; imported by tests alone.
"""
