"""Run studies: the study file, the plan of what follows from it, the run, its jobs, Prefect, the
`dreamer` command.

A module imports only from later rooms: commands; prefect; run; what a run does; plan; jobs; study;
other packages."""
