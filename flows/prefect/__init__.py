"""Prefect around the flows: a plugin for bare deployment names, the server, the deployments.

Imports `flows.full_study`, `flows.study` and `model.training.launch`.
"""
