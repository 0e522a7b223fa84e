"""Prefect flows over the plain functions of `pipeline`, `model`, `sql` and `reports`, and the `dreamer` command.

Imports go downwards: commands, full_study and prefect; stages; running; study; then the other packages."""
