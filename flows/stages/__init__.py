"""The stages of a study: prepare data, plan and train models, evaluate checkpoints, ingest results.

Imports `flows.running`, `flows.study`, `pipeline`, `model` and `sql`; neither Prefect nor the commands."""
