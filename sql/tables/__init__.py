"""The SQL files of the tables of a results file, and their migrations.

Holds no Python; no other folder is needed.
"""
