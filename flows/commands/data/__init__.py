"""Fetch data sets, and look at what became of their rows.

The commands `dreamer sources`, `download`, `dropped`, `preview`.
"""
