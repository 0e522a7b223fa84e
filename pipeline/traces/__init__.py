"""Reasoning traces: how public sets mark them, and how a response becomes its solution alone.

May import `pipeline/storage/` and `pipeline/errors.py`."""
