"""Prefect: the flow's tasks, the server, lost runs, and a plugin for bare deployment names.

Besides this folder only `full_study.py` and the two commands that start the flow (`run_here.py`,
`make_up.py`) import Prefect.
"""
