"""Run studies: the study file, the plan of what follows from it, the run, its jobs, Prefect, the `dreamer` command.

Imports go downwards: commands and prefect; run; what a run does; jobs and the plan; study; then the other packages."""

from importlib.metadata import version

__version__ = version("dreamer-study")  # pyproject.toml says it
