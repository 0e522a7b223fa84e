"""Data, from raw rows to packed token shards: stages that are plain functions over files.

Imports neither `model`, `flows`, `sql` nor `reports`, and no torch or Prefect."""
