"""The results file of a study: the SQL that defines it, statistics, and functions to open, fill and
query it.

May import `pipeline/errors.py` only; the SQL folders hold no Python.
"""
