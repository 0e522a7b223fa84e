"""Run a study: its order, its trainings, what each step makes, rows and report meanwhile."""
