"""Running work: child processes that never outlive a study, machines, and progress for whoever listens.

Imports `flows.study`, `model.training` (the launcher of ranks), `pipeline.errors`, and in `engine.py` Prefect."""
