"""Decontamination: removal of documents that contain benchmark items.

May import `pipeline/text/`, `pipeline/storage/` and `pipeline/errors.py`; not `pipeline/dedup/`."""
