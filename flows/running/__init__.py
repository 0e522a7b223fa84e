"""Run a study: its order, its jobs, its curation, and rows and report while models train."""
