"""Run studies: the study file, the plan of what follows from it, the run, its jobs, Prefect, the `dreamer` command.

Imports go downwards: commands and prefect; run; what a run does; jobs and the plan; study; then the other packages."""

__version__ = "0.1.0"
