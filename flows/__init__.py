"""Run studies: the flow, the study file, its plan, its jobs, and the `dreamer` command.

`full_study.py` is the flow of Prefect. A room imports only from later ones: `commands/`,
`full_study.py`, `prefect/`, `estimates/`, `running/`, `plan/`, `progress/`, `jobs/`, `study/`, and
other packages.
"""
