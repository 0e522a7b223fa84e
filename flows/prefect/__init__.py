"""Prefect: the flow with its tasks, the server, the deployments, lost runs, a plugin for bare
deployment names.

No other folder imports Prefect."""
