"""Run studies: the flow, the study file, its plan, its jobs, the `dreamer` command, and Python.

`full_study.py` is the flow of Prefect. A room imports only from later ones: `python/`,
`commands/`, `full_study.py`, `prefect/`, `estimates/`, `running/`, `plan/`, `progress/`, `jobs/`,
`study/`, and other packages.
"""
