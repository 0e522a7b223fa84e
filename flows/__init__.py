"""Prefect flows over the plain functions of `pipeline`, `model`, `sql` and `reports`, and the `dreamer` command."""
