"""Prefect around the flows: a plugin for bare deployment names, the server, the deployments, lost runs, one run here.

Imports `flows.full_study`, `flows.running`, `flows.study` and `model.training.ranks.launch`.
"""
