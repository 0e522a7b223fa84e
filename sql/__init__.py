"""The results file of a study: its definition in SQL, its statistics, and its use from Python.

May import `pipeline/errors.py` only; the SQL folders hold no Python.
"""
