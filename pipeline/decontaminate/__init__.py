"""Decontamination: removal of documents that contain benchmark items.

May import pipeline.text, pipeline.storage, pipeline.errors and pipeline.progress; not pipeline.dedup."""
