"""The SQL files of the tables of a results file.

Holds no Python; no other folder is needed.
"""
