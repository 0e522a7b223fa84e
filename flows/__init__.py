"""Run studies: the study file, its plan, the run, its jobs, Prefect, the `dreamer` command.

A module imports only from later rooms: commands; full_study; prefect; running; plan; progress;
jobs; study; other packages.
"""
