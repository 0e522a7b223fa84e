"""Prefect around the flows: a plugin for bare deployment names, the server, the deployments, one run in this process.

Imports `flows.full_study`, `flows.running`, `flows.study` and `model.training.ranks.launch`.
"""
