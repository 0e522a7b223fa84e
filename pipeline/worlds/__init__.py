"""The built-in world: a seeded generator of small problems, with benchmarks and planted faults of
known truth.

May import `pipeline/tokens/tokenizer.py` (for the form of prompts), `pipeline/storage/parallel.py`
and `pipeline/errors.py`.
"""
