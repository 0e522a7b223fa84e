"""The results file of a study: its definition in SQL, its statistics, and its use from Python.

This package may import `pipeline/errors.py` only. The SQL folders hold no Python.
"""
